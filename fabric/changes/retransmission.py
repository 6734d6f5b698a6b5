"""
How RNICs send again what was lost on the way (RoCE): from the lost packet on, or the lost packets alone.

It is a field of the register ROCE_ACCL, as is adaptive routing of RNICs: how connections made from then on send.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from fabric.changes.kind import Alters, Context, Kind, Wrong
from fabric.changes.procedure import Procedure
from fabric.errors import NotInForce, Refused
from fabric.model.change import Alteration, Argv, Change, Check
from fabric.model.fields.scalars import OnOff
from fabric.model.topology import Host
from fabric.tools import mlxreg

REGISTER = "ROCE_ACCL"
ADAPTIVE_ROUTING = "adaptive_routing_forced_en"
SELECTIVE_REPEAT = "selective_repeat_forced_en"
ADAPTIVE_TIMERS = "roce_adp_retrans_en"
SHORT_TIMEOUTS = "min_ack_timeout_limit_disabled"
SELECTS = {
    ADAPTIVE_ROUTING: "adaptive_routing_forced_en_field_select",
    SELECTIVE_REPEAT: "selective_repeat_forced_en_field_select",
    ADAPTIVE_TIMERS: "roce_adp_retrans_field_select",
    SHORT_TIMEOUTS: "min_ack_timeout_limit_disabled_field_select",
}
"""Of each field the one that reads 1 where it may be chosen, and is written 1 for it to be taken (mstflint's adb)."""


def fields_on(name: str, wanted: Mapping[str, int], context: Context) -> Procedure[tuple[Alteration, ...]]:
    """
    What gives the fields of every RNIC of a host these values; nothing where all have them.

    Raises Refused for a host without RoCE, and where the firmware does not let a field be chosen.
    """
    host = ethernet_host(name, context)
    tool = context.program(name, "mlxreg")
    apply: list[Argv] = []
    undo: list[Argv] = []
    checks: list[Check] = []
    seen: dict[str, list[str]] = {}
    for rnic in host.platform.rnics:
        get = mlxreg.get(rnic.device, REGISTER, {}, tool=tool)
        fields = mlxreg.read(*(yield from context.look(name, get)))
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


def confirm_fields(
    change: Change, alterations: tuple[Alteration, ...], wanted: Mapping[str, int], context: Context
) -> Procedure[None]:
    """The register of every RNIC that was altered says so; raises NotInForce with what it says."""
    for alteration in alterations:
        for check in alteration.checks:
            fields = mlxreg.read(*(yield from context.look(alteration.host, check.argv)))
            for field, value in wanted.items():
                if mlxreg.need(fields, field) != value:
                    raise NotInForce(f"{change.component}: {check.argv[2]}: {field} is {fields[field]}")


def ethernet_host(name: str, context: Context) -> Host:
    """A host whose links are RoCE; raises Refused for any other."""
    host = context.topology.hosts.get(name)
    if host is None:
        raise Refused(f"there is no host {name}")
    if host.platform.link_layer != "ethernet":
        raise Refused(f"{name}: this is of RoCE; its links are InfiniBand")
    return host


class Retransmission(Kind):
    """The change retransmission: of all RNICs of the scenario's hosts, for connections that are made meanwhile."""

    kind: ClassVar[str] = "retransmission"
    about: ClassVar[str] = "How RoCE RNICs send again what was lost (mlxreg, register ROCE_ACCL)."
    is_fault: ClassVar[bool] = False

    selective_repeat: Annotated[bool, OnOff()] | None = None
    """on: lost packets alone are sent again; off: everything from the first lost one (go-back-N)."""
    adaptive_timers: Annotated[bool, OnOff()] | None = None
    """on: how long a lost answer is waited for is the firmware's, not NCCL_IB_TIMEOUT's."""

    short_timeouts: Annotated[bool, OnOff()] | None = None
    """on: the firmware has no least time of its own, so that a small NCCL_IB_TIMEOUT is kept."""

    @property
    def _asked(self) -> dict[str, tuple[str, bool]]:
        asked = {
            SELECTIVE_REPEAT: ("selective repeat", self.selective_repeat),
            ADAPTIVE_TIMERS: ("adaptive timers", self.adaptive_timers),
            SHORT_TIMEOUTS: ("short timeouts", self.short_timeouts),
        }
        return {field: (words, on) for field, (words, on) in asked.items() if on is not None}

    @property
    def fields(self) -> dict[str, int]:
        """Of the register, with their values."""
        return {field: int(on) for field, (_, on) in self._asked.items()}

    def __str__(self) -> str:
        return ", ".join(f"{words} {'on' if on else 'off'}" for words, on in self._asked.values())

    def params(self, component: str) -> Mapping[str, str | int | float]:
        """The fields of the register."""
        return self.fields

    def problems(self, context: Context | None) -> Iterator[Wrong]:
        """Nothing is asked for, or the hosts have no RoCE."""
        if not self.fields:
            yield (), "'selective_repeat', 'adaptive_timers' or 'short_timeouts' is required here: on or off"
        hosts = context.topology.hosts if context is not None else {}
        if any(hosts[name].platform.link_layer == "infiniband" for name in (context.hosts if context else ())):
            yield (), "it is for RoCE: InfiniBand has no such setting"

    def targets(self, context: Context) -> Iterator[tuple[str, str, Kind]]:
        """Each host: both ends of a connection decide."""
        for name in context.hosts:
            yield name, "host", self

    def needs(self, context: Context) -> Iterator[tuple[str | None, Alters]]:
        """The register."""
        for name in context.hosts:
            yield name, Alters(("mlxreg",), guarded=True)

    def prepare(self, change: Change, context: Context) -> Procedure[tuple[Alteration, ...]]:
        """One Alteration for the host; none when all its RNICs are so already."""
        return (yield from fields_on(change.component, self.fields, context))

    def confirm(self, change: Change, alterations: tuple[Alteration, ...], context: Context) -> Procedure[None]:
        """The register of every RNIC."""
        yield from confirm_fields(change, alterations, self.fields, context)
