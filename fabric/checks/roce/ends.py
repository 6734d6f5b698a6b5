"""Both ends of every RoCE cable as they told to be set: host ports by one shell text, switch ports by NVUE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from fabric.checks.kind import Answers, Argv, HostNeeds, Looked, parsed
from fabric.model.topology import Host, Platform, Topology
from fabric.tools import nvue, roce, switch_qos
from fabric.tools.roce import RocePort
from fabric.tools.switch_qos import PortQos

TO_HOSTS = "ports to hosts"
"""Of these only those to RNICs are of interest: a host's other ports may be in the same switch."""


@dataclass(frozen=True, slots=True)
class RoceEnd:
    """
    One port: what it told, the *class* that is measured in, and the other end of its cable where somebody heard it.

    *host* is None at a switch; *alike* says which ports it is compared with, *interface* what its own tools call it;
    *heard*: False where its leaf told whom it hears, and did not hear it.
    """

    node: str
    port: str
    interface: str
    alike: str
    told: RocePort | PortQos
    wanted: int | None
    mtu: int | None = None
    rate_gbps: float | None = None
    host: Host | None = None
    far: RoceEnd | None = field(default=None, compare=False)
    cnp_dscp: int | None = None
    slowed_down: bool = True
    heard: bool = True

    @property
    def name(self) -> str:
        """``gpu003/mlx5_2``, ``su0-leaf2/swp3``."""
        return f"{self.node}/{self.port}"

    @property
    def priority(self) -> int:
        """Of the class that is measured in; the kernel's map is DSCP / 8 until it is altered, Cumulus Linux's too."""
        wanted = self.wanted or 0
        return self.told.priority_of.get(wanted >> 2, wanted >> 5)


def class_of(platform: Platform) -> int | None:
    """The traffic class of what is measured: that of probes, else that of collectives."""
    nccl = dict(platform.env).get("NCCL_IB_TC", "")
    told = int(nccl) if nccl.isdecimal() and len(nccl) <= 3 else None  # a byte
    return platform.traffic_class if platform.traffic_class is not None else told


