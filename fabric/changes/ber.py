"""
Bit errors on a link, by the register PTER of the port that sends.

PTER spoils what its own port transmits; the receiver at the other end counts it. The injection has a timer in the
device: it is always set, so that a link heals even when nobody is left to undo it, and set anew while it is needed.
"""

from __future__ import annotations

from fabric.changes.kind import Context, Counters, Kind
from fabric.changes.look import look, program
from fabric.changes.ports import AdapterEnd, Cable, End, SwitchEnd, cable_of, end_named
from fabric.changes.procedure import Procedure, pause
from fabric.changes.reach import refuse_our_way
from fabric.changes.receivers import bit_error_counters
from fabric.changes.waiting import until_active
from fabric.errors import NotInForce, Refused
from fabric.model.change import Alteration, Change, Check, Lease
from fabric.tools import mlxreg

GRACE_S = 30.0
"""An injection outlives its lease by so much, so that the device's own timer never ends it first (choice)."""


NOT_UP = 3
"""``status`` of PTER: the port is neither up nor in test mode."""

_PRIOR = " PTER: "

SPARE_S = 10.0
"""The timer of a change with an end of its own is longer by so much, for reading back and undoing (choice)."""


class Ber(Kind):
    """Kind ``ber``; params *errors*, *mantissa*, *exponent*, *direction*."""

    def prepare(self, change: Change, context: Context) -> Procedure[tuple[Alteration, ...]]:
        """One Alteration for each port that is to send errors."""
        cable = yield from cable_of(change.component, context)
        yield from refuse_our_way(cable, context)
        found = []
        for end in _senders(change, cable):
            found.append((yield from _alteration(end, change, cable, context)))
        return tuple(found)

    def confirm(self, change: Change, alterations: tuple[Alteration, ...], context: Context) -> Procedure[None]:
        """Every sender injects, what was asked; or did, until the errors were so many that the link went down."""
        for alteration in alterations:
            fields = mlxreg.read(*(yield from look(context, alteration.host, alteration.checks[0].argv)))
            reason = _not_as_asked(fields, _wanted(change))
            if reason:
                raise NotInForce(f"{change.component}: {_end(alteration)}: {reason}")

    def still_in_force(self, change: Change, alterations: tuple[Alteration, ...], context: Context) -> Procedure[None]:
        """The same: to confirm it waits for nothing, and its timer outlives it."""
        yield from self.confirm(change, alterations, context)

    def recovered(
        self, change: Change, alterations: tuple[Alteration, ...], context: Context, until_s: float
    ) -> Procedure[float]:
        """Wait until every port that sent errors is Active: many errors take a link down."""
        del change
        now_s = yield from pause(0.0)
        for alteration in alterations:
            now_s = yield from until_active(_end(alteration), context, until_s)
        return now_s

    def counters(self, change: Change, context: Context) -> Procedure[Counters]:
        """What the receivers of the errors have counted; empty while the link is down."""
        try:
            cable = yield from cable_of(change.component, context)
        except Refused:
            return {}
        found: dict[str, float] = {}
        for end in _receivers(change, cable):
            found |= yield from bit_error_counters(end, context)
        return found


def _not_as_asked(fields: mlxreg.Fields, wanted: mlxreg.Fields) -> str:
    """
    Why a register does not show the injection that was asked for; empty when it does.

    A port that was up before (``prepare`` saw it so) and is not up any more (NOT_UP) with the injection still set has
    been taken down by it.
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


def _end(alteration: Alteration) -> End:
    """The port that sends errors, as the Alteration's *prior* names it."""
    return end_named(alteration.prior.partition(_PRIOR)[0])


def injection_s(change: Change, lease: Lease) -> float:
    """
    For how long the device's own timer is set.

    Twice the lease and a little more: long enough to be set anew in time, short enough that a link heals soon when
    everybody who knows of the change is gone. At most what the register holds; not much longer than the change itself,
    which is taken back before its timer ends.
    """
    most_s = mlxreg.TIME_MOST * mlxreg.TIME_UNIT_S
    wanted_s = min(most_s, 2 * lease.ttl_s + GRACE_S)
    for_s = change.when.for_s
    return wanted_s if for_s is None else min(wanted_s, for_s + SPARE_S)


