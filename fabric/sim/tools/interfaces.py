"""The network interfaces of a host: ``ip link``, ``ethtool``, and the RoCE settings of a port."""

import json

from fabric.sim import page
from fabric.sim.hashing import mix64, text_hash
from fabric.sim.hosts import interface_name, pci_address
from fabric.sim.phy.port import Counts, Port
from fabric.sim.phy.qos import PAUSE_BIT_TIMES, Qos
from fabric.sim.tools.call import ToolCall, ToolOutput
from fabric.sim.tools.mlxlink import DARK_DBM, PART_NUMBER, RX_LIMITS_DBM, TX_LIMITS_DBM, VENDOR, WARNS_DB, plugged
from fabric.sim.tools.sysfs import ROOT, contents

MANAGEMENT = "eth0"
"""The interface that sessions come in through; it stays up."""


def interfaces(asked: ToolCall) -> dict[str, Port]:
    """Return the port of each RNIC that is there, by its interface."""
    platform = asked.site.layout.platform
    return {interface_name(platform, at): asked.port_of(rnic.device) for at, rnic in enumerate(asked.rnics)}


def mac(port: Port) -> str:
    """Return the MAC address of a port, in hexadecimal bytes."""
    return port.node.guid.to_bytes(8)[2:].hex(":")


def lldpctl(asked: ToolCall) -> ToolOutput:
    """Answer ``lldpctl -f json``: which port of which switch each RoCE interface that is up hears."""
    if asked.words != ("-f", "json"):
        return ToolOutput(stderr="lldpctl: simulated rack: only -f json is simulated\n", status=1)
    heard = []
    for name, port in interfaces(asked).items():
        peer = asked.ports.peer(port) if port.node.ethernet and port.up else None
        if peer is not None:
            chassis = {peer.node.name: {"id": {"type": "mac", "value": mac(peer)}, "descr": "Cumulus Linux"}}
            swp = f"swp{peer.end[1]}"
            number = {"id": {"type": "ifname", "value": swp}, "descr": swp, "ttl": "120"}
            heard.append({name: {"via": "LLDP", "rid": "1", "chassis": chassis, "port": number}})
    # One neighbour is listed as a dictionary, several as a list of dictionaries, none not at all.
    neighbours = {"interface": heard[0] if len(heard) == 1 else heard} if heard else {}
    return ToolOutput(json.dumps({"lldp": neighbours}, indent=2) + "\n")


def ip(asked: ToolCall) -> ToolOutput:
    """Run ``ip link [show [dev] NAME]`` or ``ip link set [dev] NAME up|down``; hosts have no routes and addresses."""
    words = [word for word in asked.words if not word.startswith("-")]
    if words[:2] in (["route", "show"], ["address", "show"]):
        return ToolOutput()
    if not words or not "link".startswith(words[0]):
        what = words[0] if words else ""
        return ToolOutput(stderr=f'Object "{what}" is unknown, try "ip help".\n', status=1)
    ports = interfaces(asked)
    if len(words) > 1 and words[1] == "set":
        return _set(asked, ports, [word for word in words[2:] if word != "dev"])
    names = [word for word in words[1:] if word not in ("show", "list", "dev")]
    order = [MANAGEMENT, *ports]
    wanted = names[:1] or order
    if wanted[0] not in order:
        return ToolOutput(stderr=f'Device "{wanted[0]}" does not exist.\n', status=1)
    return ToolOutput("".join(_shown(asked, order.index(name) + 2, name, ports.get(name)) for name in wanted))


def _set(asked: ToolCall, ports: dict[str, Port], words: list[str]) -> ToolOutput:
    if len(words) != 2 or words[1] not in ("up", "down"):
        wrong = words[1] if len(words) > 1 else ""
        return ToolOutput(stderr=f'Error: either "dev" is duplicate, or "{wrong}" is a garbage.\n', status=255)
    name, state = words
    port = ports.get(name)
    if port is not None:
        asked.ports.set_interface(port, asked.at_s, up=state == "up")
    elif name != MANAGEMENT:
        return ToolOutput(stderr=f'Cannot find device "{name}"\n', status=1)
    elif state == "down":
        return ToolOutput(stderr="RTNETLINK answers: Operation not permitted\n", status=2)
    return ToolOutput()


