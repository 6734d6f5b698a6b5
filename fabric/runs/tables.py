"""The tables of a run: a Parquet file each, and a frame of ``fabric.load``; their columns, types and units.

Tables are written whole and read with care. Those of counters and changes are made here in one pass, from what was
written during the run. A type is that of pandas: ``category`` is text with few different values, ``Int64`` a whole
number or none. Missing values are NA. docs/data.md says what each column means. All tables are derived: they may be
deleted, and are made again. Samples, parts and suspects depend on the verdict, too (``fabric.app.measured``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fabric.errors import StoreError
from fabric.model.change import Change
from fabric.model.sampling import CounterReading, Value, growth
from fabric.probes.sources import LEVELS, unit_of
from fabric.runs.events import Event
from fabric.runs.plain_file import GIB, read_plain, writing
from fabric.runs.samples import LINKS, sample_changes

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


TEXT, NUMBER, WHOLE, TIME = "category", "float64", "Int64", "datetime64[us, UTC]"

_MEASURED = {"s": "s", "gbps": "Gb/s", "us": "us", "dbm": "dBm", "c": "C"}
"""Last word of a column's name to its unit, as everywhere."""

_COUNTS = (
    *("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_xmit_discards"),
    *("local_link_integrity_errors", "excessive_buffer_overrun_errors", "port_xmit_wait", "rx_crc_errors"),
)
"""The counters of a port, as the kernel calls them."""

_OTHERS = {
    "at": (TIME, "UTC"),
    "round": (WHOLE, ""),
    "repeat": (WHOLE, ""),
    "size_bytes": (WHOLE, "bytes"),
    "width": (WHOLE, "lanes"),
    "worst_block": (WHOLE, "symbols"),
    **dict.fromkeys((*_COUNTS, "full_blocks"), (WHOLE, "")),
    **dict.fromkeys(("raw_ber", "effective_ber"), (NUMBER, "ratio")),
    "share": (NUMBER, "gbps / normal_gbps"),
    "value": (NUMBER, "as unit says"),
    "delta": (NUMBER, "as unit says"),
    **dict.fromkeys(("confidence", "loss", "rate"), (NUMBER, "0 to 1")),
}


@dataclass(frozen=True, slots=True)
class TableKind:
    """One table: its *file* in a run's directory, and the *names* of its columns in order."""

    file: str
    names: tuple[str, ...]

    @property
    def columns(self) -> Mapping[str, tuple[str, str]]:
        """Column name to its type and unit ("" without a unit)."""
        return {name: _column(name) for name in self.names}


def _column(name: str) -> tuple[str, str]:
    unit = _MEASURED.get(name.rpartition("_")[2])
    return _OTHERS.get(name, (TEXT, "")) if unit is None else (NUMBER, unit)


def _table(file: str, *names: str) -> TableKind:
    return TableKind(file, tuple(name for words in names for name in words.split()))


TABLES: Mapping[str, TableKind] = {
    "samples": _table(
        "measurements.parquet",
        "probe phase round repeat kind series link_class host peer_host hosts rnic peer_rnic endpoint op size_bytes",
        "began_s ended_s at gbps us required_gbps normal_gbps share outcome reason failure change",
    ),
    "parts": _table("parts.parquet", "probe part direction"),
    "counters": _table("counters.parquet", "at_s at host part name value unit delta"),
    "links": _table(
        "links.parquet",
        "part node port peer_node peer_port rack state width lane_gbps speed_gbps sent_gbps began_s ended_s",
        *_COUNTS,
        "raw_ber effective_ber full_blocks worst_block rx0_dbm rx1_dbm rx2_dbm rx3_dbm",
        "tx0_dbm tx1_dbm tx2_dbm tx3_dbm",
        "rx_low_dbm rx_high_dbm tx_low_dbm tx_high_dbm module_c vendor part_number serial firmware outcome",
    ),
    "changes": _table("changes.parquet", "change phase kind part state at_s at"),
    "suspects": _table(
        "suspects.parquet",
        "part kind outcome confidence loss worst_gbps normal_gbps rate since_s rivals serial rack leaf_port next_step",
    ),
}


MOST_BYTES = 4 * GIB
"""Limit of one file, and of its uncompressed content (a choice: 300,000 samples are 10 MB)."""

MOST_ROWS = 100_000_000
"""Limit of one table (a choice: what two days of 2,048 hosts pass through)."""

GROUP_ROWS = 500_000
"""Rows of counters that are made and written at a time: a bound on memory."""


