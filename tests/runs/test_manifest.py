"""What a run wrote: its source files and which changed; its tables; who may read it."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabric.errors import StoreError
from fabric.runs.events import EVENTS, EventLog, all_events
from fabric.runs.manifest import MOST_DIFFERENCES, SourceFile, differences, digest, leftovers, manifest
from fabric.runs.samples import SAMPLES as FILE
from fabric.runs.samples import SampleLog
from fabric.runs.tables import TABLES, WallClock, counters, have_tables, read_table, schema_of, write_table
from tests.cli.command_line import called
from tests.runs.other_account import NOBODY, place
from tests.runs.small_run import EVERY_5_S, scenario


def _files(run: Path, *names: str) -> None:
    for name in names:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(name)


def test_sources_count_and_what_is_derived_does_not(tmp_path: Path) -> None:
    _files(tmp_path, "run.json", "verdict.json", "certificate.json", "raw/a/verdict.json")
    assert [one.path for one in manifest(tmp_path)] == ["raw/a/verdict.json", "run.json"]


def test_figures_have_a_folder_of_their_own_and_nothing_else_may_lie_there(tmp_path: Path) -> None:
    _files(tmp_path, "run.json", "figures/course.png", "figures/course.svg")
    files = manifest(tmp_path)
    assert [one.path for one in files] == ["run.json"]
    _files(tmp_path, "figures/notes.txt", "pictures/course.png")
    assert differences(files, tmp_path) == ["figures/notes.txt: was not there", "pictures/course.png: was not there"]


@pytest.mark.parametrize("name", ["run.json", "verdict.json", "raw/a.out"])
def test_a_link_is_no_source_and_nothing_derived_either(tmp_path: Path, name: str) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / name).symlink_to("/etc/hostname")
    with pytest.raises(StoreError, match="not a plain file"):
        manifest(tmp_path)


def test_a_fifo_is_no_source_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "events.jsonl")
    with pytest.raises(StoreError, match="not a plain file"):
        manifest(tmp_path)
    assert differences([SourceFile("events.jsonl", 0, "")], tmp_path) == ["events.jsonl: not a plain file"]


def test_an_empty_folder_should_not_be_there_but_where_a_run_leaves_one(tmp_path: Path) -> None:
    for name in ("tickets", "raw/phase", "a/b"):
        (tmp_path / name).mkdir(parents=True)
    assert differences([], tmp_path) == ["a/b/: an empty folder"]


def test_the_digest_is_that_of_the_lines_that_sha256sum_prints() -> None:
    from hashlib import sha256

    files = [SourceFile("b", 1, "1" * 64), SourceFile("a", 1, "2" * 64)]
    assert digest(files) == sha256(f"{'2' * 64}  a\n{'1' * 64}  b\n".encode()).hexdigest()
    assert digest(files) == digest(files[::-1])


def test_every_difference_is_told_once(tmp_path: Path) -> None:
    _files(tmp_path, "a", "b", "c")
    stated = manifest(tmp_path)
    assert differences(stated[::-1], tmp_path) == []
    (tmp_path / "a").write_text("A")
    (tmp_path / "b").unlink()
    _files(tmp_path, "d", ".e.tmp")
    killed = ".e.tmp: was not there (a writer that is killed leaves such a file)"
    assert differences(stated, tmp_path) == [killed, "a: changed", "b: missing", "d: was not there"]


def test_a_file_of_another_size_is_not_read(tmp_path: Path) -> None:
    """A file of 1 TB without content would keep whoever reads it for many minutes."""
    (tmp_path / "a").touch()
    os.truncate(tmp_path / "a", 1 << 40)
    assert differences([SourceFile("a", 1, "")], tmp_path) == ["a: changed"]


def test_of_very_many_differences_only_some_are_told(tmp_path: Path) -> None:
    _files(tmp_path, *(str(number) for number in range(MOST_DIFFERENCES + 50)))
    lines = differences([], tmp_path)
    assert len(lines) == MOST_DIFFERENCES + 2
    assert lines[-1] == "and perhaps more: it was not looked further"


def test_what_killed_writers_left_is_known_and_nothing_else_is(tmp_path: Path) -> None:
    """Neither what is not ours, nor what lies elsewhere."""
    _files(tmp_path, ".verdict.json.tmp", ".STOP.tmp", ".other.tmp", "tickets/.a.md.tmp", "tickets/a.md")
    there = {path.relative_to(tmp_path).as_posix() for path in leftovers(tmp_path) if path.exists()}
    assert there == {".verdict.json.tmp", ".STOP.tmp", "tickets/.a.md.tmp"}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "tickets").symlink_to(tmp_path / "tickets")
    assert not any(path.exists() for path in leftovers(tmp_path / "run"))


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
        log.add("gpu001", at * 10.0, dict(zip(KEYS, (downs, celsius), strict=True)))
    log.gone("gpu001", 40.0)
    log.close()
    (table,) = counters(tmp_path, WallClock(all_events(tmp_path), "20260101-000000"))
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
    log.add("gpu001", 0.0, {KEYS[0]: 2**53 + 1})
    log.close()
    (table,) = counters(tmp_path, WallClock(all_events(tmp_path), "20260101-000000"))
    assert table["value"].to_pylist() == [2.0**53]


def test_a_run_that_went_on_tells_the_wall_clock_anew(tmp_path: Path) -> None:
    """Its own clock stood still while it was interrupted."""
    later = datetime(2026, 1, 2, tzinfo=UTC).timestamp()
    history(tmp_path, ("run_started", 100.0, {}), ("resumed", 200.0, {"utc_s": later}), ("resumed", 300.0, {}))
    at = (
        WallClock(all_events(tmp_path), "20260101-000000")
        .at([100.0, 199.0, 200.5, 300.0, float("nan"), 0.0])
        .astype(str)
    )
    assert list(at) == [
        "2026-01-01T00:00:00.000000",
        "2026-01-01T00:01:39.000000",
        "2026-01-02T00:00:00.500000",
        "NaT",  # an older version went on with it
        "NaT",
        "NaT",
    ]


__all__ = ["place"]

SECRET = ".lock.held"
IS_ROOT = os.geteuid() == 0


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Meanwhile."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def colleague() -> Iterator[None]:
    """Another account of another group meanwhile, for which root alone can stand in."""
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def made(folder: Path, mask: int) -> Path:
    """A whole run with its reports; the results folder."""
    with umask(mask):
        file = scenario(folder, sample=EVERY_5_S)
        said = called(["run", str(file), "--results", str(folder / "results")])
        assert said.returncode == 0, said.stderr
    return folder / "results"


@pytest.mark.slow
@pytest.mark.parametrize("mask", [0o027, 0o002, 0o022, 0o077])
def test_every_file_and_folder_is_as_the_umask_says(tmp_path: Path, mask: int) -> None:
    results = made(tmp_path, mask)
    wrong = []
    for path in [results, *results.rglob("*")]:
        if path.is_symlink():
            continue
        own = 0o022 if len(path.relative_to(results).parts) > 1 else 0  # restore runs what a run's files say
        allowed = 0o600 if path.name == SECRET else (0o777 if path.is_dir() else 0o666) & ~mask & ~own
        if (mode := stat.S_IMODE(path.stat().st_mode)) != allowed:
            wrong.append(f"{path.relative_to(results)}: {mode:o}, not {allowed:o}")
    assert not wrong
    assert len(list(results.rglob("*"))) > 10


@pytest.mark.slow
@pytest.mark.skipif(not IS_ROOT, reason="needs root, who can be somebody else")
@pytest.mark.parametrize(("mask", "readable"), [(0o022, True), (0o077, False)])
def test_a_colleague_reads_what_the_umask_allows(place: Path, mask: int, *, readable: bool) -> None:
    results = made(place, mask)
    run = str(results / "small" / "latest")
    lines = (["report", run], ["status", run], ["report", run, "--json"], ["history", "--results", str(results)])
    for words in lines:
        called(words)  # what it imports is read by root
    with colleague():
        found = [called(words) for words in lines]
    assert all((said.returncode == 0) == readable for said in found), [said.stderr for said in found]
    assert not any("Traceback" in said.stderr or "internal error" in said.stderr for said in found)
    (lock,) = results.rglob(SECRET)  # to open it for reading would be enough to flock it
    with colleague(), pytest.raises(PermissionError):
        os.open(lock, os.O_RDONLY)
