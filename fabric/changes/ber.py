"""Bit errors on a link, made by the register PTER of the port that sends.

PTER spoils what its own port transmits; the receiver at the other end counts it. The injection has a timer in the
device. It is always set, so that a link heals even when nobody is left to undo it, and set anew while it is needed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

from pydantic import PlainSerializer
from pydantic.json_schema import JsonSchemaValue

from fabric.changes.cable_fault import LastingFault
from fabric.changes.kind import Alters, Context, KeyProblem
from fabric.changes.ports import CablePorts, refuse_our_way, register, until_active
from fabric.changes.procedure import Procedure
from fabric.errors import NotInForce, Refused
from fabric.model.change import AdapterEnd, Alteration, Alterations, Change, Check, End, Lease, SwitchEnd
from fabric.model.fields.scalars import Choice, Scalar, refusal
from fabric.model.part import Part
from fabric.tools import mlxreg

GRACE_S = 30.0
"""How much longer than its lease an injection lasts, so that the device's own timer never ends it first (choice)."""


NOT_UP = 3
"""``status`` of PTER: the port is neither up nor in test mode."""

SPARE_S = 10.0
"""Extra time on the timer of a change with an end of its own, for reading back and undoing (choice)."""


MANTISSA_MOST, EXPONENT_MOST = 15, 255
"""The largest values of the fields ber_mantissa and ber_exp of the register PTER."""

_TEXT = re.compile(r"(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?")
_MOST = Fraction(1, 2)  # at 0.5 every bit is a coin toss
_EXPECTED = "a bit error rate from 1e-255 to 0.5, such as 1e-7 or 3e-4"


@dataclass(frozen=True, slots=True)
class BitErrorRate:
    """The bit error rate *mantissa* x 10^-*exponent*."""

    mantissa: int
    exponent: int

    def __str__(self) -> str:
        return f"{self.mantissa}e-{self.exponent}"


@dataclass(frozen=True)
class BitErrorText(Scalar):
    """Reads a bit error rate; refuses one that the register cannot hold and offers its two neighbours."""

    def parse(self, value: object) -> BitErrorRate:
        """Parse a rate: ``1e-6`` and ``0.000001`` are 1 and 6; ``2.5e-6`` would need a mantissa of 25."""
        if not isinstance(value, str) or not _TEXT.fullmatch(value):
            raise refusal(_EXPECTED, value)
        wanted = Fraction(value)
        if not Fraction(1, 10**EXPONENT_MOST) <= wanted <= _MOST:
            raise refusal(_EXPECTED, value)
        first = next(exponent for exponent in range(1, EXPONENT_MOST + 1) if wanted * 10**exponent >= 1)
        for exponent in (first, min(first + 1, EXPONENT_MOST)):
            mantissa = wanted * 10**exponent
            if mantissa.denominator == 1 and mantissa <= MANTISSA_MOST:
                return BitErrorRate(int(mantissa), exponent)
        below = int(wanted * 10**first)
        hint = f"; write {below}e-{first} or {below + 1}e-{first}"
        raise refusal(f"m x 10^-e with a whole m from 1 to {MANTISSA_MOST}", value, hint=hint)

    def json_schema(self) -> JsonSchemaValue:
        """Return the schema: a small number, or the same as text."""
        return {
            "type": ["number", "string"],
            "exclusiveMinimum": 0,
            "maximum": float(_MOST),
            "pattern": f"^{_TEXT.pattern}$",
        }


Rate = Annotated[BitErrorRate, BitErrorText(), PlainSerializer(str)]
"""A bit error rate; text in run.json, as in a scenario file."""


