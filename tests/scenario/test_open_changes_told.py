"""Whatever ends a command early or damages its journal: a change that may be live is what is said, with exit code 4."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from fabric.app import run as app
from fabric.app.analyze import analyze
from fabric.app.restore import in_order, restore
from fabric.app.status import stop
from fabric.engine.interruption import interrupt_on_signals
from fabric.errors import ConfigError, HostUnreachable, Interrupted, MayBeLive, StoreError
from fabric.model.change import Change
from fabric.model.inventory import Inventory
from fabric.model.probe import Command
from fabric.plan import PhasePlan
from fabric.ports import Executor
from fabric.report.verdict_json import exit_code
from fabric.runs.journal import JOURNAL, Journal, open_changes, refuse_while_open
from fabric.runs.run_lock import holding
from tests.builders import Watcher, gone_on, on_mock
from tests.scenario.changing import BER, Watched, prepared, run
from tests.scenario.test_changes import mock, no_way_back, verb

CHANGE = "during/ber.gpu001/mlx5_0"


@pytest.fixture(autouse=True)
def polite_kill() -> Iterator[None]:
    """As the command line has it; a signal that is not heeded must not end the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    interrupt_on_signals()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupting(monkeypatch: pytest.MonkeyPatch, where: object, name: str, number: signal.Signals) -> None:
    """The signal comes just before this is done."""
    inner = getattr(where, name)

    def hit(*args: object, **kwargs: object) -> object:
        os.kill(os.getpid(), number)
        return inner(*args, **kwargs)

    monkeypatch.setattr(where, name, hit)


def left(folder: Path) -> Path:
    """A run that was killed with its change in force: neither its end nor that change is in its history."""
    judged, _ = run(folder)
    path = Path(judged.path)
    for name, last in ((JOURNAL, b'"in_force"'), ("events.jsonl", b'"intent"')):
        lines = (path / name).read_bytes().splitlines(keepends=True)
        at = next(n for n, line in enumerate(lines) if last in line)
        (path / name).write_bytes(b"".join(lines[: at + 1] if name == JOURNAL else lines[:at]))
    (path / "verdict.json").unlink()
    return path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_while_reports_are_made_hides_no_open_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    interrupting(monkeypatch, app, "write_derived", number)
    with pytest.raises(MayBeLive, match=CHANGE):
        run(tmp_path, on_start=no_way_back)


def test_another_ctrl_c_at_the_end_hides_no_open_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped_at_the_undo(command: Command) -> HostUnreachable | None:
        if verb(command) == "revert":
            os.kill(os.getpid(), signal.SIGINT)
        return no_way_back(command)

    interrupting(monkeypatch, Journal, "close", signal.SIGINT)
    with pytest.raises(MayBeLive, match=CHANGE):
        run(tmp_path, on_start=stopped_at_the_undo)


