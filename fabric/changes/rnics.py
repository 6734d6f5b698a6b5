"""Settings of every RNIC of a host (RoCE): read, written where they differ, read back and restored.

Most are fields of the register ROCE_ACCL. One kind of change sets nothing else: how RNICs resend what was lost on the
way, everything from the lost packet on or only the lost packets, which decides how new connections send.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from fabric.changes.kind import Alters, Context, KeyProblem, Kind
from fabric.changes.procedure import Procedure
from fabric.errors import NotInForce, Refused
from fabric.model.change import Alteration, Alterations, Argv, Change, Check
from fabric.model.fields.scalars import OnOff
from fabric.model.topology import Rnic
from fabric.tools import mlxreg

Values = Mapping[str, int]
"""Values of settings by name."""


@dataclass(frozen=True, slots=True)
class Shown:
    """
    The settings of one RNIC: their *values*, and in *refusal* why they cannot be set, if they cannot.

    *put* returns the command that sets values, *check* the check that shows them.
    """

    values: Values
    refusal: str
    put: Callable[[Values], Argv]
    check: Callable[[Values], Check]


Look = Callable[[str, Rnic, Values, Context], Procedure[Shown]]
"""Reads an RNIC of a host (its name), for the settings named in these values."""


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
"""For each field the one that reads 1 where it may be chosen, and is written 1 to apply it (mstflint's adb)."""


def look_at_register(name: str, rnic: Rnic, wanted: Values, context: Context) -> Procedure[Shown]:
    """Read fields of one RNIC's register; with a refusal where the firmware does not let one be chosen."""
    get = mlxreg.get(rnic.device, REGISTER, {})
    fields = mlxreg.read(*(yield from context.look(name, get)))
    fixed = next((field for field in wanted if mlxreg.need(fields, SELECTS[field]) != 1), None)

    def put(values: Values) -> Argv:
        chosen = dict.fromkeys((SELECTS[field] for field in values), 1)
        return mlxreg.write(rnic.device, REGISTER, {}, {**values, **chosen})

    def check(values: Values) -> Check:
        return Check(get, tuple(mlxreg.equals(field, value) for field, value in values.items()))

    refusal = "" if fixed is None else f": its firmware does not let {fixed} be chosen"
    return Shown({field: mlxreg.need(fields, field) for field in wanted}, refusal, put, check)


def set_on_every_rnic(name: str, wanted: Values, context: Context, look: Look) -> Procedure[Alterations]:
    """
    Return one Alteration that gives all RNICs of a host these values; none where all have them.

    Raises Refused when an RNIC cannot be given them.
    """
    apply: list[Argv] = []
    undo: list[Argv] = []
    checks: list[Check] = []
    seen: dict[str, list[str]] = {}
    for rnic in context.topology.hosts[name].platform.rnics:
        shown = yield from look(name, rnic, wanted, context)
        if shown.refusal:
            raise Refused(f"{name}/{rnic.device}{shown.refusal}")
        others = {key: value for key, value in shown.values.items() if value != wanted[key]}
        if others:
            apply.append(shown.put({key: wanted[key] for key in others}))
            undo.append(shown.put(others))
            checks.append(shown.check(others))
            text = ", ".join(f"{key} {value}" for key, value in others.items())
            seen.setdefault(text, []).append(rnic.device)
    prior = "; ".join(f"{text} on {', '.join(devices)}" for text, devices in seen.items())
    return (Alteration(name, tuple(apply), tuple(undo), tuple(checks), f"{name}: {prior}"),) if apply else ()


def need_on_every_rnic(alterations: Alterations, wanted: Values, context: Context, look: Look) -> Procedure[None]:
    """Check that all RNICs of the altered hosts have these values; raises NotInForce with what one has."""
    for host in (one.host for one in alterations):
        for rnic in context.topology.hosts[host].platform.rnics:
            there = (yield from look(host, rnic, wanted, context)).values
            for key, value in wanted.items():
                if there.get(key) != value:
                    raise NotInForce(f"{host}/{rnic.device}: {key} is {there.get(key, 'not told')}")


class RnicSettings(Kind):
    """Base of kinds that set values on every RNIC of the scenario's hosts; a subclass says which."""

    is_fault: ClassVar[bool] = False
    reach: ClassVar[str] = "host"
    """The scope of each change: host, or fabric where everyone feels it."""

    @property
    def values(self) -> dict[str, int]:
        """The values that are asked for."""
        raise NotImplementedError

    def look(self, name: str, rnic: Rnic, wanted: Values, context: Context) -> Procedure[Shown]:
        """Read the settings of one RNIC of a host, as fields of its register."""
        return (yield from look_at_register(name, rnic, wanted, context))

    def params(self, component: str) -> Mapping[str, str | int | float]:
        """Return the values that are asked for."""
        return self.values

    def problems(self, context: Context | None) -> Iterator[KeyProblem]:
        """Yield a problem when hosts are on InfiniBand."""
        hosts = () if context is None else [context.topology.hosts[name] for name in context.hosts]
        if any(host.platform.link_layer == "infiniband" for host in hosts):
            yield (), "it is for RoCE: InfiniBand has no such setting"

    def targets(self, context: Context) -> Iterator[tuple[str, str, Kind]]:
        """Yield each host, because both ends of a connection decide."""
        for name in context.hosts:
            yield name, self.reach, self

    def prepare(self, change: Change, context: Context) -> Procedure[Alterations]:
        """Return one Alteration for the host; none when all its RNICs are as wanted."""
        return (yield from set_on_every_rnic(change.component, self.values, context, self.look))

    def confirm(self, change: Change, alterations: Alterations, context: Context) -> Procedure[None]:
        """Check that every RNIC has the values."""
        yield from need_on_every_rnic(alterations, self.values, context, self.look)


class Retransmission(RnicSettings):
    """The change retransmission: of all RNICs of the scenario's hosts, for connections that are made meanwhile."""

    kind: ClassVar[str] = "retransmission"
    about: ClassVar[str] = "How RoCE RNICs send again what was lost (mlxreg, register ROCE_ACCL)."

    selective_repeat: Annotated[bool, OnOff()] | None = None
    """on: lost packets alone are sent again; off: everything from the first lost one (go-back-N)."""
    adaptive_timers: Annotated[bool, OnOff()] | None = None
    """on: how long a lost answer is waited for is the firmware's, not NCCL_IB_TIMEOUT's."""

    short_timeouts: Annotated[bool, OnOff()] | None = None
    """on: the firmware has no least time of its own, so that a small NCCL_IB_TIMEOUT is kept."""

    @property
    def values(self) -> dict[str, int]:
        """The fields of the register."""
        asked = {
            SELECTIVE_REPEAT: self.selective_repeat,
            ADAPTIVE_TIMERS: self.adaptive_timers,
            SHORT_TIMEOUTS: self.short_timeouts,
        }
        return {field: int(on) for field, on in asked.items() if on is not None}

    def __str__(self) -> str:
        asked = self.model_dump(exclude_none=True)
        return ", ".join(f"{name.replace('_', ' ')} {'on' if on else 'off'}" for name, on in asked.items())

    def problems(self, context: Context | None) -> Iterator[KeyProblem]:
        """Yield also a problem when nothing is asked for."""
        if not self.values:
            yield (), "'selective_repeat', 'adaptive_timers' or 'short_timeouts' is required here: on or off"
        yield from super().problems(context)

    def needs(self, context: Context) -> Iterator[tuple[str | None, Alters]]:
        """Yield the register's tool on each host."""
        for name in context.hosts:
            yield name, Alters(("mlxreg",), guarded=True)
