"""Compare the cables that were found with those of the inventory, and with a blueprint, port by port.

Findings: cables that are exchanged, in the wrong leaf, missing, too slow, or extra.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from fabric.checks.kind import problem, unknown, warning
from fabric.model.finding import Finding
from fabric.model.found import FoundCable, FoundEnd, FoundFabric, FoundRnic
from fabric.model.text import counted
from fabric.model.topology import Topology

_WHY_PLAN = "what is found bad at one end of a cable is looked for at the other end that the plan names"
_MOST = 6
"""Most names of a kind in one finding (a choice)."""


@dataclass(frozen=True)
class Planned:
    """
    A plan of cables in the names of an inventory: *ends* maps each end of a cable to its other end.

    The end of a host is its RNIC (``gpu001/mlx5_0``, without a port). *foreign*: cables of which only one end is known
    here. *relabelled_switches*: those whose ports have other names in the plan than here. *double_rnics*: RNICs with
    two cables in the plan, one by device and one by interface; neither is believed.
    """

    ends: Mapping[FoundEnd, FoundEnd]
    foreign: tuple[FoundCable, ...]
    relabelled_switches: tuple[str, ...]
    double_rnics: tuple[str, ...] = ()

    @property
    def rnics(self) -> Mapping[str, FoundEnd]:
        """Return the planned switch port of each RNIC."""
        return {end.node: other for end, other in self.ends.items() if _is_rnic(end)}

    @property
    def uplinks(self) -> Mapping[FoundEnd, FoundEnd]:
        """Return the planned cables between switches, each from both of its ends."""
        return _uplinks(self.ends)


def planned(cables: Sequence[FoundCable], found: FoundFabric, topology: Topology, hosts: Sequence[str]) -> Planned:
    """
    Return the part of a plan that can be compared with what was found on *hosts* and between switches.

    A plan may name an RNIC by its RDMA device or by its network interface. Where no port of a switch has the name of
    one that was found, the plan uses other labels (``1/1/1`` for port 1), and nothing is guessed about them.
    """
    reporting = {name: found.hosts[name] for name in hosts if name in found.hosts and found.hosts[name].rnics}
    rnics = {
        (host.name, name): FoundEnd(f"{host.name}/{rnic.device}", "")
        for host in reporting.values()
        for rnic in host.rnics
        for name in (rnic.device, rnic.netdev)
    }
    switches = {*topology.switches, *found.switches}

    def known(end: FoundEnd) -> FoundEnd | None:
        return rnics.get((end.node, end.port)) or (end if end.node in switches else None)

    ports, seen = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for end in (end for cable in cables for end in (cable.a, cable.b)):
        ports[end.node].add(end.port)
    for end in (end for cable in found.cables for end in (cable.a, cable.b)):
        seen[end.node].add(end.port)
    relabelled = {name for name in switches & ports.keys() & seen.keys() if seen[name].isdisjoint(ports[name])}
    ends: dict[FoundEnd, FoundEnd] = {}
    foreign: list[FoundCable] = []
    both = [(cable, known(cable.a), known(cable.b)) for cable in cables]
    often = Counter(end for _, *two in both for end in two if end is not None)
    for cable, a, b in both:
        if a is not None and b is not None and relabelled.isdisjoint((a.node, b.node)):
            ends |= {a: b, b: a} if often[a] == often[b] == 1 else {}
        elif (a is None) != (b is None):
            other = (cable.a if a is None else cable.b).node
            # A host that was not asked, or reported nothing, is not compared with the plan.
            foreign += [cable] if other in reporting or other not in topology.hosts else []
    double = sorted(end.node for end, times in often.items() if times > 1)
    return Planned(ends, tuple(foreign), tuple(sorted(relabelled)), tuple(double))


def against_plan(plan: Planned, found: FoundFabric, topology: Topology) -> Iterator[Finding]:
    """
    Report cables that are exchanged, moved, not planned or missing, with both ports; and what is not compared.

    Each cable that is not as planned is reported once, two exchanged ones together.
    """
    nodes = {end.node for end in plan.ends}
    there: dict[FoundEnd, FoundEnd] = {}
    for cable in found.cables:
        a, b = (FoundEnd(end.node, "") if "/" in end.node else end for end in (cable.a, cable.b))
        there |= {a: b, b: a} if nodes & {a.node, b.node} else {}
    wrong = {end: other for end, other in there.items() if plan.ends.get(end) != other}
    yield from _exchanged_as_planned(plan, wrong, topology)
    yield from _misplaced_as_planned(plan, wrong, nodes, topology)
    listed = bool(_uplinks(there))
    for a, b in plan.uplinks.items() if listed else ():  # an RNIC's cable is reported by its host
        if a not in there and b not in there and (a.node, a.port) < (b.node, b.port):
            what = f"the cable from {a} to {b} is missing or down"
            yield problem(what, _WHY_PLAN, "plug it, or mend cable and modules", *_about(a, b))
    yield from _not_compared(plan, listed=listed)


def _exchanged_as_planned(plan: Planned, wrong: dict[FoundEnd, FoundEnd], topology: Topology) -> Iterator[Finding]:
    """Report two cables whose ends are in each other's place, and take them out of *wrong*."""
    for one, place in list(wrong.items()):
        home, other = plan.ends.get(one), plan.ends.get(place)
        if one not in wrong or home is None or other is None or wrong.get(other) != home:
            continue
        first, second = (_called(end, topology) for end in (one, other))
        what = f"the cables of {first} (in {place}) and {second} (in {home}) are exchanged"
        advice = f"swap them: {one} belongs in {home}, {other} in {place}"
        yield problem(what, _WHY_PLAN, advice, *_about(one, other, home, place))
        for end in (one, other, home, place):
            del wrong[end]


