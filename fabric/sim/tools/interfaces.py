"""The network interfaces of a host: ``ip link``, ``ethtool``, and what a port tells of RoCE."""

from __future__ import annotations

import json
import re

from fabric.sim.hashing import mix64, text_hash
from fabric.sim.phy.port import LINK_UP, Port, lanes
from fabric.sim.tools.call import Said, ToolCall
from fabric.sim.tools.sysfs import ROOT, contents

MANAGEMENT = "eth0"
"""The interface that sessions come in through; it stays up."""


def interfaces(asked: ToolCall) -> dict[str, Port]:
    """The interface of each RNIC: ``eth1`` and on (RoCE), ``ib0`` and on (IPoIB)."""
    found = {}
    for number, rnic in enumerate(asked.rnics):
        port = asked.port_of(rnic.device)
        found[f"eth{number + 1}" if port.node.ethernet else f"ib{number}"] = port
    return found


def mac(port: Port) -> str:
    """What a port sends by, in hexadecimal bytes."""
    return ":".join(f"{port.node.guid >> 8 * at & 0xFF:02x}" for at in range(5, -1, -1))


def lldpctl(asked: ToolCall) -> Said:
    """``lldpctl -f json``: which port of which switch each RoCE interface that is up hears."""
    if asked.words != ("-f", "json"):
        return Said(stderr="lldpctl: simulated rack: only -f json is simulated\n", status=1)
    heard = []
    for name, port in interfaces(asked).items():
        peer = asked.ports.peer(port) if port.node.ethernet and port.physical == LINK_UP else None
        if peer is not None:
            chassis = {peer.node.name: {"id": {"type": "mac", "value": mac(peer)}, "descr": "Cumulus Linux"}}
            swp = f"swp{peer.end[1]}"
            number = {"id": {"type": "ifname", "value": swp}, "descr": swp, "ttl": "120"}
            heard.append({name: {"via": "LLDP", "rid": "1", "chassis": chassis, "port": number}})
    # One neighbour is told as a dictionary, several as a list of such, none not at all.
    told = {"interface": heard[0] if len(heard) == 1 else heard} if heard else {}
    return Said(json.dumps({"lldp": told}, indent=2) + "\n")


def ip(asked: ToolCall) -> Said:
    """One call: ``ip link [show [dev] NAME]`` or ``ip link set [dev] NAME up|down``."""
    words = [word for word in asked.words if not word.startswith("-")]
    if not words or not "link".startswith(words[0]):
        what = words[0] if words else ""
        return Said(stderr=f'Object "{what}" is unknown, try "ip help".\n', status=1)
    ports = interfaces(asked)
    if len(words) > 1 and words[1] == "set":
        return _set(asked, ports, [word for word in words[2:] if word != "dev"])
    names = [word for word in words[1:] if word not in ("show", "list", "dev")]
    wanted = [MANAGEMENT, *ports] if not names else names[:1]
    if any(name not in ports and name != MANAGEMENT for name in wanted):
        return Said(stderr=f'Device "{wanted[0]}" does not exist.\n', status=1)
    order = [MANAGEMENT, *ports]
    return Said("".join(_shown(asked, order.index(name) + 2, name, ports.get(name)) for name in wanted))


def _set(asked: ToolCall, ports: dict[str, Port], words: list[str]) -> Said:
    if len(words) != 2 or words[1] not in ("up", "down"):
        wrong = words[1] if len(words) > 1 else ""
        return Said(stderr=f'Error: either "dev" is duplicate, or "{wrong}" is a garbage.\n', status=255)
    name, state = words
    port = ports.get(name)
    if port is not None:
        asked.ports.set_interface(port, asked.at_s, up=state == "up")
    elif name != MANAGEMENT:
        return Said(stderr=f'Cannot find device "{name}"\n', status=1)
    elif state == "down":
        return Said(stderr="RTNETLINK answers: Operation not permitted\n", status=2)
    return Said()


def _shown(asked: ToolCall, number: int, name: str, port: Port | None) -> str:
    up = port is None or port.interface_up
    lit = port is None or port.physical == LINK_UP
    flags = ["BROADCAST", "MULTICAST", *(["UP"] if up else []), *(["LOWER_UP"] if up and lit else [])]
    flags = ["NO-CARRIER", *flags] if up and not lit else flags
    state = "UP" if up and lit else "DOWN"
    infiniband = port is not None and not port.node.ethernet
    mtu, length = (4092, 256) if infiniband else (9000 if port else 1500, 1000)
    head = f"{number}: {name}: <{','.join(flags)}> mtu {mtu} qdisc mq state {state} mode DEFAULT group default"
    if infiniband and port is not None:
        guid = f"{port.node.guid:016x}"
        place = "00:00:10:49:fe:80:00:00:00:00:00:00:" + ":".join(guid[at : at + 2] for at in range(0, 16, 2))
        all_ones = "00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff"
        return f"{head} qlen {length}\n    link/infiniband {place} brd {all_ones}\n"
    bits = mix64(asked.site.name_hash ^ text_hash(name))
    place = "b8:59:9f:" + ":".join(f"{bits >> shift & 0xFF:02x}" for shift in (0, 8, 16))
    return f"{head} qlen {length}\n    link/ether {place} brd ff:ff:ff:ff:ff:ff\n"


