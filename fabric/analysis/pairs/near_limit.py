"""
Single pairs that miss their limit by no more than noise, while both ends reach it with others: measured too little.

Such a pair speaks of no part: every host side, leaf and uplink on its way would explain it as well. Where an end
misses the limit with most of its partners it is no noise, and FAIL stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fabric.analysis.pairs.findings import FAR, pair_numbers, unexplained
from fabric.analysis.pairs.fitted import Fitted
from fabric.model.outcome import Outcome
from fabric.model.verdict import ProbeVerdict

LEAST_OTHERS = 2
"""Fewer other samples of an end do not say that it is well (a choice)."""


def near_limit(
    fitted: Fitted, probe_ids: Sequence[str], verdicts: Mapping[str, ProbeVerdict]
) -> dict[str, ProbeVerdict]:
    """
    By id the verdicts, INCONCLUSIVE now, of pairs that missed their limit once, by less than five sigmas.

    *probe_ids* are those of the samples, in their order.
    """
    samples, pairs = fitted.samples, pair_numbers(fitted)
    told = (fitted.decoded.explained > 0) | unexplained(fitted)
    found: dict[str, ProbeVerdict] = {}
    for i, name in enumerate(probe_ids):
        verdict = verdicts[name]
        limit = verdict.limit_gbps
        if verdict.outcome is not Outcome.FAIL or limit is None or verdict.against or told[i]:
            continue
        value = float(samples.gbps[i])
        times = pairs == pairs[i]
        if value * (1 + FAR * fitted.evidence.noise) < limit or np.count_nonzero(samples.gbps[times] < limit) > 1:
            continue
        if all(_reaches(fitted, int(end), i, limit) for end in (samples.a[i], samples.b[i])):
            count = int(np.count_nonzero(times))
            which = "one sample" if count == 1 else f"one of {count} samples"
            reason = f"{value:.1f} Gb/s, {value / limit - 1:+.1%} against the {limit:g} required, in {which}: "
            noise = f"{fitted.evidence.noise:.1%}"
            reason += f"within the noise of {noise}, and both ends reach it with others; measure this pair again"
            found[name] = replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=reason)
    return found


def _reaches(fitted: Fitted, host: int, but: int, limit_gbps: float) -> bool:
    """Whether a host reaches the limit with most of its other partners."""
    samples = fitted.samples
    mine = (samples.a == host) | (samples.b == host)
    mine[but] = False
    return int(mine.sum()) >= LEAST_OTHERS and float(np.median(samples.gbps[mine])) >= limit_gbps
