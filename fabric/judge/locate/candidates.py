"""The components that a probe passes through: if one of them were bad, the probe would show it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from itertools import chain

from fabric.judge.locate.gpus import GPUS, gpus_of
from fabric.judge.normal.keys import ends_of, leaf_of
from fabric.model.part import Part
from fabric.model.probe import NamedPart, Probe, Results
from fabric.model.text import fold
from fabric.model.topology import NVLINK, Topology

SPINES = "spines"
"""All that is between the leaves where the path of a test is not known: a spine or a cable that some tests cross."""

CORES = "cores"
"""The same between the pods of a three-level fabric: a core, or a cable to it."""


def spines_above(leaf: str, topology: Topology) -> str:
    """Return the name of all that is above a leaf: with three levels its pod's ``p0-spine[0-3]``, else ``SPINES``."""
    return _folded(tuple(topology.above[leaf])) if leaf in topology.pods else SPINES


_folded = cache(fold)


def is_above(name: str, topology: Topology) -> bool:
    """Return whether *name* is a switch, or is above one: hosts share it."""
    part = Part.of(name)
    known = part.host in topology.switches or name in {spines_above(leaf, topology) for leaf in topology.parts}
    return known or part.aspect == "above" or part.link_ends is not None


def crosses_leaves(probe: Probe) -> bool:
    """Return whether a probe's bytes cross known leaves, so that it can tell of leaves that other hosts share."""
    return "peer_rnic" in probe.params or probe.kind == "tor_all_reduce"


def not_above(probes: Iterable[Probe], results: Results, topology: Topology) -> list[str]:
    """Return in words the leaves that tests reached but none went above, where the inventory knows what is there."""
    if not topology.uplinks:
        return []
    alike: dict[Hashable, Probe] = {}
    for probe in probes:
        peer, result = probe.params.get("peer_rnic"), results.get(probe.probe_id)
        if (peer or len(probe.hosts) > 1) and result is not None and result.outcome is None:
            hosts = tuple((one.platform.name, one.leaves) for one in map(topology.hosts.__getitem__, probe.hosts))
            alike[hosts, probe.params.get("rnic"), peer] = probe
    reached: set[str] = set()
    crossed: set[str] = set()
    for probe in alike.values():
        ways = [topology.hosts[host].leaves for host in probe.hosts]
        if ends := ends_of(probe):
            ways = [(leaf,) for host, device in ends if (leaf := leaf_of(topology.hosts[host], device)) is not None]
        leaves = set(chain.from_iterable(ways))
        reached |= leaves
        crossed |= leaves if len(set(ways)) > 1 else set()
    left = {lower: 0 for lower in sorted(reached - crossed)}
    for uplinks in topology.uplinks:
        for lower in left.keys() & uplinks.lower:
            left[lower] += uplinks.count * len(uplinks.upper)
    count = sum(left.values())
    names = fold(name for name, above in left.items() if above)
    return [f"no test went above {names}: {count} uplinks there were not measured"] if count else []


@dataclass(frozen=True, slots=True)
class Component:
    """Something that can be bad, by the name that a verdict gives it; *kind* as in ``model.verdict.Suspect``."""

    name: str
    kind: str
    text: str  # what it is, in words
    way: str = ""  # of a bundle of things, the name of the component that is the way over one of them


def are_about(hosts: AbstractSet[str], topology: Topology) -> Callable[[Probe], bool]:
    """Return a test for probes: whether one ran on *hosts*, or was sent by neighbours under the same leaves."""
    leaves = {topology.hosts[host].leaves for host in hosts} - {()}
    neighbours = {host.name for host in topology.hosts.values() if host.leaves in leaves}

    def about(probe: Probe) -> bool:
        if not hosts.isdisjoint(probe.hosts):
            return True
        return (len(probe.hosts) > 1 or crosses_leaves(probe)) and not neighbours.isdisjoint(probe.hosts)

    return about


def components_of(probe: Probe, topology: Topology) -> Iterator[Component]:
    """Yield every component whose fault this probe would show."""
    if probe.kind == "loopback":
        yield from _loopback(probe, topology)
    elif probe.kind == "rnic_to_rnic":
        yield from _rnic_to_rnic(probe, topology)
    elif probe.kind == "all_to_all":
        yield from _all_to_all(probe, topology)
    elif probe.kind in ("tor_all_reduce", "group_all_reduce", "group_all_to_all", "concurrent_rings"):
        yield from _collective(probe, topology)
    elif "peer_rnic" in probe.params:
        yield from _pairwise(probe, topology)


