"""Whether RoCE packets of probes and collectives share one lossless queue, set alike on all hosts and switches.

The reported settings of both ends of every cable are joined: host ports from one shell text, switch ports from NVUE.
``rules.py`` lists the settings to compare and the rules for what is wrong; this file finds who differs from most, and
reports both.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fabric.checks.kind import (
    Answers,
    Argv,
    HostCheck,
    HostNeeds,
    Looked,
    excuse,
    parsed,
    problem,
    quoted,
    unknown,
    usual,
    warning,
)
from fabric.checks.roce.rules import LOSSY, RULES, RoceEnd, RoceSetting, with_knobs
from fabric.model import gathered
from fabric.model.finding import Finding, Severity
from fabric.model.text import fold, some
from fabric.model.topology import Host, Topology
from fabric.tools import nvue, roce, switch_qos
from fabric.tools.roce import RocePort

TO_HOSTS = "ports to hosts"
"""
Switch ports to hosts; only ports to known RNICs are compared, since other ports of a host may be in the same switch.
"""


def ask_host(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Ask every port of the host, where its links are Ethernet."""
    platform = host.platform
    if not needs.measured or platform.link_layer != "ethernet":
        return ()
    return (roce.ask((rnic.device, rnic.port) for rnic in platform.rnics),)


def ask_switches(topology: Topology, asked: Iterable[str]) -> dict[str, tuple[Argv, ...]]:
    """
    Return the read-only commands for every Ethernet switch that NVUE manages, when any *asked* host is on Ethernet.
    """
    if not any(topology.hosts[name].platform.link_layer == "ethernet" for name in asked):
        return {}
    argvs = (switch_qos.ROCE, nvue.COMMANDS, nvue.PORTS, nvue.NEIGHBOURS)
    managed = (name for name, login in topology.logins.items() if login.management == "nvue")
    return {name: argvs for name in managed if name in topology.ethernet_switches}


def host_ports(looked: Looked) -> dict[str, RocePort] | None:
    """Return what the ports of a host reported, by device; None when that cannot be read."""
    asked = ask_host(looked.host, looked.needs)
    answer = looked.answers.get(asked[0]) if asked else None
    return None if answer is None else roce.read(answer.stdout)


def ends(hosts: Mapping[str, Looked], switches: Mapping[str, Answers], unread: list[tuple[str, str]]) -> list[RoceEnd]:
    """
    Return every port that answered, with the other end of its cable; *unread* takes switches that did not, and why.
    """
    platforms = [looked.host.platform for looked in hosts.values()]
    wanted = usual(platform.traffic_class for platform in platforms)
    slowed = not platforms or any(platform.congestion_control == "dcqcn" for platform in platforms)
    found = {(end.node, end.port): end for name, looked in hosts.items() for end in _of_host(name, looked)}
    cnp_dscp = usual(end.reported.cnp_dscp for end in found.values())
    cables: list[tuple[tuple[str, str], tuple[str, str]]] = []
    by_address = {(end.node, word): key for key, end in found.items() for word in _called(end.reported)}
    names = {*hosts, *switches}
    for switch, answers in switches.items():
        reasons: list[str] = []
        heard = parsed(answers[nvue.NEIGHBOURS], nvue.read_neighbours, "neighbours", reasons) or ()
        peers = {one.interface: (one.called(names), one.port) for one in heard}
        peers = {port: peer for port, peer in peers.items() if peer[0]}
        if not peers and not reasons:
            reasons.append("LLDP hears no host and no switch of this fabric")
        for end in _of_switch(switch, answers, peers, hosts, reasons):
            found[switch, end.port] = replace(end, wanted=wanted, cnp_dscp=cnp_dscp, slowed_down=slowed)
        unread += ((switch, reason) for reason in reasons)
        cables += (
            ((switch, port), by_address.get((node, far.lower()), (node, far))) for port, (node, far) in peers.items()
        )
    far_of = {one: found[other] for pair in cables for one, other in (pair, pair[::-1]) if other in found}
    listening = {end.node for end in found.values() if end.host is None}
    return [
        replace(end, far=far_of.get(key), heard=key in far_of or _leaf(end) not in listening)
        for key, end in found.items()
        if key in far_of or end.host is not None or end.alike != TO_HOSTS
    ]


