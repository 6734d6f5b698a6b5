"""infiniband-diags: the fabric as management packets from one port of a host see it, and its ports changed by LID."""

from collections.abc import Callable, Sequence
from operator import attrgetter

from fabric.sim import page
from fabric.sim.phy import Walk
from fabric.sim.phy.cabling import Node
from fabric.sim.phy.port import PHYSICAL_TEXT, Counts, Logical, Physical, Port, Traffic, capped, packets, ticks, words
from fabric.sim.phy.quality import LANES
from fabric.sim.tools.call import BadOption, Table, Tool, ToolCall, ToolOutput, options, parse_options

STATES = {Logical.DOWN: "Down", Logical.INITIALIZING: "Initialize", Logical.ACTIVE: "Active"}

_COMMON = options("""
    ca=       -C --Ca
    port=     -P --Port
    timeout=  -t --timeout
    key=      -y --m_key
    sm=       -s --sm_port
""")


M_KEY = 0xFAB
"""The M_Key of ports at a site with ``m_key`` (protection level 2: without it a GET is not answered either)."""


class IbError(Exception):
    """
    A tool ends with ``iberror: failed`` and this message; *warned* was printed before. *opening*: at its own port.
    """

    def __init__(self, reason: str, warned: str = "", *, opening: bool = False) -> None:
        super().__init__(reason)
        self.warned, self.opening = warned, opening


Fields = dict[str, str]
Run = Callable[[ToolCall, Fields, list[str]], ToolOutput | str]
"""Runs a tool with its options and its other words."""


def tool(name: str, text: str = "", *, walks: int | None = None, smp: bool = True) -> Callable[[Run], Tool]:
    """
    Make a tool from a function: it reads the common options and those of *text*, and fails as the real tools do.

    *smp*: it sends subnet management packets, which an M_Key guards; counters need no key. *walks*: it walks the whole
    fabric, and this is its status where it cannot open its port.
    """
    table: Table = {**_COMMON, **options(text)}

    def made(run: Run) -> Tool:
        def call(asked: ToolCall) -> ToolOutput:
            try:
                fields, rest = parse_options(asked.words, table)
                if smp and not _has_key(asked, fields):
                    raise IbError("smp query nodeinfo failed", no_answer(asked, 0))
                answer = run(asked, fields, rest)
            except BadOption as bad:
                return ToolOutput(stderr=f"{name}: {bad}\n", status=255 if walks is None else 1)
            except IbError as error:
                if walks is not None:
                    reason = str(error).replace("'", "") if error.opening else "discover failed"
                    return ToolOutput(stderr=f"{error.warned}{reason}\n", status=walks if error.opening else 1)
                return ToolOutput(stderr=f"{error.warned}{name}: iberror: failed: {error}\n", status=255)
            return ToolOutput(answer) if isinstance(answer, str) else answer

        return call

    return made


def _has_key(asked: ToolCall, fields: Fields) -> bool:
    try:
        return "m_key" not in asked.rack.mock.site or int(fields.get("key", "0"), 0) == M_KEY
    except ValueError:
        return False


def elsewhere(asked: ToolCall, fields: Fields) -> bool:
    """
    Return whether packets go out through an adapter of another fabric, because no adapter was asked for.

    At a site with ``storage`` that is the first active adapter of a host (umad.c resolve_ca_name).
    """
    return "storage" in asked.rack.mock.site and "ca" not in fields


def own_port(asked: ToolCall, fields: Fields) -> Port:
    """Return the port a tool sends from: the one asked for, else this host's first InfiniBand port."""
    wanted = fields.get("ca")
    for rnic in asked.rnics:
        port = asked.port_of(rnic.device)
        named = wanted == rnic.device or (wanted is None and port.logical != Logical.DOWN)
        if named and not port.node.ethernet and fields.get("port", str(rnic.port)) == str(rnic.port):
            return port
    name, number = wanted or "(null)", fields.get("port", "0")
    warned = f"ibwarn: [{asked.pid + 20000}] mad_rpc_open_port: can't open UMAD port (({name}):{number})\n"
    raise IbError(f"Failed to open '{name}' port '{number}'", warned, opening=True)


