"""An inventory file written from what was found: platforms and hosts folded, a comment where something is a guess."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fabric.model.found import FoundFabric, FoundHost, FoundRnic
from fabric.model.text import fold, unfold
from fabric.report import templates

NEAR = ("PIX", "PXB")
"""What ``nvidia-smi topo -m`` prints where two parts hang off one PCIe switch, or off several below one bridge."""

_BASELINES = {("infiniband", 400.0): "h100-ndr", ("ethernet", 400.0): "h100-ndr", ("infiniband", 200.0): "a100-hdr"}


@dataclass(frozen=True, slots=True)
class _Switch:
    """One PCIe switch: its NUMA node, and what hangs off it."""

    numa: int
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Layout:
    """What hosts of one platform have in common."""

    link_layer: str
    numa_nodes: int
    switches: tuple[_Switch, ...]
    gpus: tuple[tuple[int, int], ...]  # index and NUMA node
    rnics: tuple[tuple[str, int, int | None], ...]  # device, port and NUMA node, in rail order
    rate_gbps: float
    gpu_maker: str = "nvidia"

    @property
    def baseline(self) -> str:
        """The one for its line rate, a guess."""
        guess = _BASELINES.get((self.link_layer, self.rate_gbps), "h100-ndr")
        return "mi300x-400" if self.gpu_maker == "amd" else guess

    @property
    def switch_of(self) -> dict[str, int]:
        """The PCIe switch of each part that has one: they are numbered in the order of what hangs off them."""
        return {part: at for at, switch in enumerate(self.switches) for part in switch.parts}

    @property
    def nearest(self) -> dict[str, list[int]]:
        """The GPUs of each RNIC: those of its PCIe switch, else of its NUMA node, dealt out in order."""
        found: dict[str, list[int]] = {device: [] for device, _, _ in self.rnics}
        of = self.switch_of
        homes: dict[object, tuple[list[str], list[int]]] = defaultdict(lambda: ([], []))
        for device, _, node in self.rnics:
            homes[of.get(device, ("numa", node))][0].append(device)
        for gpu, on in self.gpus:
            home = of.get(f"GPU{gpu}", ("numa", on))
            homes[home if homes[home][0] else ("numa", on)][1].append(gpu)
        for devices, gpus in homes.values():
            for at, gpu in enumerate(gpus if devices else ()):
                found[devices[at * len(devices) // len(gpus)]].append(gpu)
        return found


def inventory_text(found: FoundFabric, *, name: str, backend: str, address: str = "{name}", ssh: str = "") -> str:
    """
    The file; *address* is the template by which hosts were reached, *ssh* the lines of that section.

    Hosts that told nothing are left out, and named in a comment.
    """
    told = {host.name: host for host in found.hosts.values() if host.rnics}
    usual = _usual_gbps(told.values())
    kept = {host: _in_use(one, usual) for host, one in told.items()}
    layouts = _layouts(told, kept, usual)
    names: dict[_Layout, str] = {}
    for layout in layouts.values():
        names.setdefault(layout, f"platform-{len(names) + 1}")
    at = {cable.a.node: cable.b.node for cable in found.cables}
    leaves = {host: _leaves(host, kept[host], at) for host in told}
    return templates.text(
        "inventory.yaml.j2",
        told=len(told),
        found=found,
        unread=list(_unread(found)),
        name=name,
        backend=backend,
        ssh=ssh,
        platforms=[(at, layout, _left_out(layouts, layout, told, kept)) for layout, at in names.items()],
        address="" if address == "{name}" else address,
        hosts=_hosts({host: names[layout] for host, layout in layouts.items()}, leaves),
        switches=list(_switches(found, set().union(*leaves.values()), max(usual.values(), default=0.0))),
    )


def _unread(found: FoundFabric) -> Iterator[str]:
    """What nobody answered, equal reasons with all their hosts."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for host in found.hosts.values():
        for reason in host.unread:
            reasons[reason].append(host.name)
    for reason, hosts in reasons.items():
        yield f"{fold(hosts)}: {_comment(reason)}"
    yield from (_comment(reason) for reason in found.unread)


