"""What the InfiniBand tools have in common: which port they use, how they fail, and how they name a port."""

from __future__ import annotations

from fabric.sim.cabling import Node
from fabric.sim.options import Option, Table
from fabric.sim.port_tool import Asked, Said
from fabric.sim.ports import Port

STATES = {1: "Down", 2: "Initialize", 3: "Armed", 4: "Active"}
PHYSICAL = {2: "Polling", 3: "Disabled", 5: "LinkUp", 6: "LinkErrorRecovery"}


class IbError(Exception):
    """A tool ends with ``iberror: failed`` and this; *warned* was printed before."""

    def __init__(self, reason: str, warned: str = "") -> None:
        super().__init__(reason)
        self.warned = warned


def table(*, flags: str = "", more: Table | None = None) -> dict[str, Option]:
    """Options of one tool with those that all have; *flags* are words like ``-x --extended``."""
    found = {
        name: Option(field, value)
        for field, value, names in (
            ("ca", "yes", "-C --Ca"),
            ("port", "yes", "-P --Port"),
            ("timeout", "yes", "-t --timeout"),
            ("key", "yes", "-y --m_key"),
            ("sm", "yes", "-s --sm_port"),
            ("ignored", "no", "-d --debug -e --errors -v --verbose -L --Lid"),
        )
        for name in names.split()
    }
    found |= {name: Option(name.lstrip("-"), "no") for name in flags.split()}
    return found | dict(more or {})


def own_port(asked: Asked, fields: dict[str, str]) -> Port:
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


def found_by_lid(asked: Asked, own: Port, text: str, what: str) -> Node:
    """The node with a LID as it was typed; IbError when packets do not get there."""
    try:
        lid = int(text, 0)
    except ValueError:
        raise IbError(f"can't resolve destination port {text}") from None
    node = asked.by_lid(own, lid)
    if node is None:
        warned = f"ibwarn: [{asked.pid + 20000}] mad_rpc: _do_madrpc failed; dport (Lid {lid})\n"
        raise IbError(what, warned)
    return node


def subnet_manager(asked: Asked, port: Port) -> Node | None:
    """
    The node whose manager a port listens to; None for none.

    The first RNIC of the master's host. Where the inventory names no manager, or one on a host for management, whose
    own ports are not simulated, the lowest LID among the switches (a choice).
    """
    managers = asked.rack.managers
    if managers.master is not None and managers.master[0].host not in asked.rack.topology.management:
        host = managers.master[0].host
        return next((node for node in sorted(asked.reached(port), key=_lid) if node.host == host), None)
    if not managers.sweeps:
        return None
    switches = [node for node in asked.reached(port) if node.host is None]
    return min(switches, key=lambda node: node.lid, default=None)


def _lid(node: Node) -> int:
    return node.lid


def failed(tool: str, error: IbError) -> Said:
    """How a tool ends that cannot go on."""
    return Said(stderr=f"{error.warned}{tool}: iberror: failed: {error}\n", status=255)


def dots(name: str, value: object) -> str:
    """``Name:.....value``, values from column 33 on."""
    return f"{name + ':':.<33}{value}\n"