_OF_HOSTS = {
    "silent": "the host does not answer",
    "refusing": "the host takes no session from us",
    "behind": "a jump host before the host cannot be passed",
    "bare": "the host has no RDMA device at all: its driver is not loaded, or finds none",
    "garbled": "what the host's tools print cannot be read",
    "other_mpi": "the host's mpirun is not Open MPI's",
    "killed": "a program of the probes was ended by a signal on the host",
    "lacking": "the host lacks a program or a library",
    "unbuilt": "the host's perftest is built without GPU memory",
    "outdated": "the host's perftest does not know an option",
}


def named_components_of(probe: Probe, named: NamedPart, topology: Topology) -> Iterator[Component]:
    """
    Yield what may be bad where the tool of a probe named a part: an RNIC, or the GPUs of its host.

    It is the host where that did not answer, or its tools are not those that the probe needs.

    A port may be down because of itself, its leaf, or the whole host; an absent device is no fault of its leaf.
    """
    if named.condition in _OF_HOSTS:
        yield Component(named.component, "host", _OF_HOSTS[named.condition])
    elif named.component == f"{probe.hosts[0]}/{GPUS}":
        count = len(topology.hosts[probe.hosts[0]].platform.gpus)
        text = f"not all of the {count} GPUs are there; which is gone is not told: CUDA numbers the others anew"
        yield Component(named.component, "gpu", text)
    elif "rnic" in probe.params:
        host, device = Part.of(named.component).place
        if named.condition == "down":
            yield Component(f"{host}/{device}:port", "link", f"the port, cable or switch port of {device} is down")
            yield from _leaves(((host, device),), topology)
        else:
            yield Component(f"{host}/{device}", "rnic", f"there is no RNIC {device} on the host")
        yield Component(host, "host", "every RNIC of the host")


def _host(name: str) -> Component:
    return Component(name, "host", "the whole host")


def _rnic(host: str, device: str) -> Component:
    return Component(f"{host}/{device}", "rnic", f"RNIC {device} or its PCIe link")


def _port(host: str, device: str) -> Component:
    return Component(f"{host}/{device}:port", "link", f"the port, cable or leaf port of {device}")


def _numa(host: str, node: str) -> Component:
    return Component(f"{host}/{node}", "numa", f"memory node {node}")


def _path(host: str, device: str, end: str, text: str = "") -> Component:
    return Component(f"{host}/{device}->{end}", "path", f"the PCIe path from {device} to {text or end}")


def _leaf(name: str) -> Component:
    return Component(name, "leaf", f"the leaf switch {name}")


def _leaves(ends: Iterable[tuple[str, str]], topology: Topology) -> Iterator[Component]:
    """Return the leaves of some RNICs, each once."""
    known = (leaf_of(topology.hosts[host], device) for host, device in ends)
    return (_leaf(name) for name in dict.fromkeys(known) if name is not None)


def host_side(host: str, device: str, topology: Topology) -> Iterator[Component]:
    """Yield what a pair test sees of one host: from its memory to its cable."""
    rnic = topology.hosts[host].platform.rnic_by_device[device]
    node = f"numa{rnic.numa}"
    yield from (_rnic(host, device), _port(host, device))
    yield from (_path(host, device, node), _path(host, device, f"{node}-side", node), _numa(host, node))
    if rnic.pcie_switch is not None:
        yield from _switch(host, rnic.pcie_switch, uplink=True)
    yield _host(host)


def _pairwise(probe: Probe, topology: Topology) -> Iterator[Component]:
    ends = sorted(set(ends_of(probe)))
    for host, device in ends:
        yield from host_side(host, device, topology)
    yield from _leaves(ends, topology)
    a, b = probe.hosts[0], probe.hosts[-1]
    yield Component(f"{a}+{b}", "pair", f"{a} or {b}, or what is between them")


