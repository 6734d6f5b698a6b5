"""From what the samples of one series say (``sequential.py``) to its verdict."""

from __future__ import annotations

from dataclasses import replace

from fabric.analysis.keys import floor_of
from fabric.analysis.sequential import Answer
from fabric.analysis.series import Series
from fabric.analysis.slower import slower
from fabric.analysis.standings import Against
from fabric.model.outcome import Outcome
from fabric.model.verdict import ProbeVerdict


def by_standing(verdict: ProbeVerdict, one: Series, found: Against) -> ProbeVerdict:
    """
    Against peers and record, for a series that met its limit or has none.

    Slow in two tests is FAIL. Slow once is MARGINAL until others confirm it. What cannot be told with the samples that
    there are is INCONCLUSIVE. As good as what was recorded passes also without a limit; peers alone never acquit.
    """
    standing = found.standing
    if standing.answer is Answer.SLOW:
        again = standing.n - standing.first
        how_sure = f"slow in {standing.first} samples and again in {again}"
        return slower(verdict, one, found.normal_gbps, found.text, outcome=Outcome.FAIL, how_sure=how_sure)
    if standing.answer is Answer.SLOW_ONCE:
        return slower(verdict, one, found.normal_gbps, found.text)
    if standing.answer is Answer.OPEN:
        loss = floor_of(one.probe.kind)
        reason = (
            f"{one.value:.1f} Gb/s: {standing.n} samples cannot tell {found.text}, {found.normal_gbps:.1f}, from a "
            f"loss of {loss:.0%} ({standing.ratio - 1:+.1%}, at worst {standing.low - 1:+.1%}; "
            f"a sample spreads by {found.noise:.1%})"
        )
        return replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=reason)
    if found.by_record and verdict.limit_gbps is None:
        return replace(verdict, outcome=Outcome.PASS, reason="")
    return verdict


def by_nearness(verdict: ProbeVerdict, one: Series, above: Answer) -> ProbeVerdict:
    """A median above the limit that noise may have lifted over it is no clean PASS."""
    if above is Answer.HEALTHY or verdict.outcome is not Outcome.PASS:
        return verdict
    reason = f"{one.value:.1f} Gb/s, not surely above the {verdict.limit_gbps or 0.0:g} required"
    return replace(verdict, outcome=Outcome.MARGINAL, reason=reason)
