"""Adaptive routing on or off: for the whole fabric by subnet managers or switches, or in the RNICs of hosts."""

from __future__ import annotations

from fabric.changes.kind import Context, Counters, Kind
from fabric.changes.look import look, program
from fabric.changes.nvue import SwitchRouting
from fabric.changes.procedure import Procedure
from fabric.changes.subnet_manager import SubnetManagerKeys
from fabric.errors import NotInForce, Refused
from fabric.model.change import Alteration, Argv, Change, ChangeSettings, Check
from fabric.tools import mlxreg

FIELD = "adaptive_routing_forced_en"
SELECT = "adaptive_routing_forced_en_field_select"
"""Reads 1 where the field may be chosen, and must be written 1 for the field to be taken."""


class AdaptiveRouting(Kind):
    """
    Kind ``adaptive_routing``; param *on*. Scope ``job`` is no change: the probes ask for it themselves.

    Of the fabric: InfiniBand by its subnet managers, RoCE by each of its switches.
    """

    def __init__(self) -> None:
        self._managers = SubnetManagerKeys(_keys)
        self._switches = SwitchRouting()

    def _fabric(self, context: Context) -> Kind:
        return self._switches if context.topology.ethernet else self._managers

    def prepare(self, change: Change, context: Context) -> Procedure[tuple[Alteration, ...]]:
        """One Alteration for each subnet manager or switch, or one for the host; none when all is so already."""
        if change.scope == "fabric":
            return (yield from self._fabric(context).prepare(change, context))
        return (yield from _of_host(change, context))

    def confirm(self, change: Change, alterations: tuple[Alteration, ...], context: Context) -> Procedure[None]:
        """The managers' files and a master, every switch, or the register of every RNIC."""
        if change.scope == "fabric":
            yield from self._fabric(context).confirm(change, alterations, context)
            return
        for alteration in alterations:
            for check in alteration.checks:
                fields = mlxreg.read(*(yield from look(context, alteration.host, check.argv)))
                if mlxreg.need(fields, FIELD) != int(change.params["on"]):
                    raise NotInForce(f"{change.component}: {check.argv[2]}: {FIELD} is {fields[FIELD]}")

    def counters(self, change: Change, context: Context) -> Procedure[Counters]:
        """Nothing is counted."""
        del change, context
        yield from ()
        return {}

    def recovered(
        self, change: Change, alterations: tuple[Alteration, ...], context: Context, until_s: float
    ) -> Procedure[float]:
        """Of the fabric: wait until a master is at work again."""
        if change.scope == "fabric":
            return (yield from self._fabric(context).recovered(change, alterations, context, until_s))
        return (yield from super().recovered(change, alterations, context, until_s))


def _keys(settings: ChangeSettings, on: bool) -> tuple[tuple[str, str], ...]:
    return settings.adaptive_on if on else settings.adaptive_off


def _of_host(change: Change, context: Context) -> Procedure[tuple[Alteration, ...]]:
    """The register ROCE_ACCL of every RNIC of one host; it holds for queue pairs made from then on."""
    host = context.topology.hosts.get(change.component)
    if host is None:
        raise Refused(f"there is no host {change.component}")
    if host.platform.link_layer != "ethernet":
        raise Refused(f"{host.name}: adaptive routing of InfiniBand is the fabric's (scope: fabric), not its hosts'")
    tool, wanted = program(context, host.name, "mlxreg"), int(change.params["on"])
    apply: list[Argv] = []
    undo: list[Argv] = []
    checks: list[Check] = []
    for rnic in host.platform.rnics:
        get = mlxreg.get(rnic.device, "ROCE_ACCL", {}, tool=tool)
        fields = mlxreg.read(*(yield from look(context, host.name, get)))
        if mlxreg.need(fields, SELECT) != 1:
            raise Refused(f"{host.name}/{rnic.device}: its firmware does not let {FIELD} be chosen")
        before = mlxreg.need(fields, FIELD)
        if before != wanted:
            apply.append(mlxreg.write(rnic.device, "ROCE_ACCL", {}, {FIELD: wanted, SELECT: 1}, tool=tool))
            undo.append(mlxreg.write(rnic.device, "ROCE_ACCL", {}, {FIELD: before, SELECT: 1}, tool=tool))
            checks.append(Check(get, (mlxreg.equals(FIELD, before),)))
    if not apply:
        return ()
    prior = f"{host.name}: {FIELD} {1 - wanted} on {len(apply)} of {len(host.platform.rnics)} RNICs"
    return (Alteration(host.name, tuple(apply), tuple(undo), tuple(checks), prior),)
