"""How far a run is, told from its files alone; and a run that is ended from outside."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from fabric.app import analyze as judging
from fabric.app import status as statuses
from fabric.app.analyze import analyze
from fabric.app.status import all_runs, newest, status, stop
from fabric.errors import ConfigError, StoreError
from fabric.runs.events import EventLog, read_events
from fabric.runs.run_lock import FILE, holding
from tests.runs.other_account import place, shut
from tests.runs.small_run import begin, cut_after, ended, go_on, killed, run_of

__all__ = ["place"]


def test_a_run_that_ended_has_its_outcome_and_all_of_its_probes(tmp_path: Path) -> None:
    begin(tmp_path)
    found = status(tmp_path / "results" / "small")
    assert (found.state, found.outcome, found.done, found.planned) == ("ended", "pass", 6, 6)
    assert (found.left_s, found.phase, found.open_changes) == (None, "during", ())


def test_a_killed_run_says_how_far_it_came_and_that_it_was_killed(tmp_path: Path) -> None:
    killed(tmp_path, "finished", 1)
    found = status(run_of(tmp_path))
    assert (found.state, found.phase, found.done, found.planned, found.resumed) == ("killed", "before", 2, 6, 0)
    assert found.suspects == ()


def test_a_run_somebody_works_on_has_a_rate_and_a_time_left(tmp_path: Path) -> None:
    run = killed(tmp_path, "finished", 1)
    with holding(tmp_path / "results", "small", ["gpu001"], run=run.name):
        found = status(run)
        assert found.state == "running"
        assert found.rate_per_min is not None
        assert found.left_s == pytest.approx(60.0 * 4 / found.rate_per_min)
        (run / "STOP").touch()
        assert status(run).state == "stopping"


def held_elsewhere(run: Path) -> None:
    """The lock as another machine on the same file system writes it; its process number means nothing here."""
    body = {"run": str(run), "machine": "login2", "pid": 2**22 + 1, "since": "2026-01-01", "hosts": ["gpu001"]}
    (run.parent / FILE).write_bytes(orjson.dumps(body))


def test_a_run_of_another_machine_is_not_said_to_be_dead(tmp_path: Path) -> None:
    run = killed(tmp_path, "finished", 1)
    held_elsewhere(run)
    found = status(run)
    assert (found.state, found.holder) == ("running", f"login2, process {2**22 + 1}")
    assert [one.state for one in all_runs(tmp_path / "results", most=5)] == ["running"]
    (run / "STOP").touch()
    assert status(run).state == "stopping"


def test_a_run_of_another_machine_is_neither_resumed_nor_called_unstoppable(tmp_path: Path) -> None:
    run = killed(tmp_path, "finished", 1)
    held_elsewhere(run)
    with pytest.raises(StoreError, match=r"is going on .login2, process"):
        go_on(tmp_path)
    assert not stop(run, wait_s=0.0).ended
    assert (run / "STOP").exists()


def test_a_run_that_went_on_says_how_often(tmp_path: Path) -> None:
    killed(tmp_path, "finished", 1)
    go_on(tmp_path)
    assert (status(run_of(tmp_path)).state, status(run_of(tmp_path)).resumed) == ("ended", 1)


def test_a_change_that_may_be_live_is_told(tmp_path: Path) -> None:
    run = ended(tmp_path)
    journal = run / "changes.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    assert status(run).open_changes == ("during/ber.gpu001/mlx5_0",)


def test_a_torn_history_is_no_trouble_and_one_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    begin(tmp_path)
    events = run_of(tmp_path) / "events.jsonl"
    cut_after(run_of(tmp_path), "finished", 1)
    events.write_bytes(events.read_bytes() + b'{"seq":')
    assert status(run_of(tmp_path)).done == 2
    events.write_bytes(b"no event\n" + events.read_bytes())
    (found,) = all_runs(tmp_path / "results", most=5)
    assert (found.state, "not a line" in found.trouble) == ("unreadable", True)


def test_all_runs_are_told_newest_first_and_no_more_than_asked(tmp_path: Path) -> None:
    begin(tmp_path)
    begin(tmp_path)
    names = [found.run for found in all_runs(tmp_path / "results", most=5)]
    assert (len(names), names) == (2, sorted(names, reverse=True))
    assert len(all_runs(tmp_path / "results", most=1)) == 1


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a run directory"):
        status(tmp_path)
    with pytest.raises(ConfigError, match="no folder of runs"):
        all_runs(tmp_path / "nowhere", most=1)


def kept_of(run: Path, **keys: object) -> None:
    """Write verdict.json once more, with other keys."""
    file = run / "verdict.json"
    file.write_bytes(orjson.dumps({**orjson.loads(file.read_bytes()), **keys}))


def test_a_verdict_older_than_what_was_measured_is_not_told(tmp_path: Path) -> None:
    run = ended(tmp_path)
    size = (run / "events.jsonl").stat().st_size
    kept_of(run, history_bytes=size - 1, outcome="inconclusive")
    for found in (status(run), *all_runs(tmp_path / "results", most=5)):
        assert (found.state, found.outcome, found.judged) == ("ended", "", False)
    kept_of(run, history_bytes=size)
    assert (status(run).outcome, status(run).judged) == ("inconclusive", True)


def test_a_run_that_was_copied_is_still_judged(tmp_path: Path) -> None:
    """Copies have new times, in any order; what a verdict rests on is in it."""
    begin(tmp_path)
    copy = tmp_path / "copy" / "small" / "run"
    shutil.copytree(run_of(tmp_path), copy)
    for name, at_s in (("verdict.json", 1.0), ("events.jsonl", 2.0)):
        os.utime(copy / name, (at_s, at_s))
    assert (status(copy).outcome, status(copy).judged) == ("pass", True)


def test_a_run_that_goes_on_has_no_outcome_yet(tmp_path: Path) -> None:
    """Though somebody judged what it had measured until now."""
    run = killed(tmp_path, "finished", 3)
    analyze(run, baseline_path=None, rewrite=True)
    assert status(run).outcome != ""
    with holding(tmp_path / "results", "small", ["gpu001"], run=run.name):
        assert (status(run).state, status(run).outcome) == ("running", "")


def test_a_report_of_a_run_that_goes_on_writes_nothing_beside_it(tmp_path: Path) -> None:
    run = killed(tmp_path, "finished", 3)
    with holding(tmp_path / "results", "small", ["gpu001"], run=run.name):
        before = sorted(run.iterdir())
        assert analyze(run).judged.goes_on
        assert sorted(run.iterdir()) == before
    assert not analyze(run).judged.goes_on
    assert status(run).judged


def test_a_report_makes_a_verdict_anew_that_is_older_than_what_was_measured(tmp_path: Path) -> None:
    run = ended(tmp_path)
    kept_of(run, history_bytes=1, outcome="inconclusive")
    analyze(run)
    assert (status(run).outcome, status(run).judged) == ("pass", True)


def test_a_verdict_that_was_kept_is_not_made_again_to_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ended(tmp_path)
    suspect = {"component": "gpu001", "kind": "host", "outcome": "fail", "confidence": 0.5, "evidence": ["slow"]}
    more = {"ambiguous_with": [], "next_step": "look", "hosts": ["gpu001"], "probes": []}
    kept_of(run, suspects=[{**suspect, **more}])
    for name in ("reopened", "read_past_run", "concluded"):
        monkeypatch.setattr(judging, name, None)
    found = status(run)
    assert [one.component for one in found.suspects or ()] == ["gpu001"]


def test_a_large_run_is_counted_and_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = killed(tmp_path, "finished", 3)
    monkeypatch.setattr(statuses, "MOST_JUDGED", 5)
    monkeypatch.setattr(judging, "reopened", None)
    found = status(run)
    assert (found.done, found.planned, found.suspects, found.no_number) == (4, 6, None, 0)


def test_what_cannot_be_looked_into_is_told_and_is_not_no_runs(place: Path) -> None:
    begin(place)
    results, run = place / "results", run_of(place)
    for closed in (run, run.parent):
        with shut(closed):
            (found,) = all_runs(results, most=5)
        assert (found.run, found.state, found.trouble) == (str(closed), "unreadable", "Permission denied")
    with shut(results), pytest.raises(ConfigError, match="cannot read: Permission denied"):
        all_runs(results, most=5)
    with shut(run), pytest.raises(ConfigError, match="cannot read: Permission denied"):
        status(run)


_PATIENCE_S = 60.0


def opened(run: Path) -> bytes:
    """Its journal as while the change is in force; returns the whole."""
    journal = run / "changes.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    return whole


@contextmanager
def at_work(folder: Path, *, ends: bool, journal: bytes | None = None) -> Iterator[Path]:
    """Somebody who works on a run, sees STOP, takes its change back and ends."""
    run, done = run_of(folder), threading.Event()

    def work() -> None:
        with holding(folder / "results", "small", ["gpu001"], run=run.name):
            held.set()
            while not done.wait(0.01) and not (ends and (run / "STOP").exists()):
                pass
            if journal is not None and ends:
                (run / "changes.jsonl").write_bytes(journal)

    held = threading.Event()
    worker = threading.Thread(target=work)
    worker.start()
    try:
        assert held.wait(_PATIENCE_S)
        yield run
    finally:
        done.set()
        worker.join()


def test_it_waits_until_the_run_has_ended_and_says_what_was_taken_back(tmp_path: Path) -> None:
    whole = opened(killed(tmp_path, which=3))
    with at_work(tmp_path, ends=True, journal=whole) as run:
        found = stop(run, wait_s=_PATIENCE_S)
    assert (found.ended, found.finished, found.exit_code) == (True, False, 0)
    assert (found.taken_back, found.still_open) == (("during/ber.gpu001/mlx5_0",), ())


def test_a_change_that_may_be_live_afterwards_is_exit_4(tmp_path: Path) -> None:
    opened(killed(tmp_path, which=3))
    with at_work(tmp_path, ends=True) as run:
        found = stop(run, wait_s=_PATIENCE_S)
    assert (found.exit_code, found.still_open) == (4, ("during/ber.gpu001/mlx5_0",))


@pytest.mark.parametrize("wait_s", [0.0, 0.3])
def test_a_run_that_does_not_end_in_time_is_exit_3(tmp_path: Path, wait_s: float) -> None:
    killed(tmp_path, which=3)
    with at_work(tmp_path, ends=False) as run:
        found = stop(run, wait_s=wait_s)
        assert (run / "STOP").exists()
    assert (found.ended, found.exit_code) == (False, 3)


def test_a_run_nobody_works_on_is_refused_with_what_to_do(tmp_path: Path) -> None:
    run = killed(tmp_path, which=3)
    with pytest.raises(ConfigError, match="fabric resume"):
        stop(run, wait_s=0.0)
    opened(run)
    with pytest.raises(ConfigError, match="fabric restore"):
        stop(run, wait_s=0.0)
    go_on(tmp_path)
    with pytest.raises(ConfigError, match="fabric report"):
        stop(run, wait_s=0.0)
    assert not (run / "STOP").exists()


def test_what_goes_on_is_the_newest_and_a_run_of_a_clock_that_was_ahead_is_not(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for name in ("20000101-000000-000000", "20000102-000000-000000", "29990101-000000-000000"):
        (results / "small" / name).mkdir(parents=True)
        (results / "small" / name / "run.json").touch()
    assert newest(results).name == "20000102-000000-000000"
    with holding(results, "small", ["gpu001"], run="20000101-000000-000000"):
        assert newest(results).name == "20000101-000000-000000"


def test_how_long_a_run_goes_on_does_not_depend_on_how_long_the_machine_has(tmp_path: Path) -> None:
    """The clock of a run on real hosts counts from the start of the machine."""
    begin(tmp_path)
    log, shifted = run_of(tmp_path) / "events.jsonl", EventLog(tmp_path / "shifted.jsonl")
    took_s = status(run_of(tmp_path)).at_s
    for event in read_events(log):
        fields = {name: value for name, value in event.items() if name not in ("seq", "at_s", "event")}
        shifted.append(event["event"], event["at_s"] + 86_400.0, fields)
    shifted.close()
    (tmp_path / "shifted.jsonl").replace(log)
    assert status(run_of(tmp_path)).at_s == pytest.approx(took_s)