class Ber(LastingFault):
    """Bit errors on some links."""

    kind: ClassVar[str] = "ber"
    about: ClassVar[str] = "Bit errors on some links (mlxreg, register PTER)."
    bit_errors: ClassVar[bool] = True

    raw: Rate | None = None
    """Bit error rate before forward error correction, which mends most of it."""
    effective: Rate | None = None
    """Bit error rate after forward error correction: what the traffic sees."""
    direction: Annotated[str, Choice(("up", "down", "both"))] = "both"
    """up: what the lower end sends; down: what the upper end sends; both."""

    @property
    def rate(self) -> BitErrorRate:
        """The rate that is asked for; ``problems`` makes sure that exactly one of the two is given."""
        return self.raw or self.effective or BitErrorRate(1, 1)

    @property
    def raw_ber(self) -> str:
        """The rate before error correction, as text; empty when none is asked for."""
        return "" if self.raw is None else str(self.raw)

    def __str__(self) -> str:
        which = "effective" if self.raw is None else "raw"
        return f"ber {which} {self.rate}" + ("" if self.direction == "both" else f" {self.direction}")

    def params(self, component: str) -> Mapping[str, str | int | float]:
        """Return the rate in its two parts, its kind and its direction."""
        errors = "effective" if self.raw is None else "raw"
        rate = {"mantissa": self.rate.mantissa, "exponent": self.rate.exponent}
        return {"errors": errors, **rate, "direction": self.direction}

    def problems(self, context: Context | None) -> Iterator[KeyProblem]:
        """Yield a problem when none or both of the two rates are given."""
        if self.raw is None and self.effective is None:
            yield (), "'raw' or 'effective' is required here: the bit error rate before or after error correction"
        if self.raw is not None and self.effective is not None:
            yield (), "'raw' and 'effective' are two kinds of bit errors: leave out one"
        yield from super().problems(context)

    def needs(self, context: Context) -> Iterator[tuple[str | None, Alters]]:
        """Yield the tools per host: ``up`` is sent by the host's own end, if it is one; the other end is read."""
        via = context.settings.via
        for name in self.link_names:
            part = Part.of(name)
            yield via, Alters(("iblinkinfo", "perfquery"))
            if part.item and self.direction != "down":
                yield part.host, Alters(("mlxreg",), guarded=True)
            if not part.item or self.direction != "up":
                yield via, Alters(("mlxreg",), guarded=True)
            if part.item and self.direction != "up":
                yield part.host, Alters(("mlxlink",))

    def through_via(self, component: str) -> bool:
        """Return whether a switch sends errors, which needs ``via``."""
        return self.direction != "up" or super().through_via(component)

    @property
    def pter(self) -> dict[str, int]:
        """The fields of the register PTER for this change."""
        kind = mlxreg.ERROR_TYPES["effective" if self.raw is None else "raw"]
        return {"error_type_admin": kind, "ber_mantissa": self.rate.mantissa, "ber_exp": self.rate.exponent}

    def prepare(self, change: Change, context: Context) -> Procedure[Alterations]:
        """Return one Alteration for each port that is to send errors."""
        cable = yield from self.cable(change, context)
        yield from refuse_our_way(cable, context)
        found = []
        for end in self._ends(cable.lower, cable.upper):
            if end is None:
                raise Refused(
                    f"{change.component}: its switch cannot be reached (changes: via in the inventory); "
                    "with direction: up only the host's own end sends errors"
                )
            found.append((yield from self._alteration(end, cable, context)))
        return tuple(found)

    def _ends(self, up: End | None, down: End | None) -> tuple[End | None, ...]:
        """Return the sending end of each direction that is asked for."""
        return {"up": (up,), "down": (down,), "both": (up, down)}[self.direction]

    def _alteration(self, end: End, cable: CablePorts, context: Context) -> Procedure[Alteration]:
        host, device, indexes = _place(end, context)
        indexes, seen = yield from register(context, host, device, "PTER", indexes)
        get = mlxreg.get(device, "PTER", indexes)
        wanted = self.pter
        _allowed(end, seen, wanted["error_type_admin"])
        time = round(injection_s(self.for_s, context.settings.lease) / mlxreg.TIME_UNIT_S)
        before = {name: mlxreg.need(seen, name) for name in wanted}

        def values(of: dict[str, int], timer: int) -> mlxreg.Fields:
            return mlxreg.pter_values(of["error_type_admin"], of["ber_mantissa"], of["ber_exp"], timer)

        as_before = mlxreg.equals("error_type_admin", before["error_type_admin"])
        return Alteration(
            host=host,
            apply=(mlxreg.write(device, "PTER", indexes, values(wanted, time)),),
            undo=(mlxreg.write(device, "PTER", indexes, values(before, 0)),),
            checks=(Check(get, (mlxreg.equals("error_type_oper", 0), as_before)),),
            prior=f"{end}: {'bit errors of before' if before['error_type_admin'] else 'no bit errors'}",
            devices=cable.devices_of(host),
            timer_s=time * mlxreg.TIME_UNIT_S,
            outlives=isinstance(end, SwitchEnd),
            ends=(end,),
        )

    def confirm(self, change: Change, alterations: Alterations, context: Context) -> Procedure[None]:
        """Check that every sender injects what was asked, or did so until the errors took the link down."""
        for alteration in alterations:
            fields = mlxreg.read(*(yield from context.look(alteration.host, alteration.checks[0].argv)))
            reason = _not_as_asked(fields, self.pter)
            if reason:
                raise NotInForce(f"{change.component}: {alteration.ends[0]}: {reason}")

    def still_in_force(self, change: Change, alterations: Alterations, context: Context) -> Procedure[None]:
        """Confirm once more: that waits for nothing, and the device's timer outlasts the change."""
        yield from self.confirm(change, alterations, context)

    def recovered(self, change: Change, alterations: Alterations, context: Context, until_s: float) -> Procedure[None]:
        """Wait until every port that sent errors is Active: many errors take a link down."""
        for alteration in alterations:
            yield from until_active(alteration.ends[0], context, until_s)

    def receivers(self, cable: CablePorts) -> tuple[End | None, ...]:
        """Return the ends at which the errors arrive."""
        return self._ends(cable.upper, cable.lower)


