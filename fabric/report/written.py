"""Write an inventory file from what was found: platforms and hosts folded, a comment where something is a guess."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import mode

from fabric.model import gathered
from fabric.model.found import FoundFabric, FoundHost, FoundRnic
from fabric.model.text import fold
from fabric.model.topology import Gpu, PcieSwitch, Platform, Rnic
from fabric.report import templates

NEAR = ("PIX", "PXB")
"""What ``nvidia-smi topo -m`` prints for two parts on one PCIe switch, or on several switches below one bridge."""

_BASELINES = {("infiniband", 400.0): "h100-ndr", ("ethernet", 400.0): "h100-ndr", ("infiniband", 200.0): "a100-hdr"}


def inventory_text(found: FoundFabric, *, name: str, backend: str, address: str = "{name}", ssh: str = "") -> str:
    """
    Return the file; *address* is the template by which hosts were reached, *ssh* the lines of that section.

    Hosts that reported nothing are left out, and named in a comment.
    """
    answering = {host.name: host for host in found.hosts.values() if host.rnics}
    usual = _usual_gbps(answering.values())
    kept = {host: _in_use(one, usual) for host, one in answering.items()}
    layouts = _layouts(answering, kept, usual)
    alike = gathered((layout, host) for host, layout in layouts.items())
    names = {layout: f"platform-{number}" for number, layout in enumerate(alike, start=1)}
    at = {cable.a.node: cable.b.node for cable in found.cables}
    leaves = {host: _leaves(host, kept[host], at) for host in answering}
    entries = gathered(((names[layout], leaves[host]), host) for host, layout in layouts.items())
    return templates.text(
        "inventory.yaml.j2",
        told=len(answering),
        found=found,
        unread=list(_unread(found)),
        name=name,
        backend=backend,
        ssh=ssh,
        platforms=[(names[layout], layout, _left_out(answering, kept, hosts[0])) for layout, hosts in alike.items()],
        address="" if address == "{name}" else address,
        hosts=[(fold(hosts), platform, on) for (platform, on), hosts in entries.items()],
        switches=list(_switches(found, set().union(*leaves.values()), max(usual.values(), default=0.0))),
    )


def _unread(found: FoundFabric) -> Iterator[str]:
    """Yield what could not be read, equal reasons with all their hosts."""
    reasons = ((reason, host.name) for host in found.hosts.values() for reason in host.unread)
    for reason, hosts in gathered(reasons).items():
        yield f"{fold(hosts)}: {_comment(reason)}"
    yield from (_comment(reason) for reason in found.unread)


def _comment(text: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _usual_gbps(hosts: Iterable[FoundHost]) -> Mapping[str, float]:
    """Return the usual rate of each device over all hosts: a link that came up slower does not count."""
    active = (rnic for host in hosts for rnic in host.rnics if rnic.active)
    rates = gathered((rnic.device, rnic.rate_gbps) for rnic in active if rnic.rate_gbps is not None)
    return {device: mode(found) for device, found in rates.items()}


def _in_use(host: FoundHost, usual: Mapping[str, float]) -> tuple[FoundRnic, ...]:
    """Return the ports of the compute network, whose devices usually run at the highest rate, by PCI address."""
    most = max((usual.get(rnic.device, 0.0) for rnic in host.rnics), default=0.0)
    fast = [rnic for rnic in host.rnics if usual.get(rnic.device) == most and (rnic.active or rnic.port == 1)]
    return tuple(sorted(fast, key=lambda rnic: (rnic.pci_address or "", _number(rnic.device), rnic.port)))


def _number(device: str) -> int:
    return int(device[len(device.rstrip("0123456789")) :] or 0)


def _layouts(
    hosts: Mapping[str, FoundHost], kept: Mapping[str, Sequence[FoundRnic]], usual: Mapping[str, float]
) -> dict[str, Platform]:
    """Return the layout of each host; one without reported GPUs gets that of hosts with the same RNICs."""
    found = {name: _layout(host, kept[name], usual) for name, host in hosts.items()}
    ports = {name: tuple((one.device, one.port, one.numa) for one in kept[name]) for name in hosts}
    whole: dict[object, Platform] = {}
    for name, layout in found.items():
        if layout.gpus:
            whole.setdefault(ports[name], layout)
    return {name: layout if layout.gpus else whole.get(ports[name], layout) for name, layout in found.items()}


def _layout(host: FoundHost, rnics: Sequence[FoundRnic], usual: Mapping[str, float]) -> Platform:
    """Return the platform of one host, rails in the order of its RNICs; its name is given once all are known."""
    switches, of = _pcie_switches(host, rnics)
    nearest = _nearest_gpus(host, rnics, of)
    nodes = [*host.gpu_numa.values(), *(rnic.numa or 0 for rnic in rnics)]
    layer, rate_gbps = (rnics[0].link_layer, usual.get(rnics[0].device, 0.0)) if rnics else ("infiniband", 0.0)
    guess = _BASELINES.get((layer, rate_gbps), "h100-ndr")
    return Platform(
        name="",
        gpus=tuple(Gpu(int(gpu[3:]), host.gpu_numa.get(gpu, 0), of.get(gpu)) for gpu in host.gpus),
        rnics=tuple(
            Rnic(one.device, one.port, rail, one.numa or 0, of.get(one.device), rate_gbps, tuple(nearest[one.device]))
            for rail, one in enumerate(rnics)
        ),
        numa_nodes=max(host.numa_nodes or 1, 1 + max(nodes, default=0)),
        pcie_switches=switches,
        link_layer=layer,
        baseline="mi300x-400" if host.gpu_maker == "amd" else guess,
        gpu_maker=host.gpu_maker,
    )


def _pcie_switches(host: FoundHost, rnics: Sequence[FoundRnic]) -> tuple[tuple[PcieSwitch, ...], dict[str, str]]:
    """Return the PCIe switches, numbered in the order of their parts, and the switch of each part."""
    numa = {**host.gpu_numa, **{rnic.device: rnic.numa for rnic in rnics}}
    group = {part: part for part in (*host.gpus, *(rnic.device for rnic in rnics))}
    for (one, other), distance in host.distance.items():
        if distance in NEAR and one in group and other in group:
            first, second = group[one], group[other]
            group = {part: first if at == second else at for part, at in group.items()}
    switches: list[PcieSwitch] = []
    of: dict[str, str] = {}
    for parts in gathered((at, part) for part, at in group.items()).values():
        if len(parts) > 1:
            known = [node for part in parts if (node := numa.get(part)) is not None]
            switches.append(PcieSwitch(f"pcie{len(switches)}", known[0] if known else 0))
            of |= dict.fromkeys(parts, switches[-1].name)
    return tuple(switches), of


def _nearest_gpus(host: FoundHost, rnics: Sequence[FoundRnic], of: Mapping[str, str]) -> dict[str, list[int]]:
    """Return the GPUs of each RNIC: those of its PCIe switch, else of its NUMA node, dealt out in order."""
    found: dict[str, list[int]] = {rnic.device: [] for rnic in rnics}
    homes: dict[object, tuple[list[str], list[int]]] = defaultdict(lambda: ([], []))
    for rnic in rnics:
        homes[of.get(rnic.device, rnic.numa)][0].append(rnic.device)
    for gpu in host.gpus:
        node = host.gpu_numa.get(gpu, 0)
        home = of.get(gpu, node)
        homes[home if homes[home][0] else node][1].append(int(gpu[3:]))
    for devices, indices in homes.values():
        for at, index in enumerate(indices if devices else ()):
            found[devices[at * len(devices) // len(indices)]].append(index)
    return found


def _left_out(hosts: Mapping[str, FoundHost], kept: Mapping[str, Sequence[FoundRnic]], host: str) -> list[FoundRnic]:
    """Return ports of a host that are not on the compute network."""
    return [rnic for rnic in hosts[host].rnics if rnic not in kept[host]]


def _leaves(host: str, rnics: Sequence[FoundRnic], at: Mapping[str, str]) -> tuple[str, ...]:
    """Return the switch of each rail; *at* has the switch of each RNIC. Empty if not all are known."""
    names = tuple(at.get(f"{host}/{rnic.device}", "") for rnic in rnics)
    return names if all(names) else ()


def _switches(
    found: FoundFabric, leaves: set[str], host_gbps: float
) -> Iterator[tuple[str, str, tuple[str, ...], int, float, bool]]:
    """
    Yield switches of each tier with their cables upwards: leaves have hosts below, spines leaves, cores spines.

    Each entry: names, tier, the switches above, cables to each and their rate, and whether that rate is only a guess
    (*host_gbps*, that of the hosts), because none was reported.
    """
    cables = ((one.a.node, one.b.node, one.rate_gbps or 0.0) for one in found.cables if "/" not in one.a.node)
    between = [(one, other, rate) for one, other, rate in cables if {one, other} <= found.switches]
    rates = gathered((pair, rate) for one, other, rate in between for pair in ((one, other), (other, one)))
    joined = gathered(rates)
    tiers, below = [leaves], set(leaves)
    while len(tiers) < 3 and tiers[-1]:
        upper = {other for one in tiers[-1] for other in joined.get(one, ())} - below
        tiers.append(upper)
        below |= upper
    for tier, names in zip(("leaf", "spine", "core"), tiers, strict=False):
        higher = set().union(*tiers[tiers.index(names) + 1 :])
        entries: dict[tuple[tuple[str, ...], int, float], list[str]] = defaultdict(list)
        for name in sorted(names):
            up = [other for other in joined.get(name, ()) if other in higher]
            count = mode(len(rates[name, other]) for other in up) if up else 0
            rate = mode(mode(rates[name, other]) for other in up) if up else 0.0
            entries[tuple(sorted(up)), count, rate].append(name)
        for (uppers, count, rate), lower in entries.items():
            yield fold(lower), tier, uppers, count, rate or host_gbps, not rate
