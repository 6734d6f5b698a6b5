"""Results of changes come back as they were; the journal stays readable whatever the disk does to a line."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.app.restore import restore
from fabric.errors import MayBeLive, StoreError
from fabric.model.change import Change, ChangeResult, Window
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, ProbeResult
from fabric.runs import plain_file
from fabric.runs.events import Event, EventLog, history_of, read_events, to_fields
from fabric.runs.journal import (
    FINAL,
    JOURNAL,
    Journal,
    change_results,
    open_changes,
    raise_if_open,
    read_journal,
    refuse_while_open,
)
from fabric.runs.stored_verdict import covers_history, history_bytes
from fabric.wiring import BACKENDS
from tests.changes.asked import ber
from tests.runs.small_run import ended


def change(name: str) -> Change:
    """A planned change."""
    return Change(name, "degraded", "leaf1--spine1", "port", ber("leaf1--spine1", raw="1e-6"))


def event(state: str, at_s: float, name: str = "a", **fields: Any) -> dict[str, Any]:
    """One event as the engine writes it."""
    return {"seq": 1, "at_s": at_s, "event": "change", "change": name, "state": state, **fields}


def only(*events: dict[str, Any]) -> ChangeResult:
    """The result of the only change."""
    (result,) = change_results(events, [change("a")])
    return result


def test_a_whole_life() -> None:
    """In force from the first in_force to the end, with what the counters grew by."""
    result = only(
        event("intent", 1.0),
        event("armed", 1.5),
        event("in_force", 2.0, counters={"gpu1.symbol": 10, "gpu1.down": 3, "gpu1.gone": 1}),
        event("reverted", 9.0, counters={"gpu1.symbol": 110.5, "gpu1.down": 1}),
    )
    assert (result.state, result.windows) == ("reverted", (Window(2.0, 9.0),))
    assert result.counters == {"gpu1.symbol": 100.5}
    assert result.reason == "counters left out, they went down or vanished: gpu1.down, gpu1.gone"


def test_a_flap_has_many_windows_and_counts_from_the_first() -> None:
    """Counters before are those of the first time; between the times it is not in force."""
    result = only(
        event("intent", 1.0),
        event("in_force", 2.0, counters={"down": 5}),
        event("lifted", 3.0),
        event("in_force", 7.0, counters={"down": 6}),
        event("lifted", 8.0),
        event("reverted", 8.5, counters={"down": 7}),
    )
    assert result.windows == (Window(2.0, 3.0), Window(7.0, 8.0))
    assert result.counters == {"down": 2.0}


@pytest.mark.parametrize("state", ["intent", "armed", "in_force", "lifted"])
def test_what_was_not_seen_taken_back_is_open(state: str) -> None:
    """Also between two times in force: the guard is still there, and nobody looked."""
    result = only(event("intent", 1.0), event("in_force", 2.0), event(state, 3.0))
    assert result.state == "open"
    assert "not seen taken back" in result.reason


def test_what_was_restored_later_is_reverted() -> None:
    """An undo that was seen after all ends it."""
    result = only(event("in_force", 2.0), event("open", 5.0), event("reverted", 50.0))
    assert (result.state, result.windows) == ("reverted", (Window(2.0, 50.0),))


FIRST = (event("intent", 1.0), event("in_force", 2.0, counters={"n": 1}))
AGAIN = (event("intent", 11.0), event("in_force", 12.0, counters={"n": 5}), event("lost", 14.0, counters={"n": 6}))


def test_a_change_begun_anew_counts_from_its_last_beginning() -> None:
    """A first attempt of which nobody saw the end leaves no window behind."""
    result = only(*FIRST, *AGAIN)
    assert (result.state, result.windows, result.counters) == ("lost", (Window(12.0, 14.0),), {"n": 1.0})


def test_the_windows_of_a_change_for_all_of_its_phase_add_up() -> None:
    """What a run had measured in the first before it was interrupted stands."""
    result = only(*FIRST, event("reverted", 3.0), *AGAIN)
    assert (result.windows, result.counters) == ((Window(2.0, 3.0), Window(12.0, 14.0)), {"n": 1.0})


@pytest.mark.parametrize("when", [{"at": 5.0}, {"for_": 5.0}])
def test_of_a_change_on_a_time_line_only_the_last_course_counts(when: dict[str, float]) -> None:
    """Its phase is run again as a whole."""
    events = (*FIRST, event("reverted", 3.0), *AGAIN)
    (result,) = change_results(events, [replace(change("a"), spec=ber("leaf1--spine1", raw="1e-6", **when))])
    assert result.windows == (Window(12.0, 14.0),)


@pytest.mark.parametrize("wrong", [event("in_force", 1.0, "x"), event("melted", 1.0)])
def test_nothing_unknown_is_passed_over(wrong: dict[str, Any]) -> None:
    """A change that is not planned may be live all the same; a state that there is not means another writer."""
    with pytest.raises(StoreError):
        change_results([wrong], [change("a")])


STATES = ["intent", "armed", "in_force", "lifted", *sorted(FINAL)]


@given(st.lists(st.sampled_from(STATES), min_size=1, max_size=12))
def test_any_history_gives_ordered_windows_and_a_final_state(states: list[str]) -> None:
    """Windows never overlap, only the last may be without end, and only of what is open."""
    result = only(*(event(state, float(number)) for number, state in enumerate(states)))
    assert result.state in FINAL
    ends = [window.ended_s for window in result.windows]
    assert None not in ends[:-1]
    if ends and ends[-1] is None:
        assert result.state == "open"
    times = [at_s for window in result.windows for at_s in (window.began_s, window.ended_s) if at_s is not None]
    assert times == sorted(times)


RESULTS = st.builds(
    ProbeResult,
    probe_id=st.just("p"),
    attempt=st.integers(1, 9),
    measurements=st.lists(
        st.builds(
            Measurement,
            st.just("p"),
            st.just("bandwidth"),
            st.floats(0, 1e6),
            st.just("Gb/s"),
            st.none() | st.integers(0, 2**40),
        ),
        max_size=3,
    ).map(tuple),
    outcome=st.none() | st.sampled_from(Outcome),
    reason=st.text(st.characters(exclude_categories=("Cs",))),
    started_s=st.just(1.5),
    ended_s=st.just(2.5),
    error_host=st.none() | st.just("gpu001"),
)


@given(RESULTS)
def test_round_trip(result: ProbeResult) -> None:
    """Every field survives."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "e"
        log = EventLog(path)
        log.append("finished", 2.5, to_fields(result))
        log.close()
        assert history_of(read_events(path)).results == {"p": result}