def test_an_interruption_while_reports_are_made_says_that_all_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupting(monkeypatch, app, "write_derived", signal.SIGINT)
    with pytest.raises(Interrupted, match="everything was measured"):
        run(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_restore_finishes_what_it_takes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    path, said = left(tmp_path), list[str]()
    interrupting(monkeypatch, Journal, "record", number)
    with in_order(said.append):
        found = restore(path, results=path, make_executor=mock)
    assert found
    assert all(one.certain for one in found)
    assert not open_changes(path / JOURNAL)
    assert len(said) == 1


def test_resume_takes_back_and_then_heeds_the_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = left(tmp_path)
    interrupting(monkeypatch, Journal, "record", signal.SIGINT)
    with pytest.raises(Interrupted, match="fabric resume"):
        gone_on(path, force=True)
    assert not open_changes(path / JOURNAL)


def test_a_report_of_a_killed_run_tells_what_only_its_journal_knows(tmp_path: Path) -> None:
    path = left(tmp_path)
    verdict = analyze(path).judged.verdict
    assert [(one.change.change_id, one.state) for one in verdict.changes] == [(CHANGE, "open")]
    assert exit_code(verdict) == 4


@pytest.mark.parametrize("folder", [False, True])
def test_a_journal_that_cannot_be_read_is_exit_4_everywhere(tmp_path: Path, *, folder: bool) -> None:
    path = left(tmp_path)
    (path / JOURNAL).write_bytes(b"nonsense\n" + (path / JOURNAL).read_bytes())
    if folder:
        (path / JOURNAL).unlink()
        (path / JOURNAL).mkdir()
    with pytest.raises(MayBeLive, match=r"--all-hosts .*move this file away"):
        restore(path, results=path, make_executor=mock)
    with pytest.raises(MayBeLive, match="--all-hosts"):
        analyze(path, baseline_path=None, rewrite=False)
    with (
        holding(path.parent.parent, path.parent.name, ["gpu001"], run=path.name),
        pytest.raises(MayBeLive, match="--all-hosts"),
    ):
        stop(path, wait_s=0.0)
    assert (path / "STOP").exists()


def test_a_healthy_run_that_makes_changes_refuses_others_without_alarm(tmp_path: Path) -> None:
    path = left(tmp_path)
    at_work = Journal(path / JOURNAL)
    at_work.record(CHANGE, "in_force", {})
    with pytest.raises(StoreError, match=rf"{path} is making changes right now .*fabric stop {path}"):
        refuse_while_open(tmp_path / "results")
    with pytest.raises(ConfigError, match=f"fabric stop {path}"):
        restore(path, results=path, make_executor=mock)
    at_work.close()
    with pytest.raises(MayBeLive, match="fabric restore"):
        refuse_while_open(tmp_path / "results")


class Deleting(Watcher):
    """Somebody deletes all results in this state of the change, or else as the phase with the change begins."""

    def __init__(self, results: Path, state: str) -> None:
        super().__init__()
        self._results, self._state = results, state

    def phase_started(self, plan: PhasePlan) -> None:
        """Delete them, where no state is waited for."""
        if not self._state and plan.phase.name == "during":
            shutil.rmtree(self._results)

    def change_state(self, change: Change, state: str, reason: str) -> None:
        """Delete them, in that state."""
        if state == self._state:
            shutil.rmtree(self._results)


@pytest.mark.parametrize(
    ("state", "error", "said"),
    [
        ("", StoreError, "its files were deleted or moved meanwhile, and what was measured with them$"),
        ("in_force", MayBeLive, f"was deleted or moved, .*taken back: {CHANGE}; ask the hosts: .*--all-hosts"),
    ],
)
def test_deleted_results_are_told_and_no_command_that_cannot_work(
    tmp_path: Path, state: str, error: type[Exception], said: str
) -> None:
    results = tmp_path / "results"
    with pytest.raises(error, match=said):
        on_mock(prepared(tmp_path, BER), results, observer=Deleting(results, state))


@pytest.mark.parametrize(("last", "is_open"), [('"in_force"', True), ('"reverted"', False)])
def test_a_journal_that_is_gone_hides_no_change(tmp_path: Path, last: str, *, is_open: bool) -> None:
    """What the history saw begun and not taken back may be live."""
    judged, _ = run(tmp_path)
    path = Path(judged.path)
    lines = (path / "events.jsonl").read_text().splitlines(keepends=True)
    end = next(number for number, line in enumerate(lines, 1) if last in line)
    (path / "events.jsonl").write_text("".join(lines[:end]))
    (path / JOURNAL).unlink()
    with pytest.raises(MayBeLive, match=f"was deleted or moved, .*{CHANGE}") if is_open else nullcontext():
        assert restore(path, results=path.parents[1], make_executor=mock) == []


def test_an_executor_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path) -> None:
    def refuse(inventory: Inventory, seed: int) -> Executor:
        raise ConfigError([])

    with pytest.raises(ConfigError):
        on_mock(prepared(tmp_path, ""), tmp_path / "results", make_executor=refuse)
    assert not (tmp_path / "results").exists()


def test_an_executor_is_closed_when_the_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    monkeypatch.setattr(Watched, "close", lambda self: closed.append(True))
    with holding(tmp_path / "results", "drill", ["gpu001"]), pytest.raises(StoreError):
        run(tmp_path)
    assert closed
