"""What the InfiniBand tools have in common: which port they use, how they fail, and how they name a port."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from fabric.sim.phy.cabling import Node
from fabric.sim.phy.port import Port
from fabric.sim.tools.call import Said, Tool, ToolCall
from fabric.sim.tools.options import BadOption, Table, options, taken_apart

STATES = {1: "Down", 2: "Initialize", 3: "Armed", 4: "Active"}
PHYSICAL = {2: "Polling", 3: "Disabled", 5: "LinkUp", 6: "LinkErrorRecovery"}

_COMMON = options("""
    ca=       -C --Ca
    port=     -P --Port
    timeout=  -t --timeout
    key=      -y --m_key
    sm=       -s --sm_port
    ignored   -d --debug -e --errors -v --verbose -L --Lid
""")


class IbError(Exception):
    """A tool ends with ``iberror: failed`` and this; *warned* was printed before."""

    def __init__(self, reason: str, warned: str = "") -> None:
        super().__init__(reason)
        self.warned = warned


Fields = dict[str, str]
Run = Callable[[ToolCall, Fields, list[str]], Said | str]
"""What a tool does with its options and its other words."""


def tool(name: str, text: str = "", *, bad_status: int = 255) -> Callable[[Run], Tool]:
    """Make a tool of what it does: it reads the options that all have and those of *text*, and fails as they do."""
    table: Table = {**_COMMON, **options(text)}

    def made(run: Run) -> Tool:
        def call(asked: ToolCall) -> Said:
            try:
                said = run(asked, *taken_apart(asked.words, table))
            except BadOption as bad:
                return Said(stderr=f"{name}: {bad}\n", status=bad_status)
            except IbError as error:
                return Said(stderr=f"{error.warned}{name}: iberror: failed: {error}\n", status=255)
            return Said(said) if isinstance(said, str) else said

        call.__doc__ = run.__doc__
        return call

    return made


def own_port(asked: ToolCall, fields: Fields) -> Port:
    """The port a tool sends from: the one asked for, else this host's first InfiniBand port."""
    wanted = fields.get("ca")
    for rnic in asked.rnics:
        port = asked.port_of(rnic.device)
        named = wanted == rnic.device or (wanted is None and port.logical != 1)
        if named and not port.node.ethernet and fields.get("port", str(rnic.port)) == str(rnic.port):
            return port
    name, number = wanted or "(null)", fields.get("port", "0")
    warned = f"ibwarn: [{asked.pid + 20000}] mad_rpc_open_port: can't open UMAD port (({name}):{number})\n"
    raise IbError(f"Failed to open '{name}' port '{number}'", warned)


def found_by_lid(asked: ToolCall, own: Port, text: str, what: str) -> Node:
    """The node with a LID as it was typed; IbError when packets do not get there."""
    try:
        lid = int(text, 0)
    except ValueError:
        raise IbError(f"can't resolve destination port {text}") from None
    node = asked.by_lid(own, lid)
    if node is None:
        raise IbError(what, no_answer(asked, f"Lid {lid}"))
    return node


def no_answer(asked: ToolCall, where: str) -> str:
    """What is printed of a packet that nobody answers."""
    return f"ibwarn: [{asked.pid + 20000}] mad_rpc: _do_madrpc failed; dport ({where})\n"


def subnet_manager(asked: ToolCall, port: Port) -> Node | None:
    """
    The node whose manager a port listens to; None for none.

    The first RNIC of the master's host. Where the inventory names no manager, or one on a host for management, whose
    own ports are not simulated, the lowest LID among the switches (a choice).
    """
    managers, lid = asked.rack.managers, attrgetter("lid")
    if managers.master is not None and managers.master[0].host not in asked.rack.topology.management:
        host = managers.master[0].host
        return next((node for node in sorted(asked.reached(port), key=lid) if node.host == host), None)
    if not managers.sweeps:
        return None
    return min((node for node in asked.reached(port) if node.host is None), key=lid, default=None)


def has_guid(node: Node, text: str) -> bool:
    """Whether a GUID, as it was typed, is the node's."""
    try:
        return node.guid == int(text, 16)
    except ValueError:
        return False


def dots(name: str, value: object) -> str:
    """``Name:.....value``, values from column 33 on."""
    return f"{name + ':':.<33}{value}\n"
