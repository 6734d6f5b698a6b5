"""The decision whether a repaired host may return, read from acceptance.json beside the run, and its text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabric.errors import StoreError
from fabric.model import gathered
from fabric.model.outcome import Outcome
from fabric.model.repair import Acceptance, Decided, Decision, Weighed
from fabric.model.text import cut, fold
from fabric.model.verdict import Suspect, Verdict
from fabric.probes.again import because_of
from fabric.report import templates
from fabric.report.output import columns, jsonable
from fabric.report.shown_run import ShownRun
from fabric.report.verdict_json import EXIT_CODES, MAY_BE_LIVE, exit_code
from fabric.runs.stored_verdict import StoredDecision, stored_decision

FORMAT = 1

OUTCOMES = {
    Decision.ACCEPT: Outcome.PASS,
    Decision.REJECT: Outcome.FAIL,
    Decision.INCONCLUSIVE: Outcome.INCONCLUSIVE,
}
"""The decision as the outcome of a run, for exit codes, pages and pipelines."""

_MOST_ROWS = 20
_MOST_NEXT = 3
_HEAD = ("probe", "before", "now", "limit", "own past", "peers", "")


def acceptance_document(found: Acceptance) -> dict[str, Any]:
    """Return JSON-able values."""
    return {"format": FORMAT, **jsonable(found), "exit_code": EXIT_CODES[OUTCOMES[found.decision]]}


def acceptance_text(found: Acceptance, suspects: Sequence[Suspect] = (), *, path: str = "") -> str:
    """
    Return the page of a decision.

    First the decision for each host or link, then why, what to do next about *suspects* that are still bad, what was
    replaced, the evidence before and now, what else to know, and where the run is (*path*).
    """
    own = [one for one in suspects if not set(found.hosts).isdisjoint(one.hosts) and one.next_step]
    return templates.text(
        "acceptance.txt.j2",
        it=found,
        path=path,
        decided=_decided(found.each),
        suspects=own[:_MOST_NEXT] if found.decision is not Decision.ACCEPT else [],
        table=_table(found.weighed),
    )


def _decided(each: Iterable[Decided]) -> list[str]:
    """Return ``REJECT gpu003``, ``ACCEPT gpu[001,004]``: names with the same decision together."""
    alike = gathered((one.decision.value, one.name) for one in each)
    return [f"{decision} {fold(names)}" for decision, names in alike.items()]


def _table(weighed: tuple[Weighed, ...]) -> list[str]:
    """Return the evidence as a table, the worst first, limited to ``_MOST_ROWS`` rows."""
    ranked = sorted(weighed, key=lambda one: (-one.outcome.rank, one.now_gbps or 0.0))
    lines = columns([_HEAD, *(_row(one) for one in ranked[:_MOST_ROWS])], right=range(1, len(_HEAD)))
    return lines + ([f"and {len(weighed) - _MOST_ROWS} more, in acceptance.json"] if weighed[_MOST_ROWS:] else [])


def _row(one: Weighed) -> tuple[str, ...]:
    now = "-" if one.now_gbps is None else f"{one.now_gbps:.1f}"
    limit = "-" if one.limit_gbps is None else f"{one.limit_gbps:.1f}"
    return one.label, one.before, f"{now} ({one.n}x)", limit, one.past or "-", one.peers or "-", one.outcome.name


_MOST_REASONS = 3
_LONGEST_REASON = 240


@dataclass(frozen=True, slots=True)
class ShownDecision:
    """
    A decision in words.

    *line*: "REJECT gpu003 after repair", or that nothing is decided yet and which command decides; *reasons*: the
    weightiest first, then what else to know. *decision* is None if nothing is decided yet.
    """

    line: str
    reasons: tuple[str, ...] = ()
    decision: Decision | None = None


def decision_of(run: ShownRun) -> ShownDecision | None:
    """
    Return the decision of a post-repair validation; None for any other run.

    A file that cannot be read counts as undecided.
    """
    because = because_of(run.judged.scenario)
    if because is None:
        return None
    try:
        stored = stored_decision(Path(run.judged.path))
    except StoreError:
        stored = None
    hosts = fold(because.names)
    if stored is None:
        undecided = f"May {hosts} return to service? The decision is told by: fabric report {run.judged.path}"
        return ShownDecision(undecided)
    decided = _decided(stored.each or [Decided(hosts, stored.decision)])
    shown = [cut(reason, _LONGEST_REASON) for reason in _weightiest(stored)]
    if len(shown) > _MOST_ROWS:
        shown[_MOST_ROWS:] = [f"and {len(shown) - _MOST_ROWS} more: fabric report {run.judged.path}"]
    quick = "; quick: bit errors are not covered" if because.quick else ""
    line = f"{', '.join(decided)} after repair{quick}"
    notes = [note for note in stored.notes[:_MOST_REASONS] if note not in stored.reasons]
    beside = [f"but know: {cut(note, _LONGEST_REASON)}" for note in notes]
    return ShownDecision(line, (*shown, *beside), stored.decision)


def _weightiest(stored: StoredDecision) -> list[str]:
    """Return the first reasons on each host or link, the worst one first; those with the same reasons together."""
    alike = gathered((one.reasons, one.name) for one in stored.each)
    if len(alike) < 2:
        return list(stored.reasons[:_MOST_REASONS])
    return [f"{fold(names)}: {text}" for reasons, names in alike.items() for text in reasons[:_MOST_REASONS]]


def run_exit_code(run: ShownRun) -> int:
    """Return the exit code of a run, by the decision on it if there is one."""
    return decided_exit_code(run.judged.verdict, decision_of(run))


def decided_exit_code(verdict: Verdict, decided: Acceptance | ShownDecision | None) -> int:
    """Return the exit code of a run; for a post-repair validation that of its decision, once it is made."""
    code = exit_code(verdict)
    if code == MAY_BE_LIVE or decided is None or decided.decision is None:
        return code
    return EXIT_CODES[OUTCOMES[decided.decision]]