def _misplaced_as_planned(
    plan: Planned, wrong: Mapping[FoundEnd, FoundEnd], nodes: AbstractSet[str], topology: Topology
) -> Iterator[Finding]:
    """Report every other cable that is not as planned, from its planned end; from its RNIC where it has one."""
    reported: set[FoundEnd] = set()
    for one in sorted(wrong, key=lambda end: (end not in plan.ends, not _is_rnic(end))):
        place, home = wrong[one], plan.ends.get(one)
        if one in reported or (home is None and not nodes >= {one.node, place.node}):
            continue
        reported |= {one, place}
        if home is None:
            what, advice = f"the cable from {_called(one, topology)} to {place} is not planned", "remove it, or plan it"
        else:
            what = f"{_called(one, topology)} is in {_called(place, topology)}, and belongs in {home}"
            advice = f"move the cable of {one} to {home}"
        yield problem(what, _WHY_PLAN, advice, *_about(one, place))


def _is_rnic(end: FoundEnd) -> bool:
    return "/" in end.node


def _uplinks(ends: Mapping[FoundEnd, FoundEnd]) -> Mapping[FoundEnd, FoundEnd]:
    return {end: other for end, other in ends.items() if not _is_rnic(end) and not _is_rnic(other)}


def _called(end: FoundEnd, topology: Topology) -> str:
    """Return the name of an end, with its rack where the inventory has it."""
    host = topology.hosts.get(end.node.partition("/")[0])
    return f"{end} (rack {host.rack})" if host is not None and host.rack else str(end)


def _about(*ends: FoundEnd) -> Iterator[str]:
    """Return the hosts and switches of the ends, each once."""
    return iter(dict.fromkeys(end.node.partition("/")[0] for end in ends))


def _not_compared(plan: Planned, *, listed: bool) -> Iterator[Finding]:
    """Report the parts of the plan that could not be compared."""
    if not plan.ends and not plan.relabelled_switches and not plan.double_rnics:
        yield unknown(
            "no cable of the blueprint is between hosts and switches of the inventory", _WHY_PLAN, "use its names"
        )
    if plan.relabelled_switches:
        names = f"{', '.join(plan.relabelled_switches[:_MOST])}{', ...' if plan.relabelled_switches[_MOST:] else ''}"
        what = f"no port of {names} is called in the blueprint as here: its cables are compared with the inventory only"
        yield unknown(what, _WHY_PLAN, "call ports there as iblinkinfo or LLDP does")
    for name in plan.double_rnics:
        what = (
            f"{name} has two cables in the blueprint, one by its device and one by its interface: neither is compared"
        )
        yield unknown(what, _WHY_PLAN, "take one of them out", name.partition("/")[0])
    if plan.uplinks and not listed:
        what = "nobody listed the cables between switches: those of the blueprint are not compared"
        yield unknown(what, _WHY_PLAN, "InfiniBand: see fabric check; Ethernet: hosts hear their own cables only")
    if plan.foreign:
        each = [f"{one.a.node} {one.a.port} to {one.b.node} {one.b.port}" for one in plan.foreign]
        what = f"{len(each)} cables of the blueprint have one end that is not known here: {'; '.join(each[:_MOST])}"
        yield unknown(what, _WHY_PLAN, "use the names of the inventory, its RNICs and its switches")


