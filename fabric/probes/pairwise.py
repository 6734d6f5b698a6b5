"""
RNIC to RNIC of another host, on the same rail, one way (ib_write_bw): what `judge.locate.pairs` judges.

One rail at a time and one direction at a time say most: a two-host all-reduce uses all rails and both directions, and
is as slow as the slowest of them. Buffers are in host memory next to the RNIC, as in the published limit (oci-hpc
multi_node_active_healthcheck.py, measured between two hosts).

A pair that leaves its leaf claims the uplinks of both leaves: with static routes two pairs may share an uplink although
there are enough, and would seem slow without a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from sys import intern

from fabric.model.command import Command
from fabric.model.diagnosis import PairTest
from fabric.model.probe import Answered, Probe, ProbeCommands, Reading
from fabric.model.scenario import PairwiseSpec
from fabric.model.topology import Host, Rnic, Topology
from fabric.probes.intra_host import repeated
from fabric.probes.pair_planes import Plane, planes_of
from fabric.probes.pair_rounds import across_leaves, under_leaves
from fabric.probes.perftest_pair import SETUP_S, command, int_param, read_bandwidth

KIND = "pairwise"
NEEDS = "another host in the run with an RNIC of the same rail and line rate"
SOME = False

FIRST_PORT = 30_000
"""TCP ports of these probes' servers: above those counted from ``kinds.FIRST_PORT``, below the ephemeral ones."""

_ROUNDS_APART = 32  # ports of as many rounds differ: a server that lingers is not in the next round's way


def expand(
    spec: PairwiseSpec, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]
) -> Iterator[Probe]:
    """The first rounds of every plane: one under the leaves, the others across them."""
    del ports
    for plane in planes_of(hosts, topology):
        for number in range(spec.first, spec.first + spec.rounds):
            tests = under_leaves(plane.leaves) if number == 0 else across_leaves(plane.leaves, (), number - 1)
            for test in tests:
                if spec.only and {test.a, test.b}.isdisjoint(spec.only):
                    continue
                # Odd rounds go the other way, so that every host sends and receives.
                yield from probes_of(
                    spec, test, plane, phase=phase, topology=topology, number=number, reverse=number % 2 == 1
                )


def probes_of(
    spec: PairwiseSpec, test: PairTest, plane: Plane, *, phase: str, topology: Topology, number: int, reverse: bool
) -> Iterator[Probe]:
    """
    One test of round *number* (from 0), as often as it is repeated; with *reverse* its second host sends.
    """
    names = (test.b, test.a) if reverse else (test.a, test.b)
    ends = [topology.hosts[name] for name in names]
    rnics = [_rnic(host, plane.rail) for host in ends]
    claims = _claims(ends, rnics)
    for label, series in repeated(f"{rnics[0].device}.t{number + 1}", spec.repeat):
        why = {"why": test.why} if test.why else {}
        yield Probe(
            probe_id=f"{phase}/{names[0]}+{names[1]}/{spec.name}.{label}",
            kind=KIND,
            phase=phase,
            hosts=names,
            claims=claims,
            duration_s=spec.duration_s + SETUP_S,
            params={
                "rnic": rnics[0].device,
                "peer_rnic": rnics[1].device,
                "rail": plane.rail,
                "round": number,
                "size_bytes": spec.size_bytes,
                "duration_s": spec.duration_s,
                "queue_pairs": spec.queue_pairs,
                "port": FIRST_PORT + plane.rail * _ROUNDS_APART + number % _ROUNDS_APART,
                "series": f"{names[0]}+{names[1]}/{series}",
                "name": spec.name,
                **why,
            },
        )


