"""Whether a repaired host may return, as acceptance.json beside the run says; the page of such a run begins with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import orjson

from fabric.model.names import fold
from fabric.model.scenario import AgainSpec
from fabric.report.shown_run import ShownRun

FILE = "acceptance.json"
_MOST_REASONS = 3
_LONGEST_REASON = 240


@dataclass(frozen=True, slots=True)
class ShownDecision:
    """*line*: "REJECT gpu003", or that nothing is decided yet and what tells; *reasons*: the weightiest first."""

    line: str
    reasons: tuple[str, ...] = ()


def decision_of(run: ShownRun) -> ShownDecision | None:
    """None for a run that is no post-repair validation. What cannot be read is no decision, and is said."""
    specs = (spec for phase in run.judged.scenario.phases for spec in phase.probes if isinstance(spec, AgainSpec))
    because = next((spec.because for spec in specs if spec.because is not None), None)
    if because is None:
        return None
    hosts = fold(list(because.hosts))
    untold = ShownDecision(f"May {hosts} return to service? The decision is told by: fabric report {run.judged.path}")
    try:
        found = orjson.loads((Path(run.judged.path) / FILE).read_bytes())
        decision, reasons = found["decision"], found["reasons"]
    except (OSError, ValueError, TypeError, KeyError):
        return untold
    if not isinstance(decision, str) or not isinstance(reasons, list):
        return untold
    shown = tuple(_cut(str(reason)) for reason in reasons[:_MOST_REASONS])
    return ShownDecision(f"{decision} {hosts}, which was measured after its repair", shown)


def _cut(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 1]}…"