NAME = "wiring"

_SAME = 0.02
"""Relative tolerance of rates, because the kernel and the tools round (54.5 Gb/s of FDR are "56 Gb/sec")."""
_WHY = "every answer to 'which part is bad' follows the cables of the inventory"
_ABOVE = "adaptive and static routes share these cables out evenly: one too few or too many slows all that cross"

Pair = tuple[str, str]
"""The lower and the upper switch."""


def wiring(
    found: FoundFabric, topology: Topology, hosts: Sequence[str], cables: Sequence[FoundCable] = ()
) -> Iterator[Finding]:
    """
    Report what differs on these *hosts* and between all switches; a finding names both ends of a cable, with ports.

    Cables that nobody could list are UNKNOWN, never taken for right. Cables in the blueprint *cables* are compared with
    it, port by port, the rest with the inventory.
    """
    for reason in found.unread:
        yield unknown(reason, "cables that are not listed are not compared", "see fabric check")
    for host in hosts:
        found_host = found.hosts.get(host)
        if found_host is None or not found_host.rnics:
            reason = "; ".join(found_host.unread) if found_host and found_host.unread else "it was not asked"
            what = f"it told nothing of its RNICs ({reason}): its cables are known by their description at most"
            yield unknown(what, _WHY, "see fabric check", host)
    yield from _same_guid(found)
    wanted = {
        link.a: link
        for link in topology.links()
        if "/" in link.a and link.a.partition("/")[0] in hosts
    }  # fmt: skip
    there = {cable.a.node: cable for cable in found.cables if "/" in cable.a.node}
    plan = planned(cables, found, topology, hosts)
    places = {name: link.b for name, link in wanted.items()}
    by_plan = {name: str(end) for name, end in plan.rnics.items() if name in wanted}
    wrong = {
        name: there[name].b for name, leaf in places.items()
        if name in there and name not in by_plan and there[name].b.node != leaf
    }  # fmt: skip
    yield from _misplaced(wrong, places, topology)
    yield from _absent([name for name in wanted if name not in there], places | by_plan, found)
    yield from _too_slow((there[name], link.line_rate_gbps) for name, link in wanted.items() if name in there)
    if cables:
        yield from against_plan(plan, found, topology)
        yield from _other_leaf(plan, places)
    if not plan.uplinks:
        yield from _between_switches(found, topology)
    yield from _unlike(found, topology, hosts)
    unknown_adapters = sorted(one for one in found.unknown_adapters if one.partition(" ")[0] not in topology.hosts)
    if unknown_adapters:
        names = ", ".join(unknown_adapters[:6])
        yield warning(
            f"{len(unknown_adapters)} adapters on these switches are of no host that was asked: {names}",
            "their traffic shares the fabric with what is measured",
            "add their hosts to the inventory, or leave them out on purpose",
        )


def _other_leaf(plan: Planned, places: Mapping[str, str]) -> Iterator[Finding]:
    """Report RNICs that the blueprint and the inventory put into different leaves."""
    rnics = plan.rnics
    unlike = [name for name, leaf in places.items() if name in rnics and rnics[name].node != leaf]
    if unlike:
        name = unlike[0]
        what = f"the blueprint has {name} in {rnics[name]}, the inventory in {places[name]}"
        more = f"; so {len(unlike) - 1} more RNICs" if unlike[1:] else ""
        yield problem(what + more, _WHY, "correct one of them", *dict.fromkeys(one.partition("/")[0] for one in unlike))


def _same_guid(found: FoundFabric) -> Iterator[Finding]:
    """Report InfiniBand ports of two hosts that have the same GUID: a list of cables can show only one of them."""
    ports: dict[int, dict[str, str]] = defaultdict(dict)
    for host in found.hosts.values():
        for rnic in host.rnics:
            if rnic.guid is not None and rnic.link_layer == "infiniband":
                ports[rnic.guid].setdefault(host.name, f"{host.name}/{rnic.device}")
    for guid, names in ports.items():
        if len(names) > 1:
            what = f"{' and '.join(names.values())} have the same GUID {guid:#018x}"
            advice = "burn the GUID of the board into it again (flint sg), and restart it"
            yield problem(what, "the subnet manager takes them for one port, and routes to one of them", advice, *names)