def ask_host(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Every port, where the links are Ethernet."""
    platform = host.platform
    if not needs.measured or platform.link_layer != "ethernet":
        return ()
    return (roce.ask((rnic.device, rnic.port) for rnic in platform.rnics),)


def ask_switches(topology: Topology, asked: Iterable[str]) -> dict[str, tuple[Argv, ...]]:
    """Every switch of an Ethernet fabric that NVUE configures, when any of the *asked* hosts is on one; read only."""
    if not any(topology.hosts[name].platform.link_layer == "ethernet" for name in asked):
        return {}
    argvs = (switch_qos.roce(), nvue.commands(), nvue.ports(), nvue.neighbours())
    logins = ((name, topology.switches[name].login) for name in topology.switches)
    return {
        name: argvs
        for name, login in logins
        if login is not None and login.management == "nvue" and name in topology.ethernet_switches
    }


def told_by(looked: Looked) -> dict[str, RocePort] | None:
    """What the ports of a host told, by device; None when that cannot be read."""
    asked = ask_host(looked.host, looked.needs)
    answer = looked.answers.get(asked[0]) if asked else None
    return None if answer is None or answer.lost else roce.read(answer.stdout)


def ends(hosts: Mapping[str, Looked], switches: Mapping[str, Answers], unread: list[tuple[str, str]]) -> list[RoceEnd]:
    """Every port that told something, with the other end of its cable; *unread* takes which switch did not, and why."""
    platforms = [looked.host.platform for looked in hosts.values()]
    wanted = _most(class_of(platform) for platform in platforms)
    slowed = not platforms or any(platform.congestion_control == "dcqcn" for platform in platforms)
    found = {(end.node, end.port): end for name, looked in hosts.items() for end in _of_host(name, looked)}
    cnp_dscp = _most(end.told.cnp_dscp for end in found.values() if isinstance(end.told, RocePort))
    cables: list[tuple[tuple[str, str], tuple[str, str]]] = []
    by_address = {(end.node, word): key for key, end in found.items() for word in _called(end.told)}
    names = {*hosts, *switches}
    for switch, answers in switches.items():
        reasons: list[str] = []
        heard = parsed(answers[nvue.neighbours()], nvue.read_neighbours, "neighbours", reasons) or ()
        peers = {one.interface: (one.called(names), one.port) for one in heard}
        peers = {port: peer for port, peer in peers.items() if peer[0]}
        if not peers and not reasons:
            reasons.append("LLDP hears no host and no switch of this fabric")
        told = list(_of_switch(switch, answers, peers, hosts, reasons))
        unread += ((switch, reason) for reason in reasons)
        for end in told:
            end = replace(end, wanted=wanted, cnp_dscp=cnp_dscp, slowed_down=slowed)
            found[switch, end.port] = end
        for port, (node, far) in peers.items():
            cables.append(((switch, port), by_address.get((node, far.lower()), (node, far))))
    far_of = {one: found[other] for pair in cables for one, other in (pair, pair[::-1]) if other in found}
    listening = {end.node for end in found.values() if end.host is None}
    return [
        replace(end, far=far_of.get(key), heard=key in far_of or _leaf(end) not in listening)
        for key, end in found.items()
        if key in far_of or end.host is not None or end.alike != TO_HOSTS
    ]


def _leaf(end: RoceEnd) -> str:
    """The one that its RNIC is plugged into; empty at a switch."""
    rnic = end.host.platform.rnic_by_device.get(end.port) if end.host else None
    return end.host.leaves[rnic.rail] if end.host and rnic and rnic.rail < len(end.host.leaves) else ""


def _of_host(name: str, looked: Looked) -> Iterator[RoceEnd]:
    platform = looked.host.platform
    for device, told in (told_by(looked) or {}).items():
        rnic = platform.rnic_by_device.get(device)
        yield RoceEnd(
            name,
            device,
            told.interface,
            f"platform {platform.name}",
            told,
            class_of(platform),
            mtu=told.mtu,
            rate_gbps=rnic.line_rate_gbps if rnic else None,
            host=looked.host,
            cnp_dscp=told.cnp_dscp,
            slowed_down=platform.congestion_control == "dcqcn",
        )


def _of_switch(
    name: str,
    answers: Answers,
    peers: Mapping[str, tuple[str, str]],
    hosts: Mapping[str, Looked],
    unread: list[str],
) -> Iterator[RoceEnd]:
    """Its ports that hear somebody of this fabric; those alone are of interest."""
    if any(answer.truncated for answer in answers.values()):
        unread.append("an answer is cut")
        return
    usual = parsed(answers[switch_qos.roce()], switch_qos.read_roce, "RoCE", unread)
    ports = parsed(answers[nvue.ports()], nvue.read_ports, "ports", unread)
    if usual is None or ports is None:
        return

    def read(stdout: str, stderr: str, status: int) -> tuple[PortQos, dict[str, PortQos]]:
        return switch_qos.read_ports(usual, stdout, stderr, status)

    configured = parsed(answers[nvue.commands()], read, "profiles", unread)
    if configured is None:
        return
    others, own = configured
    for port in (port for port in ports if port in peers):
        alike = TO_HOSTS if peers[port][0] in hosts else "ports to switches"
        told = own.get(port, others)
        yield RoceEnd(name, port, port, alike, told, None, mtu=ports[port].mtu, rate_gbps=ports[port].speed_gbps)


def _called(told: RocePort | PortQos) -> tuple[str, ...]:
    """What lldpd may call a host's port: its MAC address, or the interface."""
    return tuple(word.lower() for word in (told.address, told.interface) if word) if isinstance(told, RocePort) else ()


def _most(values: Iterable[int | None]) -> int | None:
    told = Counter(value for value in values if value is not None)
    return min(told, key=lambda value: (-told[value], value)) if told else None