def _comment(text: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _usual_gbps(hosts: Iterable[FoundHost]) -> Mapping[str, float]:
    """The usual rate of each device over all hosts: a link that came up slower is not what it is."""
    rates: dict[str, Counter[float]] = defaultdict(Counter)
    for host in hosts:
        for rnic in host.rnics:
            if rnic.active and rnic.rate_gbps is not None:
                rates[rnic.device][rnic.rate_gbps] += 1
    return {device: counts.most_common(1)[0][0] for device, counts in rates.items()}


def _in_use(host: FoundHost, usual: Mapping[str, float]) -> tuple[FoundRnic, ...]:
    """The ports of the compute network: those whose device is usually up at the highest rate, by PCI address."""
    most = max((usual.get(rnic.device, 0.0) for rnic in host.rnics), default=0.0)
    fast = [rnic for rnic in host.rnics if usual.get(rnic.device) == most and (rnic.active or rnic.port == 1)]
    return tuple(sorted(fast, key=lambda rnic: (rnic.pci_address or "", _number(rnic.device), rnic.port)))


def _number(device: str) -> int:
    digits = re.search(r"[0-9]*$", device, re.ASCII)
    return int(digits[0] or 0) if digits else 0


def _layouts(
    hosts: Mapping[str, FoundHost], kept: Mapping[str, Sequence[FoundRnic]], usual: Mapping[str, float]
) -> dict[str, _Layout]:
    """The layout of each host; one whose GPUs were not told has that of hosts with the same RNICs."""
    found = {name: _layout(host, kept[name], usual) for name, host in hosts.items()}
    whole: dict[object, _Layout] = {}
    for layout in found.values():
        if layout.gpus:
            whole.setdefault(layout.rnics, layout)
    return {name: layout if layout.gpus else whole.get(layout.rnics, layout) for name, layout in found.items()}


def _layout(host: FoundHost, rnics: Sequence[FoundRnic], usual: Mapping[str, float]) -> _Layout:
    parts = [*host.gpus, *(rnic.device for rnic in rnics)]
    group = {part: part for part in parts}
    for (one, other), distance in host.distance.items():
        if distance in NEAR and one in group and other in group:
            first, second = group[one], group[other]
            group = {part: first if at == second else at for part, at in group.items()}
    numa = {**host.gpu_numa, **{rnic.device: rnic.numa for rnic in rnics}}
    members: dict[str, list[str]] = defaultdict(list)
    for part, at in group.items():
        members[at].append(part)
    switches = tuple(
        _Switch(next((node for part in each if (node := numa.get(part)) is not None), 0), tuple(each))
        for each in members.values()
        if len(each) > 1
    )
    nodes = max(host.numa_nodes or 1, 1 + max((node or 0 for node in numa.values()), default=0))
    return _Layout(
        rnics[0].link_layer if rnics else "infiniband",
        nodes,
        switches,
        tuple((int(gpu[3:]), host.gpu_numa.get(gpu, 0)) for gpu in host.gpus),
        tuple((rnic.device, rnic.port, rnic.numa) for rnic in rnics),
        usual.get(rnics[0].device, 0.0) if rnics else 0.0,
        host.gpu_maker,
    )


def _left_out(
    layouts: Mapping[str, _Layout],
    layout: _Layout,
    hosts: Mapping[str, FoundHost],
    kept: Mapping[str, Sequence[FoundRnic]],
) -> list[FoundRnic]:
    """Ports of the first host of a platform that are not on the compute network."""
    host = next(name for name, one in layouts.items() if one is layout or one == layout)
    return [rnic for rnic in hosts[host].rnics if rnic not in kept[host]]


def _leaves(host: str, rnics: Sequence[FoundRnic], at: Mapping[str, str]) -> tuple[str, ...]:
    """The switch of each rail, *at* which each RNIC is; empty where not all are known."""
    names = tuple(at.get(f"{host}/{rnic.device}", "") for rnic in rnics)
    return names if all(names) else ()


def _hosts(
    platforms: Mapping[str, str], leaves: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, str, tuple[str, ...], int]]:
    """Hosts folded: one entry for those of one platform on the same leaves, or on leaves that are counted alike."""
    of_platform: dict[str, dict[tuple[str, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for host, platform in platforms.items():
        of_platform[platform][leaves[host]].append(host)
    for platform, groups in of_platform.items():
        folded, size = _by_unit(list(groups.items()))
        yield from ((fold(hosts), platform, on, size) for on, hosts in folded)


_Groups = list[tuple[tuple[str, ...], list[str]]]
"""Leaves in rail order, and the hosts on them."""


def _by_unit(groups: _Groups) -> tuple[_Groups, int]:
    """All groups as one whose leaves have {unit} in them, and the hosts of a unit; else as they are, and 0."""
    every, sizes = [host for _, hosts in groups for host in hosts], [len(hosts) for _, hosts in groups]
    alike = len(groups) > 2 and {*sizes[:-1]} == {sizes[0]} and sizes[-1] <= sizes[0]
    if not alike or unfold(fold(every)) != tuple(every) or len({len(on) for on, _ in groups}) > 1:
        return groups, 0
    pattern = tuple(map(_counted_up, groups[0][0], groups[1][0]))
    made = [tuple(leaf.format(unit=number) for leaf in pattern) for number in range(len(groups))]
    return ([(pattern, every)], sizes[0]) if made == [on for on, _ in groups] else (groups, 0)


def _counted_up(first: str, second: str) -> str:
    """``su{unit:02}-leaf0`` of su00-leaf0 and su01-leaf0: where the one has a 0 and the other a 1."""
    pairs = zip(re.split("([0-9]+)", first), re.split("([0-9]+)", second), strict=False)
    return "".join(
        ("{unit}" if len(one) == 1 else f"{{unit:0{len(one)}}}")
        if one.isdecimal() and len(one) < 10 and (int(one), other) == (0, f"{1:0{len(one)}}")
        else one
        for one, other in pairs
    )


def _switches(
    found: FoundFabric, leaves: set[str], host_gbps: float
) -> Iterator[tuple[str, str, tuple[str, ...], int, float, bool]]:
    """
    Switches of each tier with their cables upwards: leaves have hosts below, spines leaves, cores spines.

    Names, tier, the switches above, cables to each and their rate, and whether that of the hosts, *host_gbps*, is the
    guess because nobody said it.
    """
    joined: dict[str, Counter[str]] = defaultdict(Counter)
    rates: dict[tuple[str, str], Counter[float]] = defaultdict(Counter)
    for cable in found.cables:
        if "/" not in cable.a.node and {cable.a.node, cable.b.node} <= found.switches:
            for one, other in ((cable.a.node, cable.b.node), (cable.b.node, cable.a.node)):
                joined[one][other] += 1
                rates[one, other][cable.rate_gbps or 0.0] += 1
    tiers, below = [leaves], set(leaves)
    while len(tiers) < 3 and tiers[-1]:
        upper = {other for one in tiers[-1] for other in joined[one]} - below
        tiers.append(upper)
        below |= upper
    for tier, names in zip(("leaf", "spine", "core"), tiers, strict=False):
        higher = set().union(*tiers[tiers.index(names) + 1 :])
        entries: dict[tuple[tuple[str, ...], int, float], list[str]] = defaultdict(list)
        for name in sorted(names):
            up = {other: count for other, count in joined[name].items() if other in higher}
            count = Counter(up.values()).most_common(1)[0][0] if up else 0
            rate = Counter(rates[name, other].most_common(1)[0][0] for other in up).most_common(1)[0][0] if up else 0.0
            entries[tuple(sorted(up)), count, rate].append(name)
        for (uppers, count, rate), lower in entries.items():
            yield fold(lower), tier, uppers, count, rate or host_gbps, not rate