def _loopback(probe: Probe, topology: Topology) -> Iterator[Component]:
    host = probe.hosts[0]
    platform = topology.hosts[host].platform
    rnic = platform.rnic_by_device[str(probe.params["rnic"])]
    endpoint = str(probe.params["endpoint"])
    gpu = platform.gpu_by_name.get(endpoint)
    yield from (_rnic(host, rnic.device), _path(host, rnic.device, endpoint), _host(host))
    node = endpoint
    if gpu is None:
        yield _numa(host, node)
    else:
        yield Component(f"{host}/{endpoint}", "gpu", f"GPU {endpoint}")
        yield Component(f"{host}/{endpoint}:pcie", "gpu_pcie", f"the PCIe side of {endpoint}")
        node = f"numa{gpu.numa}"
        yield _path(host, rnic.device, f"{node}-gpus", f"the GPUs of {node}")
    yield _path(host, rnic.device, f"{node}-side", f"everything on {node}")
    if node != f"numa{rnic.numa}":
        yield Component(f"{host}/cpu-interconnect", "cpu_interconnect", "the link between the CPU sockets")
    ends = dict.fromkeys((rnic.pcie_switch, gpu.pcie_switch if gpu else None))
    stays_below = gpu is not None and len(ends) == 1
    for name in ends:
        if name is not None:
            yield from _switch(host, name, uplink=not stays_below)


MOMENT = "moment"
"""The kind of all that crossed the network in one round, of which a while may have been slow: then no part is bad."""

_LASTS = frozenset({"rnic", "link", "host", "numa", "pcie_switch", "leaf"})


def over_rounds(hosts: AbstractSet[str], topology: Topology) -> Callable[[Probe], Iterable[Component]]:
    """
    Return a function that gives the parts on the way of a probe of many rounds among *hosts*.

    These are parts on the way of many partners, not what is between two hosts. Between switches the way is not known.
    With static routes all that is sent to an RNIC comes down one cable of its leaf, and all that one other leaf sends
    to it goes up one cable there; with adaptive routing each cable takes a share of all. So the cables above a leaf are
    a bundle, and these flows are the ways over one of them. Where all hosts are slow for a while, it is the moment.
    """
    several = len({topology.hosts[host].rack for host in hosts}) > 1  # one rack of all cannot be told from the rest

    def rack(host: str) -> Iterator[Component]:
        name = topology.hosts[host].rack if several else None
        return iter(() if name is None else (Component(f"rack {name}", "rack", f"the rack {name}"),))

    @cache
    def end(host: str, device: str) -> tuple[Component, ...]:
        of_leaf = _leaves(((host, device),), topology)
        return (*filter(_lasts, host_side(host, device, topology)), *rack(host), *of_leaf)

    @cache
    def together(hosts: tuple[str, ...]) -> tuple[Component, ...]:
        found = [one for host in hosts for one in _of_gpus(host)]
        found += (
            one for host in hosts for rnic in topology.hosts[host].platform.rnics for one in end(host, rnic.device)
        )
        if len({topology.hosts[host].leaves for host in hosts}) > 1:
            found += [_uplinks(one.name) for one in found if one.kind == "leaf"]
        return tuple(dict.fromkeys(found))

    def passed(probe: Probe) -> Iterable[Component]:
        moment = Component(probe.phase, MOMENT, "all that hosts send to each other")
        if "peer_rnic" in probe.params and len(probe.hosts) > 1:
            ends = ends_of(probe)
            return (*end(*ends[0]), *end(*ends[1]), *_across(ends, topology), moment)
        if len(probe.hosts) > 1:
            return (*together(probe.hosts), moment)
        (host,) = probe.hosts
        if probe.kind == "all_to_all":
            return (_of_gpus(host)[0], _host(host), *rack(host))
        return (*(one for one in components_of(probe, topology) if _lasts(one) or one.kind == "path"), *rack(host))

    return passed


def _of_gpus(host: str) -> tuple[Component, Component]:
    """Return what a collective passes through before it comes to an RNIC."""
    nvlink = Component(f"{host}/nvlink", "nvlink", "NVLink of the host, or a GPU")
    return nvlink, Component(host, "gpus", "the way from its GPUs to its RNICs")


def _lasts(one: Component) -> bool:
    return one.kind in _LASTS and not one.name.endswith(":uplink")


def _across(ends: Iterable[tuple[str, str]], topology: Topology) -> Iterator[Component]:
    """Yield the cables above the two leaves of a sender and a receiver, each with the way over them."""
    (up, _), (down, target) = ((leaf_of(topology.hosts[host], device), f"{host}/{device}") for host, device in ends)
    if up is not None and down is not None and up != down:
        for leaf, text in sorted({up: f"up from {up} to {target}", down: f"down to {target}"}.items()):
            way = f"{leaf}:uplinks:{target}"
            yield Component(way, "uplinks", text)
            yield _uplinks(leaf, way)


