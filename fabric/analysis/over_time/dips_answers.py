"""What the further tests of one round, begun because parts had dipped, tell of these parts and of their partners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fabric.analysis.gave_up import gave_up
from fabric.analysis.over_time.dips_in_round import low_among
from fabric.analysis.over_time.dips_tests import partner_of
from fabric.analysis.over_time.tracks import measured_gbps
from fabric.model.follow_up import AGAIN
from fabric.model.probe import Probe, ProbeResult
from fabric.model.topology import Topology

LEAST_WITH_PARTNER = 2
"""A partner with which so many of a part's further tests in a round dip, and none with another, is measured again
itself (a choice: it may be the one)."""


def counted(added: Sequence[Probe]) -> Counter[str]:
    """How many tests each part was given in this round."""
    return Counter(str(probe.params[AGAIN]) for probe in added if AGAIN in probe.params)


def answers_of(
    added: Sequence[Probe], by_id: Mapping[str, ProbeResult], topology: Topology
) -> dict[str, tuple[int, int]]:
    """Of each part the tests of this round that told something of it, and in how many of them it dipped."""
    own = [probe for probe in added if AGAIN in probe.params and _tells(by_id.get(probe.probe_id))]
    low = _low(own, by_id, topology)
    found: dict[str, tuple[int, int]] = {}
    for probe in own:
        tests, again = found.get(str(probe.params[AGAIN]), (0, 0))
        found[str(probe.params[AGAIN])] = tests + 1, again + (probe.probe_id in low)
    return found


def doubtful_partners(added: Sequence[Probe], by_id: Mapping[str, ProbeResult], topology: Topology) -> list[str]:
    """
    Those with which alone the further tests of a part in this round dip, though it was tested with others, too.

    A part that has one partner only is told from it by what others measure with that partner.
    """
    own = [probe for probe in added if AGAIN in probe.params and _tells(by_id.get(probe.probe_id))]
    low = _low(own, by_id, topology)
    partners: dict[str, set[str]] = {}
    dipped: dict[str, list[str]] = {}
    for probe in own:
        part = str(probe.params[AGAIN])
        partners.setdefault(part, set()).add(partner_of(probe))
        if probe.probe_id in low:
            dipped.setdefault(part, []).append(partner_of(probe))
    found = {
        others[0]
        for part, others in dipped.items()
        if len(others) >= LEAST_WITH_PARTNER and len(set(others)) == 1 and len(partners[part]) > 1
    }
    return sorted(found)


def _low(own: Sequence[Probe], by_id: Mapping[str, ProbeResult], topology: Topology) -> set[str]:
    """The ids of those that are low among their like, or of which the transport gave up, as for the verdict."""
    low, _ = low_among(own, by_id, topology)
    return low | {probe.probe_id for probe in own if gave_up(by_id[probe.probe_id])}


def _tells(result: ProbeResult | None) -> bool:
    """Something was measured, or the transport gave up: an ERROR of ours says nothing of a part."""
    return result is not None and (measured_gbps(result) is not None or gave_up(result))


def unanswered_by(added: Sequence[Probe], by_id: Mapping[str, ProbeResult]) -> tuple[Counter[str], set[str]]:
    """How many tests of each part in this round told nothing, and with which partners."""
    own = [probe for probe in added if AGAIN in probe.params and probe.probe_id in by_id]
    lost = [probe for probe in own if measured_gbps(by_id[probe.probe_id]) is None]
    return Counter(str(probe.params[AGAIN]) for probe in lost), {partner_of(probe) for probe in lost}