def found_by_lid(asked: ToolCall, fields: Fields, text: str, what: str) -> Node:
    """Return the node with a LID as it was typed; raises IbError when packets do not get there."""
    own = own_port(asked, fields)
    try:
        lid = int(text, 0)
    except ValueError:
        raise IbError(f"can't resolve destination port {text}") from None
    node = None if elsewhere(asked, fields) else asked.by_lid(own, lid)
    if node is None:
        raise IbError(what, no_answer(asked, lid))
    return node


def no_answer(asked: ToolCall, lid: int) -> str:
    """Return what is printed about a packet that nobody answers."""
    return f"ibwarn: [{asked.pid + 20000}] mad_rpc: _do_madrpc failed; dport (Lid {lid})\n"


def subnet_manager(asked: ToolCall, port: Port) -> Node | None:
    """
    Return the node whose manager a port listens to; None for none.

    It is the first RNIC of the master's host. Where the inventory names no manager, or one on a host for management,
    whose own ports are not simulated, it is the lowest LID among the switches (a choice).
    """
    managers, host = asked.rack.managers, None
    if managers.master is not None and managers.master[0].host not in asked.rack.topology.management:
        host = managers.master[0].host
    elif not managers.sweeps:
        return None
    return min((node for node in asked.ports.reached(port) if node.host == host), key=attrgetter("lid"), default=None)


@tool("iblinkinfo", "line -l --line\ndirect= -D --Direct", walks=1)
def iblinkinfo(asked: ToolCall, fields: Fields, _: list[str]) -> ToolOutput:
    """Answer ``iblinkinfo -l [-D 0]``: one line for each port of every node that is found, or of the own one."""
    if "line" not in fields:
        return ToolOutput(stderr="iblinkinfo: simulated rack: only `iblinkinfo -l` is simulated\n", status=1)
    own = own_port(asked, fields)
    if elsewhere(asked, fields):
        return ToolOutput(page("iblinkinfo-storage"))
    ports = asked.ports
    if "direct" in fields:
        return ToolOutput("".join(_link(asked, ports.at(end)) for end in ports.cabling.ends(own.node)))
    if own.end not in ports.walked:
        walk = ports.walk(own, asked.at_s)
        ports.walked[own.end] = "".join(_link(asked, port) for _, found in walk.nodes for port in found)
    return ToolOutput(ports.walked[own.end])


def _link(asked: ToolCall, port: Port) -> str:
    node, end = port.node, port.end
    peer = asked.ports.peer(port) if port.logical != Logical.DOWN else None
    lead = f'0x{node.guid:016x} "{node.description:>30}" {node.lid:6d} {end[1]:4d}[  ] '
    state = f"{STATES[port.logical][:6]:>6}/{PHYSICAL_TEXT[port.physical]:>8}"
    if peer is None:
        return f'{lead}==({"":3} {"":9} {state})==>             [  ] "" ( )\n'
    there = f'0x{peer.node.guid:016x} {peer.node.lid:6d} {peer.end[1]:4d}[  ] "{peer.node.description}" ( )'
    return f"{lead}==( {port.mark.width}X {port.line.lane:>18} {state})==>  {there}\n"


@tool("sminfo")
def sminfo(asked: ToolCall, fields: Fields, _: list[str]) -> str:
    """Answer ``sminfo``: the subnet manager that the own port listens to."""
    manager = subnet_manager(asked, own_port(asked, fields))
    if elsewhere(asked, fields):
        return "sminfo: sm lid 1 sm guid 0xb83fd20300a1b2c0, activity count 7 priority 15 state 3 SMINFO_MASTER\n"
    if manager is None:
        raise IbError("query")
    count = int(asked.at_s / 10)  # it sweeps every ten seconds (opensm's default)
    master = asked.rack.managers.master
    priority = 0 if master is None else master[1]
    about = f"activity count {count} priority {priority} state 3 SMINFO_MASTER"
    return f"sminfo: sm lid {manager.lid} sm guid 0x{manager.guid:016x}, {about}\n"


