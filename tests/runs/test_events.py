"""The history, the samples and what tools printed survive being cut anywhere; what a history says is done."""

import os
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import StoreError
from fabric.model.outcome import Outcome
from fabric.model.probe import Command, CommandResult, LeftOutHost, ProbeResult
from fabric.model.sampling import CounterReading
from fabric.runs import plain_file
from fabric.runs.events import LIMITS, EventLog, Progress, Round, history_of, progress_of, read_events, to_fields
from fabric.runs.run_directory import RawOutput, raw_entries
from fabric.runs.samples import SAMPLES as FILE
from fabric.runs.samples import SampleLog, close_samples, read_samples
from tests.runs.full_disk import full_disk


def write(path: Path, count: int) -> bytes:
    """A log of *count* events."""
    log = EventLog(path)
    for number in range(count):
        log.append("finished", float(number), {"probe": f"p{number}", "reason": 'naïve "quoted"\n'})
    log.close()
    return path.read_bytes()


def test_round_trip(tmp_path: Path) -> None:
    """What was written is read back, in order, numbered from 1."""
    write(tmp_path / "e", 3)
    events = list(read_events(tmp_path / "e"))
    assert [event["seq"] for event in events] == [1, 2, 3]
    assert events[2]["probe"] == "p2"


def test_a_skipped_probe_names_who_was_left_out_in_older_runs_too() -> None:
    """There it stood in the reason alone, before what was planned instead."""
    why = LeftOutHost("gpu003", "did not pass a: slow")
    skipped = ProbeResult("p", 0, (), Outcome.SKIPPED, f"{why}; re-planned as gpu002+gpu004", 0.0, 0.0, left_out=why)
    written = {"event": "finished", "at_s": 0.0, **to_fields(skipped)}
    assert written["left_out"] == ["gpu003", "did not pass a: slow"]
    older = {name: value for name, value in written.items() if name != "left_out"}
    for events in ([written], [older]):
        assert history_of(events).results["p"] == skipped
    assert history_of([{**older, "outcome": "error"}]).results["p"].left_out is None


def test_cut_at_every_byte(tmp_path: Path) -> None:
    """A file cut at any byte yields every whole line before the cut, and no error."""
    data = write(tmp_path / "e", 3)
    ends = [i for i, byte in enumerate(data) if byte == 10]
    for cut in range(len(data) + 1):
        (tmp_path / "cut").write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends)
        assert len(list(read_events(tmp_path / "cut"))) == whole


def test_bad_line_in_the_middle_stops(tmp_path: Path) -> None:
    """A changed line before the end is an error that names the line."""
    data = write(tmp_path / "e", 3)
    (tmp_path / "e").write_bytes(data.replace(b"p1", b"p9"))
    with pytest.raises(StoreError, match="e:2"):
        list(read_events(tmp_path / "e"))


@pytest.mark.parametrize("put", [None, b""])
def test_nothing_is_written_to_a_file_that_nobody_can_read_any_more(tmp_path: Path, put: bytes | None) -> None:
    """It was deleted, and perhaps another put in its place."""
    log = EventLog(tmp_path / "e")
    log.append("finished", 1.0, {})
    log.flush()
    (tmp_path / "e").rename(tmp_path / "kept")
    if put is not None:
        (tmp_path / "e").write_bytes(put)
    log.append("finished", 2.0, {})
    with pytest.raises(StoreError, match="e: cannot write: "):
        log.flush()
    log.abandon()
    assert len(list(read_events(tmp_path / "kept"))) == 1


def test_a_log_goes_on_behind_what_is_there_at_every_cut(tmp_path: Path) -> None:
    """Cut anywhere, the torn rest is cut off, and the numbers go on."""
    data = write(tmp_path / "e", 3)
    for cut in range(len(data) + 1):
        path = tmp_path / "cut"
        path.write_bytes(data[:cut])
        whole = len(list(read_events(path)))
        log = EventLog(path)
        log.append("resumed", 9.0, {})
        log.close()
        assert [event["seq"] for event in read_events(path)] == list(range(1, whole + 2))