def _not_as_asked(fields: mlxreg.Fields, wanted: mlxreg.Fields) -> str:
    """
    Return why a register does not show the injection that was asked for; empty when it does.

    If a port was up before (``prepare`` saw it so), is not up any more (NOT_UP) and the injection is still set, the
    injection has taken it down.
    """
    status = mlxreg.need(fields, "status")
    if status not in (0, NOT_UP):
        return f"PTER status {status}: {mlxreg.STATUS_TEXT.get(status, 'an unknown status')}"
    for name, value in wanted.items():
        if mlxreg.need(fields, name) != value:
            return f"PTER {name} is {fields[name]}, not {value}"
    if status == 0 and mlxreg.need(fields, "error_type_oper") != 1:
        return "PTER was accepted, but no errors are injected (error_type_oper 0)"
    return ""


def injection_s(for_s: float | None, lease: Lease) -> float:
    """
    Return for how long the device's own timer is set (seconds).

    Twice the lease and a little more: long enough to be set anew in time, short enough that a link heals soon when
    everybody who knows of the change is gone. At most what the register holds, and not much longer than the change
    itself, which is taken back before its timer ends.
    """
    most_s = mlxreg.TIME_MOST * mlxreg.TIME_UNIT_S
    wanted_s = min(most_s, 2 * lease.ttl_s + GRACE_S)
    return wanted_s if for_s is None else min(wanted_s, for_s + SPARE_S)


def _place(end: End, context: Context) -> tuple[str, str, mlxreg.Fields]:
    """Return host, device and indexes of a port's register; a switch is reached by subnet management packets."""
    if isinstance(end, AdapterEnd):
        return end.host, end.device, mlxreg.pter_indexes(1, ib_number=False)
    assert isinstance(end, SwitchEnd)
    device = mlxreg.in_band(end.lid, *context.via_port())
    return context.need_via(), device, mlxreg.pter_indexes(end.port, ib_number=True)


def _allowed(end: End, seen: mlxreg.Fields, error_type: int) -> None:
    """Raise Refused when a port cannot inject, or somebody else injects there already."""
    if not mlxreg.need(seen, "error_type_cap") & error_type:
        raise Refused(
            f"{end}: its firmware does not offer error type {error_type} (error_type_cap {seen['error_type_cap']})"
        )
    if mlxreg.need(seen, "error_type_oper") != 0:
        left = seen.get("error_injection_time", 0)
        raise Refused(
            f"{end}: somebody injects errors there already (error_type_admin {seen['error_type_admin']}, {left} left)"
        )
    status = mlxreg.need(seen, "status")
    if status != 0:
        raise Refused(f"{end}: PTER status {status}: {mlxreg.STATUS_TEXT.get(status, 'unknown')}")
