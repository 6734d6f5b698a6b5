"""Whether a repaired host may return, as acceptance.json beside the run says; the page of such a run begins with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from fabric.errors import StoreError
from fabric.model.repair import Acceptance, Decision, Weighed
from fabric.model.text import fold
from fabric.model.verdict import Suspect
from fabric.probes.again import because_of
from fabric.report import templates
from fabric.report.output import columns, jsonable
from fabric.report.shown_run import ShownRun
from fabric.report.verdict_json import MAY_BE_LIVE, exit_code
from fabric.runs.plain_file import MIB, read_plain

FORMAT = 1

EXIT_CODES = {Decision.ACCEPT: 0, Decision.REJECT: 1, Decision.INCONCLUSIVE: 3}
"""What the decision means to the shell, as the outcome of any run."""

_MOST_ROWS = 20
_MOST_NEXT = 3
_HEAD = ("probe", "before", "now", "limit", "own past", "peers", "")


def acceptance_document(found: Acceptance) -> dict[str, Any]:
    """JSON-able."""
    return {"format": FORMAT, **jsonable(found), "exit_code": EXIT_CODES[found.decision]}


def acceptance_text(found: Acceptance, suspects: Sequence[Suspect] = (), *, path: str = "") -> str:
    """
    The page: the decision for each host or link first, then why, what to do next about *suspects* that are still bad,
    what was replaced, the evidence before and now, what else to know, where the run is (*path*).
    """
    own = [one for one in suspects if not set(found.hosts).isdisjoint(one.hosts) and one.next_step]
    return templates.text(
        "acceptance.txt.j2",
        it=found,
        path=path,
        decided=_decided((one.decision.value, one.name) for one in found.each),
        suspects=own[:_MOST_NEXT] if found.decision is not Decision.ACCEPT else [],
        table=_table(found.weighed),
    )


def _decided(each: Iterable[tuple[str, str]]) -> list[str]:
    """``REJECT gpu003``, ``ACCEPT gpu[001,004]``: names that are decided alike in one."""
    names: dict[str, list[str]] = {}
    for decision, name in each:
        names.setdefault(decision, []).append(name)
    return [f"{decision} {fold(alike)}" for decision, alike in names.items()]


def _table(weighed: tuple[Weighed, ...]) -> list[str]:
    """The worst first; of many only so many."""
    ranked = sorted(weighed, key=lambda one: (-one.outcome.rank, one.now_gbps or 0.0))
    lines = columns([_HEAD, *(_row(one) for one in ranked[:_MOST_ROWS])], right=range(1, len(_HEAD)))
    return lines + ([f"and {len(weighed) - _MOST_ROWS} more, in acceptance.json"] if weighed[_MOST_ROWS:] else [])


def _row(one: Weighed) -> tuple[str, ...]:
    now = "-" if one.now_gbps is None else f"{one.now_gbps:.1f}"
    limit = "-" if one.limit_gbps is None else f"{one.limit_gbps:.1f}"
    return one.label, one.before, f"{now} ({one.n}x)", limit, one.past or "-", one.peers or "-", one.outcome.name


FILE = "acceptance.json"
MOST_BYTES = 32 * MIB
"""Of acceptance.json (a choice: it takes some KB a repaired host)."""
_MOST_REASONS = 3
_LONGEST_REASON = 240


@dataclass(frozen=True, slots=True)
class ToldDecision:
    """
    What acceptance.json says: of all hosts or links that were repaired, and of *each* by its name.

    *notes* are what does not change it, and whoever puts the host back must know: that nothing was replaced.
    """

    decision: Decision
    each: Mapping[str, Decision]
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShownDecision:
    """
    *line*: "REJECT gpu003 after repair", or that nothing is decided yet and what tells; *reasons*: the weightiest
    first, then what else is to be known.

    *decision* is None where nothing is decided yet.
    """

    line: str
    reasons: tuple[str, ...] = ()
    decision: Decision | None = None


def decision_of(run: ShownRun) -> ShownDecision | None:
    """None for a run that is no post-repair validation. What cannot be read is no decision, and is said."""
    because = because_of(run.judged.scenario)
    if because is None:
        return None
    try:
        told = told_decision(Path(run.judged.path))
    except StoreError:
        told = None
    hosts = fold(because.names)
    if told is None:
        untold = f"May {hosts} return to service? The decision is told by: fabric report {run.judged.path}"
        return ShownDecision(untold)
    each = told.each or {hosts: told.decision}
    decided = _decided((decision.value, name) for name, decision in each.items())
    shown = tuple(_cut(reason) for reason in told.reasons[:_MOST_REASONS])
    quick = "; quick: bit errors are not covered" if because.quick else ""
    line = f"{', '.join(decided)} after repair{quick}"
    beside = [f"but know: {_cut(note)}" for note in told.notes[:_MOST_REASONS] if note not in told.reasons]
    return ShownDecision(line, (*shown, *beside), told.decision)


def told_decision(directory: Path) -> ToldDecision | None:
    """None where the run has no acceptance.json; StoreError where it cannot be read."""
    try:
        found = orjson.loads(read_plain(directory / FILE, MOST_BYTES))
        each = {str(one["name"]): Decision(one["decision"]) for one in found.get("each", ())}
        reasons, notes = (tuple(map(str, _list(one))) for one in (found["reasons"], found.get("notes", [])))
        return ToldDecision(Decision(found["decision"]), each, reasons, notes)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as exc:
        raise StoreError(f"{directory / FILE}: cannot be read; fabric report {directory} makes it again") from exc


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(value)
    return value


def decision_in(directory: Path) -> Decision | None:
    """What acceptance.json of a run says; None where there is none that can be read."""
    with suppress(StoreError):
        return found.decision if (found := told_decision(directory)) else None
    return None


def run_exit_code(run: ShownRun) -> int:
    """What the end of a run is to the shell: of a post-repair validation its decision, once that is made."""
    code = exit_code(run.judged.verdict)
    found = decision_of(run)
    if code == MAY_BE_LIVE or found is None or found.decision is None:
        return code
    return EXIT_CODES[found.decision]


def same_decision(directory: Path, document: dict[str, Any]) -> bool:
    """Whether acceptance.json says just this already."""
    try:
        return read_plain(directory / FILE, MOST_BYTES) == decision_bytes(document)
    except OSError:
        return False


def decision_bytes(document: dict[str, Any]) -> bytes:
    """What is in acceptance.json."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"


def _cut(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"
