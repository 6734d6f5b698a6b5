"""``ibqueryerrors``: every port of the fabric that has counted errors, in the words of infiniband-diags 44."""

from __future__ import annotations

from fabric.sim.phy.cabling import Node
from fabric.sim.phy.port import Port
from fabric.sim.tools.call import Said, ToolCall
from fabric.sim.tools.ib import Fields, has_guid, own_port, tool
from fabric.sim.tools.perfquery import errors

_COMMON = "SymbolErrorCounter LinkErrorRecoveryCounter LinkDownedCounter"
_OPTIONS = """
suppress=  -s --suppress
guid=      -G --Guid -S --node-guid
common     -c --suppress-common
clear      -k --clear-errors
switch     --switch
ca         --ca
ignored    -r --report-port -K --clear-counts --data --counters --router --details -R
"""


@tool("ibqueryerrors", _OPTIONS)
def ibqueryerrors(asked: ToolCall, fields: Fields, rest: list[str]) -> Said:
    """One walk over all nodes; 1 when it finds errors, 0 when there are none. ``-k`` clears what it has seen."""
    del rest
    nodes = [node for node in asked.reached(own_port(asked, fields)) if _wanted(node, fields)]
    quiet = set(fields.get("suppress", "").replace(",", " ").split())
    quiet |= set(_COMMON.split()) if "common" in fields else set()
    said, ports, bad_nodes, bad_ports = "", 0, 0, 0
    for node in nodes:
        members = [asked.ports.at(end) for end in asked.ports.cabling.ends(node)]
        found = {port: seen for port in members if (seen := _seen(asked, port, quiet))}
        said += _node(node, found) if found else ""
        ports, bad_nodes, bad_ports = ports + len(members), bad_nodes + bool(found), bad_ports + len(found)
        if "clear" in fields:
            for port in members:
                asked.ports.clear(port, asked.at_s, view="ib")
    said += (
        f"\n## Summary: {len(nodes)} nodes checked, {bad_nodes} bad nodes found\n"
        f"##          {ports} ports checked, {bad_ports} ports have errors beyond threshold\n"
        f"## Thresholds: \n## Suppressed:{''.join(f' {name}' for name in sorted(quiet))}\n"
    )
    return Said(said, status=int(bad_nodes > 0))


def _wanted(node: Node, fields: Fields) -> bool:
    if "guid" in fields:
        return has_guid(node, fields["guid"])
    kinds = {"switch", "ca"} & set(fields)
    return not kinds or ("switch" if node.host is None else "ca") in kinds


def _seen(asked: ToolCall, port: Port, quiet: set[str]) -> dict[str, int]:
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
