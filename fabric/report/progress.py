"""Live progress on standard error: a bar on a terminal, plain lines elsewhere (rich: a well-kept library for both)."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType, TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from fabric.model.change import Change
from fabric.model.names import fold
from fabric.model.outcome import Outcome
from fabric.model.probe import ProbeResult
from fabric.model.units import duration_text
from fabric.plan.plan import PhasePlan, Told, untold
from fabric.report.counted import counted
from fabric.report.folded_outs import FoldedOuts
from fabric.report.folded_states import FoldedStates
from fabric.report.output import stderr_that_may_go_away, warn
from fabric.report.visible import visible

_LINE_EVERY_S = 15.0
_PLANNED_EVERY_S = 3.0
PLANNING_S = 1.0
"""Planning that takes longer than this is told of (seconds; a choice: what a person takes for "at once")."""

_STATES = {
    "in_force": "is in force",
    "reverted": "is taken back",
    "refused": "was REFUSED, nothing was altered",
    "failed": "FAILED",
    "lost": "was LOST",
    "open": "MAY STILL BE LIVE",
}
"""The states of a change that are worth a line; intent, armed and lifted are not."""


class ConsoleProgress:
    """Watches a run (see engine.phase.Observer) and shows how far it is; *addresses* are those of hosts, by name."""

    def __init__(self, *, quiet: bool = False, addresses: Mapping[str, str] = MappingProxyType({})) -> None:
        self._console = Console(file=stderr_that_may_go_away(), stderr=True, highlight=False, quiet=quiet)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._phase = ""
        self._total = self._done = self._bad = 0
        self._planned: frozenset[str] = frozenset()
        self._line_due_s = 0.0
        self._in_force: set[str] = set()
        self._states = FoldedStates(self._print)
        self._outs = FoldedOuts(self._print, addresses)

    def __enter__(self) -> ConsoleProgress:
        if self._console.is_terminal and not self._console.quiet:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[bad]}", markup=False),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._states.flush()
        self._outs.flush()
        if self._bar is not None:
            self._bar.stop()

    def phase_started(self, plan: PhasePlan) -> None:
        """Announce a phase."""
        self._states.planned(plan.changes)
        self._outs.flush()
        self._phase, self._total = plan.phase.name, plan.schedule.probes
        self._planned = frozenset(slot.probe.probe_id for slots in plan.schedule.components for slot in slots)
        self._done = self._bad = 0
        self._line_due_s = time.monotonic() + _LINE_EVERY_S
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(self._phase, total=self._total, bad="")
        else:
            expected = duration_text(plan.schedule.makespan_s)
            self._say(f"{self._phase}: {counted(self._total, 'probe')}, about {expected} on hardware")

    def probe_finished(self, result: ProbeResult) -> None:
        """
        Count it; only what the tools themselves called bad is known before the judging.

        A probe that was not planned (another partner, one more round) is one more to do: there is never more done.
        """
        self._states.flush()
        self._outs.pause()
        self._done += 1
        self._total += result.probe_id not in self._planned
        if result.outcome in (Outcome.FAIL, Outcome.ERROR):
            self._bad += 1
        if self._bar is not None and self._task is not None:
            bad = f"{self._bad} not measured" if self._bad else ""
            self._bar.update(self._task, completed=self._done, total=self._total, bad=bad)
        elif self._done % 64 == 0 and time.monotonic() >= self._line_due_s:
            self._line_due_s = time.monotonic() + _LINE_EVERY_S
            self._say(f"{self._phase}: {self._done:,} of {self._total:,} done")

    def out_of_run(self, component: str, reason: str) -> None:
        """Say at once that a host or a part stopped answering; those that follow it for the same reason in one line."""
        self._states.flush()
        self._outs.take(component, reason)

    def back_in_run(self, host: str, reason: str) -> None:
        """Say that a host takes part again, and what had kept it out."""
        self._say(f"{host} was readmitted and takes part again (it was out: {reason})")

    def measured_again(self, parts: Sequence[str], tests: int) -> None:
        """Say which parts dipped, and that they are measured again now."""
        self._say(f"{self._phase}: dipped without another explanation: {fold(parts)}; {tests} further pair tests now")

    def change_state(self, change: Change, state: str, reason: str) -> None:
        """
        Say when a change comes into force and how it ends; of a flap's many times only the first and the end.

        Changes of a phase that do the same in a row share a line.
        """
        if state == "in_force":
            if change.change_id in self._in_force:
                return
            self._in_force.add(change.change_id)
        if state in _STATES:
            because = f": {reason}" if reason else ""
            self._states.take(change, f"{_STATES[state]}{because}")

    def interrupted(self, open_changes: int, again: int) -> None:
        """Say what the run still does before it ends, and what another Ctrl-C would leave out."""
        if not open_changes:
            self._say("interrupted: ending the run")
        elif again == 1:
            self._say(f"interrupted: taking back {_many(open_changes)} first; once more to leave out all but the undo")
        else:
            self._say(f"interrupted again: taking back {_many(open_changes)}; that is never left out")

    def _say(self, text: str) -> None:
        self._states.flush()
        self._outs.flush()
        self._print(text)

    def _print(self, text: str) -> None:
        if self._bar is not None:
            self._console.print(visible(text), markup=False, soft_wrap=True)
        elif not self._console.quiet:
            warn(visible(text))


@contextmanager
def planning(*, after_s: float = PLANNING_S) -> Iterator[Told]:
    """
    Say "planning ..." on a terminal when what is done inside takes longer than *after_s* (seconds).

    Whoever plans may tell how many of how many phases it has: that is said now and then.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield untold
        return
    due_s = time.monotonic() + after_s + _PLANNED_EVERY_S

    def told(done: int, of: int) -> None:
        nonlocal due_s
        if time.monotonic() >= due_s:
            due_s = time.monotonic() + _PLANNED_EVERY_S
            warn(f"planning ... {done:,} of {counted(of, 'phase')}")

    late = threading.Timer(after_s, warn, args=("planning ...",))
    late.daemon = True
    late.start()
    try:
        yield told
    finally:
        late.cancel()
        late.join()


def _many(changes: int) -> str:
    return "1 change" if changes == 1 else f"{changes} changes"
