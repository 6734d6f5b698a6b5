"""The command ``nv`` on a simulated switch, and our shell text that checks the switch between its commands."""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType

from fabric.sim import page
from fabric.sim.net.controllers import AR, NvueSwitch
from fabric.sim.phy.port import Port
from fabric.sim.phy.qos import SWITCH_CABLE_M, SWITCH_MTU, Qos
from fabric.sim.phy.quality import KP4, ber_text
from fabric.sim.tools.call import ToolCall, ToolOutput
from fabric.sim.tools.interfaces import mac
from fabric.sim.tools.mlxlink import DARK_DBM, PART_NUMBER, RX_LIMITS_DBM, TX_LIMITS_DBM, VENDOR, WARNS_DB, plugged

SHELL_NAME = "fabric-nvue"
"""The name ($0) under which that text is started."""

_WHAT = "simulated switch: only ports, RoCE, adaptive routing, system and commits are simulated"


def nv(asked: ToolCall) -> ToolOutput:
    """Run ``nv show|set|unset|config ...``; a host has no such program."""
    switch = asked.rack.nvue.switches.get(asked.site.host.name)
    if switch is None:
        return ToolOutput(stderr="bash: line 1: nv: command not found\n", status=127)
    words = asked.words
    if words[:1] == ("show",):
        return _show(asked, switch, words[1:])
    if words[:1] in (("set",), ("unset",)):
        return _stage(switch, words)
    if words[:1] == ("config",):
        return _config(asked, switch, words[1:])
    return ToolOutput(stderr=f"Invalid Command: nv {' '.join(words)} ({_WHAT})\n", status=1)


def _show(asked: ToolCall, switch: NvueSwitch, words: tuple[str, ...]) -> ToolOutput:
    path = " ".join(words).removesuffix("-o json").strip()
    if words == ("qos", "roce"):
        lossless_class = asked.rack.mock.lossless_class
        priority = None if lossless_class is None else lossless_class >> 5
        ways = {way: "enabled" if switch.pauses(way) else "disabled" for way in ("tx", "rx")}
        marked = ",".join(str(queue) for queue in (0, priority) if queue is not None and switch.marks(queue))
        return ToolOutput(page("nv-show-qos-roce", priority=priority, marked=marked or "-", **ways))
    if path in _OF_PORTS:
        return _json({f"swp{port.end[1]}": _OF_PORTS[path](asked, port) for port in _ports_of(asked, switch)})
    if path == AR:
        return _json({"enable": switch.applied.get(f"{AR} enable", "off")})
    if path.endswith(" link phy-detail"):
        return _line_errors(asked, switch, path.split(" ")[1])
    interface = path.removeprefix("interface ").removesuffix(AR).strip()
    uplinks = (f"swp{number}" for number in range(1, switch.uplinks + 1))
    if path == f"interface {interface} {AR}" and interface in uplinks:
        value = switch.applied.get(f"interface {interface} {AR} enable")
        value = value or switch.applied.get(f"interface swp1-{switch.uplinks} {AR} enable", "off")
        return _json({"enable": value})
    return ToolOutput(stderr="Error: The requested item does not exist.\n", status=1)


def _ports_of(asked: ToolCall, switch: NvueSwitch) -> list[Port]:
    return [asked.ports.at(end) for end in asked.ports.cabling.ends(asked.ports.cabling.nodes[switch.name])]


def _link(asked: ToolCall, port: Port) -> dict[str, object]:
    """Return the state of a port. Packets are left out, and bytes of ports to hosts, which are expensive to compute."""
    counts, up = port.tally.errors(asked.at_s), port.up
    downs = int(counts.downed)
    stats = {"carrier-down-count": downs, "carrier-transitions": 2 * downs + up, "carrier-up-count": downs + up}
    stats |= {"in-drops": 0, "in-errors": counts.effective_errors, "out-drops": 0, "out-errors": 0}
    peer = asked.ports.peer(port)
    if peer is not None and peer.node.host is None:
        carried = asked.ports.counts(port, asked.at_s)
        stats |= {"in-bytes": int(carried.received_gb * 1e9 / 8), "out-bytes": int(carried.sent_gb * 1e9 / 8)}
    link: dict[str, object] = {"admin-status": "up" if port.admin_up else "down", "oper-status": "up" if up else "down"}
    link |= {"mtu": asked.ports.qos(port).mtu}
    link |= {"speed": f"{port.rate_gbps * port.mark.width / 4:g}G"} if up else {}
    return {"link": {**link, "stats": stats}, "type": "swp"}


