"""The kinds of probe there are, by name, and the expansion of a whole scenario into probes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Protocol

from fabric.model.link_burn import LinkBurnSpec
from fabric.model.names import fold
from fabric.model.probe import Answered, Probe, ProbeCommands, Reading
from fabric.model.scenario import (
    AgainSpec,
    AllToAllSpec,
    ConcurrentRingsSpec,
    GroupAllReduceSpec,
    LoopbackSpec,
    PairwiseSpec,
    Phase,
    ProbeSpec,
    RnicToRnicSpec,
    TorAllReduceSpec,
)
from fabric.model.topology import Topology
from fabric.probes import (
    again,
    all_to_all,
    concurrent_rings,
    group_all_reduce,
    link_burn,
    loopback,
    pairwise,
    rnic_to_rnic,
    routes,
    tor_all_reduce,
)
from fabric.probes.collective import with_env

FIRST_PORT = 18600
"""First TCP port given to a probe's server; perftest's default is 18515, ephemeral ports start at 32768."""


class Kind(Protocol):
    """What one kind of probe can do; each is a module of this package."""

    KIND: str
    NEEDS: str
    SOME: bool
    """Whether it is asked of some of the hosts only: those that it does not measure miss nothing."""

    def expand(
        self,
        spec: Any,
        *,
        phase: str,
        topology: Topology,
        hosts: Sequence[str],
        ports: Iterator[int],
    ) -> Iterator[Probe]:
        """Every probe of this kind on these hosts, fully decided."""
        ...

    def commands(self, probe: Probe, topology: Topology) -> ProbeCommands:
        """What to run for it."""
        ...

    def read(self, probe: Probe, topology: Topology, answered: Answered) -> Reading:
        """What its output says."""
        ...


KINDS: Mapping[str, Kind] = {
    loopback.KIND: loopback,
    rnic_to_rnic.KIND: rnic_to_rnic,
    all_to_all.KIND: all_to_all,
    tor_all_reduce.KIND: tor_all_reduce,
    group_all_reduce.KIND: group_all_reduce,
    concurrent_rings.KIND: concurrent_rings,
    pairwise.KIND: pairwise,
    link_burn.KIND: link_burn,
    routes.KIND: routes,
}

COLLECTIVES = frozenset({all_to_all.KIND, tor_all_reduce.KIND, group_all_reduce.KIND, concurrent_rings.KIND})
"""The kinds that run NCCL, and so are given the variables of their phase."""

PAIRED = frozenset({tor_all_reduce.KIND})
"""The kinds that measure neighbours of a ring, and so can be given another neighbour."""

_OF_SPEC: Mapping[type, Kind] = {
    LoopbackSpec: loopback,
    RnicToRnicSpec: rnic_to_rnic,
    AllToAllSpec: all_to_all,
    TorAllReduceSpec: tor_all_reduce,
    GroupAllReduceSpec: group_all_reduce,
    ConcurrentRingsSpec: concurrent_rings,
    PairwiseSpec: pairwise,
    LinkBurnSpec: link_burn,
    AgainSpec: again,
}


def kind_of(spec: ProbeSpec) -> Kind:
    """The kind that a spec asks for."""
    return _OF_SPEC[type(spec)]


def expand_phase(phase: Phase, topology: Topology, hosts: Sequence[str]) -> list[Probe]:
    """Every probe of a phase; each server has a TCP port of its own on its host, collectives have the phase's env."""
    ports = count(FIRST_PORT)
    return [
        with_env(probe, phase.env) if probe.kind in COLLECTIVES else probe
        for spec in phase.probes
        for probe in kind_of(spec).expand(spec, phase=phase.name, topology=topology, hosts=hosts, ports=ports)
    ]


def left_out(phase: Phase, hosts: Sequence[str], probes: Iterable[Probe]) -> list[str]:
    """A note for each kind that the phase asks for and that cannot be measured on some host, and what it needs."""
    measured: dict[str, set[str]] = {}
    for probe in probes:
        measured.setdefault(probe.kind, set()).update(probe.hosts)
    kinds = {kind_of(spec).KIND: kind_of(spec) for spec in phase.probes if not _of_some(spec)}
    missing = {
        name: [] if kind.SOME and name in measured else [host for host in hosts if host not in measured.get(name, ())]
        for name, kind in kinds.items()
    }
    return [f"no {name} on {fold(alone)}: it needs {kinds[name].NEEDS}" for name, alone in missing.items() if alone]


def _of_some(spec: ProbeSpec) -> bool:
    """Whether a spec itself says of which hosts it is, so that the others miss nothing."""
    if isinstance(spec, PairwiseSpec):
        return bool(spec.only)
    return isinstance(spec, AgainSpec) and spec.because is not None
