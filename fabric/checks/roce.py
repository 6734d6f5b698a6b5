"""Whether RoCE packets of probes and collectives are in one queue, the lossless one, and alike on all hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from fabric.checks.ask import Argv, excuse, quoted
from fabric.checks.kind import HostCheck, Looked, problem, unknown, warning
from fabric.checks.needs import HostNeeds
from fabric.model.finding import Finding
from fabric.model.text import fold
from fabric.model.topology import Host
from fabric.tools import roce
from fabric.tools.roce import RocePort

V1 = "IB/RoCE v1"
MTU_LEAST = 4200
"""What an interface needs for RDMA packets of 4096 bytes and their headers (NVIDIA's MLNX_OFED manual)."""
_LOSSY = "packets may be dropped under load: retries exceeded, which looks like a bad fabric"
_ANY_ROUTE = "a GID of version 1 is not routed and carries no DSCP: packets are in the default queue, or lost"


def _ask(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Every port, where the links are Ethernet."""
    platform = host.platform
    if not needs.measured or platform.link_layer != "ethernet":
        return ()
    return (roce.ask((rnic.device, rnic.port) for rnic in platform.rnics),)


def _ports(looked: Looked) -> dict[str, RocePort] | None:
    asked = _ask(looked.host, looked.needs)
    answer = looked.answers.get(asked[0]) if asked else None
    return None if answer is None or answer.lost else roce.read(answer.stdout)


def _read(looked: Looked) -> Iterator[Finding]:
    """What is wrong with one host, by what the inventory says of its traffic class and GID."""
    ports = _ports(looked)
    if ports is None:
        answer = looked.answers[_ask(looked.host, looked.needs)[0]]
        said = excuse(answer) if answer.lost or answer.exit_status else "the answer is cut"
        yield unknown(f"the settings of RoCE cannot be read: {said}", _LOSSY, "mlnx_qos -i INTERFACE there")
        return
    yield from _classes(looked.host, ports)
    said_by: dict[tuple[Callable[..., Finding], str, str, str], list[str]] = {}
    for device, port in ports.items():
        for tell, what, why, advice in _of_port(looked.host, port):
            said_by.setdefault((tell, what, why, advice), []).append(device)
    for (tell, what, why, advice), devices in said_by.items():
        yield tell(f"{fold(devices)}: {what}", why, advice)


_Told = tuple[Callable[..., Finding], str, str, str]


def _classes(host: Host, ports: Mapping[str, RocePort]) -> Iterator[Finding]:
    """Probes and collectives in two classes measure two different queues."""
    platform, nccl = host.platform, dict(host.platform.env).get("NCCL_IB_TC")
    if nccl is not None and platform.traffic_class is not None and nccl != str(platform.traffic_class):
        what = f"NCCL_IB_TC is {quoted(nccl)}, traffic_class {platform.traffic_class}"
        yield problem(what, "collectives and bandwidth probes would measure two different queues", "write only one")
    if platform.traffic_class is None and any(port.pfc for port in ports.values()):
        why = f"PFC is on, so that one class is lossless; all probes are in another, class 0: {_LOSSY}"
        yield warning("no traffic_class in the inventory", why, "write traffic_class in the platform: DSCP x 4 + 2")


def _of_port(host: Host, port: RocePort) -> Iterator[_Told]:
    wanted, index = host.platform.traffic_class, host.platform.gid_index
    kind = port.gid_types.get(0 if index is None else index)
    if index is None and kind == V1:
        text = "GID 0, which perftest 4.5 takes where gid_index is left out, is RoCE v1"
        yield warning, text, _ANY_ROUTE, "write gid_index in the platform (show_gids; v2 is often 3)"
    elif index is not None and port.gid_types and kind != "RoCE v2":
        text = f"GID {index} is {quoted(kind) if kind else 'empty'}, not RoCE v2"
        yield problem, text, _ANY_ROUTE, "correct gid_index of the platform (show_gids)"
    if port.mtu is not None and port.mtu < MTU_LEAST:
        text = f"MTU {port.mtu}: packets carry less than 4096 bytes"
        yield warning, text, "more headers and more packets: limits may not be met", "ip link set IF mtu 9000"
    if port.host_class is not None and wanted is not None and port.host_class != wanted:
        text = f"the host puts all packets into class {port.host_class}, not {wanted}"
        yield problem, text, "it overrides what programs ask for", "correct tc/1/traffic_class, or the inventory"
    if wanted is not None:
        yield from _of_class(port, wanted)


def _of_class(port: RocePort, wanted: int) -> Iterator[_Told]:
    """Trust, priority, PFC and ECN for the class that is measured in; what was not told is not judged."""
    if port.trust is None:
        yield warning, "whether it trusts DSCP was not told (mlnx_qos)", _LOSSY, "install mlnx-tools"
        return
    if port.trust != "dscp":
        text = f"it trusts {port.trust}, so that the DSCP of class {wanted} counts for nothing"
        yield problem, text, _LOSSY, "mlnx_qos -i IF --trust dscp"
        return
    priority = port.priority_of.get(wanted >> 2, wanted >> 5)  # the kernel's map is DSCP / 8 until it is altered
    if port.pfc is not None and priority not in port.pfc:
        text = f"class {wanted} is priority {priority}, which has no PFC"
        yield warning, text, _LOSSY, "mlnx_qos -i IF --pfc; fine where the fabric is lossy by design"
    off = [side for side, on in port.ecn.items() if priority not in on]
    if off:
        text = f"class {wanted} is priority {priority}, for which ECN is off ({', '.join(off)})"
        yield warning, text, "congestion is not slowed down: innocent hosts are paused", "ecn/*/enable there"


_ALIKE: Mapping[str, Callable[[Host, RocePort], object]] = {
    "MTU": lambda _host, port: port.mtu,
    "trust": lambda _host, port: port.trust,
    "PFC on priorities": lambda _host, port: port.pfc,
    "ECN (NP) on priorities": lambda _host, port: port.ecn.get("roce_np"),
    "ECN (RP) on priorities": lambda _host, port: port.ecn.get("roce_rp"),
    "traffic class of the host": lambda _host, port: port.host_class,
    "GID type": lambda host, port: port.gid_types.get(host.platform.gid_index or 0),
}


def _compare(hosts: Mapping[str, Looked]) -> Iterator[Finding]:
    """Who is set otherwise than most, each host and like ports once."""
    told = {name: ports for name, looked in hosts.items() if (ports := _ports(looked))}
    seen = {
        (name, device): [_text(of(hosts[name].host, port)) for of in _ALIKE.values()]
        for name, ports in told.items()
        for device, port in ports.items()
    }
    usual = [
        min(counts, key=lambda text: (-counts[text], text))
        for counts in (Counter(texts) for texts in zip(*seen.values(), strict=True))
    ]
    others: dict[tuple[str, str], list[str]] = {}
    for (name, device), texts in seen.items():
        pairs = zip(_ALIKE, texts, usual, strict=True)
        unlike = [f"{what} {text} (elsewhere {most})" for what, text, most in pairs if text != most]
        if unlike:
            others.setdefault((name, ", ".join(unlike)), []).append(device)
    for (name, said), devices in others.items():
        why = "hosts that are not set alike are not measured alike, and one lossy hop is enough to drop"
        yield problem(f"{fold(devices)}: {said}", why, "set all hosts alike", name)


def _text(value: object) -> str:
    if isinstance(value, frozenset):
        return ",".join(map(str, sorted(value))) or "none"
    return "not told" if value is None else quoted(str(value))


ROCE = HostCheck("roce", _ask, _read, _compare)