def _senders(change: Change, cable: Cable) -> tuple[End, ...]:
    """``up``: the lower end sends errors; ``down``: the upper end."""
    return _ends(change, {"up": (cable.lower,), "down": (cable.upper,), "both": (cable.lower, cable.upper)})


def _receivers(change: Change, cable: Cable) -> tuple[End, ...]:
    wanted: dict[str, tuple[End | None, ...]] = {
        "up": (cable.upper,),
        "down": (cable.lower,),
        "both": (cable.upper, cable.lower),
    }
    return tuple(end for end in wanted[str(change.params["direction"])] if end is not None)


def _ends(change: Change, by_direction: dict[str, tuple[End | None, ...]]) -> tuple[End, ...]:
    ends = by_direction[str(change.params["direction"])]
    if None in ends:
        raise Refused(
            f"{change.component}: its switch cannot be reached (changes: via in the inventory); "
            "with direction: up only the host's own end sends errors"
        )
    return tuple(end for end in ends if end is not None)


def _wanted(change: Change) -> dict[str, int]:
    params = change.params
    return {
        "error_type_admin": mlxreg.ERROR_TYPES[str(params["errors"])],
        "ber_mantissa": int(params["mantissa"]),
        "ber_exp": int(params["exponent"]),
    }


def _alteration(end: End, change: Change, cable: Cable, context: Context) -> Procedure[Alteration]:
    host, device, indexes = _place(end, context)
    tool = program(context, host, "mlxreg")
    get = mlxreg.get(device, "PTER", indexes, tool=tool)
    seen = mlxreg.read(*(yield from look(context, host, get)))
    wanted = _wanted(change)
    _allowed(end, seen, wanted["error_type_admin"])
    time = round(injection_s(change, context.settings.lease) / mlxreg.TIME_UNIT_S)
    before = {name: mlxreg.need(seen, name) for name in ("error_type_admin", "ber_mantissa", "ber_exp")}

    def values(of: dict[str, int], timer: int) -> mlxreg.Fields:
        return mlxreg.pter_values(of["error_type_admin"], of["ber_mantissa"], of["ber_exp"], timer)

    still = tuple(mlxreg.equals(name, value) for name, value in before.items() if name == "error_type_admin")
    return Alteration(
        host=host,
        apply=(mlxreg.write(device, "PTER", indexes, values(wanted, time), tool=tool),),
        undo=(mlxreg.write(device, "PTER", indexes, values(before, 0), tool=tool),),
        checks=(Check(get, (mlxreg.equals("error_type_oper", 0), *still)),),
        prior=f"{end}{_PRIOR}" + ", ".join(f"{name} {value}" for name, value in sorted(seen.items())),
        devices=_devices(cable, host),
        timer_s=time * mlxreg.TIME_UNIT_S,
        outlives=isinstance(end, SwitchEnd),
    )


def _place(end: End, context: Context) -> tuple[str, str, mlxreg.Fields]:
    """Host, device and indexes by which a port's register is reached; a switch's by subnet management packets."""
    if isinstance(end, AdapterEnd):
        return end.host, end.device, mlxreg.pter_indexes(1, ib_number=False)
    assert isinstance(end, SwitchEnd)
    assert context.settings.via is not None
    return context.settings.via, f"iblid-{end.lid}", mlxreg.pter_indexes(end.port, ib_number=True)


def _devices(cable: Cable, host: str) -> tuple[str, ...]:
    """The RNICs of the host that makes the change which lose traffic by it."""
    lower = cable.lower
    return (lower.device,) if isinstance(lower, AdapterEnd) and lower.host == host else ()


def _allowed(end: End, seen: mlxreg.Fields, error_type: int) -> None:
    """Raise Refused where a port cannot inject, or already does for somebody else."""
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
