"""What hosts and switches say is there, beside what an inventory says: one line for all hosts that differ alike."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fabric.model.found import FoundCable, FoundFabric, FoundHost
from fabric.model.text import fold
from fabric.model.topology import Host, Topology

NOTHING = "-"
"""What stands for what is not there, or was not said."""


@dataclass(frozen=True, slots=True)
class BesideFile:
    """*what* of these *hosts* (or switches, folded) is *found* to be this, and is that in the *file*."""

    hosts: str
    what: str
    found: str
    file: str


def beside_file(found: FoundFabric, topology: Topology, hosts: Sequence[str]) -> list[BesideFile]:
    """
    Every difference of *hosts*, and of the switches and the cables between them as far as they were listed.

    What a host did not tell is no difference: it is said in ``found.unread`` and of each host.
    """
    cables = {cable.a.node: cable for cable in found.cables}
    alike: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for name in hosts:
        if (told := found.hosts.get(name)) is None or not told.rnics:
            alike["the host", "told nothing", "there"].append(name)
            continue
        for what, now, then in _of_host(told, topology.hosts[name], cables):
            if now != then:
                alike[what, now, then].append(name)
    return [
        *(BesideFile(fold(names), *difference) for difference, names in alike.items()),
        *_of_switches(found, topology, hosts),
    ]


def _of_host(told: FoundHost, host: Host, cables: Mapping[str, FoundCable]) -> Iterator[tuple[str, str, str]]:
    """What there is to compare of one host: what, as found, and as in the file."""
    there = {(rnic.device, rnic.port): rnic for rnic in told.rnics}
    for rnic in host.platform.rnics:
        now = there.get((rnic.device, rnic.port))
        if now is None:
            yield f"{rnic.device} port {rnic.port}", NOTHING, "there"
            continue
        cable = cables.get(f"{told.name}/{rnic.device}")
        yield f"{rnic.device} leaf", cable.b.node if cable else NOTHING, host.leaf(rnic.rail) or NOTHING
        yield f"{rnic.device} link layer", now.link_layer, host.platform.link_layer
        yield f"{rnic.device} NUMA node", str(rnic.numa if now.numa is None else now.numa), str(rnic.numa)
        gbps = (cable.rate_gbps if cable else None) or now.rate_gbps or rnic.line_rate_gbps
        rate = f"{gbps:g} Gb/s" if now.active else "down"
        yield f"{rnic.device} link", rate, f"{rnic.line_rate_gbps:g} Gb/s"
    for gpu in host.platform.gpus if told.gpus else ():
        yield f"{gpu.name} NUMA node", str(told.gpu_numa.get(f"GPU{gpu.index}", gpu.numa)), str(gpu.numa)
    yield "GPUs", str(len(told.gpus or host.platform.gpus)), str(len(host.platform.gpus))
    yield "NUMA nodes", str(told.numa_nodes or host.platform.numa_nodes), str(host.platform.numa_nodes)


def _of_switches(found: FoundFabric, topology: Topology, hosts: Iterable[str]) -> Iterator[BesideFile]:
    """Switches, and how many cables two of them share; nothing where no cable between switches was listed."""
    now = _by_pair(((cable.a.node, cable.b.node) for cable in found.cables), found.switches)
    if not now:
        return
    then = _by_pair(((link.a, link.b) for link in topology.links_between(tuple(hosts))), topology.switches)
    known = {name for pair in then for name in pair} | {leaf for name in hosts for leaf in topology.hosts[name].leaves}
    if extra := sorted(found.switches - topology.switches.keys()):
        yield BesideFile(fold(extra), "the switch", "there", NOTHING)
    if missing := sorted(known - found.switches):
        yield BesideFile(fold(missing), "the switch", NOTHING, "there")
    for pair in sorted(now.keys() | then.keys()):
        if now[pair] != then[pair] and {*pair} <= known & found.switches:
            yield BesideFile("--".join(pair), "cables", str(now[pair]), str(then[pair]))


def _by_pair(ends: Iterable[tuple[str, str]], switches: Container[str]) -> Counter[tuple[str, str]]:
    """How many cables two switches share, whichever end is named first."""
    return Counter((min(pair), max(pair)) for pair in ends if pair[0] in switches and pair[1] in switches)