def _line_errors(asked: ToolCall, switch: NvueSwitch, interface: str) -> ToolOutput:
    """Return the errors a port has received, as the reference prints them: eight lanes, of which this line has four."""
    port = next((one for one in _ports_of(asked, switch) if f"swp{one.end[1]}" == interface), None)
    if port is None:
        return ToolOutput(stderr="Error: The requested item does not exist.\n", status=1)
    counts = port.tally.errors(asked.at_s)
    counters: dict[str, object] = {"time-since-last-clear-min": int(counts.age_s / 60.0)}
    counters |= {"phy-received-bits": int(counts.bits), "effective-errors": counts.effective_errors}
    raw = (*counts.lane_errors, 0, 0, 0, 0)
    counters |= {f"phy-raw-errors-lane{lane}": errors for lane, errors in enumerate(raw)}
    ratios = {"raw-ber": counts.ratio(counts.raw), "effective-ber": counts.ratio(counts.effective)}
    counters |= {name: ber_text(ratio) for name, ratio in ratios.items()}
    return _json(counters | {"rs-num-corr-err-bin15": int(counts.full) if port.line.fec == KP4 else 0})


def _heard(asked: ToolCall, port: Port) -> dict[str, object]:
    """Return the LLDP neighbour at the other end; an RNIC by its host's name."""
    peer = asked.ports.peer(port) if port.up else None
    if peer is None:
        return {}
    at_switch = (peer.node.name, f"swp{peer.end[1]}")
    name, number = at_switch if peer.node.host is None else (peer.node.host, mac(peer))
    neighbour = {"chassis": {"chassis-id": mac(peer), "system-name": name}, "port": {"name": number}}
    return {"lldp": {"neighbor": {name: neighbour}}}


def _module(asked: ToolCall, port: Port) -> dict[str, object]:
    """Return the values that ``mlxlink -m`` prints for the same module, in NVUE's form."""
    module = plugged(asked, port)
    channels = [
        {"rx-power": _light(rx, *RX_LIMITS_DBM), "tx-power": _light(tx, *TX_LIMITS_DBM)}
        for rx, tx in zip(module.rx_dbm, module.tx_dbm, strict=True)
    ]
    return {
        "channel": {f"channel-{number}": powers for number, powers in enumerate(channels, 1)},
        "vendor-name": VENDOR,
        "vendor-pn": PART_NUMBER,
        "vendor-sn": module.serial,
        "temperature": {"temperature": f"{module.warm_c:.2f} C", "alarm": "Off"},
    }


def _light(dbm: float, low_dbm: float, high_dbm: float) -> dict[str, str]:
    alarms = {"high-alarm-threshold": _power(high_dbm), "low-alarm-threshold": _power(low_dbm)}
    alarms["low-warning-threshold"] = _power(low_dbm + WARNS_DB)
    return {"power": _power(dbm), **alarms, "alarm": "Off"}


def _power(dbm: float) -> str:
    return "0.0000 mW / -inf dBm" if dbm <= DARK_DBM else f"{10 ** (dbm / 10):.4f} mW / {dbm:.2f} dBm"


_OF_PORTS: Mapping[str, Callable[[ToolCall, Port], dict[str, object]]] = MappingProxyType(
    {"interface": _link, "interface lldp": _heard, "platform transceiver detail": _module}
)
"""What is shown of each port, by the words after ``nv show``."""


def _json(document: Mapping[str, object]) -> ToolOutput:
    return ToolOutput(json.dumps(document) + "\n")


def _qos_commands(asked: ToolCall, switch: NvueSwitch) -> list[str]:
    """
    Return the QoS configuration of the switch, without ``nv set``; a port that is set otherwise has its own profiles.
    """
    if asked.rack.mock.lossless_class is None:
        return []
    own = ((f"swp{port.end[1]}", asked.ports.qos(port)) for port in _ports_of(asked, switch))
    each = [(name, qos, Qos(qos.dscp, SWITCH_MTU, SWITCH_CABLE_M)) for name, qos in own]
    return page("nv-set-qos", ports=each).splitlines()


def _stage(switch: NvueSwitch, words: tuple[str, ...]) -> ToolOutput:
    if words[0] == "unset":
        switch.staged[" ".join(words[1:])] = None
        return ToolOutput()
    values = {"enable": ("on", "off"), **dict.fromkeys(("ecn", "tx", "rx"), ("enable", "disable"))}.get(words[-2])
    if len(words) < 4 or (values is not None and words[-1] not in values):
        return ToolOutput(stderr=f"Error: {words[-1]!r} is not one of {list(values or ())}\n", status=1)
    switch.staged[" ".join(words[1:-1])] = words[-1]
    return ToolOutput()


