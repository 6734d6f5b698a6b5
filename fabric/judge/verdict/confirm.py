"""
What other probes make of each verdict: a number that is low is a FAIL where a faulty part explains it.

Below its limit, and as good as its like within their noise, is MARGINAL. Low and explained by nothing, once, is to be
measured again before anybody is blamed: INCONCLUSIVE below the limit, MARGINAL above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from fabric.judge.normal.samples import series_key
from fabric.judge.normal.series import CONFIRMED, NORMAL, RETEST
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.text import gbps_text
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict
from fabric.probes import pairwise

if TYPE_CHECKING:
    from fabric.judge.locate.matrix import Written
    from fabric.judge.locate.suspects import Located

_GOOD = (Outcome.PASS, Outcome.MARGINAL)


def confirmed(
    probes: Sequence[Probe],
    verdicts: Mapping[str, ProbeVerdict],
    results: Mapping[str, ProbeResult],
    *,
    topology: Topology,
    written: Written | None = None,
    known: AbstractSet[str] = frozenset(),
) -> tuple[dict[str, ProbeVerdict], Located]:
    """The verdicts by probe id, and the faulty parts that they rest on; *known* are those that pairs named."""
    from fabric.judge.locate.suspects import locate  # numpy: only where something was measured

    verdicts = _run_again(probes, verdicts, results)
    found = locate(probes, verdicts, results, topology=topology, outcome=Outcome.FAIL, written=written, known=known)
    anew = dict(verdicts)
    for probe in probes:
        normal_gbps = found.normal_gbps.get(probe.probe_id)
        if normal_gbps is not None and probe.kind != pairwise.KIND:
            verdict = verdicts[probe.probe_id]
            anew[probe.probe_id] = _confirmed(verdict, normal_gbps, found)
    return anew, found


def _run_again(
    probes: Sequence[Probe], verdicts: Mapping[str, ProbeVerdict], results: Mapping[str, ProbeResult]
) -> dict[str, ProbeVerdict]:
    """An error of a probe that was measured when it was run again is no error of the run: MARGINAL, and it says so."""
    found = dict(verdicts)
    errors = [probe for probe in probes if verdicts[probe.probe_id].outcome is Outcome.ERROR]
    if not errors:
        return found
    measured_s = {series_key(probe): -inf for probe in errors}  # when it was last begun and went well
    for probe in probes:
        key = series_key(probe)
        if key in measured_s and verdicts[probe.probe_id].value_gbps is not None:
            measured_s[key] = max(measured_s[key], results[probe.probe_id].started_s)
    for probe in errors:
        verdict = verdicts[probe.probe_id]
        if verdict.ran and results[probe.probe_id].started_s < measured_s[series_key(probe)]:
            reason = f"{verdict.reason}; measured when it was run again"
            found[probe.probe_id] = replace(verdict, outcome=Outcome.MARGINAL, reason=reason, named=None)
    return found


def _confirmed(verdict: ProbeVerdict, normal_gbps: float, found: Located) -> ProbeVerdict:
    value, low = verdict.value_gbps or 0.0, verdict.probe_id in found.low
    below = f"{gbps_text(value)} Gb/s, {value / normal_gbps - 1:+.1%} against {NORMAL}, {gbps_text(normal_gbps)}"
    if verdict.probe_id in found.explained and low:
        if verdict.outcome is Outcome.FAIL:
            return replace(verdict, expected_gbps=verdict.expected_gbps or normal_gbps)
        if verdict.against:
            said = verdict.reason.replace(f"; {RETEST}", f"; {CONFIRMED}")
            return replace(verdict, outcome=Outcome.FAIL, reason=said)
        reason = f"{below}; {CONFIRMED}"
        return replace(verdict, outcome=Outcome.FAIL, reason=reason, expected_gbps=normal_gbps, against=NORMAL)
    if verdict.outcome is Outcome.FAIL and verdict.against:
        return verdict  # by its own samples against what is normal, which is more than one number
    if verdict.outcome is Outcome.FAIL and verdict.probe_id not in found.far:
        reason = f"{verdict.reason}, which is within the noise of its like"
        return replace(verdict, outcome=Outcome.MARGINAL, reason=reason, expected_gbps=normal_gbps)
    if verdict.outcome is Outcome.FAIL:
        reason = f"{verdict.reason}; {RETEST}"
        return replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=reason, expected_gbps=normal_gbps)
    if verdict.probe_id in found.far and verdict.outcome in _GOOD and not verdict.against:
        reason = f"{below}; {RETEST}"
        return replace(verdict, outcome=Outcome.MARGINAL, reason=reason, expected_gbps=normal_gbps, against=NORMAL)
    return verdict