def test_a_history_is_sorted_into_last_results_and_all_else() -> None:
    """The last result of a probe counts, at its place; what is no result stays as it was written."""
    events: list[Event] = [{"event": "run_started", "at_s": 1.0, "run_id": "r"}]
    for at_s, probe_id, reason in ((2.0, "a", "first"), (3.0, "b", ""), (4.0, "a", "again")):
        result = ProbeResult(probe_id, 1, (), Outcome.ERROR, reason, 0.0, at_s)
        events.append({"event": "finished", "at_s": at_s, **to_fields(result)})
        events.append({"event": "started", "at_s": at_s, "probes": [probe_id]})
    events.pop()
    found = history_of(iter(events))
    assert [(result.probe_id, result.reason) for result in found.results.values()] == [("b", ""), ("a", "again")]
    assert [event["event"] for event in found.others] == ["run_started", "started", "started"]
    assert (found.first, found.at_s) == (events[0], 4.0)


@pytest.mark.parametrize(
    ("judged_bytes", "of_all"), [(3, True), (2, False), (0, False), (None, True)], ids=["all", "less", "none", "unsaid"]
)
def test_a_verdict_of_less_than_there_is_is_not_of_all(tmp_path: Path, judged_bytes: int | None, of_all: bool) -> None:
    (tmp_path / "events.jsonl").write_bytes(b"abc")
    assert history_bytes(tmp_path) == 3
    assert covers_history(tmp_path, judged_bytes) is of_all


def test_without_a_history_a_verdict_is_believed(tmp_path: Path) -> None:
    assert history_bytes(tmp_path) == 0
    assert covers_history(tmp_path, 17)


def full_disk(monkeypatch: pytest.MonkeyPatch, *, at: str, call: int) -> None:
    """The n-th write is cut in the middle, or the n-th fsync of a file fails; everything else is as always."""
    calls = {"write": 0, "fsync": 0}

    def write(fd: int, data: bytes) -> int:
        calls["write"] += 1
        if at == "write" and calls["write"] == call:
            os.write(fd, bytes(data)[:20])
            raise OSError(28, "No space left on device")
        return os.write(fd, data)

    def fsync(fd: int) -> None:
        calls["fsync"] += not Path(f"/proc/self/fd/{fd}").readlink().is_dir()
        if at == "fsync" and calls["fsync"] == call:
            calls["fsync"] += 1
            raise OSError(5, "Input/output error")

    real = {name: getattr(os, name) for name in dir(os) if not name.startswith("__")}
    monkeypatch.setattr(plain_file, "os", SimpleNamespace(**real | {"write": write, "fsync": fsync}))


