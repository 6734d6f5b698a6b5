"""The register ROCE_ACCL of every RNIC of a host: how RoCE connections that are made from then on send (mlxreg)."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.changes.kind import Context
from fabric.changes.ports import look, program
from fabric.changes.procedure import Procedure
from fabric.errors import NotInForce, Refused
from fabric.model.change import Alteration, Argv, Change, Check
from fabric.model.topology import Host
from fabric.tools import mlxreg

REGISTER = "ROCE_ACCL"
ADAPTIVE_ROUTING = "adaptive_routing_forced_en"
SELECTIVE_REPEAT = "selective_repeat_forced_en"
ADAPTIVE_TIMERS = "roce_adp_retrans_en"
SELECTS = {
    ADAPTIVE_ROUTING: "adaptive_routing_forced_en_field_select",
    SELECTIVE_REPEAT: "selective_repeat_forced_en_field_select",
    ADAPTIVE_TIMERS: "roce_adp_retrans_field_select",
}
"""Of each field the one that reads 1 where it may be chosen, and is written 1 for it to be taken (mstflint's adb)."""


def on_host(name: str, wanted: Mapping[str, int], context: Context) -> Procedure[tuple[Alteration, ...]]:
    """
    What gives the fields of every RNIC of a host these values; nothing where all have them.

    Raises Refused for a host without RoCE, and where the firmware does not let a field be chosen.
    """
    host = _ethernet(name, context)
    tool = program(context, name, "mlxreg")
    apply: list[Argv] = []
    undo: list[Argv] = []
    checks: list[Check] = []
    seen: dict[str, list[str]] = {}
    for rnic in host.platform.rnics:
        get = mlxreg.get(rnic.device, REGISTER, {}, tool=tool)
        fields = mlxreg.read(*(yield from look(context, name, get)))
        for field in wanted:
            if mlxreg.need(fields, SELECTS[field]) != 1:
                raise Refused(f"{name}/{rnic.device}: its firmware does not let {field} be chosen")
        before = {field: mlxreg.need(fields, field) for field in wanted}
        others = [field for field, value in before.items() if value != wanted[field]]
        if others:
            chosen = dict.fromkeys((SELECTS[field] for field in others), 1)
            new, old = ({field: values[field] for field in others} for values in (wanted, before))
            apply.append(mlxreg.write(rnic.device, REGISTER, {}, new | chosen, tool=tool))
            undo.append(mlxreg.write(rnic.device, REGISTER, {}, old | chosen, tool=tool))
            checks.append(Check(get, tuple(mlxreg.equals(field, value) for field, value in old.items())))
            text = ", ".join(f"{field} {value}" for field, value in old.items())
            seen.setdefault(text, []).append(rnic.device)
    if not apply:
        return ()
    prior = "; ".join(f"{text} on {', '.join(devices)}" for text, devices in seen.items())
    return (Alteration(name, tuple(apply), tuple(undo), tuple(checks), f"{name}: {prior}"),)


def confirm(
    change: Change, alterations: tuple[Alteration, ...], wanted: Mapping[str, int], context: Context
) -> Procedure[None]:
    """The register of every RNIC that was altered says so; raises NotInForce with what it says."""
    for alteration in alterations:
        for check in alteration.checks:
            fields = mlxreg.read(*(yield from look(context, alteration.host, check.argv)))
            for field, value in wanted.items():
                if mlxreg.need(fields, field) != value:
                    raise NotInForce(f"{change.component}: {check.argv[2]}: {field} is {fields[field]}")


def _ethernet(name: str, context: Context) -> Host:
    host = context.topology.hosts.get(name)
    if host is None:
        raise Refused(f"there is no host {name}")
    if host.platform.link_layer != "ethernet":
        raise Refused(f"{name}: {REGISTER} is of RoCE; its links are InfiniBand")
    return host