def _config(asked: ToolCall, switch: NvueSwitch, words: tuple[str, ...]) -> ToolOutput:
    if words == ("show", "-o", "commands"):
        lines = [*map(" ".join, switch.applied.items()), *_qos_commands(asked, switch)]
        return ToolOutput("".join(f"nv set {line}\n" for line in sorted(lines)))
    if words == ("diff",):
        return ToolOutput("".join(_tree(path, value) for path, value in switch.changes().items()))
    if words == ("detach",):
        switch.staged.clear()
        return ToolOutput()
    if words[:1] == ("apply",):
        return _apply(asked, switch, list(words[1:]))
    return ToolOutput(stderr=f"Invalid Command: nv config {' '.join(words)} ({_WHAT})\n", status=1)


def _tree(path: str, value: str | None) -> str:
    """Return one difference, as YAML."""
    *keys, last = path.split(" ")
    lines = ["- unset:" if value is None else "- set:"]
    lines += [f"{'  ' * (depth + 2)}{key}:" for depth, key in enumerate(keys)]
    lines.append(f"{'  ' * (len(keys) + 2)}{last}:" + ("" if value is None else f" {value}"))
    return "".join(f"{line}\n" for line in lines)


def _apply(asked: ToolCall, switch: NvueSwitch, words: list[str]) -> ToolOutput:
    switches = asked.rack.nvue
    message, confirm_s = "Config update by root", None
    while words:
        word = words.pop(0)
        if word == "-m" and words:
            message = words.pop(0)
        elif word == "--confirm" and words and words[0].endswith("m"):
            confirm_s = 60.0 * int(words.pop(0)[:-1])
        elif word == "--confirm-yes":
            if switches.confirm(switch):
                return ToolOutput("confirmed\n")
            return ToolOutput(stderr="Error: no apply waits to be confirmed\n", status=1)
        elif word not in ("-y", "--y", "--assume-yes"):
            return ToolOutput(stderr=f"Invalid Command: nv config apply {word} ({_WHAT})\n", status=1)
    if switch.failing:
        return ToolOutput(stderr="Failure during apply. Aborted apply after failure.\n", status=1)
    number = switches.apply(switch, asked.at_s, message=message, confirm_s=confirm_s)
    return ToolOutput("no config diff\n" if number is None else f"applied [rev_id: {number}]\n")


def nvue_shell(asked: ToolCall, words: tuple[str, ...]) -> ToolOutput:
    """Run ``sh -c TEXT fabric-nvue clean|seen|stage|commit PATH ...``, as that text does it."""
    switch = asked.rack.nvue.switches.get(asked.site.host.name)
    if switch is None or len(words) < 2:
        return _refused("nv config diff failed" if words else "no such verb:")
    verb, path, args = words[0], words[1], words[2:]
    waiting = switch.changes()
    ours = any(one.startswith(f"{path} ") for one in waiting)
    if verb in ("seen", "stage") and len(args) == 3:
        is_so = _is_so(switch, path, *args)
        if verb == "seen":
            return ToolOutput(is_so) if is_so else _refused(f"{path} {args[0]} is not {args[1]} after the commit")
        if not ours and is_so:
            return ToolOutput("nothing to undo\n")
    if verb == "commit" and len(args) == 1 and not ours:
        return ToolOutput("committed\n")
    foreign = [one for one in waiting if not one.startswith(f"{path} ")]
    if foreign:
        what = " ".join("".join(_tree(one, waiting[one]) for one in foreign).split())
        return _refused(f"this account has edits that were not applied, and they would be applied with ours: {what}")
    if verb == "clean" and not args:
        return _refused("this account has edits that were not applied") if waiting else ToolOutput("nothing waits\n")
    if verb == "stage" and len(args) == 3:
        switch.staged[f"{path} {args[0]}"] = None if args[2] == "unset" else args[1]
        asked.rack.nvue.confirm(switch)
        return ToolOutput(f"staged {args[0]} {args[1]}\n")
    if verb == "commit" and len(args) == 1:
        return _apply(asked, switch, ["-m", args[0], "-y"])
    return _refused(f"no such verb: {verb}")


def _is_so(switch: NvueSwitch, path: str, key: str, value: str, how: str) -> str:
    """Return the line that shows this value, else an empty text. Below qos the line is of the applied configuration."""
    there = switch.applied.get(f"{path} {key}")
    if not path.startswith("qos"):
        return f'  "{key}": "{value}"\n' if (there or "off") == value else ""
    if how == "unset":
        return f"nv unset {path} {key}\n" if there is None else ""
    return f"nv set {path} {key} {value}\n" if there == value else ""


def _refused(reason: str) -> ToolOutput:
    return ToolOutput(stderr=f"{SHELL_NAME}: {reason}\n", status=1)