def _misplaced(wrong: Mapping[str, FoundEnd], wanted: Mapping[str, str], topology: Topology) -> Iterator[Finding]:
    """
    Report RNICs in the wrong switch: first whole hosts that changed places, then exchanged pairs, then single RNICs.
    """
    left = dict(wrong)
    yield from _moved_hosts(left, topology)
    while left:
        name, end = next(iter(left.items()))
        del left[name]
        host = name.partition("/")[0]
        partners = [one for one, at in left.items() if at.node == wanted[name] and wanted[one] == end.node]
        partner = min(partners, key=lambda one: one.partition("/")[0] != host, default=None)  # one of the host itself
        if partner is None:
            what = f"{name} is in {end}, and belongs in {wanted[name]}"
            yield problem(what, _WHY, f"move the cable of {name} to {wanted[name]}, or correct the inventory", host)
            continue
        other = left.pop(partner)
        what = f"the cables of {name} (in {end}) and {partner} (in {other}) are exchanged"
        advice = f"swap {name} and {partner}: {name} belongs in {wanted[name]}, {partner} in {wanted[partner]}"
        yield problem(what, _WHY, advice, *dict.fromkeys((host, partner.partition("/")[0])))


def _moved_hosts(left: dict[str, FoundEnd], topology: Topology) -> Iterator[Finding]:
    """Report hosts all of whose cables are in the leaves of another group, in rail order; take them out of *left*."""
    groups = {host.leaves for host in topology.hosts.values()}
    at: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys(one.partition("/")[0] for one in left):
        host = topology.hosts[name]
        ends = tuple(
            left[f"{name}/{rnic.device}"].node for rnic in host.platform.rnics if f"{name}/{rnic.device}" in left
        )
        if len(set(host.leaves)) > 1 and len(ends) == len(host.platform.rnics) and ends in groups:
            at[name] = ends
    while at:
        name, leaves = next(iter(at.items()))
        home = topology.hosts[name].leaves
        other = next((one for one, ends in at.items() if ends == home and topology.hosts[one].leaves == leaves), None)
        for one in filter(None, (name, other)):
            del at[one]
            for rnic in topology.hosts[one].platform.rnics:
                del left[f"{one}/{rnic.device}"]
        if other is not None:
            what, advice = f"{name} and {other} are in each other's leaves", f"swap {name} and {other}, or their names"
            yield problem(what, _WHY, advice, name, other)
        else:
            what = f"{name} is in {leaves[0]} to {leaves[-1]}, and belongs in {home[0]} to {home[-1]}"
            yield problem(what, _WHY, f"move {name} to its rack, or correct its leaves in the inventory", name)


def _absent(names: Sequence[str], wanted: Mapping[str, str], found: FoundFabric) -> Iterator[Finding]:
    """Report RNICs for which no cable was found; hosts that reported nothing are left out."""
    ports = {f"{host.name}/{rnic.device}": rnic for host in found.hosts.values() for rnic in host.rnics}
    for name in names:
        host = name.partition("/")[0]
        found_host, rnic = found.hosts.get(host), ports.get(name)
        if found_host is None or not found_host.rnics:
            continue  # it is reported once for the host
        if rnic is None:
            yield problem(f"no RNIC {name} on the host", _WHY, "see fabric check, or correct the platform", host)
        elif not rnic.active:
            advice = f"plug it into {wanted[name]}, or mend cable and module"
            yield problem(f"{name} has no link: its cable to {wanted[name]} is missing or down", _WHY, advice, host)
        else:
            yield unknown(
                f"{name} is up, and nobody said which switch it is in",
                _WHY,
                "Ethernet: lldpd on the host and on the switch; InfiniBand: see fabric check",
                host,
            )


def _too_slow(cables: Iterable[tuple[FoundCable, float]]) -> Iterator[Finding]:
    """Report cables of RNICs that run slower than the rate given with them."""
    for cable, want in cables:
        if cable.rate_gbps is not None and cable.rate_gbps < want * (1 - _SAME):
            what = f"the cable of {cable.a.node} in {cable.b} runs at {cable.rate_gbps:g} Gb/s, not at {want:g}"
            why = "half the lanes, or an older speed: every test over it is as much slower"
            yield problem(what, why, "reseat or replace cable and module", cable.a.node.partition("/")[0])