def _uplinks(leaf: str, way: str = "") -> Component:
    return Component(f"{leaf}:uplinks", "uplinks", f"the cables above {leaf}, or the switches that they lead to", way)


def _rnic_to_rnic(probe: Probe, topology: Topology) -> Iterator[Component]:
    host = probe.hosts[0]
    platform = topology.hosts[host].platform
    source, target = str(probe.params["rnic"]), str(probe.params["peer_rnic"])
    for device in (source, target):
        # In a loopback the bytes never leave the RNIC; here they cross the cable to the leaf.
        yield from (_rnic(host, device), _port(host, device))
    ends = [platform.rnic_by_device[device] for device in (source, target)]
    yield from _leaves(ends_of(probe), topology)
    for switch in dict.fromkeys(rnic.pcie_switch for rnic in ends):
        if switch is not None:
            yield from _switch(host, switch, uplink=True)
    yield from (_path(host, rnic.device, f"numa{rnic.numa}") for rnic in ends)
    yield from (_numa(host, node) for node in dict.fromkeys(f"numa{rnic.numa}" for rnic in ends))
    yield Component(f"{host}/{source}->{target}", "path", f"the way from {source} to {target} over their leaves")
    if "link_class" in probe.params:  # it leaves its leaf
        yield from _above(host, (source, target), topology)
    yield _host(host)


def _above(host: str, devices: tuple[str, str], topology: Topology) -> Iterator[Component]:
    """
    Yield what is above the leaves of two RNICs of a host.

    With adaptive routing this is any of it, with a static route what that takes: OpenSM deals the same spine to all
    RNICs in the same place under their leaves.
    """
    platform, leaves = topology.hosts[host].platform, topology.hosts[host].leaves
    for device in devices:
        leaf = leaves[platform.rnic_by_device[device].rail]
        way = f"{host}/{device}:above"
        yield Component(way, "uplinks", f"the cable above {leaf} that the routes of {device} take")
        yield _uplinks(leaf, way)
    way = f"{host}:above"
    yield Component(way, "uplinks", "the switch above the leaves that the routes of the host take")
    spines = spines_above(leaves[0], topology)
    yield Component(spines, "uplinks", "what is between the leaves: a spine, or a cable to it", way)


def _all_to_all(probe: Probe, topology: Topology) -> Iterator[Component]:
    host = probe.hosts[0]
    gpus = gpus_of(probe)
    for index in gpus:
        yield Component(f"{host}/gpu{index}", "gpu", f"GPU gpu{index}")
        yield Component(f"{host}/gpu{index}:nvlink", "nvlink", f"the NVLink side of gpu{index}")
    yield Component(f"{host}/nvlink", "nvlink", f"NVLink of the host ({len(topology.hosts[host].platform.gpus)} GPUs)")
    yield _host(host)
    label = str(probe.params["series"])
    yield Component(f"{host}/nvlink:{label}", "nvlink", f"NVLink among GPUs {fold(map(str, gpus))}")


def _collective(probe: Probe, topology: Topology) -> Iterator[Component]:
    """
    Yield the very parts that a collective's bytes pass, so that one slow RNIC explains all collectives that it slows.

    Two hosts that are slow only with each other, or some of several hosts, are a component of their own.
    """
    if probe.params.get("link_class") == NVLINK:
        for name in probe.hosts:
            yield Component(f"{name}/nvlink", "nvlink", f"NVLink of the host to the others of {fold(probe.hosts)}")
            yield _host(name)
        return
    hosts = [topology.hosts[name] for name in probe.hosts]
    for host in hosts:
        for rnic in host.platform.rnics:
            yield from (_rnic(host.name, rnic.device), _port(host.name, rnic.device))
        yield _host(host.name)
    yield from map(_leaf, dict.fromkeys(chain.from_iterable(host.leaves for host in hosts)))
    first, *others = probe.hosts
    if len(others) > 1:
        text = f"some of {fold(probe.hosts)}, or what is between them"
        yield Component(f"{first}+{len(others)}-more", "group", text)
    elif others:
        yield Component("+".join(probe.hosts), "pair", f"{' or '.join(probe.hosts)}, or what is between them")


def _switch(host: str, name: str, *, uplink: bool) -> Iterator[Component]:
    yield Component(f"{host}/{name}", "pcie_switch", f"PCIe switch {name}")
    if uplink:
        yield Component(f"{host}/{name}:uplink", "pcie_switch", f"the uplink of PCIe switch {name}")
