"""samples.parquet: the same samples as a table, for whoever reads Parquet; derived, and may be deleted."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from fabric.store.plain_file import is_there, writing
from fabric.store.samples import changes
from fabric.store.samples_log import FILE

ROWS = 500_000
"""Rows of one group: a bound on memory."""
TABLE = "samples.parquet"


def write_samples(run: Path) -> None:
    """Columns host, part, name, at_s, value (null: not readable from then on), a row a change; none without samples."""
    if not is_there(run / FILE):
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = pa.dictionary(pa.int32(), pa.string())
    kinds = (("host", text), ("part", text), ("name", text), ("at_s", pa.float64()), ("value", pa.float64()))
    schema = pa.schema(list(kinds))
    temporary = run / f".{TABLE}.tmp"
    rows = changes(run)
    with writing(temporary) as sink, pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        while group := list(islice(rows, ROWS)):
            readings = [reading for reading, _, _ in group]
            columns = [
                pa.array([reading.host for reading in readings], pa.string()).dictionary_encode(),
                pa.array([reading.part for reading in readings], pa.string()).dictionary_encode(),
                pa.array([reading.name for reading in readings], pa.string()).dictionary_encode(),
                pa.array([at_s for _, at_s, _ in group], pa.float64()),
                pa.array([value for _, _, value in group], pa.float64()),
            ]
            writer.write_table(pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema))
    temporary.rename(run / TABLE)
