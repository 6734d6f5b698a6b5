"""Live progress on standard error: a bar on a terminal, plain lines elsewhere (by rich, which does both)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from types import MappingProxyType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from fabric.model.change import Change
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import ProbeResult
from fabric.model.text import counted, duration_text, fold, without_own
from fabric.plan import PhasePlan
from fabric.report.output import stderr_that_may_go_away, visible

HOLD_S = 2.0
"""Seconds for which further hosts are held back, to be reported with others of the same reason (a choice)."""


class FoldedOuts:
    """
    Reports parts that are out of the run and why; reasons that differ only in a host's name and address are merged.

    *addresses* are those of the hosts, by name; *clock* is monotonic (seconds).
    """

    def __init__(
        self,
        say: Callable[[str], None],
        addresses: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say, self._addresses, self._clock = say, addresses, clock
        # By reason: the component already reported, until when others are held back, and these.
        self._reported: dict[str, tuple[str, float, list[str]]] = {}

    def take(self, component: str, reason: str) -> None:
        """Report that a host or a part stopped answering."""
        self.pause()
        host = Part.of(component).host
        kind = without_own(reason, host, self._addresses.get(host, ""))
        if kind in self._reported:
            self._reported[kind][2].append(component)
        else:
            self._reported[kind] = component, self._clock() + HOLD_S, []
            self._say(f"{component} is out of the run: {reason}")

    def pause(self) -> None:
        """Report those held back for long enough, because another message may follow."""
        self.flush(self._clock())

    def flush(self, until_s: float = inf) -> None:
        """Report all that was held back and is due by *until_s*."""
        for kind in [kind for kind, (_, due_s, _) in self._reported.items() if due_s <= until_s]:
            first, _, others = self._reported.pop(kind)
            if others:
                names = f"{fold(others)} ({len(others):,}) are" if len(others) > 1 else f"{others[0]} is"
                self._say(f"{names} out of the run for the same reason as {first}")


_THINGS = {"port": "links", "host": "hosts"}
_NAMED = 2


_Sort = tuple[str, str, str]
"""What changes must share to be reported in one line: phase, scope and text."""


class FoldedStates:
    """
    Merges reports of changes of one sort that reach the same state.

    They are held back until all of that sort in the phase have reached it, or until something else has to be printed
    first: then ``flush`` reports those that have.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._planned: Counter[_Sort] = Counter()
        self._sort: _Sort | None = None
        self._ending = ""
        self._names: list[str] = []

    def planned(self, changes: Iterable[Change]) -> None:
        """Note the changes of the phase that begins."""
        self.flush()
        self._planned = Counter(_sort(change) for change in changes)

    def take(self, change: Change, ending: str) -> None:
        """Note that one change has reached a state; *ending* says which, in words."""
        sort = _sort(change)
        if (sort, ending) != (self._sort, self._ending):
            self.flush()
        self._sort, self._ending = sort, ending
        self._names.append(change.component)
        if len(self._names) >= self._planned[sort]:
            self.flush()

    def flush(self) -> None:
        """Report what was held back."""
        sort, names = self._sort, self._names
        self._sort, self._names = None, []
        if sort is not None:
            phase, scope, text = sort
            shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
            where = shown if len(names) == 1 else f"{len(names)} {_THINGS.get(scope, 'changes')} ({shown})"
            self._say(f"{phase}: {where}: {text} {self._ending}")


def _sort(change: Change) -> _Sort:
    return change.phase, change.scope, str(change.spec)


_LINE_EVERY_S = 15.0
_TASK = TaskID(0)  # the bar's only task: the current phase

_STATES = {
    "in_force": "is in force",
    "reverted": "is taken back",
    "refused": "was REFUSED, nothing was altered",
    "failed": "FAILED",
    "lost": "was LOST",
    "open": "MAY STILL BE LIVE",
}
"""States of a change that are reported; intent, armed and lifted are not."""