def _shown(asked: ToolCall, number: int, name: str, port: Port | None) -> str:
    up = port is None or port.interface_up
    lit = port is None or port.up
    flags = ["BROADCAST", "MULTICAST", *(["UP"] if up else []), *(["LOWER_UP"] if up and lit else [])]
    flags = ["NO-CARRIER", *flags] if up and not lit else flags
    infiniband = port is not None and not port.node.ethernet
    if port is not None and infiniband:
        mtu, place = 4092, port.node.guid.to_bytes(8)
    else:
        bits = mix64(asked.site.name_hash ^ text_hash(name))
        mtu, place = 1500 if port is None else asked.ports.qos(port).mtu, bits.to_bytes(8, "little")[:3]
    words = {"number": number, "name": name, "flags": flags, "mtu": mtu, "infiniband": infiniband}
    return page("ip-link", **words, state="UP" if up and lit else "DOWN", place=place.hex(":"))


def ethtool(asked: ToolCall) -> ToolOutput:
    """Answer ``ethtool -S NAME`` or ``ethtool --json -m NAME``."""
    flags = [word for word in asked.words if word.startswith("-")]
    names = [word for word in asked.words if not word.startswith("-")]
    if len(names) != 1 or flags not in (["-S"], ["--statistics"], ["--json", "-m"]):
        refused = "ethtool: bad command line argument(s)\nFor more information run ethtool -h\n"
        return ToolOutput(stderr=refused, status=1)
    ports = interfaces(asked)
    port = ports.get(names[0])
    of_module = "-m" in flags
    if port is None or not port.node.ethernet:
        if names[0] in ports or names[0] == MANAGEMENT:
            why = "netlink error: Operation not supported\n" if of_module else "no stats available\n"
            return ToolOutput(stderr=why, status=1 if of_module else 94)
        return ToolOutput(stderr="Cannot get device settings: No such device\n", status=71)
    return ToolOutput(_module(asked, port) if of_module else _statistics(asked, port))


def _module(asked: ToolCall, port: Port) -> str:
    """
    Return the module page of ``ethtool --json -m``: same values as mlxlink, powers in mW, limits below, eight lanes.

    A twin-port module reports the lanes of both ports; those of the other port are dark here.
    """
    module = plugged(asked, port)
    limits = {
        below: [_milliwatts(level) for level in (high_dbm, low_dbm, low_dbm + WARNS_DB)]
        for below, (low_dbm, high_dbm) in (("laser_output_power", TX_LIMITS_DBM), ("laser_rx_power", RX_LIMITS_DBM))
    }
    tx, rx = (tuple(map(_milliwatts, levels)) for levels in (module.tx_dbm, module.rx_dbm))
    words = {"vendor": VENDOR, "part_number": PART_NUMBER, "serial": module.serial}
    return page("ethtool-module", **words, tx=tx, rx=rx, limits=limits)


def _milliwatts(dbm: float) -> float:
    return 0 if dbm <= DARK_DBM else round(10 ** (dbm / 10), 4)


def _statistics(asked: ToolCall, port: Port) -> str:
    """Return the statistics page. RDMA bytes bypass the kernel: they are in the ``_phy`` counters only."""
    counts = asked.ports.counts(port, asked.at_s)
    return page("ethtool", counts=counts, congested=_congested(asked, port, counts))


def _congested(asked: ToolCall, port: Port, counts: Counts) -> dict[str, int]:
    """
    Return the PFC counters of RDMA's priority, and what was dropped.

    Without queues the leaf pauses a host that sends more than can go on, one longest pause at a time.
    """
    above, longest_s = asked.rack.above, PAUSE_BIT_TIMES / (port.rate_gbps * 1e9)
    found = {"rx_prio3_pause": int(counts.waited_s / longest_s), "rx_prio3_pause_duration": int(counts.waited_s * 1e6)}
    found |= {"tx_prio3_pause": 0, "tx_prio3_pause_duration": 0}
    if above.queued:
        host, device = asked.site.host.name, port.node.device
        found = {name: above.counted(host, device, name, asked.at_s) for name in found}
    return (found if above.pauses else {}) | {"rx_discards_phy": 0, "tx_discards_phy": 0}


def congestion(asked: ToolCall, words: tuple[str, ...]) -> ToolOutput:
    """Answer ``DEVICE PORT NAME...``: the hardware counters of these names that exist, pauses and discards."""
    device, number, *names = words
    values = contents(asked, [f"{ROOT}{device}/ports/{number}/hw_counters/{name}" for name in names])
    lines = [f"{name}: {value}" for name, value in zip(names, values, strict=True) if value is not None]
    port = _ethernet(asked, device)
    if port is not None:
        found = _congested(asked, port, asked.ports.counts(port, asked.at_s))
        lines += [f"     {name}: {value}" for name, value in found.items()]  # as ethtool prints them
    return ToolOutput("".join(f"{line}\n" for line in (*lines, "whole")))


def _ethernet(asked: ToolCall, device: str) -> Port | None:
    """Return the port of an RNIC that has a RoCE interface, else None."""
    port = asked.local_port(device)
    return port if port is not None and port.node.ethernet else None


