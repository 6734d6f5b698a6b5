"""The kinds of probe by name, and the expansion of phases into probes."""

from collections.abc import Iterable, Sequence
from itertools import count

from fabric.model.fields.entry import add_others
from fabric.model.outcome import Reason, ReasonKind, note
from fabric.model.probe import Probe
from fabric.model.scenario import Phase, ProbeSpec
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.probes.again import AgainSpec
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.collective import with_env
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.entropy import EntropySpec
from fabric.probes.group_all_reduce import GroupAllReduceSpec, GroupAllToAllSpec
from fabric.probes.incast import IncastSpec
from fabric.probes.latency import LatencySpec
from fabric.probes.link_burn import LinkBurnSpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import BidirectionalSpec, PairwiseSpec
from fabric.probes.perftest_pair import PerftestSpec
from fabric.probes.permutation import BisectionSpec, PermutationSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.routes import RoutesSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from fabric.probes.victim import VictimSpec

GROUP = "fabric.probes"
"""The entry point group for kinds of other packages: each names a subclass of ``ProbeSpec``."""

FIRST_PORT = 18600
"""First TCP port given to a probe's server; perftest's default is 18515, ephemeral ports start at 32768."""

ASKED: dict[str, type[ProbeSpec]] = {
    kind.kind: kind
    for kind in (
        LoopbackSpec,
        RnicToRnicSpec,
        AllToAllSpec,
        TorAllReduceSpec,
        GroupAllReduceSpec,
        GroupAllToAllSpec,
        ConcurrentRingsSpec,
        PairwiseSpec,
        AgainSpec,
        LinkBurnSpec,
        LatencySpec,
        BidirectionalSpec,
        IncastSpec,
        VictimSpec,
        PermutationSpec,
        BisectionSpec,
        EntropySpec,
    )
}
"""Every kind that a scenario may ask for."""

UNUSABLE = add_others(ASKED, ProbeSpec, group=GROUP)
"""Why kinds of other packages cannot be used; a scenario that names such a kind is refused with this."""

KINDS: dict[str, type[ProbeSpec]] = {**ASKED, RoutesSpec.kind: RoutesSpec}
"""Every kind that a probe may have."""

REPEATED_KINDS = frozenset(kind.kind for kind in ASKED.values() if kind.alone)
"""Kinds of which a single probe can be measured again by itself."""

PEER_KINDS = frozenset(kind.kind for kind in ASKED.values() if kind.peers)
"""Kinds whose comparable probes are compared with each other."""


def expand_phase(phase: Phase, topology: Topology, hosts: Sequence[str]) -> list[Probe]:
    """Return every probe of a phase; each server gets its own TCP port on its host, collectives get the phase's env."""
    ports = count(FIRST_PORT)
    return [
        with_env(probe, phase.env) if KINDS[probe.kind].collective else probe
        for spec in phase.probes
        for probe in spec.expand(phase=phase.name, topology=topology, hosts=hosts, ports=ports)
    ]


def in_host_memory(phase: Phase, topology: Topology, hosts: Sequence[str]) -> list[Reason]:
    """Return a note if perftest does not reach GPUs that a phase asks for, because the inventory says so."""
    names = [spec.name for spec in phase.probes if isinstance(spec, PerftestSpec) and spec.on_gpus]
    without = [name for name in hosts if (at := topology.hosts[name].platform).gpus and at.use_cuda == "no"]
    where = f"{', '.join(names)} on {fold(without)}" if names and without else ""
    text = f"{where}: host memory only, no GPU is measured by ib_write_bw (use_cuda: no)"
    return [Reason(text, ReasonKind.UNPLANNED)] if where else []


def left_out(phase: Phase, hosts: Sequence[str], probes: Iterable[Probe], topology: Topology) -> list[Reason]:
    """
    Return a note for each kind of the phase that cannot be measured on some host, with what it needs.

    What no fabric of this shape could measure is only a note: nothing is missing there.
    """
    measured: dict[str, set[str]] = {}
    for probe in probes:
        measured.setdefault(probe.kind, set()).update(probe.hosts)
    missing, notes = list[Reason](), list[Reason]()
    for name, spec in {spec.kind: spec for spec in phase.probes if not spec.is_of_some}.items():
        unjoined = spec.unjoined(hosts, topology)
        notes += [note(f"{name} on {fold(of)}: {text}") for text, of in unjoined.items()]
        told = measured.get(name, set()).union(*unjoined.values())
        alone = [host for host in hosts if host not in told]
        if alone and not (spec.some and name in measured):
            missing.append(Reason(f"no {name} on {fold(alone)}: it needs {spec.needs}", ReasonKind.UNPLANNED))
    return missing + notes