def _between_switches(found: FoundFabric, topology: Topology) -> Iterator[Finding]:
    """Report cables between switches: exchanged pairs first, then pairs of switches with too few or too many."""
    cables = _by_switches(found, topology)
    if not cables:
        return  # on Ethernet hosts hear only their leaves
    uplinks = [link for link in topology.links() if "/" not in link.a]
    wanted = Counter((link.a, link.b) for link in uplinks)
    rates = {(link.a, link.b): link.line_rate_gbps for link in uplinks}
    there = Counter({pair: len(have) for pair, have in cables.items()})
    few, many = wanted - there, there - wanted
    yield from _exchanged(few, many, cables)
    for (lower, upper), count in (+few).items():
        what = f"{counted(count, 'cable')} between {lower} and {upper} missing or down ({wanted[lower, upper]} wanted)"
        yield problem(what, _ABOVE, f"look for a free or dark port on {lower} and {upper}", lower, upper)
    for pair, count in (+many).items():
        ends = ", ".join(f"{cable.a} to {cable.b}" for cable in cables[pair])
        what = f"{counted(count, 'cable')} too many between {pair[0]} and {pair[1]}: {ends}"
        yield problem(what, _ABOVE, "remove it, or correct the inventory", *pair)
    for pair, cable in ((pair, cable) for pair, have in cables.items() for cable in have if pair in rates):
        if cable.rate_gbps is not None and cable.rate_gbps < rates[pair] * (1 - _SAME):
            what = f"the cable from {cable.a} to {cable.b} runs at {cable.rate_gbps:g} Gb/s, not at {rates[pair]:g}"
            yield problem(what, _ABOVE, "reseat or replace cable and modules", *pair)


def _by_switches(found: FoundFabric, topology: Topology) -> dict[Pair, list[FoundCable]]:
    """Return the cables between switches by their ends, with the lower tier of the inventory first."""
    rank = {name: ("leaf", "spine", "core").index(switch.tier) for name, switch in topology.switches.items()}
    cables: dict[Pair, list[FoundCable]] = defaultdict(list)
    for cable in found.cables:
        if {cable.a.node, cable.b.node} <= found.switches:
            upward = rank.get(cable.a.node, 0) <= rank.get(cable.b.node, 0)
            one, other = (cable.a, cable.b) if upward else (cable.b, cable.a)
            cables[one.node, other.node].append(FoundCable(one, other, cable.rate_gbps))
    return cables


def _exchanged(
    few: Counter[Pair], many: Counter[Pair], cables: Mapping[Pair, Sequence[FoundCable]]
) -> Iterator[Finding]:
    """Report two cables whose ends are in each other's place: a-c and b-d are missing, a-d and b-c are too many."""
    for lower, upper in list(few):
        while few[lower, upper]:
            others = ((other, far) for other, far in +few if other != lower)
            cross = next((pair for pair in others if many[lower, pair[1]] and many[pair[0], upper]), None)
            if cross is None:
                break
            other, far = cross
            few.subtract(((lower, upper), cross))
            many.subtract(((lower, far), (other, upper)))
            one, two = (_ends(cables[pair]) for pair in ((lower, far), (other, upper)))
            yield problem(
                f"cables are exchanged: {one}, and {two}",
                _ABOVE,
                f"swap them: {lower} belongs to {upper}, {other} to {far}",
                *(lower, other, upper, far),
            )


def _ends(cables: Sequence[FoundCable]) -> str:
    """Return ``leaf3 port 18 leads to spine2 port 4``; for parallel cables, say that it is one of them."""
    if len(cables) == 1:
        return f"{cables[0].a} leads to {cables[0].b}"
    one, other = (", ".join(getattr(cable, end).port for cable in cables) for end in ("a", "b"))
    return f"one of {cables[0].a.node} ports {one} leads to {cables[0].b.node} (ports {other})"


def _unlike(found: FoundFabric, topology: Topology, hosts: Sequence[str]) -> Iterator[Finding]:
    """
    Report RNICs whose board or firmware differs from most RNICs of the same name and platform; a tie names nobody.
    """
    alike: dict[tuple[str, str], dict[str, FoundRnic]] = defaultdict(dict)
    for name in hosts:
        found_host = found.hosts.get(name)
        for rnic in found_host.rnics if found_host else ():
            alike[topology.hosts[name].platform.name, rnic.device][name] = rnic
    for (_, device), rnics in alike.items():
        for what, attribute in (("board (PSID)", "board_id"), ("firmware", "firmware")):
            values: dict[str, str]
            values = {name: value for name, rnic in rnics.items() if (value := getattr(rnic, attribute)) is not None}
            most = Counter(values.values()).most_common(2)
            if len(most) < 2 or most[0][1] == most[1][1]:
                continue
            for name, value in values.items():
                if value != most[0][0]:
                    text = f"{device} has {what} {value}, {most[0][1]} others have {most[0][0]}"
                    yield warning(text, "hosts that are meant to be alike differ", "update it, or say why not", name)