def test_only_one_process_writes(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "e")
    with pytest.raises(StoreError, match="another process"):
        EventLog(tmp_path / "e")
    log.close()


@pytest.mark.parametrize("failing", ["write", "short write", "fsync"])
def test_after_a_full_disk_there_is_neither_a_torn_line_nor_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """What was not acknowledged is kept, and written when there is room again."""
    from fabric.runs import plain_file
    from tests.runs.full_disk import full_disk

    log = EventLog(tmp_path / "e")
    log.append("one", 1.0, {})
    log.flush()
    with monkeypatch.context() as patch:
        patch.setattr(plain_file, "os", full_disk(failing))
        log.append("two", 2.0, {})
        with pytest.raises(StoreError, match="No space left"):
            log.flush()
        assert [event["event"] for event in read_events(tmp_path / "e")] == ["one"]
    log.append("three", 3.0, {})
    log.close()
    assert [event["event"] for event in read_events(tmp_path / "e")] == ["one", "two", "three"]


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_what_stands_behind_a_page_that_never_reached_the_disk_is_torn(tmp_path: Path, lines: int) -> None:
    """It reads as zeros; all behind it was of the same write, and nothing followed from it."""
    whole = write(tmp_path / "e", 4).splitlines(keepends=True)
    hole = bytes(len(whole[lines]))
    (tmp_path / "e").write_bytes(b"".join(whole[:lines]) + hole[:-3] + b"".join(whole[lines + 1 :]))
    assert len(list(read_events(tmp_path / "e"))) == lines


def test_events_are_decoded_one_after_the_other(tmp_path: Path) -> None:
    """Who reads a long history need not hold it whole: what is bad further on is not met yet."""
    data = write(tmp_path / "e", 3)
    (tmp_path / "e").write_bytes(data.replace(b"p1", b"p9"))
    events = read_events(tmp_path / "e")
    assert next(events)["probe"] == "p0"
    with pytest.raises(StoreError, match="e:2"):
        next(events)


@pytest.mark.slow
def test_a_line_without_an_end_is_not_read_into_memory(tmp_path: Path) -> None:
    """A sparse file of many GiB is refused for its size, and for its first line where its size may be."""
    path = tmp_path / "e"
    write(path, 2)
    os.truncate(path, LIMITS.most_bytes + 1)
    with pytest.raises(StoreError, match="larger than 16 GiB"):
        list(read_events(path))
    os.truncate(path, LIMITS.most_bytes)
    tracemalloc.start()
    with pytest.raises(StoreError, match="a line larger than 64 MiB"):
        list(read_events(path))
    with pytest.raises(StoreError, match="a line larger than 64 MiB"):
        EventLog(path)
    assert tracemalloc.get_traced_memory()[1] < 200 << 20
    tracemalloc.stop()


def keep(raw: RawOutput, probe: str, attempt: int, text: str) -> None:
    """One command's output."""
    output = CommandResult(Command("h", ("tool",), 1.0), 0, text, "", 0.0, 1.0)
    raw.keep(ProbeResult(probe, attempt, (), None, "", 0.0, 1.0), [output])


def test_an_entry_behind_a_torn_one_begins_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "raw" / "a").mkdir(parents=True)
    (tmp_path / "raw" / "a" / "h.out").write_text("=== a/h/p attempt 1\n$ [h] to")
    raw = RawOutput(tmp_path)
    keep(raw, "a/h/p", 2, "good\n")
    raw.flush()
    lines = (tmp_path / "raw" / "a" / "h.out").read_text().splitlines()
    assert lines[1:3] == ["$ [h] to", "=== a/h/p attempt 2"]
    assert "good" in raw_entries(tmp_path, "a/h/p")