def _leaf(end: RoceEnd) -> str:
    """Return the leaf that a host's RNIC is plugged into; empty for a port of a switch."""
    rnic = end.host.platform.rnic_by_device.get(end.port) if end.host else None
    return end.host.leaves[rnic.rail] if end.host and rnic and rnic.rail < len(end.host.leaves) else ""


def _of_host(name: str, looked: Looked) -> Iterator[RoceEnd]:
    platform = looked.host.platform
    for device, reported in (host_ports(looked) or {}).items():
        rnic = platform.rnic_by_device.get(device)
        yield RoceEnd(
            name,
            device,
            f"platform {platform.name}",
            reported,
            platform.traffic_class,
            rate_gbps=rnic.line_rate_gbps if rnic else None,
            host=looked.host,
            cnp_dscp=reported.cnp_dscp,
            slowed_down=platform.congestion_control == "dcqcn",
        )


def _of_switch(
    name: str,
    answers: Answers,
    peers: Mapping[str, tuple[str, str]],
    hosts: Mapping[str, Looked],
    unread: list[str],
) -> Iterator[RoceEnd]:
    """Yield the ports of a switch that hear a neighbour of this fabric; other ports do not matter."""
    if any(answer.truncated for answer in answers.values()):
        unread.append("an answer is cut")
        return
    usual = parsed(answers[switch_qos.ROCE], switch_qos.read_roce, "RoCE", unread)
    ports = parsed(answers[nvue.PORTS], nvue.read_ports, "ports", unread)
    if usual is None or ports is None:
        return
    configured = parsed(answers[nvue.COMMANDS], partial(switch_qos.read_ports, usual), "profiles", unread)
    if configured is None:
        return
    others, own = configured
    for port in (port for port in ports if port in peers):
        alike = TO_HOSTS if peers[port][0] in hosts else "ports to switches"
        reported = replace(own.get(port, others), interface=port, mtu=ports[port].mtu)
        yield RoceEnd(name, port, alike, reported, None, rate_gbps=ports[port].speed_gbps)


def _called(reported: RocePort) -> Iterator[str]:
    """Yield the names that lldpd may use for a host's port: its MAC address, or the interface."""
    return (word.lower() for word in (reported.address, reported.interface) if word)


CABLES_MOST = 4
"""Most cables that one finding names (a choice: two lines)."""

_UNLIKE = "ports that are not set alike are not measured alike, and one lossy hop is enough to drop"


def _read_host(looked: Looked) -> Iterator[Finding]:
    """Report that a host's settings cannot be read, or that it measures in more than one class."""
    ports = host_ports(looked)
    if ports is None:
        (asked,) = ask_host(looked.host, looked.needs)
        answer = looked.answers[asked]
        reason = excuse(answer) if answer.exit_status else "the answer is cut"
        yield _unread(reason, "mlnx_qos -i INTERFACE there")
    else:
        yield from _classes(looked.host, ports)


def roce_check(switches: Mapping[str, Answers]) -> HostCheck:
    """Return the check, with the switches' answers to ``ask_switches``."""
    return HostCheck("roce", ask_host, _read_host, lambda hosts: _compare_ends(hosts, switches))


ROCE = roce_check({})
"""The same check on hosts alone."""


def _compare_ends(hosts: Mapping[str, Looked], switches: Mapping[str, Answers]) -> Iterator[Finding]:
    """Report what is wrong with the ends of cables, and which ends differ from most."""
    unread: list[tuple[str, str]] = []
    found = ends(hosts, switches, unread)
    for switch, reason in unread:
        yield _unread(reason, "nv show qos roce there", switch)
    yield from _merged(_findings(found))


