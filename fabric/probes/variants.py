"""Another partner for a host that lost its neighbour under the ToR: the next one in the same ring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from fabric.model.probe import Probe
from fabric.model.topology import Host, Topology
from fabric.probes import multi_host
from fabric.probes.collective import START_S
from fabric.probes.multi_host import start_s
from fabric.tools.nccl.collective import WARMUP_ITERATIONS


def other_pairs(probe: Probe, left: str, planned: Iterable[Probe], topology: Topology) -> Iterator[Probe]:
    """
    The same measurement of the host that is *left* with each other host of its ring, the nearest first.

    The ring is that of the *planned* probes, and it is gone along in the direction of the lost neighbour: of two hosts
    that lost the one between them, each is the other's next. Pairs that were planned anyway are left out.
    """
    pairs = {frozenset(one.hosts) for one in planned}
    ring = _ring(left, {host for pair in pairs for host in pair}, topology)
    names = [host.name for host in ring]
    first, second = probe.hosts
    forward = left == first
    at = names.index(left)
    for distance in range(1, len(ring)):
        other = ring[(at + (distance if forward else -distance)) % len(ring)]
        if frozenset((left, other.name)) not in pairs:
            hosts = (topology.hosts[first], other) if forward else (other, topology.hosts[second])
            yield _moved(probe, hosts)


def _ring(host: str, taking_part: set[str], topology: Topology) -> list[Host]:
    """The hosts under the same ToR that take part and that one command line fits, in the order of the ring."""
    group = next(group for group in topology.tor_groups if host in group)
    alike = multi_host.alike(topology.hosts[name] for name in group if name in taking_part)
    return next(hosts for hosts in alike if any(one.name == host for one in hosts))


def _moved(probe: Probe, hosts: tuple[Host, Host]) -> Probe:
    """The probe with other hosts of the same make; its id names them."""
    label = "+".join(host.name for host in hosts)
    name = probe.probe_id.rpartition("/")[2]
    series = str(probe.params["series"]).rpartition("/")[2]
    return replace(
        probe,
        probe_id=f"{probe.phase}/{label}/{name}",
        hosts=tuple(host.name for host in hosts),
        claims=multi_host.claims(hosts),
        params={**probe.params, "series": f"{label}/{series}"},
    )


def shortened(probe: Probe, *, iterations: int, duration_s: int) -> Probe:
    """
    The probe with at most so many iterations of each size, or seconds of traffic; the very probe where it has no more.

    Its expected time shrinks with what it transfers; starting takes as long as before.
    """
    params, expected_s = dict(probe.params), probe.duration_s
    had, lasted_s = params.get("iterations"), params.get("duration_s")
    if isinstance(had, int) and had > iterations:
        params["iterations"] = iterations
        begin_s = min(expected_s, START_S if len(probe.hosts) == 1 else start_s(len(probe.hosts)))
        share = (iterations + WARMUP_ITERATIONS) / (had + WARMUP_ITERATIONS)
        expected_s = begin_s + (expected_s - begin_s) * share
    if isinstance(lasted_s, int) and lasted_s > duration_s:
        params["duration_s"] = duration_s
        expected_s = max(float(duration_s), expected_s - (lasted_s - duration_s))
    return probe if params == probe.params else replace(probe, params=params, duration_s=expected_s)