@pytest.mark.parametrize("failing", ["write", "short write"])
def test_after_a_full_disk_each_entry_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    raw = RawOutput(tmp_path)
    keep(raw, "a/h/p", 1, "one\n")
    raw.flush()
    with monkeypatch.context() as patch:
        patch.setattr(plain_file, "os", full_disk(failing))
        keep(raw, "a/h/q", 1, "two\n")
        with pytest.raises(StoreError, match="No space left"):
            raw.flush()
    raw.flush()
    text = (tmp_path / "raw" / "a" / "h.out").read_text()
    assert (text.count("one"), text.count("two"), text.count("===")) == (1, 1, 2)


def test_what_was_flushed_is_there_before_it_is_durable(tmp_path: Path) -> None:
    """Whoever looks at a run that goes on, or was killed, finds it."""
    raw = RawOutput(tmp_path)
    keep(raw, "a/h/p", 1, "one\n")
    raw.flush()
    assert "one" in raw_entries(tmp_path, "a/h/p")


def test_a_transcript_that_cannot_be_made_durable_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = RawOutput(tmp_path)
    keep(raw, "a/h/p", 1, "one\n")
    raw.flush()
    with monkeypatch.context() as patch:
        patch.setattr(plain_file, "os", full_disk("fsync"))
        with pytest.raises(StoreError, match="No space left"):
            raw.settle()
    raw.settle()


def history(*events: dict[str, Any]) -> Progress:
    """Events at 0, 1, 2 ... seconds."""
    return progress_of([{"seq": n + 1, "at_s": float(n), **event} for n, event in enumerate(events)])


def started(*probes: str) -> dict[str, Any]:
    """Probes began."""
    return {"event": "started", "probes": list(probes)}


def finished(probe: str, attempt: int = 1, **more: Any) -> dict[str, Any]:
    """A probe ended."""
    fields = {"attempt": attempt, "outcome": "measured", "started_s": 0.0, "ended_s": 1.0}
    return {"event": "finished", "probe": probe, **fields, **more}


def added(name: str, **why: Any) -> dict[str, Any]:
    """A probe that no plan had."""
    fields = {"kind": "loopback", "hosts": ["h"], "claims": [], "duration_s": 1.0, "params": {}}
    return {"event": "replanned", "probe": name, "phase": "a", **fields, **why}


def test_a_finished_probe_stands_and_a_begun_one_is_half_done() -> None:
    found = history(started("p", "q"), finished("p"))
    assert (set(found.results), found.half_done, found.attempts) == ({"p"}, ("q",), {"p": 1, "q": 1})


def test_a_probe_that_is_to_be_tried_again_is_half_done() -> None:
    found = history(started("p"), finished("p", again=True))
    assert (dict(found.results), found.half_done) == ({}, ("p",))


def test_a_probe_begun_anew_after_it_ended_is_half_done() -> None:
    found = history(started("p"), finished("p"), started("p"))
    assert (found.half_done, found.attempts["p"]) == (("p",), 2)


def test_what_one_follow_up_was_given_at_one_moment_is_one_round() -> None:
    rows = [added("x", because="more", at_s=5.0), added("y", because="more", at_s=5.0)]
    found = history(*rows, added("z", because="more", at_s=9.0), added("other", instead_of="p"))
    assert found.rounds == {"a": {"more": Round(2, 3, 5.0)}}
    assert [(lost, probe.probe_id) for lost, probe in found.instead] == [("p", "other")]


def test_its_clock_and_how_often_it_went_on_are_known() -> None:
    found = history({"event": "run_started"}, {"event": "resumed"}, {"event": "resumed"}, {"event": "run_ended"})
    assert (found.at_s, found.resumed, found.begun, found.over) == (3.0, 2, True, True)


def test_a_history_of_another_make_is_refused() -> None:
    with pytest.raises(StoreError, match="not as this version"):
        history({"event": "finished"})