def _merged(findings: Iterable[tuple[RoceEnd, Finding]]) -> Iterator[Finding]:
    """
    Merge equal findings of many ends: first the ports of one node, then nodes that have the finding on the same ports.
    """
    of_node = gathered(((one, end.node), end) for end, one in findings)
    alike: dict[tuple[Finding, str, str, int], list[RoceEnd]] = {}
    for (one, _), those in of_node.items():
        ports = fold(end.port for end in those)
        interfaces = fold(end.reported.interface for end in those if end.reported.interface)
        alike.setdefault((one, ports, interfaces, those[0].priority), []).extend(those)
    for (one, ports, interfaces, priority), those in alike.items():
        advice = one.advice.format(port="IF" if interfaces == "none" else interfaces, priority=priority)
        nodes = tuple(dict.fromkeys(end.node for end in those))
        yield replace(one, hosts=nodes, what=f"{ports}{_cables(those, many=len(nodes) > 1)}: {one.what}", advice=advice)


def _unread(reason: str, advice: str, *switch: str) -> Finding:
    return unknown(f"the settings of RoCE cannot be read: {reason}", LOSSY, advice, *switch)


def _cables(those: Sequence[RoceEnd], *, many: bool) -> str:
    """Return the cables in words: the other ends, or both ends where *many* nodes are concerned."""
    far = [f"{end.name} -- {end.far.name}" if many else end.far.name for end in those if end.far is not None]
    word = f"{'cables' if len(far) > 1 else 'cable'}{'' if many else ' to'}"
    return f" ({word} {some(far, CABLES_MOST)})" if far else ""


def _findings(found: Sequence[RoceEnd]) -> Iterator[tuple[RoceEnd, Finding]]:
    """
    Yield what is wrong by rule, each setting of an end once; then ends that differ in a setting no rule has reported.
    """
    settings = with_knobs(found)
    kinds = Counter(end.alike for end in found)
    done: set[tuple[str, str]] = set()
    for rule in RULES:
        wrong = [(end, fault) for end in found if (end.name, rule.about) not in done and (fault := rule.wrong(end))]
        done.update((end.name, rule.about) for end, _ in wrong)
        many = Counter(end.alike for end, _ in wrong)
        for end, fault in wrong:
            few = settings[rule.about].of is not None and 2 * many[end.alike] < kinds[end.alike]
            severity = Severity.PROBLEM if few else rule.severity
            yield end, Finding("", severity, (), fault, rule.why, _fix(settings[rule.about], end))
    compared = {about: one.of for about, one in settings.items() if one.of is not None}
    told = {
        end.name: {about: _text(of(end)) for about, of in compared.items() if (end.name, about) not in done}
        for end in found
    }
    like = gathered(((end.alike, about), text) for end in found for about, text in told[end.name].items())
    most = {key: usual(texts) for key, texts in like.items()}
    for end in found:
        unlike = {about: text for about, text in told[end.name].items() if text != most[end.alike, about]}
        if unlike:
            named = [f"{settings[at].name} {text} (elsewhere {most[end.alike, at]})" for at, text in unlike.items()]
            fixes = "; ".join(dict.fromkeys(_fix(settings[about], end) for about in unlike))
            yield end, problem(", ".join(named), _UNLIKE, f"set all alike: {fixes}")


def _fix(setting: RoceSetting, end: RoceEnd) -> str:
    return setting.at_host if end.host else setting.at_switch


def _text(value: object) -> str:
    if isinstance(value, frozenset):
        return ",".join(map(str, sorted(value))) or "none"
    return "not told" if value is None else quoted(str(value))


def _classes(host: Host, ports: Mapping[str, RocePort]) -> Iterator[Finding]:
    """Probes and collectives in two classes measure two different queues."""
    platform, nccl = host.platform, dict(host.platform.env).get("NCCL_IB_TC")
    if nccl is not None and platform.traffic_class is not None and nccl != str(platform.traffic_class):
        what = f"NCCL_IB_TC is {quoted(nccl)}, traffic_class {platform.traffic_class}"
        yield problem(what, "collectives and bandwidth probes would measure two different queues", "write only one")
    if platform.traffic_class is None and any(port.pfc for port in ports.values()):
        why = f"PFC is on, so that one class is lossless; all probes are in another, class 0: {LOSSY}"
        yield warning("no traffic_class in the inventory", why, "write traffic_class in the platform: DSCP x 4 + 2")