@tool("smpquery")
def smpquery(asked: ToolCall, fields: Fields, rest: list[str]) -> str:
    """Answer ``smpquery portinfo LID PORT``: a port's state through the fabric."""
    if rest[:1] != ["portinfo"] or len(rest) < 3:
        raise IbError("simulated rack: only `smpquery portinfo LID PORT` is simulated")
    node = found_by_lid(asked, fields, rest[1], "operation portinfo: port info query failed")
    return _info(asked, _port_of(asked, node, rest[2], "operation portinfo: port info query failed"), keys=True)


@tool("ibportstate")
def ibportstate(asked: ToolCall, fields: Fields, rest: list[str]) -> str:
    """Run ``ibportstate LID PORT disable|on``: switch a port through the fabric, and print its state."""
    if len(rest) != 3 or rest[2] not in ("disable", "on"):
        raise IbError("simulated rack: only `ibportstate LID PORT disable|on` is simulated")
    node = found_by_lid(asked, fields, rest[0], "smp query nodeinfo failed")
    port = _port_of(asked, node, rest[1], "smp query portinfo failed")
    printed = page("ibportstate", port=port, info=_info(asked, port))
    if rest[2] == "disable":
        printed += "Disable may be irreversible\n"
        asked.ports.disable(port, asked.at_s)
    elif port.physical != Physical.DISABLED:
        return printed + "Port is already in enable state\n"
    else:
        asked.ports.enable(port, asked.at_s)
    return printed + "\nAfter PortInfo set:\n" + _info(asked, port)


def _port_of(asked: ToolCall, node: Node, number: str, what: str) -> Port:
    """Return a port of a node by its number as it was typed."""
    end = next((end for end in asked.ports.cabling.ends(node) if str(end[1]) == number), None)
    if end is None:
        raise IbError(what)
    return asked.ports.at(end)


def _info(asked: ToolCall, port: Port, *, keys: bool = False) -> str:
    """Return what a port reports about itself."""
    lanes = " or ".join(LANES[: LANES.index(port.line.lane) + 1])
    manager = subnet_manager(asked, port) if port.node.host is not None else None
    words = {"state": STATES[port.logical], "physical": PHYSICAL_TEXT[port.physical], "lanes": lanes}
    return page("portinfo", **words, port=port, keys=keys, manager=manager, up=port.logical != Logical.DOWN)


@tool("ibroute", "bare -n --no_dests")
def ibroute(asked: ToolCall, fields: Fields, rest: list[str]) -> ToolOutput:
    """Answer ``ibroute -n LID``: the unicast forwarding table of a switch as it is now."""
    own = own_port(asked, fields)
    if not rest or "bare" not in fields:
        raise IbError("simulated rack: only `ibroute -n LID` is simulated")
    switch = found_by_lid(asked, fields, rest[0], "node info failed: invalid addr?")
    if switch.host is not None:
        raise IbError(f"dump tables: can't get switch info of Lid {switch.lid}")
    from fabric.sim.net.network import forwarding_table  # imports numpy: only when it is needed

    found = forwarding_table(asked.ports.cabling, asked.rack.above.network, switch)
    reached = {node.lid for node in asked.ports.reached(own)}
    warned = "".join(no_answer(asked, lid) for lid in found if lid not in reached)
    return ToolOutput(page("ibroute", top=max(found, default=0), switch=switch, table=found), warned)


_ERRORS = ("SymbolErrorCounter", "LinkErrorRecoveryCounter", "LinkDownedCounter", "PortRcvErrors", "PortXmitWait")


