"""A run is told to end from outside: a terminal that goes away ends it in order, ``nohup`` keeps it from that."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fabric.engine.interruption import interrupt_when_told_to_end, listening
from fabric.runs.events import read_events
from fabric.runs.journal import read_journal
from tests.places import INVENTORY, ROOT
from tests.scenario.changing import BER, SCENARIO

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CHANGE = "during/ber.gpu001/mlx5_0"
_MAIN = "import sys; sys.argv[0] = 'fabric'; from fabric.cli.main import run; run()"
_LOOKS = 6000


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Those of the tests are put back."""
    before = [signal.getsignal(number) for number in _NUMBERS]
    yield
    for number, handler in zip(_NUMBERS, before, strict=True):
        signal.signal(number, handler)


def test_a_hang_up_that_is_ignored_stays_so() -> None:
    """``nohup fabric run``: neither a command nor its run takes SIGHUP back."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupt_when_told_to_end()
    with listening(lambda: None) as interruption:
        os.kill(os.getpid(), signal.SIGHUP)
        assert interruption.times == 0
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_hang_up_interrupts_once() -> None:
    """The kernel and the shell of a terminal that goes away both tell: that is no second Ctrl-C."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    interrupt_when_told_to_end()
    with listening(lambda: None) as interruption:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        assert interruption.times == 1
    os.kill(os.getpid(), signal.SIGHUP)


def test_a_hang_up_outside_of_a_run_interrupts_once() -> None:
    """While files are read, or reports are made, it is a KeyboardInterrupt, and the second one nothing."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    interrupt_when_told_to_end()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGHUP)


def begun(folder: Path, hang_up: signal.Handlers, terminal: int | None = None) -> subprocess.Popen[bytes]:
    """A drill on the mock in a process of its own, on a terminal where one is given."""
    file = folder / "drill.yaml"
    text = SCENARIO.format(inventory=INVENTORY / "pod-64.yaml", changes=BER, more="")
    file.write_text(text.replace("repeat: 3", "repeat: 20"))

    def first() -> None:
        signal.signal(signal.SIGHUP, hang_up)
        if terminal is not None:
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

    return subprocess.Popen(
        [sys.executable, "-c", _MAIN, "run", str(file), "--no-html"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=terminal,
        stdout=terminal if terminal is not None else subprocess.DEVNULL,
        stderr=terminal if terminal is not None else subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=first,
    )


def until_in_force(folder: Path, child: subprocess.Popen[bytes], terminal: int | None = None) -> Path:
    """The run's directory, once its change is in force; what it shows on its terminal is read meanwhile."""
    pause = threading.Event()
    for _ in range(_LOOKS):
        found = next(iter((folder / "results").glob("drill/2*/changes.jsonl")), None)
        if found is not None and b'"in_force"' in found.read_bytes():
            return found.parent
        assert child.poll() is None
        if terminal is not None:
            with suppress(BlockingIOError):
                os.read(terminal, 1 << 16)
        pause.wait(0.01)
    raise AssertionError("no change came into force")


def test_a_terminal_that_goes_away_ends_a_run_in_order(tmp_path: Path) -> None:
    """What cannot be shown any more keeps no change from its undo, and the run says that it was interrupted."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    child = begun(tmp_path, signal.SIG_DFL, theirs)
    os.close(theirs)
    run = until_in_force(tmp_path, child, ours)
    os.close(ours)
    assert child.wait(60) == 3
    assert {entry["change"]: entry["state"] for entry in read_journal(run / "changes.jsonl")} == {CHANGE: "reverted"}
    assert [event["event"] for event in read_events(run / "events.jsonl")][-1] == "run_interrupted"


@pytest.mark.slow
def test_a_run_under_nohup_goes_on(tmp_path: Path) -> None:
    """Who logs out does not end what was begun with SIGHUP ignored."""
    child = begun(tmp_path, signal.SIG_IGN)
    run = until_in_force(tmp_path, child)
    child.send_signal(signal.SIGHUP)
    child.wait(100)
    assert [event["event"] for event in read_events(run / "events.jsonl")][-1] == "run_ended"
