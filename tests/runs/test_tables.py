"""A run's tables as files: read with care, and what its counters and clock tell."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabric.errors import StoreError
from fabric.runs.events import EVENTS, EventLog
from fabric.runs.samples import SAMPLES as FILE
from fabric.runs.samples import SampleLog
from fabric.runs.tables import TABLES, WallClock, counters, have_tables, read_table, schema_of, write_table

KEYS = [("mlx5_0", "link_downed"), ("mlx5_0", "module_c")]


def history(run: Path, *events: tuple[str, float, dict[str, object]]) -> None:
    log = EventLog(run / EVENTS)
    for name, at_s, fields in events:
        log.append(name, at_s, fields)
    log.close()


@pytest.mark.parametrize("damage", ["torn", "other columns", "link", "FIFO", "none"])
def test_a_table_that_is_none_of_ours_is_refused(tmp_path: Path, damage: str) -> None:
    write_table(tmp_path, "parts", [schema_of("parts").empty_table()])
    file = tmp_path / TABLES["parts"].file
    data = file.read_bytes()
    file.unlink()
    if damage == "torn":
        file.write_bytes(data[:-20])
    elif damage == "other columns":
        pq.write_table(pa.table({"value": [1.0]}), file)
    elif damage == "link":
        (tmp_path / "elsewhere").write_bytes(data)
        file.symlink_to(tmp_path / "elsewhere")
    elif damage == "FIFO":
        os.mkfifo(file)
    with pytest.raises(StoreError, match=r"parts\.parquet: not as this version writes it$"):
        read_table(tmp_path, "parts")
    assert not have_tables(tmp_path)


def test_a_small_file_that_says_it_holds_very_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of equal rows takes no room."""
    monkeypatch.setattr("fabric.runs.tables.MOST_ROWS", 1000)
    rows = pa.table({"probe": ["a"] * 1001, "part": ["b"] * 1001, "direction": ["tx"] * 1001})
    write_table(tmp_path, "parts", [rows.cast(schema_of("parts"))])
    with pytest.raises(StoreError, match="not as this version"):
        read_table(tmp_path, "parts")


def test_counters_have_a_row_a_change_with_what_it_grew_by(tmp_path: Path) -> None:
    history(tmp_path, ("run_started", 0.0, {}))
    log = SampleLog(tmp_path / FILE, 10.0)
    for at, (downs, celsius) in enumerate([(2, 40), (2, 38.5), (5, 38.5), (1, 38.5)]):
        log.add("gpu001", at * 10.0, KEYS, [downs, celsius])
    log.gone("gpu001", 40.0)
    log.close()
    (table,) = counters(tmp_path, WallClock(tmp_path, "20260101-000000"))
    rows = [(row["name"], row["at_s"], row["value"], row["unit"], row["delta"]) for row in table.to_pylist()]
    assert [row[1:] for row in rows if row[0] == "link_downed"] == [
        (0.0, 2.0, "count", None),
        (20.0, 5.0, "count", 3.0),
        (30.0, 1.0, "count", 1.0),  # somebody cleared it
        (40.0, None, "count", None),
    ]
    assert [row[1:] for row in rows if row[0] == "module_c"][1] == (10.0, 38.5, "C", -1.5)
    assert table.to_pylist()[0]["part"] == "gpu001/mlx5_0"
    assert table.to_pylist()[0]["at"] == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_counter_beyond_what_a_number_holds_exactly_is_read_all_the_same(tmp_path: Path) -> None:
    history(tmp_path, ("run_started", 0.0, {}))
    log = SampleLog(tmp_path / FILE, 10.0)
    log.add("gpu001", 0.0, KEYS[:1], [2**53 + 1])
    log.close()
    (table,) = counters(tmp_path, WallClock(tmp_path, "20260101-000000"))
    assert table["value"].to_pylist() == [2.0**53]


def test_a_run_that_went_on_tells_the_wall_clock_anew(tmp_path: Path) -> None:
    """Its own clock stood still while it was interrupted."""
    later = datetime(2026, 1, 2, tzinfo=UTC).timestamp()
    history(tmp_path, ("run_started", 100.0, {}), ("resumed", 200.0, {"utc_s": later}), ("resumed", 300.0, {}))
    at = WallClock(tmp_path, "20260101-000000").at([100.0, 199.0, 200.5, 300.0, float("nan"), 0.0]).astype(str)
    assert list(at) == [
        "2026-01-01T00:00:00.000000",
        "2026-01-01T00:01:39.000000",
        "2026-01-02T00:00:00.500000",
        "NaT",  # an older version went on with it
        "NaT",
        "NaT",
    ]
