"""Pairs of a phase that lost a host: who of them is measured with somebody else instead, and with whom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fabric.engine.welcome import Refusal, Welcome
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.probes.kinds import PAIRED
from fabric.probes.other_partner import other_pairs


@dataclass(frozen=True, slots=True)
class Instead:
    """How a refused probe is answered, and the probe that is to be run instead; None: nothing more is to be run."""

    refusal: Refusal
    probe: Probe | None = None


class Replanning:
    """
    Remembers who was given another partner: each host once in a phase, so that there is an end to it.

    All repetitions of a pair go to the same other partner, and two hosts that each lost one may be given each other.
    """

    def __init__(self, probes: Iterable[Probe], topology: Topology, welcome: Welcome) -> None:
        self._topology, self._welcome = topology, welcome
        self._planned = tuple(probe for probe in probes if probe.kind in PAIRED)
        self._lost: dict[str, str] = {}  # by host: whom it lost
        self._made: set[str] = set()

    def remember(self, lost: Probe, probe: Probe) -> None:
        """Before the run was interrupted *probe* was planned instead of *lost*."""
        self._made.add(probe.probe_id)
        for left in set(lost.hosts).intersection(probe.hosts):
            self._lost.update((left, host) for host in lost.hosts if host != left)

    def instead(self, probe: Probe, refusal: Refusal) -> Instead:
        """What to do about a probe that is refused, or was lost, because of one of its hosts."""
        left = next((host for host in probe.hosts if host != refusal.host), None)
        if probe.kind not in PAIRED or left is None or not self._welcome.admits(left, probe):
            return Instead(refusal)
        if probe.probe_id in self._made or self._lost.setdefault(left, refusal.host) != refusal.host:
            return Instead(refusal)
        for other in other_pairs(probe, left, self._planned, self._topology):
            if self._welcome.refusal(other) is None:
                reason = f"{refusal.reason}; re-planned as {'+'.join(other.hosts)}"
                new = other.probe_id not in self._made
                self._made.add(other.probe_id)
                return Instead(replace(refusal, reason=reason), other if new else None)
        reason = f"{refusal.reason}; no other partner for {left} is in the run"
        return Instead(replace(refusal, outcome=Outcome.INCONCLUSIVE, reason=reason))