KEYS = [("mlx5_0", "link_downed"), ("mlx5_1", "link_downed"), ("gpu0", "gpu_c")]
Rows = list[list[int | None]]


def written(folder: Path, rows: Rows, every_s: float = 10.0) -> Path:
    """One host, a row every period."""
    log = SampleLog(folder / FILE, every_s)
    for number, row in enumerate(rows):
        log.add("gpu001", number * every_s, dict(zip(KEYS, row, strict=True)))
    log.close()
    return folder / FILE


@given(rows=st.lists(st.lists(st.none() | st.integers(0, 2**40), min_size=3, max_size=3), min_size=1, max_size=60))
def test_every_value_comes_back_at_its_time(rows: Rows) -> None:
    """Though only changes are written."""
    with tempfile.TemporaryDirectory() as name:
        written(Path(name), rows)
        samples = read_samples(Path(name))
    assert samples.every_s == 10.0
    for place, (part, counter) in enumerate(KEYS):
        course = samples.courses[CounterReading("gpu001", part, counter)]
        assert [course.value_at(number * 10.0) for number in range(len(rows))] == [row[place] for row in rows]
        assert course.until_s == 10.0 * (len(rows) - 1)


def test_a_host_that_went_away_has_no_values_until_it_is_back(tmp_path: Path) -> None:
    """Not the last ones for ever."""
    log = SampleLog(tmp_path / FILE, 10.0)
    row = dict(zip(KEYS, (1, 2, 3), strict=True))
    log.add("gpu001", 0.0, row)
    log.gone("gpu001", 15.0)
    log.add("gpu001", 100.0, row)
    log.close()
    course = read_samples(tmp_path).courses[CounterReading("gpu001", *KEYS[0])]
    assert [course.value_at(at_s) for at_s in (5.0, 50.0, 105.0)] == [1, None, 1]


READINGS = (("mlx5_0", "link_downed"), ("mlx5_1", "link_downed"))


def session(run: Path, host: str, at_s: float) -> int:
    """Two samples of one host; returns the length of the file."""
    log = SampleLog(run / FILE, 1.0)
    log.add(host, at_s, {READINGS[0]: 1, READINGS[1]: 2})
    log.add(host, at_s + 5.0, {READINGS[0]: 3, READINGS[1]: 2})
    log.close()
    return (run / FILE).stat().st_size


def test_cut_at_every_byte_another_session_can_begin_behind_it(tmp_path: Path) -> None:
    whole = session(tmp_path, "h1", 10.0)
    data = (tmp_path / FILE).read_bytes()
    second = data.index(b"\n", data.index(b"\n") + 1)  # the end of the line that first tells of it
    for cut in range(whole + 1):
        (tmp_path / FILE).write_bytes(data[:cut])
        close_samples(tmp_path)
        session(tmp_path, "h2", 50.0)
        found = read_samples(tmp_path).courses
        assert found[CounterReading("h2", *READINGS[0])].values == [1, 3]
        assert (CounterReading("h1", *READINGS[0]) in found) == (cut >= second)


def test_a_reading_is_unknown_from_when_its_host_was_last_asked(tmp_path: Path) -> None:
    session(tmp_path, "h1", 10.0)
    assert close_samples(tmp_path) == pytest.approx(15.0)
    course = read_samples(tmp_path).courses[CounterReading("h1", *READINGS[0])]
    assert (course.at_s, course.values) == ([10.0, 15.0, 15.0], [1, 3, None])


def test_a_host_of_an_earlier_session_is_unknown_once(tmp_path: Path) -> None:
    session(tmp_path, "h1", 10.0)
    close_samples(tmp_path)
    session(tmp_path, "h2", 50.0)
    assert close_samples(tmp_path) == pytest.approx(55.0)
    found = read_samples(tmp_path).courses
    assert found[CounterReading("h2", *READINGS[1])].values == [2, None]
    assert found[CounterReading("h1", *READINGS[1])].values == [2, None]
