"""Expectations and changes in words: one line each, with explanations below."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Any

from fabric.model import gathered
from fabric.model.change import ChangeResult, When
from fabric.model.outcome import Outcome
from fabric.model.text import fold
from fabric.model.verdict import ChangeEffect, ExpectationVerdict, JudgedRun
from fabric.report.output import jsonable, visible

_STATES = {
    "open": "fabric restore RUN takes it back where the host answers",
    "refused": "nothing was altered: mend what is said above, or allow it in the scenario, and run it again",
    "failed": "nothing is altered any more: fabric report RUN shows what the tools answered; mend it and run it again",
    "lost": "nothing is altered any more; its lease ended too early: see why the run, the host or the guard was "
    "lost, then run it again",
}

_OUTCOMES = {
    Outcome.FAIL: "look at these phases in time (fabric report RUN --open), then run them again with a larger repeat",
    Outcome.INCONCLUSIVE: "more samples tell: more rounds (three tell what they differ by), or a larger repeat",
    Outcome.ERROR: "mend what could not be measured, then run it again",
}

_TOO_EARLY = ("the phase ended before its time came", "cut off after")
"""Phrases of ``changes/hold.py`` and ``changes/link_down.py`` when there was no time for a change, or for all of it."""

_RUN_ENDED_FIRST = (
    "nothing is altered any more: where the run ended before, fabric resume RUN makes it anew and measures what is "
    "left; where it did not, the probes of the phase ended first: let them last longer, or the change begin earlier"
)
_PROBES_ENDED_FIRST = (
    "nothing is altered any more: the probes of the phase ended first; where they were not meant to be given up, let "
    "them last longer, or let the change begin earlier"
)

_NOT_MEASURED = "the run ended before this was measured: fabric resume RUN measures what is left"
_NOT_YET = "the run goes on and has not measured all of this yet: fabric status RUN says how far it is"
_TAKES_BACK = "the run goes on, and takes it back when its time comes"
_NOT_IN_FORCE = "more samples do not tell: see below what became of the change, then run it again"


def after_change(result: ChangeResult, judged: JudgedRun) -> str:
    """
    Return one sentence for a change that did not end as asked; empty for one that was taken back in order, when due.
    """
    if judged.goes_on and result.state == "open":
        return _TAKES_BACK
    step = _STATES.get(result.state, "")
    if result.state in ("failed", "reverted") and any(words in result.reason for words in _TOO_EARLY):
        step = _PROBES_ENDED_FIRST if judged.complete or judged.goes_on else _RUN_ENDED_FIRST
    by_hand = "; what to do by hand is said above" if result.state == "open" and "by hand" in result.reason else ""
    return f"{step}{by_hand}".replace("RUN", judged.path)


def after_expectation(found: ExpectationVerdict, judged: JudgedRun) -> str:
    """Return one sentence for an expectation that was not met or not judged; empty for one that was met."""
    step = _OUTCOMES.get(found.outcome, "")
    if found.outcome is Outcome.INCONCLUSIVE and not judged.complete:
        step = _NOT_YET if judged.goes_on else _NOT_MEASURED
    elif found.outcome is Outcome.INCONCLUSIVE and not found.in_force:
        step = _NOT_IN_FORCE
    return step.replace("RUN", judged.path)


_COUNTERS = 4  # the most counters of one change; the others are in verdict.json
_NEVER = ("refused", "failed")


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """Changes of one phase that did the same (four cables at once); *below* has lines that explain them."""

    phase: str
    what: str
    where: str
    held: str
    effect: str
    below: tuple[str, ...]


def change_rows(judged: JudgedRun) -> tuple[ChangeRow, ...]:
    """Return what was changed and its effect on bandwidth, problems first; counters of one row are added up."""
    effects = {effect.change_id: effect for effect in judged.verdict.effects}
    groups: dict[tuple[str, ...], list[ChangeResult]] = {}
    for result in sorted(judged.verdict.changes, key=lambda one: (one.state != "open", one.state == "reverted")):
        effect = effects.get(result.change.change_id)
        note = effect.note if effect is not None else ""
        alike = (result.change.phase, str(result.change.spec), result.state, result.reason, _effect(effect), note)
        groups.setdefault(alike, []).append(result)
    return tuple(_change_row(alike, members, judged) for alike, members in groups.items())


def _change_row(alike: tuple[str, ...], members: Sequence[ChangeResult], judged: JudgedRun) -> ChangeRow:
    phase, what, _, reason, effect, note = alike
    longest = max(members, key=_in_force_s)
    grew, step = _counters([member.counters for member in members]), after_change(longest, judged)
    below = (reason, f"counters: {grew}" if grew else "", note, f"next: {step}" if step else "")
    return ChangeRow(phase, what, _where(members), _held(longest), effect, tuple(filter(None, below)))


def _where(members: Sequence[ChangeResult]) -> str:
    """Return one component, or how many there are and the first two."""
    names = [member.change.component for member in members]
    return names[0] if len(names) == 1 else f"{len(names)}: {', '.join(names[:2])}{', ...' if len(names) > 2 else ''}"


def _in_force_s(result: ChangeResult) -> float:
    return fsum((window.ended_s or window.began_s) - window.began_s for window in result.windows)


def _held(result: ChangeResult) -> str:
    """Return how long a change was in force, and its state unless it ended as asked."""
    state = "" if result.state == "reverted" else result.state.upper()
    if not result.windows or result.state in _NEVER:
        return state or "never in force"
    if any(window.ended_s is None for window in result.windows):
        return f"{state}: MAY STILL BE LIVE" if result.state == "open" else state
    times = f", {len(result.windows)} times" if len(result.windows) > 1 else ""
    return f"{state + ', ' if state else ''}in force {_in_force_s(result):.1f} s{times}"


def _effect(effect: ChangeEffect | None) -> str:
    if effect is None or not effect.samples:
        return ""
    parts = []
    if effect.retained is not None:
        gbps = "" if effect.gbps is None else f" ({effect.gbps[0]:,.1f} of {effect.gbps[1]:,.1f} Gb/s)"
        before = effect.reference.replace("before it", "what was before")
        parts.append(f"kept {effect.retained:.3g} of {before}{gbps}")
    if effect.given_up:
        parts.append(f"{effect.given_up} of {effect.samples} probes given up")
    if effect.reference == "before it":
        parts += _times(effect)
    return "; ".join(parts)


def _times(effect: ChangeEffect) -> list[str]:
    if effect.detect_s is None:
        return ["no loss seen"]
    back = "not seen back" if effect.recover_s is None else f"back {effect.recover_s:.1f} s after its end"
    apart = "" if effect.spacing_s is None else f" (samples {effect.spacing_s:.1f} s apart)"
    return [f"loss seen after {effect.detect_s:.1f} s", f"{back}{apart}"]


def _counters(found: Sequence[Mapping[str, float]]) -> str:
    """Return the counters that grew, by name over all ends of the links, the largest growth first."""
    counted = (pair for counters in found for pair in counters.items())
    grew = gathered((name.rpartition(".")[2], value) for name, value in counted if value > 0)
    growths = []
    for name, values in sorted(grew.items(), key=lambda item: (fsum(item[1]), item[0]), reverse=True)[:_COUNTERS]:
        total = fsum(values)
        ends = f" at {len(values)} ends" if len(values) > 1 else ""
        growths.append(f"{name} {f'+{total:,.0f}' if total >= 1 else f'+{total:.2g}'}{ends}")
    return ", ".join(growths + ([f"and {len(grew) - _COUNTERS} more"] if len(grew) > _COUNTERS else []))


SCOPES = {
    "fabric": "whole fabric: every user is affected",
    "host": "this host: every job on it is affected",
    "port": "one cable",
    "job": "these probes alone",
}


def when(asked: When) -> str:
    """Return ``from 20 s on, for 60 s``, ``for the whole phase``."""
    begins = "" if asked.at_s is None else f"from {asked.at_s:g} s on"
    lasts = "" if asked.for_s is None else f"for {asked.for_s:g} s"
    if not begins and not lasts:
        return "for the whole phase"
    return ", ".join(filter(None, (begins, lasts or "until its end")))


@dataclass(frozen=True, slots=True)
class Restored:
    """
    The result of taking back one alteration of *change* (empty: unknown) on *host*; *certain*: nothing of it is left.

    *run* is its directory; *host* is empty if the text is not about one host.
    """

    run: str
    change: str
    host: str
    said: str
    certain: bool

    @property
    def text(self) -> str:
        """Return all of it in one line."""
        return ": ".join(filter(None, (self.change, self.host, self.said)))


def restored_lines(found: Iterable[Restored]) -> Iterator[str]:
    """Yield one line for each answer, however many hosts gave it."""
    hosts = gathered((replace(one, host=""), one.host) for one in found)
    for one, names in sorted(hosts.items(), key=lambda item: item[0].certain):
        folded = replace(one, host=fold(filter(None, names)) if any(names) else "")
        yield visible(f"{'ok  ' if one.certain else 'LIVE'}  {folded.text}")


def restored_json(found: Iterable[Restored]) -> list[dict[str, Any]]:
    """Return JSON-able values: one entry for each answer."""
    return [jsonable(one, ("run", "change", "host", "text", "certain")) for one in found]
