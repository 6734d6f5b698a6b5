"""measurements.parquet: every measured number of a run, sorted, without times, so that equal runs give equal bytes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fabric.model.probe import Measurement
from fabric.store.plain_file import writing


def write_measurements(path: Path, measurements: Iterable[Measurement]) -> None:
    """Columns probe_id, metric, size_bytes, value, unit; pyarrow, because Parquet is what the readers expect."""
    import pyarrow as pa
    import pyarrow.parquet as pq

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
    temporary = path.with_name(f".{path.name}.tmp")
    with writing(temporary) as sink:
        pq.write_table(table, sink, compression="zstd")
    temporary.rename(path)
