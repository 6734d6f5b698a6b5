"""A change that is taken back when a receiver of its cable has counted too much (``stop_above`` of a scenario)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fabric.changes.cable_fault import CableFault
from fabric.changes.collateral import Lookout
from fabric.changes.kind import Context, Counters
from fabric.changes.ports import AdapterEnd, End, cable_of
from fabric.changes.procedure import Procedure, pause
from fabric.errors import FabricError
from fabric.model.change import Change

_KERNEL_NAMES = {"symbol_error": "symbol_errors"}
"""Counters that the kernel calls otherwise than the tools do."""


def watch_counters(
    change: Change,
    context: Context,
    lookout: Lookout,
    *,
    before: Callable[[], Counters | None],
    stop: Callable[[str], None],
) -> Procedure[None]:
    """
    Read the counters at the ends of a changed cable while the change is in force.

    *before*: what they were just before it was applied, None while it is not in force. *stop*: told why the change must
    go, also when a counter that was asked for is not there: a limit that nobody watches is none.
    """
    try:
        cable = yield from cable_of(change.component, context)
        ends = tuple(end for end in (cable.lower, cable.upper) if end is not None)
        offered = yield from _read(change, ends, context)
    except FabricError as exc:
        stop(f"{change.change_id}: its counters cannot be watched (stop_above): {exc}")
        return
    missing = [name for name, _ in change.when.stop_above if name not in {_counter(key) for key in offered}]
    if missing:
        have = ", ".join(sorted({_counter(key) for key in offered})) or "nothing"
        stop(f"{change.change_id}: {missing[0]} (stop_above) is not counted there; counted are {have}")
        return
    lookout.looked.add(change.change_id)
    yield from _compare(change, ends, context, lookout, before, stop)


def _compare(
    change: Change,
    ends: tuple[End, ...],
    context: Context,
    lookout: Lookout,
    before: Callable[[], Counters | None],
    stop: Callable[[str], None],
) -> Procedure[None]:
    while not lookout.ended:
        yield from pause(lookout.clock() + lookout.period_s)
        if before() is None:
            continue
        try:
            now = yield from _read(change, ends, context)
        except FabricError as exc:
            lookout.unreadable(_asked(ends, context), exc)
            continue
        base = before()
        for reason in () if base is None else over(change, base, now):
            stop(reason)


def over(change: Change, before: Counters, now: Counters) -> Iterator[str]:
    """What grew by more than the change's limits, in words; so is a counter that was not read before it was applied."""
    for name, most in change.when.stop_above:
        keys = [key for key in before if _counter(key) == name]
        if not keys:
            yield f"{change.change_id}: {name} (stop_above) could not be read before it was applied"
        for key in keys:
            grew = now[key] - before[key] if key in now else 0.0
            if grew > most:
                yield f"{change.change_id}: {key} grew by {grew:.0f}, more than {most:.0f} (stop_above)"


def _counter(key: str) -> str:
    """The counter of ``gpu001/mlx5_0.symbol_error``, by the name that scenarios use."""
    name = key.rpartition(".")[2]
    return _KERNEL_NAMES.get(name, name)


def _read(change: Change, ends: tuple[End, ...], context: Context) -> Procedure[dict[str, float]]:
    """The same counters that the change itself reads before and after."""
    found: dict[str, float] = {}
    spec = change.spec
    for end in ends:
        found |= (yield from spec.counted(end, context)) if isinstance(spec, CableFault) else {}
    return found


def _asked(ends: tuple[End, ...], context: Context) -> str:
    """The host that is blamed when nothing can be read."""
    return next((end.host for end in ends if isinstance(end, AdapterEnd)), context.settings.via or "")
