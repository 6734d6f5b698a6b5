"""An inventory file written from what was found: platforms and hosts folded, a comment where something is a guess."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fabric.model.found import FoundFabric, FoundHost, FoundRnic
from fabric.model.text import fold, unfold

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
    lines = [
        f"# What {len(told)} hosts and {len(found.switches)} switches said is there. Read it before you believe it:",
        "# what is marked 'guess' follows from no answer. Every key is described in docs/inventory.md.",
        *(f"# not read: {reason}" for reason in _unread(found)),
        f"name: {name}",
        f"backend: {backend}",
        *([ssh] if ssh else []),
        "platforms:",
    ]
    for layout, platform in names.items():
        lines += _platform(platform, layout, _left_out(layouts, layout, told, kept))
    lines += ["hosts:", *_hosts({host: names[layout] for host, layout in layouts.items()}, leaves, address)]
    rate_gbps = max(usual.values(), default=0.0)
    return "\n".join([*lines, *_switches(found, set().union(*leaves.values()), rate_gbps)]) + "\n"


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
) -> list[str]:
    """Ports of the first host of a platform that are not on the compute network."""
    host = next(name for name, one in layouts.items() if one is layout or one == layout)
    others = [rnic for rnic in hosts[host].rnics if rnic not in kept[host]]
    return [f"{rnic.device} ({rnic.rate_gbps or 0:g} Gb/s{'' if rnic.active else ', down'})" for rnic in others]


def _platform(name: str, layout: _Layout, left_out: Sequence[str]) -> Iterator[str]:
    """One platform; PCIe switches are numbered in the order of what hangs off them."""
    baseline = _BASELINES.get((layout.link_layer, layout.rate_gbps), "h100-ndr")
    baseline = "mi300x-400" if layout.gpu_maker == "amd" else baseline
    yield f"  {name}:"
    yield f"    baseline: {baseline}                      # guess, by the line rate: see docs/baselines.md"
    yield from [] if layout.gpu_maker == "nvidia" else [f"    gpu_maker: {layout.gpu_maker}"]
    yield f"    link_layer: {layout.link_layer}"
    yield f"    numa_nodes: {layout.numa_nodes}"
    of = {part: at for at, switch in enumerate(layout.switches) for part in switch.parts}
    if layout.switches:
        yield "    pcie_switches:"
        yield from (f"      - {{name: pcie{at}, numa: {one.numa}}}" for at, one in enumerate(layout.switches))
    if layout.gpus:
        yield "    gpus:"
    for index, node in layout.gpus:
        at = of.get(f"GPU{index}")
        yield f"      - {{index: {index}, {f'numa: {node}' if at is None else f'pcie_switch: pcie{at}'}}}"
    yield "    rnics:                                  # rails by PCI address; nearest_gpus dealt out in order: guesses"
    nearest = _nearest(layout)
    for rail, (device, port, numa) in enumerate(layout.rnics):
        at = of.get(device)
        place = f"numa: {numa or 0}" if at is None else f"pcie_switch: pcie{at}"
        number = f", port: {port}" if port != 1 else ""
        gpus = f", nearest_gpus: [{', '.join(map(str, nearest[device]))}]" if nearest[device] else ""
        yield f"      - {{device: {device}{number}, rail: {rail}, {place}, line_rate_gbps: {layout.rate_gbps:g}{gpus}}}"
    yield from (f"      # not on the compute network, left out: {text}" for text in left_out)


def _nearest(layout: _Layout) -> dict[str, list[int]]:
    """The GPUs of each RNIC: those of its PCIe switch, else of its NUMA node, dealt out in order."""
    numa = {f"GPU{index}": node for index, node in layout.gpus}
    found: dict[str, list[int]] = {device: [] for device, _, _ in layout.rnics}
    of = {part: at for at, switch in enumerate(layout.switches) for part in switch.parts}
    homes: dict[object, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for device, _, node in layout.rnics:
        homes[of.get(device, ("numa", node))][0].append(device)
    for gpu, on in numa.items():
        home = of.get(gpu, ("numa", on))
        homes[home if homes[home][0] else ("numa", on)][1].append(gpu)
    for devices, gpus in homes.values():
        for at, gpu in enumerate(gpus if devices else ()):
            found[devices[at * len(devices) // len(gpus)]].append(int(gpu[3:]))
    return found


def _leaves(host: str, rnics: Sequence[FoundRnic], at: Mapping[str, str]) -> tuple[str, ...]:
    """The switch of each rail, *at* which each RNIC is; empty where not all are known."""
    names = tuple(at.get(f"{host}/{rnic.device}", "") for rnic in rnics)
    return names if all(names) else ()


def _hosts(platforms: Mapping[str, str], leaves: Mapping[str, tuple[str, ...]], address: str) -> Iterator[str]:
    """Hosts folded: one entry for those of one platform on the same leaves, or on leaves that are counted alike."""
    of_platform: dict[str, dict[tuple[str, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for host, platform in platforms.items():
        of_platform[platform][leaves[host]].append(host)
    where = "" if address == "{name}" else f', address: "{address}"'
    for platform, groups in of_platform.items():
        folded, size = _by_unit(list(groups.items()))
        unit = f", hosts_per_unit: {size}" if size else ""
        for on, hosts in folded:
            listed = ", ".join(f'"{leaf}"' if size else leaf for leaf in on)
            said = f", leaves: [{listed}]{unit}" if on else ""
            note = "" if on else "   # which leaves they are on was not said for every RNIC"
            yield f'  - {{names: "{fold(hosts)}", platform: {platform}{where}{said}}}{note}'


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


def _switches(found: FoundFabric, leaves: set[str], host_gbps: float) -> Iterator[str]:
    """
    Switches of each tier with their cables upwards: leaves have hosts below, spines leaves, cores spines.

    Of a cable whose rate nobody said that of the hosts, *host_gbps*, is the guess.
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
    if leaves:
        yield "switches:"
    if leaves and not any(joined.values()):
        yield "  # what joins the leaves was not said: write their uplinks, or the paths between them are not known"
    for tier, names in zip(("leaf", "spine", "core"), tiers, strict=False):
        higher = set().union(*tiers[tiers.index(names) + 1 :])
        entries: dict[tuple[tuple[str, ...], int, float], list[str]] = defaultdict(list)
        for name in sorted(names):
            up = {other: count for other, count in joined[name].items() if other in higher}
            count = Counter(up.values()).most_common(1)[0][0] if up else 0
            rate = Counter(rates[name, other].most_common(1)[0][0] for other in up).most_common(1)[0][0] if up else 0.0
            entries[tuple(sorted(up)), count, rate].append(name)
        for (upper_names, count, rate), lower in entries.items():
            many = f", count: {count}" if count > 1 else ""
            cables = f'uplinks: {{to: "{fold(upper_names)}"{many}, line_rate_gbps: {rate or host_gbps:g}}}'
            guess = "" if rate or not upper_names else "   # guess: the rate of these cables was not said"
            yield f'  - {{names: "{fold(lower)}", tier: {tier}{f", {cables}" if upper_names else ""}}}{guess}'