def ethtool(asked: ToolCall) -> Said:
    """One call: ``ethtool -S NAME``."""
    flags = [word for word in asked.words if word.startswith("-")]
    names = [word for word in asked.words if not word.startswith("-")]
    if len(names) != 1 or flags not in (["-S"], ["--statistics"]):
        return Said(stderr="ethtool: bad command line argument(s)\nFor more information run ethtool -h\n", status=1)
    ports = interfaces(asked)
    port = ports.get(names[0])
    if port is None or not port.node.ethernet:
        if names[0] in ports or names[0] == MANAGEMENT:
            return Said(stderr="no stats available\n", status=94)
        return Said(stderr="Cannot get device settings: No such device\n", status=71)
    return Said(_statistics(asked, port))


def _statistics(asked: ToolCall, port: Port) -> str:
    """RDMA bytes pass the kernel by: they are in the ``_phy`` counters only."""
    counts = asked.ports.counts(port, asked.at_s)
    # PFC on the priority of RDMA: the leaf stops a host that sends more than can go on, one longest pause a time.
    pauses = int(counts.waited_s / (65535 * 512 / (port.rate_gbps * 1e9)))
    paused_us, pausing_us = int(counts.waited_s * 1e6), 0
    if asked.rack.above.queued:
        ways = ("rx_prio3_pause", "rx_prio3_pause_duration", "tx_prio3_pause_duration")
        pauses, paused_us, pausing_us = (_congested(asked, port, name) for name in ways)
    pfc = {"rx_prio3_pause": pauses, "rx_prio3_pause_duration": paused_us}
    pfc |= {"tx_prio3_pause": 0, "tx_prio3_pause_duration": pausing_us}
    rows = {
        "rx_crc_errors_phy": counts.effective_errors,
        "tx_bytes_phy": int(counts.sent_gb * 1e9 / 8),
        "rx_bytes_phy": int(counts.received_gb * 1e9 / 8),
        "rx_symbol_err_phy": counts.effective_errors,
        "link_down_events_phy": int(counts.downed),
        "rx_pause_ctrl_phy": pauses,
        "tx_pause_ctrl_phy": 0,
        **(pfc if asked.rack.above.pauses else {}),
        "rx_discards_phy": 0,
        "tx_discards_phy": 0,
        "rx_corrected_bits_phy": counts.corrected_errors,
        **{f"rx_err_lane_{lane}_phy": errors for lane, errors in enumerate(lanes(counts))},
    }
    return "NIC statistics:\n" + "".join(f"     {name}: {value}\n" for name, value in rows.items())


def _congested(asked: ToolCall, port: Port, name: str) -> int:
    return asked.rack.above.counted(asked.site.host.name, port.node.device, name, asked.at_s)


CONGESTION_NAME = "fabric-congestion"
_OF_CONGESTION = re.compile(r" *([rt]x_prio[0-7]_pause(_duration)?|[rt]x_discards_phy): [0-9]+")


def congestion(asked: ToolCall, words: tuple[str, ...]) -> Said:
    """Of ``DEVICE PORT NAME...``: the hardware counters of these names that are there, pauses and discards."""
    device, port, *names = words
    found = contents(asked, [f"{ROOT}{device}/ports/{port}/hw_counters/{name}" for name in names])
    lines = [f"{name}: {value}" for name, value in zip(names, found, strict=True) if value is not None]
    ethernet = {one.node.device: one for one in interfaces(asked).values() if one.node.ethernet}
    if device in ethernet:
        lines += filter(_OF_CONGESTION.fullmatch, _statistics(asked, ethernet[device]).splitlines())
    return Said("".join(f"{line}\n" for line in (*lines, "whole")))


ROCE_NAME = "fabric-roce"
_V1, _V2 = "IB/RoCE v1", "RoCE v2"


def roce_settings(asked: ToolCall, words: tuple[str, ...]) -> Said:
    """Of each ``DEVICE:PORT``: MTU, ECN and GID types, then priorities; an RNIC that is ``misset`` is as delivered."""
    names = {port: name for name, port in interfaces(asked).items()}
    said = ""
    for text in words:
        device = text.partition(":")[0]
        rnic = next((one for one in asked.rnics if one.device == device), None)
        name = names[asked.port_of(device)] if rnic is not None else ""
        said += f"port {device} {name}\n" + ("" if rnic is None else _port(asked, device, name))
    return Said(f"{said}whole\n")


def _port(asked: ToolCall, device: str, name: str) -> str:
    lossless = asked.rack.lossless_class
    misset = asked.site.feels("misset", device)
    on = set[int]() if misset or lossless is None else {lossless >> 5}
    net, types = f"/sys/class/net/{name}", f"/sys/class/infiniband/{device}/ports/1/gid_attrs/types"
    ecn = "".join(f"{net}/ecn/roce_{side}/enable/{at}:{int(at in on)}\n" for side in ("np", "rp") for at in range(8))
    gids = "".join(f"{types}/{at}:{kind}\n" for at, kind in enumerate((_V1, _V2, _V1, _V2)))
    maps = "".join(f"\tprio:{at} dscp:{','.join(f'{8 * at + n:02d}' for n in range(7, -1, -1))},\n" for at in range(8))
    bits = "   ".join(str(int(at in on)) for at in range(8))
    return (
        f"{net}/mtu:{1500 if misset else 9000}\n{ecn}{gids}"
        f"DCBX mode: OS controlled\nPriority trust state: {'pcp' if misset else 'dscp'}\ndscp2prio mapping:\n{maps}"
        f"PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n\tenabled     {bits}   \n"
    )
