"""What the receivers at the ends of a cable have counted."""

from __future__ import annotations

from fabric.changes.kind import Context
from fabric.changes.look import look, plainly, program
from fabric.changes.ports import AdapterEnd, End, SwitchEnd
from fabric.changes.procedure import Procedure
from fabric.errors import Refused
from fabric.tools import mlxlink, perfquery, sysfs


def bit_error_counters(end: End, context: Context) -> Procedure[dict[str, float]]:
    """Errors before and after forward error correction where they can be read, and link events, since ever."""
    if isinstance(end, SwitchEnd):
        return (yield from _switch_counters(end, context))
    tool = program(context, end.host, "mlxlink")
    argv = mlxlink.show(end.device, counters=True, tool=tool)
    counters = mlxlink.read(*(yield from look(context, end.host, argv))).counters
    if counters is None:
        return {}
    found = {
        "raw_errors": counters.raw_errors,
        "effective_errors": counters.effective_errors,
        "symbol_errors": counters.symbol_errors,
        "link_downed": counters.link_down,
        "link_error_recovery": counters.link_error_recovery,
    }
    return {f"{end.name}.{name}": float(value) for name, value in found.items() if value is not None}


def link_counters(end: End, context: Context) -> Procedure[dict[str, float]]:
    """How often a link went down or recovered, as its receiver counts it."""
    if isinstance(end, SwitchEnd):
        return (yield from _switch_counters(end, context))
    return (yield from _kernel_counters(end))


def _kernel_counters(end: AdapterEnd) -> Procedure[dict[str, float]]:
    counters = sysfs.read_counters(*(yield from plainly(end.host, sysfs.counters(end.device, end.port))))
    return {f"{end.name}.{name}": float(value) for name, value in counters.items()}


def _switch_counters(end: SwitchEnd, context: Context) -> Procedure[dict[str, float]]:
    """Extended counters, which are wide; where they lack the errors, the short ones."""
    via = context.settings.via
    if via is None:
        raise Refused("switches are reached from a host of the fabric, and the inventory names none (changes: via)")
    tool = program(context, via, "perfquery")
    for extended in (True, False):
        argv = perfquery.argv(end.lid, end.port, extended=extended, tool=tool)
        counters = perfquery.read(*(yield from look(context, via, argv)))
        if any(name in counters for name in perfquery.ERRORS.values()):
            break
    names = perfquery.ERRORS.items()
    return {f"{end.name}.{name}": float(counters[counter]) for name, counter in names if counter in counters}
