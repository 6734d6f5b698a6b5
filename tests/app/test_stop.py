"""A run is ended from outside; what it took back is told, and nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fabric.app.status import stop
from fabric.errors import ConfigError
from fabric.runs.run_lock import holding
from tests.runs.small_run import go_on, killed, run_of

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
