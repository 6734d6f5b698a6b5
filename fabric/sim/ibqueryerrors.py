"""``ibqueryerrors``: every port of the fabric that has counted errors, in the words of infiniband-diags 44."""

from __future__ import annotations

from fabric.sim.cabling import Node
from fabric.sim.ib_options import IbError, failed, own_port, table
from fabric.sim.options import BadOption, Option, taken_apart
from fabric.sim.perfquery import errors
from fabric.sim.port_tool import Asked, Said
from fabric.sim.ports import Port

_COMMON = "SymbolErrorCounter LinkErrorRecoveryCounter LinkDownedCounter"
_FLAGS = (
    "-c --suppress-common -r --report-port -k --clear-errors -K --clear-counts --data --counters --switch --ca "
    "--router --details -R"
)
_MORE = {
    name: Option(field)
    for field, names in (("suppress", "-s --suppress"), ("guid", "-G --Guid -S --node-guid"))
    for name in names.split()
}


def ibqueryerrors(asked: Asked) -> Said:
    """One walk over all nodes; 1 when it finds errors, 0 when there are none. ``-k`` clears what it has seen."""
    try:
        fields, _ = taken_apart(asked.words, table(flags=_FLAGS, more=_MORE))
        own = own_port(asked, fields)
        nodes = [node for node in asked.reached(own) if _wanted(node, fields)]
    except BadOption as bad:
        return Said(stderr=f"ibqueryerrors: {bad}\n", status=255)
    except IbError as error:
        return failed("ibqueryerrors", error)
    quiet = set(fields.get("suppress", "").replace(",", " ").split())
    quiet |= set(_COMMON.split()) if {"c", "suppress-common"} & set(fields) else set()
    said, ports, bad_nodes, bad_ports = "", 0, 0, 0
    for node in nodes:
        members = [asked.ports.at(end) for end in asked.ports.cabling.ends(node)]
        found = {port: seen for port in members if (seen := _seen(asked, port, quiet))}
        said += _node(node, found) if found else ""
        ports, bad_nodes, bad_ports = ports + len(members), bad_nodes + bool(found), bad_ports + len(found)
        if {"k", "clear-errors"} & set(fields):
            for port in members:
                asked.ports.clear(port, asked.at_s, view="ib")
    said += (
        f"\n## Summary: {len(nodes)} nodes checked, {bad_nodes} bad nodes found\n"
        f"##          {ports} ports checked, {bad_ports} ports have errors beyond threshold\n"
        f"## Thresholds: \n## Suppressed:{''.join(f' {name}' for name in sorted(quiet))}\n"
    )
    return Said(said, status=int(bad_nodes > 0))


def _wanted(node: Node, fields: dict[str, str]) -> bool:
    if "guid" in fields:
        try:
            return node.guid == int(fields["guid"], 16)
        except ValueError:
            return False
    kinds = {"switch", "ca"} & set(fields)
    return not kinds or ("switch" if node.host is None else "ca") in kinds


def _seen(asked: Asked, port: Port, quiet: set[str]) -> dict[str, int]:
    counted = errors(asked.ports.counts(port, asked.at_s, view="ib"), wide=False)
    return {name: value for name, value in counted.items() if value and name not in quiet}


def _node(node: Node, found: dict[Port, dict[str, int]]) -> str:
    """A switch has a line for all its ports together before that of each."""
    guid = f"0x{node.guid:x}"
    if node.host is not None:
        said = f'Errors for "{node.description}"\n'
    else:
        total: dict[str, int] = {}
        for seen in found.values():
            for name, value in seen.items():
                total[name] = total.get(name, 0) + value
        said = f'Errors for {guid} "{node.description}"\n   GUID {guid} port ALL:{_listed(total)}\n'
    return said + "".join(f"   GUID {guid} port {port.end[1]}:{_listed(seen)}\n" for port, seen in found.items())


def _listed(seen: dict[str, int]) -> str:
    return "".join(f" [{name} == {value}]" for name, value in seen.items())