@tool("ibqueryerrors", "suppress= -s --suppress\ncounters --counters\ndirect= -D --Direct", walks=255)
def ibqueryerrors(asked: ToolCall, fields: Fields, _: list[str]) -> ToolOutput:
    """
    Answer ``ibqueryerrors [-s NAMES]``: all counters that are not 0, node by node; status 1 if there are any.

    With ``--counters`` print how much each port has sent and received, with ``-D 0`` ask only the own node.
    """
    own, at_s = own_port(asked, fields), asked.at_s
    if "direct" in fields:
        mine = [(own.node, [asked.ports.at(end) for end in asked.ports.cabling.ends(own.node)])]
        walk = Walk(mine, mine, at_s)
    else:
        walk = asked.ports.walk(own, at_s)
    walked = {"checked": len(walk.nodes), "ports": sum(len(ports) for _, ports in walk.nodes)}
    if "counters" in fields:
        data = [
            (node, [(port.end[1], _data(asked.ports.traffic(port, at_s))) for port in ports])
            for node, ports in walk.nodes
        ]
        return ToolOutput(page("ibqueryerrors", nodes=data, bad_ports=0, left_out=None, **walked))
    left_out = [name for name in fields.get("suppress", "").split(",") if name]
    bad, bad_ports = [], 0
    for node, ports in walk.counting if "PortXmitWait" in left_out else walk.nodes:
        rows: list[tuple[int | str, dict[str, int]]] = [
            (port.end[1], found) for port in ports if (found := _nonzero(asked, port, left_out))
        ]
        bad_ports += len(rows)
        total = {name: value for name in _ERRORS if (value := sum(found.get(name, 0) for _, found in rows))}
        if rows:
            bad.append((node, [("ALL", total), *rows] if node.host is None else rows))
    printed = page("ibqueryerrors", nodes=bad, bad_ports=bad_ports, left_out=left_out, **walked)
    return ToolOutput(printed, status=int(bool(bad)))


def _nonzero(asked: ToolCall, port: Port, left_out: Sequence[str]) -> dict[str, int]:
    """Return the counters of a port that are not 0; PortXmitWait is expensive, so it is read only where it is shown."""
    found = _errors(port.tally.errors(asked.at_s), wide=True) if port.tally.clean_until_s <= asked.at_s else {}
    if "PortXmitWait" not in left_out:
        waited_s = port.tally.waited_s(asked.at_s, asked.ports.traffic(port, asked.at_s))
        found["PortXmitWait"] = ticks(waited_s, port.rate_gbps)
    return {name: value for name, value in found.items() if value and name not in left_out}


@tool("perfquery", "extended -x --extended", smp=False)
def perfquery(asked: ToolCall, fields: Fields, rest: list[str]) -> str:
    """Answer ``perfquery [-x] [LID PORT]``: the performance counters of a port, by default of the own one."""
    port = own_port(asked, fields)
    if rest:
        node = found_by_lid(asked, fields, rest[0], "classportinfo query failed")
        port = _port_of(asked, node, rest[1] if len(rest) > 1 else str(port.end[1]), "perfquery")
    extended, counts = "extended" in fields, asked.ports.counts(port, asked.at_s)
    bits = 64 if extended else 32
    busy = _data(counts) | {"PortXmitWait": ticks(counts.waited_s, port.rate_gbps)}
    counted = _errors(counts, wide=extended) | {name: capped(value, bits) for name, value in busy.items()}
    return page("perfquery", port=port, extended=extended, counted=counted)


def _errors(counts: Counts, *, wide: bool) -> dict[str, int]:
    """Return the error counters; narrow ones stop at their largest value."""
    small, middle = (32, 32) if wide else (8, 16)
    return {
        "SymbolErrorCounter": capped(counts.symbol, middle),
        "LinkErrorRecoveryCounter": capped(counts.recovered, small),
        "LinkDownedCounter": capped(counts.downed, 8),  # stays narrow in every form that is known
        "PortRcvErrors": capped(counts.symbol, middle),
    }


def _data(counts: Counts | Traffic) -> dict[str, int]:
    return {
        "PortXmitData": words(counts.sent_gb),
        "PortRcvData": words(counts.received_gb),
        "PortXmitPkts": packets(counts.sent_gb),
        "PortRcvPkts": packets(counts.received_gb),
    }