@pytest.mark.parametrize("at", ["write", "fsync"])
def test_a_line_that_could_not_be_written_spoils_no_later_one(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_disk(monkeypatch, at=at, call=2)
    journal = Journal(tmp_path / JOURNAL)
    journal.record("a", "intent", {})
    with pytest.raises(StoreError):
        journal.record("a", "armed", {})
    journal.record("a", "reverted", {})
    journal.record("b", "intent", {})
    journal.close()
    assert [(one["change"], one["state"]) for one in read_journal(tmp_path / JOURNAL)] == [
        ("a", "intent"),
        ("a", "reverted"),
        ("b", "intent"),
    ]


def test_a_journal_that_another_process_writes_is_not_written_on_the_second_try_either(tmp_path: Path) -> None:
    first, second = Journal(tmp_path / JOURNAL), Journal(tmp_path / JOURNAL)
    first.record("a", "intent", {})
    for _ in range(2):
        with pytest.raises(StoreError, match="another process"):
            second.record("a", "reverted", {})
    first.close()
    assert [one["state"] for one in read_journal(tmp_path / JOURNAL)] == ["intent"]


def test_a_journal_that_somebody_deleted_is_not_begun_anew_and_its_changes_may_be_live(tmp_path: Path) -> None:
    """Of two changes one had ended; how the other ended cannot be written down, again and again."""
    journal = Journal(tmp_path / JOURNAL)
    for name, state in (("a", "intent"), ("b", "intent"), ("a", "reverted")):
        journal.record(name, state, {})
    raise_if_open(tmp_path / "another", ())
    (tmp_path / JOURNAL).unlink()
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot write"):
            journal.record("b", "reverted", {})
    assert not (tmp_path / JOURNAL).exists()
    with pytest.raises(MayBeLive, match=r"taken back: b; .*--all-hosts"):
        raise_if_open(tmp_path, journal.unsettled)


def damaged(results: Path, name: str) -> Path:
    """The journal of a run, with a foreign line in the middle."""
    path = results / name / "run" / JOURNAL
    path.parent.mkdir(parents=True)
    journal = Journal(path)
    journal.record("a", "intent", {})
    journal.close()
    path.write_bytes(b"somebody was here\n" + path.read_bytes())
    return path


def test_a_journal_that_cannot_be_read_counts_as_a_change_that_may_be_live(tmp_path: Path) -> None:
    path = damaged(tmp_path, "s")
    with pytest.raises(MayBeLive, match=str(path)):
        refuse_while_open(tmp_path)


def test_restore_goes_on_behind_a_journal_that_cannot_be_read(tmp_path: Path) -> None:
    damaged(tmp_path, "first")
    damaged(tmp_path, "second")
    found = restore(None, results=tmp_path, make_executor=lambda *_: pytest.fail("nothing to ask"))
    assert [(Path(one.run).parent.name, one.certain) for one in found] == [("first", False), ("second", False)]


def special(kind: str, path: Path) -> None:
    """Put something there that is no journal, and that nobody should wait for or read."""
    path.parent.mkdir(parents=True)
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "sparse":
        path.touch()
        os.truncate(path, 20 << 30)
    else:
        path.symlink_to(kind)


@pytest.mark.parametrize("kind", ["FIFO", "directory", "sparse", "/dev/zero", "/etc/passwd", "nowhere", JOURNAL])
def test_what_is_no_plain_file_counts_as_a_journal_that_cannot_be_read(kind: str, tmp_path: Path) -> None:
    """A change may be live where the journal's name is taken by something else, and nothing of that is printed."""
    special(kind, tmp_path / "s" / "run" / JOURNAL)
    found = restore(None, results=tmp_path, make_executor=lambda *_: pytest.fail("nothing to ask"))
    assert [one.certain for one in found] == [False]
    assert "not a plain file" in found[0].said or "larger than 1 GiB" in found[0].said
    assert "root:" not in found[0].said
    with pytest.raises(MayBeLive, match=JOURNAL):
        refuse_while_open(tmp_path)
    with pytest.raises(StoreError):
        Journal(tmp_path / "s" / "run" / JOURNAL).record("a", "intent", {})


def test_restore_takes_back_behind_a_fifo(tmp_path: Path) -> None:
    """The change of a dead run is taken back though the journal of another one is a FIFO, which is reported."""
    run = ended(tmp_path)
    lines = (run / JOURNAL).read_bytes().splitlines(keepends=True)
    (run / JOURNAL).write_bytes(b"".join(lines[: 1 + max(n for n, line in enumerate(lines) if b'"in_force"' in line)]))
    special("FIFO", tmp_path / "results" / "a" / "run" / JOURNAL)
    assert len(open_changes(run / JOURNAL)) == 1
    found = restore(
        None, results=tmp_path / "results", make_executor=lambda name, inventory: BACKENDS[name](inventory, 1)
    )
    assert [(Path(one.run).parent.name, one.certain) for one in found] == [("a", False), ("small", True)]
    assert open_changes(run / JOURNAL) == ()


def test_a_run_is_refused_with_every_journal_that_is_in_the_way(tmp_path: Path) -> None:
    """One that cannot be read does not hide another with an open change."""
    special("FIFO", tmp_path / "a" / "run" / JOURNAL)
    (tmp_path / "b" / "run").mkdir(parents=True)
    journal = Journal(tmp_path / "b" / "run" / JOURNAL)
    journal.record("ber.gpu001", "intent", {})
    journal.close()
    with pytest.raises(MayBeLive, match=r"a/run/changes\.jsonl.* may have left changes behind \(ber\.gpu001\)"):
        refuse_while_open(tmp_path)