_SUMS = {"rx_prio3_pause": "rx_pfc_frames", "rx_prio3_pause_duration": "rx_pfc_us"}
_SUMS |= {"tx_prio3_pause": "tx_pfc_frames", "tx_prio3_pause_duration": "tx_pfc_us"}


def pause_sums(asked: ToolCall, words: tuple[str, ...]) -> ToolOutput:
    """Answer ``DEVICE``: how long its interface was paused, and what it dropped."""
    device = words[0]
    port = _ethernet(asked, device)
    if port is None:
        return ToolOutput()
    found = _congested(asked, port, asked.ports.counts(port, asked.at_s))
    sums = {_SUMS.get(name, name): number for name, number in found.items()}
    return ToolOutput("".join(f"{device}:{name}: {number}\n" for name, number in sums.items()))


_KNOBS = {"rp_time_reset": 300, "rp_byte_reset": 32767, "rp_threshold": 1, "rp_ai_rate": 5, "rp_hai_rate": 50}
_KNOBS |= {"rp_gd": 11, "rp_min_dec_fac": 50, "rp_dce_tcp_g": 1019, "rp_initial_alpha_value": 1023}
_BUFFERS = 8


def roce_settings(asked: ToolCall, words: tuple[str, ...]) -> ToolOutput:
    """
    Answer for each ``DEVICE:PORT``: files as ``grep -H`` prints them, then what ``mlnx_qos`` prints of its interface.

    The files include debugfs, which only root can read.
    """
    found = {port.node.device: (at, name, port) for at, (name, port) in enumerate(interfaces(asked).items())}
    printed = ""
    for device in (text.partition(":")[0] for text in words):
        number, name, port = found.get(device, (0, "", None))
        printed += f"port {device} {name}\n"
        if port is not None:
            qos = asked.ports.qos(port)
            knobs = {knob: port.registers.get(knob, value) for knob, value in _KNOBS.items()}
            about = {"device": device, "name": name, "place": pci_address(number), "mac": mac(port), "knobs": knobs}
            printed += page("roce-files", qos=qos, **about) + _mlnx_qos(qos, port.rate_gbps)
    return ToolOutput(f"{printed}whole\n")


def _mlnx_qos(qos: Qos, rate_gbps: float) -> str:
    """Return the page of ``mlnx_qos -i NAME``, with the tool's own blanks and tabs."""
    places: dict[int, list[int]] = {at: [] for at in range(8)}
    for dscp in range(63, -1, -1):
        places[qos.priority_of_dscp(dscp)].append(dscp)
    wrapped = [(at, dscps[n : n + 8]) for at, dscps in places.items() for n in range(0, len(dscps), 8)]
    sizes = [20_016, qos.headroom_bytes(rate_gbps) if qos.lossless else 0, *[0] * (_BUFFERS - 2)]
    return page("mlnx_qos", qos=qos, places=wrapped, sizes=sizes)


RNIC_NAME = "fabric-rnic"


def rnic_settings(asked: ToolCall, words: tuple[str, ...]) -> ToolOutput:
    """Run ``show|set DEVICE PORT NAME[=VALUE]...`` as the shell text does: PFC, NP and RP of priorities, and knobs."""
    verb, device, _, *names = words
    port = _ethernet(asked, device)
    if port is None:
        return ToolOutput(stderr=f"{RNIC_NAME}: {device} has no interface\n", status=1)
    for name, _, value in (one.partition("=") for one in names if verb == "set"):
        if _value_of(asked, port, name) is None:
            return ToolOutput(stderr=f"{RNIC_NAME}: {device}: {name} cannot be set\n", status=1)
        asked.ports.write(port, {name: int(value)}, asked.at_s)
    settings = ((name, _value_of(asked, port, name)) for name in names if verb == "show")
    return ToolOutput("".join(f"{name}={value}\n" for name, value in settings if value is not None))


def _value_of(asked: ToolCall, port: Port, name: str) -> int | None:
    kind, _, priority = name.partition("/")
    qos = asked.ports.qos(port)
    of_class = {"pfc": qos.pfc and qos.dscp is not None, "np": qos.answers, "rp": qos.slows}
    if kind in of_class and priority:
        own = of_class[kind] if int(priority) == qos.priority else False
        return port.registers.get(name, int(own))
    return port.registers.get(name, _KNOBS.get(name))


SHELL_TEXTS = {
    "fabric-congestion": congestion,
    "fabric-pfc": pause_sums,
    "fabric-rnic": rnic_settings,
    "fabric-roce": roce_settings,
}
"""What our shell texts about interfaces do, by the name ($0) under which they are started."""
