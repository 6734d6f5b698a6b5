"""The verdict on a series that is slower than what is normal for it, and its words."""

from __future__ import annotations

from dataclasses import replace

from fabric.analysis.peers import Peers
from fabric.analysis.series import Series
from fabric.model.outcome import Outcome
from fabric.model.verdict import ProbeVerdict

RETEST = "seen once: measure it again"
CONFIRMED = "confirmed by others"


def slower(
    verdict: ProbeVerdict, one: Series, normal_gbps: float, against: str, *, outcome: Outcome = Outcome.MARGINAL,
    how_sure: str = RETEST,
) -> ProbeVerdict:  # fmt: skip
    """MARGINAL until confirmed, and no better than it was without a limit."""
    reason = f"{_below(one.value, normal_gbps, against)}; {how_sure}"
    outcome = Outcome.worst((verdict.outcome, outcome))
    found = replace(verdict, outcome=outcome, reason=reason, expected_gbps=normal_gbps, against=against)
    return replace(found, reason=with_spread(found, one))


def failed(verdict: ProbeVerdict, peers: Peers | None) -> ProbeVerdict:
    """Confirmed by others; *peers* of one that was merely low, and had passed."""
    if verdict.outcome is Outcome.FAIL:
        return verdict
    if verdict.against:
        reason = verdict.reason.replace(f"; {RETEST}", f"; {CONFIRMED}")
        return replace(verdict, outcome=Outcome.FAIL, reason=reason)
    against = f"the median of {peers.n} peers" if peers else "what is normal"
    reason = f"{_below(verdict.value_gbps or 0.0, verdict.expected_gbps or 0.0, against)}; {CONFIRMED}"
    return replace(verdict, outcome=Outcome.FAIL, reason=reason, against=against)


def with_spread(verdict: ProbeVerdict, one: Series) -> str:
    """The reason, and of a repeated series that did not pass also how its samples lie; none where nothing judges it."""
    if one.steadiness is None or verdict.outcome in (Outcome.PASS, Outcome.INCONCLUSIVE):
        return verdict.reason
    return f"{verdict.reason} ({one.steadiness.text})"


def _below(value_gbps: float, normal_gbps: float, against: str) -> str:
    return f"{value_gbps:.1f} Gb/s, {value_gbps / normal_gbps - 1:+.1%} against {against}, {normal_gbps:.1f}"
