"""``perfquery``: the performance counters of a port, by LID."""

from __future__ import annotations

from fabric.sim.ib_options import IbError, dots, failed, found_by_lid, own_port, table
from fabric.sim.mlxreg_values import capped, packets, words
from fabric.sim.options import BadOption, taken_apart
from fabric.sim.port_counters import Counts
from fabric.sim.port_tool import Asked, Said, whole_number
from fabric.sim.ports import Port

_OPTIONS = table(flags="-x --extended -R --Reset_only -r --reset_after_read")
_ERRORS = (
    "SymbolErrorCounter LinkErrorRecoveryCounter LinkDownedCounter PortRcvErrors PortRcvRemotePhysicalErrors "
    "PortRcvSwitchRelayErrors PortXmitDiscards PortXmitConstraintErrors PortRcvConstraintErrors"
)
_MORE = "LocalLinkIntegrityErrors ExcessiveBufferOverrunErrors"


def perfquery(asked: Asked) -> Said:
    """One call: ``perfquery [-x] [-R|-r] [lid [port]]``; without a LID the own port."""
    try:
        fields, rest = taken_apart(asked.words, _OPTIONS)
    except BadOption as bad:
        return Said(stderr=f"perfquery: {bad}\n", status=255)
    try:
        return Said(_run(asked, fields, rest))
    except IbError as error:
        return failed("perfquery", error)


def _run(asked: Asked, fields: dict[str, str], rest: list[str]) -> str:
    own = own_port(asked, fields)
    node = found_by_lid(asked, own, rest[0], "classportinfo query failed") if rest else own.node
    ends = asked.ports.cabling.ends(node)
    number = whole_number(rest[1]) if len(rest) > 1 else None
    found = next((end for end in ends if len(rest) < 2 or end[1] == number), None)
    if found is None:
        raise IbError("perfquery")
    port = asked.ports.at(found)
    if {"R", "Reset_only"} & set(fields):
        asked.ports.clear(port, asked.at_s, view="ib")
        return ""
    counts = asked.ports.counts(port, asked.at_s, view="ib")
    if {"r", "reset_after_read"} & set(fields):
        asked.ports.clear(port, asked.at_s, view="ib")
    return (_extended if {"x", "extended"} & set(fields) else _plain)(port, counts)


def errors(counts: Counts, *, wide: bool) -> dict[str, int]:
    """The error counters that are not 0: narrow ones stop at their largest value."""
    small, middle = (32, 32) if wide else (8, 16)
    return {
        "SymbolErrorCounter": capped(counts.symbol, middle),
        "LinkErrorRecoveryCounter": capped(counts.recovered, small),
        "LinkDownedCounter": capped(counts.downed, 8),  # stays narrow in every form that is known
        "PortRcvErrors": capped(counts.symbol, middle),
    }


def _plain(port: Port, counts: Counts) -> str:
    found = errors(counts, wide=False)
    said = f"# Port counters: Lid {port.node.lid} port {port.end[1]} (CapMask: 0x5300)\n"
    said += dots("PortSelect", port.end[1]) + dots("CounterSelect", "0x0000")
    said += "".join(dots(name, found.get(name, 0)) for name in _ERRORS.split())
    said += dots("CounterSelect2", "0x00")
    said += "".join(dots(name, 0) for name in _MORE.split()) + dots("QP1Dropped", 0) + dots("VL15Dropped", 0)
    for name, value in _data(counts).items():
        said += dots(name, capped(value, 32))
    return said + dots("PortXmitWait", capped(counts.wait_ticks, 32))


def _extended(port: Port, counts: Counts) -> str:
    found, data = errors(counts, wide=True), _data(counts)
    said = f"# Port extended counters: Lid {port.node.lid} port {port.end[1]} (CapMask: 0x5300 CapMask2: 0x0000002)\n"
    said += dots("PortSelect", port.end[1]) + dots("CounterSelect", "0x0000")
    said += "".join(dots(name, value) for name, value in data.items())
    said += dots("PortUnicastXmitPkts", data["PortXmitPkts"]) + dots("PortUnicastRcvPkts", data["PortRcvPkts"])
    said += dots("PortMulticastXmitPkts", 0) + dots("PortMulticastRcvPkts", 0)
    said += dots("CounterSelect2", "0x00000000")
    said += "".join(dots(name, found.get(name, 0)) for name in _ERRORS.split())
    said += "".join(dots(name, 0) for name in _MORE.split())
    return said + dots("VL15Dropped", 0) + dots("PortXmitWait", int(counts.wait_ticks)) + dots("QP1Dropped", 0)


def _data(counts: Counts) -> dict[str, int]:
    return {
        "PortXmitData": words(counts.sent_gb),
        "PortRcvData": words(counts.received_gb),
        "PortXmitPkts": packets(counts.sent_gb),
        "PortRcvPkts": packets(counts.received_gb),
    }
