"""
One slow number is no proof; two through the same part are.

Of thousands of healthy numbers a few are always low, and a probe may have been disturbed by another. So a number that
meets its limit and is slower than what is normal blames nobody alone. It is confirmed when a component that it passes
through has at least two bad probes, and nearly every probe that would show the component's fault is bad: the same rule
by which suspects are found (``cover.py``).

Of a part that is a little slow some probes are far enough out to be sure and some are not: the latter are no witnesses
against it. Where most of what tells of a part is slow, what is merely low through it counts as slow too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from fabric.analysis.candidates import Component, are_about, components_of
from fabric.analysis.cover import candidates_for
from fabric.analysis.samples import name_of
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict

LEAST_WITNESSES = 2
"""Bad probes through one part that confirm each other (a choice: the fewest that are more than one)."""


LIKELY = 0.5
"""Share of the probes that tell of a part from which on what is low through it counts as slow (a choice: most)."""


def confirmed(
    probes: Sequence[Probe],
    verdicts: Sequence[ProbeVerdict],
    topology: Topology,
    *,
    slow: AbstractSet[str],
    low: AbstractSet[str],
    tested_again: AbstractSet[str] = frozenset(),
) -> set[str]:
    """
    Those of *slow* and *low* (probe ids) that other bad probes confirm; *verdicts* are in the order of *probes*.

    The repetitions of one probe confirm each other, but for those *tested_again*: there the later ones decide.
    """
    if not slow:
        return set()
    hosts = {host for probe in probes if probe.probe_id in slow for host in probe.hosts}
    about = are_about(hosts, topology)
    judged = [
        (probe, verdict)
        for probe, verdict in zip(probes, verdicts, strict=True)
        if about(probe) and verdict.value_gbps is not None
    ]

    def components(probe: Probe, _: ProbeVerdict) -> Iterator[Component]:
        return components_of(probe, topology)

    series = {probe.probe_id: _series(probe) for probe, _ in judged}
    bad = {verdict.probe_id for _, verdict in judged if verdict.outcome is Outcome.FAIL} | slow
    likely = {
        candidate.component
        for candidate in candidates_for(judged, bad, components, enough=LIKELY)
        if _confirm_each_other(candidate.bad, series, tested_again)
    }
    with_low = slow | {
        probe.probe_id
        for probe, verdict in judged
        if probe.probe_id in low and not likely.isdisjoint(components(probe, verdict))
    }
    found: set[str] = set()
    for candidate in candidates_for(judged, bad | with_low, components):
        if _confirm_each_other(candidate.bad, series, tested_again):
            # What is merely low cannot be its own witness, however often it was repeated.
            found |= candidate.bad & (with_low if len({series[name] for name in candidate.bad}) > 1 else slow)
    return found


def _series(probe: Probe) -> Hashable:
    return probe.phase, probe.kind, name_of(probe), probe.hosts, probe.params.get("series")


def _confirm_each_other(bad: AbstractSet[str], series: Mapping[str, Hashable], tested_again: AbstractSet[str]) -> bool:
    """
    Two different probes do, and the repetitions of one when all of them are slow.

    Most of them would be no proof: they are why its median is low.
    """
    different = {series[name] for name in bad}
    if len(different) >= LEAST_WITNESSES:
        return True
    if not tested_again.isdisjoint(bad):
        return False
    repetitions = sum(name in different for name in series.values())
    return len(bad) >= LEAST_WITNESSES and len(bad) == repetitions