class ConsoleProgress:
    """
    Watches a run (see engine.phase.Observer) and shows its progress; *addresses* are those of hosts, by name.

    *failed* is called for each part that a tool calls bad, with the reason; *ended* for each phase that is over.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        addresses: Mapping[str, str] = MappingProxyType({}),
        failed: Callable[[str, str], None] = lambda _part, _why: None,
        ended: Callable[[PhasePlan, Sequence[ProbeResult]], None] = lambda _plan, _results: None,
    ) -> None:
        self._failed, self._ended = failed, ended
        self._console = Console(file=stderr_that_may_go_away(), stderr=True, emoji=False, highlight=False, quiet=quiet)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[bad]}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=quiet or not self._console.is_terminal,
        )
        self._bar.add_task("", visible=False, bad="")
        self._phase = ""
        self._total = self._done = self._bad = 0
        self._planned: frozenset[str] = frozenset()
        self._line_due_s = 0.0
        self._in_force: set[str] = set()
        self._states = FoldedStates(self._print)
        self._outs = FoldedOuts(self._print, addresses)

    def __enter__(self) -> ConsoleProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._states.flush()
        self._outs.flush()
        if not self._bar.disable:
            self._bar.stop()

    def phase_started(self, plan: PhasePlan) -> None:
        """Announce a phase."""
        self._states.planned(plan.changes)
        self._outs.flush()
        self._phase, self._total = plan.phase.name, plan.schedule.probes
        self._planned = frozenset(slot.probe.probe_id for slot in plan.schedule.slots)
        self._done = self._bad = 0
        self._line_due_s = time.monotonic() + _LINE_EVERY_S
        if self._bar.disable:
            expected = duration_text(plan.schedule.makespan_s)
            self._say(f"{self._phase}: {counted(self._total, 'probe')}, about {expected} on hardware")
        else:
            self._bar.reset(_TASK, description=self._phase, total=self._total, visible=True, bad="")

    def phase_ended(self, plan: PhasePlan, results: Sequence[ProbeResult]) -> None:
        """Pass it on to *ended*."""
        self._ended(plan, results)

    def probe_finished(self, result: ProbeResult) -> None:
        """
        Count a finished probe; before the judging, only what the tools themselves called bad is known.

        A probe that was not planned (another partner, one more round) also raises the total, so that never more is done
        than planned.
        """
        self._states.flush()
        self._outs.pause()
        self._done += 1
        self._total += result.probe_id not in self._planned
        if result.outcome in (Outcome.FAIL, Outcome.ERROR):
            self._bad += 1
        if result.outcome is Outcome.FAIL:
            self._failed(result.named.component if result.named else result.probe_id, result.reason)
        if not self._bar.disable:
            bad = f"{self._bad} not measured" if self._bad else ""
            self._bar.update(_TASK, completed=self._done, total=self._total, bad=bad)
        elif self._done % 64 == 0 and time.monotonic() >= self._line_due_s:
            self._line_due_s = time.monotonic() + _LINE_EVERY_S
            self._say(f"{self._phase}: {self._done:,} of {self._total:,} done")

    def out_of_run(self, component: str, reason: str) -> None:
        """
        Report at once that a host or a part stopped answering; others that follow for the same reason share one line.
        """
        self._states.flush()
        self._outs.take(component, reason)

    def measured_again(self, parts: Sequence[str], tests: int) -> None:
        """Report which parts dipped, and that they are measured again now."""
        self._say(f"{self._phase}: dipped without another explanation: {fold(parts)}; {tests} further pair tests now")

    def change_state(self, change: Change, state: str, reason: str) -> None:
        """
        Report when a change comes into force and how it ends; for a flap only the first time and the end.

        Consecutive changes of a phase that do the same share a line.
        """
        if state == "in_force":
            if change.change_id in self._in_force:
                return
            self._in_force.add(change.change_id)
        if state in _STATES:
            because = f": {reason}" if reason else ""
            self._states.take(change, f"{_STATES[state]}{because}")

    def interrupted(self, open_changes: int, again: int) -> None:
        """Report what the run still does before it ends, and what another Ctrl-C would leave out."""
        back = f"taking back {counted(open_changes, 'change')}"
        if not open_changes:
            self._say("interrupted: ending the run")
        elif again == 1:
            self._say(f"interrupted: {back} first; once more to leave out all but the undo")
        else:
            self._say(f"interrupted again: {back}; that is never left out")

    def _say(self, text: str) -> None:
        self._states.flush()
        self._outs.flush()
        self._print(text)

    def _print(self, text: str) -> None:
        self._console.print(visible(text), markup=False, soft_wrap=True)
