"""The end of a post-repair validation: one page for people, one document for pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fabric.model.names import fold
from fabric.model.repair import Acceptance, Decision, Weighed
from fabric.model.units import duration_text
from fabric.model.verdict import Suspect
from fabric.report.visible import visible

FORMAT = 1

EXIT_CODES = {Decision.ACCEPT: 0, Decision.REJECT: 1, Decision.INCONCLUSIVE: 3}
"""What the decision means to the shell, as the outcome of any run."""

_MOST_ROWS = 20
_MOST_NEXT = 3
_HEAD = ("probe", "before", "now", "limit", "own past", "peers", "")


def acceptance_document(found: Acceptance) -> dict[str, Any]:
    """JSON-able."""
    weighed = [{**asdict(one), "outcome": one.outcome.value} for one in found.weighed]
    return {
        "format": FORMAT,
        **asdict(found),
        "decision": found.decision.value,
        "exit_code": EXIT_CODES[found.decision],
        "weighed": weighed,
    }


def acceptance_lines(found: Acceptance, suspects: Sequence[Suspect] = ()) -> list[str]:
    """
    The page: the decision first, then why, what to do next about *suspects* that are still bad, what was replaced, the
    evidence before and now, what else to know.
    """
    quick = " (quick: bit errors not covered)" if found.quick else ""
    lines = [f"{found.decision.value} {fold(list(found.hosts))}{quick}", ""]
    lines += [f"  {text}" for text in found.reasons]
    if found.decision is not Decision.ACCEPT:
        own = [one for one in suspects if not set(found.hosts).isdisjoint(one.hosts) and one.next_step]
        lines += [f"  next: {one.component}: {one.next_step}" for one in own[:_MOST_NEXT]]
    lines += ["", f"Against {found.because}, Gb/s:"]
    lines += [f"  {text}" for text in _table(found.weighed)]
    lines += ["", "Parts:"] + [f"  {text}" for text in found.parts]
    watched = "not at all" if found.watched_s is None else f"for {duration_text(found.watched_s)}"
    lines += ["", f"Ports were watched for bit errors {watched}."]
    if found.notes:
        lines += ["", "Also:"] + [f"  {text}" for text in found.notes]
    return [visible(line) for line in lines]


def look_lines(path: str) -> list[str]:
    """Where the run is, and how it is seen."""
    return [f"Run     {visible(path)}", f"Look    fabric report {visible(path)} --open"]


def _table(weighed: tuple[Weighed, ...]) -> list[str]:
    """The worst first; of many only so many."""
    ranked = sorted(weighed, key=lambda one: (-one.outcome.rank, one.now_gbps or 0.0))
    rows = [_HEAD, *(_row(one) for one in ranked[:_MOST_ROWS])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return lines + ([f"and {len(weighed) - _MOST_ROWS} more, in acceptance.json"] if weighed[_MOST_ROWS:] else [])


def _row(one: Weighed) -> tuple[str, ...]:
    now = "-" if one.now_gbps is None else f"{one.now_gbps:.1f}"
    limit = "-" if one.limit_gbps is None else f"{one.limit_gbps:.1f}"
    return one.label, one.before, f"{now} ({one.n}x)", limit, one.past or "-", one.peers or "-", one.outcome.name
