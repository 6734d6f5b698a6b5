"""Runs that are told to end, stop by the file STOP or are killed, and what stands of them when they go on."""

import fcntl
import os
import pty
import random
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.killed_runs import forked, killed_and_resumed, whole_run, write_scenario
from benchmarks.measured_rack import rack_topology
from fabric.engine.interruption import LOOK_S, STOP, Interruption, StopFile, interrupt_on_signals, listening
from fabric.engine.phase import past_of, waiting
from fabric.model.change import Change
from fabric.model.probe import ProbeResult
from fabric.model.scenario import Phase
from fabric.plan import PhasePlan, schedule
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.runs.events import Progress, read_events
from fabric.runs.journal import read_journal
from fabric.runs.run_directory import RunDirectory
from tests.builders import Watcher, on_mock
from tests.changes.asked import ber
from tests.places import INVENTORY, ROOT
from tests.scenario.changing import BER, SCENARIO, Watched, injecting, prepared, run, watched

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
    interrupt_on_signals()
    with listening(lambda: None) as interruption:
        os.kill(os.getpid(), signal.SIGHUP)
        assert interruption.times == 0
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_hang_up_interrupts_once() -> None:
    """The kernel and the shell of a terminal that goes away both tell: that is no second Ctrl-C."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    interrupt_on_signals()
    with listening(lambda: None) as interruption:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        assert interruption.times == 1
    os.kill(os.getpid(), signal.SIGHUP)


def test_a_hang_up_outside_of_a_run_interrupts_once() -> None:
    """While files are read, or reports are made, it is a KeyboardInterrupt, and the second one nothing."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    interrupt_on_signals()
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_killed_at_random_instants_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """Four instants of the run, two of them followed by a kill while it resumes; benchmarks/resume.py does hundreds."""
    write_scenario(tmp_path)
    as_whole, took_s = whole_run(forked, tmp_path)
    chance = random.Random()
    for number in range(4):
        times = [chance.uniform(number, number + 1) / 4 * took_s]
        if number % 2 == 0:
            times.append(chance.uniform(0.3, 1.0) * took_s)
        found = killed_and_resumed(forked, tmp_path, number, after_s=times, as_whole=as_whole)
        assert not found.wrong, (times, found)


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """Now."""
        return self.now_s


def made(folder: Path) -> tuple[StopFile, RunDirectory, Clock]:
    """Of a run that has just begun."""
    clock, directory = Clock(), RunDirectory.create(folder, "drill", {})
    return StopFile(directory, clock), directory, clock


def test_it_is_seen_at_the_next_look(tmp_path: Path) -> None:
    stop, directory, clock = made(tmp_path)
    assert not stop.look()
    (directory.path / STOP).touch()
    clock.now_s = stop.next_s
    assert stop.look()
    assert clock.now_s <= 100.0 + LOOK_S


def test_the_history_says_once_which_file_it_was(tmp_path: Path) -> None:
    stop, directory, clock = made(tmp_path)
    (directory.path / STOP).touch()
    for _ in range(3):
        stop.look()
        clock.now_s += LOOK_S
    directory.close()
    (event,) = read_events(directory.path / "events.jsonl")
    assert event["reason"] == f"the file {directory.path / STOP} is there"


def test_it_counts_as_one_request_and_a_signal_after_it_as_the_second(tmp_path: Path) -> None:
    stop, directory, _ = made(tmp_path)
    interruption = Interruption(stop)
    (directory.path / STOP).touch()
    assert interruption.times == 1
    interruption.signals += 1
    assert interruption.times == 2


class Fragile(Watcher):
    """Raises whenever a change ends: a defect of whoever watches."""

    def change_state(self, change: object, state: str, reason: str) -> None:
        """Die."""
        if state in ("in_force", "reverted", "failed"):
            raise RuntimeError(state)


def test_a_change_that_is_already_over_does_not_begin_a_phase_whose_other_changes_are_not_in_force(
    tmp_path: Path,
) -> None:
    short = "{ber: {links: gpu001/mlx5_0, effective: 1e-6, direction: up, for: 1s}}"
    judged, _ = run(tmp_path, f"{short}, {{link_down: {{links: su0-leaf3--spine05}}}}")
    assert [result.state for result in judged.verdict.changes] == ["reverted", "reverted"]
    assert judged.verdict.changes[1].windows


def test_every_change_is_taken_back_though_whoever_watches_raises_each_time(tmp_path: Path) -> None:
    both = ", ".join(
        f"{{ber: {{links: {name}, effective: 1e-6, direction: up}}}}" for name in ("gpu001/mlx5_0", "gpu002/mlx5_1")
    )
    made: list[Watched] = []
    with pytest.raises(RuntimeError):
        on_mock(prepared(tmp_path, both), tmp_path / "results", observer=Fragile(), make_executor=watched(made))
    assert not injecting(made[0])
    assert not injecting(made[0], "gpu002", "mlx5_1")


TOPOLOGY = rack_topology(2, parts=4)
PHASE = Phase("a", (LoopbackSpec(),))
PLAN = PhasePlan(PHASE, schedule(expand_phase(PHASE, TOPOLOGY, tuple(TOPOLOGY.hosts))), ())
EARLY_CHANGE = Change("a/ber.x", "a", "gpu001/mlx5_0", "port", ber("gpu001/mlx5_0", raw="1e-6"))
FIRST, SECOND, *_ = PLAN.planned
EXTRA = replace(FIRST, probe_id="a/gpu001/extra")
ELSEWHERE = replace(FIRST, probe_id="b/gpu001/extra", phase="b")


def result(probe_id: str) -> ProbeResult:
    """Measured."""
    return ProbeResult(probe_id, 1, (), None, "", 0.0, 1.0)


def done(*names: str, added: bool = False, ended: bool = False) -> Progress:
    """These have results."""
    return Progress(
        results={name: result(name) for name in names},
        attempts=dict.fromkeys(names, 1),
        added=(EXTRA, ELSEWHERE) if added else (),
        instead=((FIRST.probe_id, EXTRA),) if added else (),
        ended=frozenset({"a"} if ended else ()),
    )


def test_what_has_a_result_does_not_wait() -> None:
    past = past_of(PLAN, done(FIRST.probe_id, "b/other"))
    left = [probe.probe_id for probe in waiting(PLAN, past)]
    assert set(past.results) == {FIRST.probe_id}
    assert len(left) == PLAN.schedule.probes - 1
    assert FIRST.probe_id not in left


def test_what_was_added_and_is_done_does_not_wait() -> None:
    past = past_of(PLAN, done(EXTRA.probe_id, added=True))
    assert waiting(PLAN, past) == list(PLAN.planned)
    assert EXTRA.probe_id in past.results


@pytest.mark.parametrize("when", [{"at": 5.0}, {"for_": 5.0}])
def test_of_a_phase_with_a_time_line_nothing_stands_unless_it_ended(when: dict[str, float]) -> None:
    plan = replace(PLAN, changes=(replace(EARLY_CHANGE, spec=ber("gpu001/mlx5_0", raw="1e-6", **when)),))
    past = past_of(plan, done(FIRST.probe_id))
    assert (dict(past.results), past.attempts) == ({}, {FIRST.probe_id: 1})
    assert set(past_of(plan, done(FIRST.probe_id, ended=True)).results) == {FIRST.probe_id}