def schema_of(name: str) -> pa.Schema:
    """Return the columns of a table as an Arrow schema."""
    import pyarrow as pa

    kinds = {
        TEXT: pa.dictionary(pa.int32(), pa.string()),
        NUMBER: pa.float64(),
        WHOLE: pa.int64(),
        TIME: pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([(column, kinds[kind]) for column, (kind, _) in TABLES[name].columns.items()])


def table_of(name: str, columns: Mapping[str, Any]) -> pa.Table:
    """Make a table of lists or numpy arrays, one for each column; None and NaN become missing values."""
    import pyarrow as pa

    schema = schema_of(name)
    found = [pa.array(columns[one.name], one.type, from_pandas=True) for one in schema]
    return pa.table(found, schema=schema)


def write_table(run: Path, name: str, groups: Iterable[pa.Table]) -> None:
    """Write a table whole or not at all; raises OSError when the disk fails."""
    import pyarrow.parquet as pq

    path = run / TABLES[name].file
    temporary = path.with_name(f".{path.name}.tmp")
    with writing(temporary) as sink, pq.ParquetWriter(sink, schema_of(name), compression="zstd") as writer:
        for table in groups:
            writer.write_table(table)
    temporary.rename(path)


def read_table(run: Path, name: str, only: Sequence[str] | None = None) -> pa.Table:
    """
    Read a table of a run, with *only* these columns.

    Raises StoreError when it is missing, or not as this version writes it.
    """
    import pyarrow as pa

    path = run / TABLES[name].file
    try:
        return _opened(path, name).read(only, use_threads=False)
    except (OSError, pa.ArrowException, ValueError) as exc:
        raise StoreError(f"{path}: not as this version writes it") from exc


def have_tables(run: Path) -> bool:
    """Return whether all tables of a run are there, as this version writes them."""
    import pyarrow as pa

    try:
        for name, kind in TABLES.items():
            _opened(run / kind.file, name)
    except (OSError, pa.ArrowException, ValueError):
        return False
    return True


def _opened(path: Path, name: str) -> pq.ParquetFile:
    """Open a table without trusting it; ValueError if its columns differ or it holds more than any run writes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(read_plain(path, MOST_BYTES)))
    metadata = file.metadata
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    if metadata.num_rows > MOST_ROWS or size > MOST_BYTES or file.schema_arrow != schema_of(name):
        raise ValueError(path)
    return file


class WallClock:
    """
    Converts seconds of a run's clock to UTC: from the start that its id states, and from each time it was resumed.
    """

    def __init__(self, events: Iterable[Event], run_id: str) -> None:
        self._since_s, self._utc_s = [0.0], [float("nan")]
        for event in events:
            if event["event"] in ("run_started", "resumed"):
                began_utc_s = event.get("utc_s") if event["event"] == "resumed" else _began(run_id)
                self._since_s.append(event["at_s"])
                self._utc_s.append(float(began_utc_s) if isinstance(began_utc_s, int | float) else float("nan"))

    def at(self, seconds: Any) -> np.ndarray[Any, np.dtype[np.datetime64]]:
        """Return the time for each number of seconds; NaT where it is NaN or not known."""
        asked = np.asarray(seconds, float)
        place = np.maximum(np.searchsorted(self._since_s, np.nan_to_num(asked), side="right") - 1, 0)
        utc_s = np.array(self._utc_s)[place] + asked - np.array(self._since_s)[place]
        known = np.abs(utc_s) < _MOST_UTC_S
        found = np.full(len(asked), np.datetime64("NaT"), "datetime64[us]")
        found[known] = (utc_s[known] * 1e6).astype("int64").astype("datetime64[us]")
        return found


_MOST_UTC_S = 1e11  # the year 5138: a damaged number must not overflow
_STAMP = re.compile(r"[0-9]{8}-[0-9]{6}")


def _began(run_id: str) -> float | None:
    """Return the start time in a run's id, seconds since 1970; None without one."""
    found = _STAMP.match(run_id)
    try:
        return datetime.strptime(found[0], "%Y%m%d-%H%M%S").replace(tzinfo=UTC).timestamp() if found else None
    except ValueError:
        return None


def counters(run: Path, clock: WallClock) -> Iterator[pa.Table]:
    """Yield every reading that differs from the one before of the same counter or sensor, and its increase."""
    rows = _readings(run)
    while group := list(islice(rows, GROUP_ROWS)):
        readings, at_s, values, deltas = zip(*group, strict=True)
        columns = {
            "at_s": at_s,
            "at": clock.at(at_s),
            "host": [one.host for one in readings],
            "part": [f"{one.host}/{one.part}" for one in readings],
            "name": [one.name for one in readings],
            "value": [None if value is None else float(value) for value in values],  # a counter may exceed 2^53
            "unit": [unit_of(one.name) for one in readings],
            "delta": [None if delta is None else float(delta) for delta in deltas],
        }
        yield table_of("counters", columns)


def _readings(run: Path) -> Iterator[tuple[CounterReading, float, Value, Value]]:
    last: dict[CounterReading, Value] = {}
    of_switches = (one for one in sample_changes(run, file=LINKS) if one[0].part.isdigit())
    for reading, at_s, value in chain(sample_changes(run), of_switches):
        before = last.get(reading)
        last[reading] = value
        yield reading, at_s, value, None if value is None or before is None else _more(reading.name, before, value)


def _more(name: str, before: int | float, value: int | float) -> int | float:
    """Return by how much a reading grew; a counter that wrapped around or was reset has grown all the same."""
    return value - before if unit_of(name) in LEVELS else growth(name, int(before), int(value)).by


def changes(events: Iterable[Event], planned: Sequence[Change], clock: WallClock) -> pa.Table:
    """Return every state that a planned change entered, in order of time."""
    known = {one.change_id: one for one in planned}
    recorded = [event for event in events if event["event"] == "change" and event["change"] in known]
    rows = [(known[event["change"]], event["state"], event["at_s"]) for event in recorded]
    at_s = [at for _, _, at in rows]
    columns = {
        "change": [one.change_id for one, _, _ in rows],
        "phase": [one.phase for one, _, _ in rows],
        "kind": [one.kind for one, _, _ in rows],
        "part": [one.component for one, _, _ in rows],
        "state": [state for _, state, _ in rows],
        "at_s": at_s,
        "at": clock.at(at_s),
    }
    return table_of("changes", columns)
