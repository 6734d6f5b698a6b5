"""measurements.parquet and samples.parquet: what was measured as tables, for whoever reads Parquet; derived."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from fabric.model.probe import Measurement
from fabric.runs import samples
from fabric.runs.plain_file import is_there, writing

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 500_000
"""Rows of one group of samples: a bound on memory."""

MEASUREMENTS, SAMPLES = "measurements.parquet", "samples.parquet"


def write_measurements(run: Path, measurements: Iterable[Measurement]) -> None:
    """Columns probe_id, metric, size_bytes, value, unit; sorted, without times: equal runs give equal bytes."""
    import pyarrow as pa

    rows = sorted(measurements, key=lambda m: (m.probe_id, m.metric, m.size_bytes or 0))
    table = pa.table(
        {
            "probe_id": pa.array([row.probe_id for row in rows], pa.string()),
            "metric": pa.array([row.metric for row in rows], pa.string()).dictionary_encode(),
            "size_bytes": pa.array([row.size_bytes for row in rows], pa.int64()),
            "value": pa.array([row.value for row in rows], pa.float64()),
            "unit": pa.array([row.unit for row in rows], pa.string()).dictionary_encode(),
        }
    )
    _write(run / MEASUREMENTS, table.schema, [table])


def write_samples(run: Path) -> None:
    """Columns host, part, name, at_s, value (null: not readable from then on), a row a change; none without samples."""
    if not is_there(run / samples.FILE):
        return
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string())
    kinds = (("host", text), ("part", text), ("name", text), ("at_s", pa.float64()), ("value", pa.float64()))
    schema = pa.schema(list(kinds))
    rows = ((r.host, r.part, r.name, at_s, value) for r, at_s, value in samples.sample_changes(run))

    def groups() -> Iterable[pa.Table]:
        while group := list(islice(rows, ROWS)):
            columns = zip(*group, strict=True)
            yield pa.table(
                [pa.array(column, kind) for column, (_, kind) in zip(columns, kinds, strict=True)], schema=schema
            )

    _write(run / SAMPLES, schema, groups())


def _write(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Whole or not at all."""
    import pyarrow.parquet as pq

    temporary = path.with_name(f".{path.name}.tmp")
    with writing(temporary) as sink, pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)
    temporary.rename(path)