def other_pairs(
    probe: Probe, left: str, planned: Iterable[Probe], bereft: Callable[[str], bool], topology: Topology
) -> Iterator[Probe]:
    """
    The same measurement of the host that is *left* with each other host of its plane, the most fitting first.

    First those that lost their partner of this round as well (*bereft*): one test serves both. Then those beyond the
    leaf, if the lost one was, so that uplinks are crossed as planned; then the next in the order of the *planned*
    probes. Pairs that are planned anyway are left out.
    """
    rail = int_param(probe, "rail")
    rate = _rnic(topology.hosts[left], rail).line_rate_gbps
    rounds = [one for one in planned if one.kind == KIND and one.params["rail"] == rail]
    pairs = {frozenset(one.hosts) for one in rounds}
    hosts = list(dict.fromkeys(host for one in rounds for host in one.hosts))
    at = hosts.index(left)
    beyond = _leaf(topology.hosts[probe.hosts[0]], rail) != _leaf(topology.hosts[probe.hosts[1]], rail)
    fit: list[tuple[bool, bool, int, str]] = []
    for place, name in enumerate(hosts):
        other = topology.hosts[name]
        if frozenset((left, name)) in pairs or name == left or _rnic(other, rail).line_rate_gbps != rate:
            continue
        across = _leaf(topology.hosts[left], rail) != _leaf(other, rail)
        fit.append((not bereft(name), across != beyond, (place - at) % len(hosts), name))
    for alone, _, _, name in sorted(fit):
        sends = left == probe.hosts[0] if alone else left < name  # the same test, whoever of the two asks for it
        yield _moved(probe, (left, name) if sends else (name, left), topology)


def _moved(probe: Probe, names: tuple[str, str], topology: Topology) -> Probe:
    """The probe with other hosts; its id names them."""
    ends = [topology.hosts[name] for name in names]
    rail = int_param(probe, "rail")
    rnics = [_rnic(host, rail) for host in ends]
    here = str(probe.params["rnic"])
    label, series = (
        text.rpartition("/")[2].replace(f".{here}.", f".{rnics[0].device}.", 1)
        for text in (probe.probe_id, str(probe.params["series"]))
    )
    own = {
        "rnic": rnics[0].device,
        "peer_rnic": rnics[1].device,
        "series": f"{'+'.join(names)}/{series}",
        "why": "another partner",
    }
    return replace(
        probe,
        probe_id=f"{probe.phase}/{'+'.join(names)}/{label}",
        hosts=names,
        claims=_claims(ends, rnics),
        params={**probe.params, **own},
    )


def _claims(ends: Sequence[Host], rnics: Sequence[Rnic]) -> tuple[str, ...]:
    """
    Of a sender and a receiver: their RNICs, the way through their PCIe switches, the uplinks of two leaves.

    Interned: of a fleet a million probes name the same few ten thousand.
    """
    claims = [f"{host.name}/{rnic.device}" for host, rnic in zip(ends, rnics, strict=True)]
    # The sender reads memory (its PCIe switch's uplink downwards), the receiver writes it (upwards).
    claims += [
        f"{host.name}/{rnic.pcie_switch}:{way}"
        for host, rnic, way in zip(ends, rnics, ("down", "up"), strict=True)
        if rnic.pcie_switch is not None
    ]
    leaves = [leaf for leaf in (_leaf(host, rnics[0].rail) for host in ends) if leaf is not None]
    if len(leaves) > 1 and leaves[0] != leaves[1]:
        claims += [f"{leaf}:up" for leaf in leaves]
    return tuple(map(intern, claims))


def _leaf(host: Host, rail: int) -> str | None:
    return host.leaves[rail] if rail < len(host.leaves) else None


def _rnic(host: Host, rail: int) -> Rnic:
    return host.platform.rnic_by_rail[rail]


def commands(probe: Probe, topology: Topology) -> ProbeCommands:
    """The server on the second host, the client, which sends, on the first; hosts know each other by inventory name."""
    sender, receiver = (topology.hosts[name] for name in probe.hosts)

    def side(host: Host, device: str, peer: str | None) -> Command:
        rnic = host.platform.rnic_by_device[device]
        made = command(probe, host.platform, rnic=rnic, peer=peer, cuda_gpu=None, numa_node=rnic.numa)
        return replace(made, host=host.name)

    server = side(receiver, str(probe.params["peer_rnic"]), None)
    return ProbeCommands(servers=(server,), client=side(sender, str(probe.params["rnic"]), receiver.name))


def read(probe: Probe, topology: Topology, answered: Answered) -> Reading:
    """The average bandwidth, or why there is none."""
    devices = (str(probe.params["peer_rnic"]), str(probe.params["rnic"]))
    return read_bandwidth(probe, topology, answered, devices=devices)


def round_of(probe: Probe) -> int:
    """In which round it was measured, from 0."""
    return int_param(probe, "round")
