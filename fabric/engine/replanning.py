"""Pairs of a phase that lost a host: who of them is measured with somebody else instead, and with whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from fabric.engine.welcome import Refusal, Welcome
from fabric.model.follow_up import AGAIN
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.probes import other_partner, pairwise
from fabric.probes.kinds import PAIRED


@dataclass(frozen=True, slots=True)
class Instead:
    """How a refused probe is answered, and the probe that is to be run instead; None: nothing more is to be run."""

    refusal: Refusal
    probe: Probe | None = None


_Test = tuple[str, object, object]
"""One test of a host among pairs: the host, and which of its tests (rail and round, or probes that are repeated)."""


class Replanning:
    """
    Remembers who was given another partner: each test of a host once, so that there is an end to it.

    All repetitions of a pair go to the same other partner, and two hosts that each lost one may be given each other. In
    a ring, whose hosts have two neighbours each, only one of them is made up for.
    """

    def __init__(self, probes: Iterable[Probe], topology: Topology, welcome: Welcome) -> None:
        self._topology, self._welcome = topology, welcome
        self._planned = tuple(probe for probe in probes if probe.kind in PAIRED or probe.kind == pairwise.KIND)
        self._tests: dict[_Test, list[Probe]] = {}
        for probe in self._planned:
            for host in probe.hosts:
                self._tests.setdefault(_test(host, probe), []).append(probe)
        self._lost: dict[str, str] = {}  # by host of a ring: whom it lost
        self._given: dict[_Test, str] = {}  # by test: the other partner
        self._made: set[str] = set()

    def remember(self, lost: Probe, probe: Probe) -> None:
        """Before the run was interrupted *probe* was planned instead of *lost*."""
        self._note(probe)
        for left in set(lost.hosts).intersection(probe.hosts):
            if probe.kind in PAIRED:
                self._lost.update((left, host) for host in lost.hosts if host != left)

    def instead(self, probe: Probe, refusal: Refusal) -> Instead:
        """
        What to do about a probe that is refused, or was lost, because of one of its hosts.

        A test that was run because a part had dipped is not made up for: its follow-up asks for others.
        """
        if AGAIN in probe.params:
            return Instead(refusal)
        left = next((host for host in probe.hosts if host != refusal.host), None)
        ring = probe.kind in PAIRED
        if not (ring or probe.kind == pairwise.KIND) or left is None or not self._welcome.admits(left, probe):
            return Instead(refusal)
        if probe.probe_id in self._made or (ring and self._lost.setdefault(left, refusal.host) != refusal.host):
            return Instead(refusal)
        given = None if ring else self._given.get(_test(left, probe))
        for other in self._others(probe, left):
            if (given is None or given in other.hosts) and self._welcome.refusal(other) is None:
                reason = f"{refusal.reason}; re-planned as {'+'.join(other.hosts)}"
                new = other.probe_id not in self._made
                self._note(other)
                return Instead(replace(refusal, reason=reason), other if new else None)
        if self._is_measured(left, probe):
            return Instead(replace(refusal, reason=f"{refusal.reason}; {left} is measured with others as planned"))
        reason = f"{refusal.reason}; no other partner for {left} is in the run"
        return Instead(replace(refusal, outcome=Outcome.INCONCLUSIVE, reason=reason))

    def _others(self, probe: Probe, left: str) -> Iterator[Probe]:
        if probe.kind in PAIRED:
            return other_partner.other_pairs(
                probe, left, (one for one in self._planned if one.kind in PAIRED), self._topology
            )
        return pairwise.other_pairs(
            probe, left, self._planned, lambda host: self._is_bereft(host, probe, left), self._topology
        )

    def _is_bereft(self, host: str, probe: Probe, left: str) -> bool:
        """Its partner in the same round of pairs may not run, and nobody but *left* was found for it so far."""
        test = _test(host, probe)
        lost = [one for one in self._tests.get(test, ()) if self._welcome.refusal(one) is not None]
        return self._given.get(test, left) == left and any(self._welcome.admits(host, one) for one in lost)

    def _is_measured(self, host: str, probe: Probe) -> bool:
        """The same is measured of it in this phase with somebody else, as planned."""
        planned = (one for one in self._planned if one.kind == probe.kind and host in one.hosts)
        return any(self._welcome.refusal(one) is None for one in planned)

    def _note(self, made: Probe) -> None:
        self._made.add(made.probe_id)
        if made.kind == pairwise.KIND:
            for host, other in (made.hosts, made.hosts[::-1]):
                self._given.setdefault(_test(host, made), other)


def _test(host: str, probe: Probe) -> _Test:
    return host, probe.params.get("rail", probe.kind), probe.params.get("round")
