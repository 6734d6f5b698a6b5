"""``perfquery``: the performance counters of a port, by LID."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.sim.phy.port import Counts, Port, capped, packets, words
from fabric.sim.tools.call import ToolCall, whole_number
from fabric.sim.tools.ib import Fields, IbError, dots, found_by_lid, own_port, tool

_ERRORS = (
    "SymbolErrorCounter LinkErrorRecoveryCounter LinkDownedCounter PortRcvErrors PortRcvRemotePhysicalErrors "
    "PortRcvSwitchRelayErrors PortXmitDiscards PortXmitConstraintErrors PortRcvConstraintErrors"
)
_MORE = "LocalLinkIntegrityErrors ExcessiveBufferOverrunErrors"


@tool("perfquery", "extended -x --extended\nreset -R --Reset_only\nafter -r --reset_after_read")
def perfquery(asked: ToolCall, fields: Fields, rest: list[str]) -> str:
    """One call: ``perfquery [-x] [-R|-r] [lid [port]]``; without a LID the own port."""
    own = own_port(asked, fields)
    node = found_by_lid(asked, own, rest[0], "classportinfo query failed") if rest else own.node
    ends = asked.ports.cabling.ends(node)
    number = whole_number(rest[1]) if len(rest) > 1 else None
    found = next((end for end in ends if len(rest) < 2 or end[1] == number), None)
    if found is None:
        raise IbError("perfquery")
    port = asked.ports.at(found)
    if "reset" in fields:
        asked.ports.clear(port, asked.at_s, view="ib")
        return ""
    counts = asked.ports.counts(port, asked.at_s, view="ib")
    if "after" in fields:
        asked.ports.clear(port, asked.at_s, view="ib")
    return (_extended if "extended" in fields else _plain)(port, counts)


def errors(counts: Counts, *, wide: bool) -> dict[str, int]:
    """The error counters that are not 0: narrow ones stop at their largest value."""
    small, middle = (32, 32) if wide else (8, 16)
    return {
        "SymbolErrorCounter": capped(counts.symbol, middle),
        "LinkErrorRecoveryCounter": capped(counts.recovered, small),
        "LinkDownedCounter": capped(counts.downed, 8),  # stays narrow in every form that is known
        "PortRcvErrors": capped(counts.symbol, middle),
    }


def _rows(rows: Mapping[str, object]) -> str:
    return "".join(dots(name, value) for name, value in rows.items())


def _plain(port: Port, counts: Counts) -> str:
    rows: dict[str, object] = {"PortSelect": port.end[1], "CounterSelect": "0x0000"}
    rows |= dict.fromkeys(_ERRORS.split(), 0) | errors(counts, wide=False)
    rows |= {"CounterSelect2": "0x00"} | dict.fromkeys([*_MORE.split(), "QP1Dropped", "VL15Dropped"], 0)
    rows |= {name: capped(value, 32) for name, value in _data(counts).items()}
    rows["PortXmitWait"] = capped(counts.wait_ticks, 32)
    return f"# Port counters: Lid {port.node.lid} port {port.end[1]} (CapMask: 0x5300)\n{_rows(rows)}"


def _extended(port: Port, counts: Counts) -> str:
    data = _data(counts)
    rows: dict[str, object] = {"PortSelect": port.end[1], "CounterSelect": "0x0000", **data}
    rows |= {"PortUnicastXmitPkts": data["PortXmitPkts"], "PortUnicastRcvPkts": data["PortRcvPkts"]}
    rows |= {"PortMulticastXmitPkts": 0, "PortMulticastRcvPkts": 0, "CounterSelect2": "0x00000000"}
    rows |= dict.fromkeys(_ERRORS.split(), 0) | errors(counts, wide=True) | dict.fromkeys(_MORE.split(), 0)
    rows |= {"VL15Dropped": 0, "PortXmitWait": int(counts.wait_ticks), "QP1Dropped": 0}
    place = f"Lid {port.node.lid} port {port.end[1]}"
    return f"# Port extended counters: {place} (CapMask: 0x5300 CapMask2: 0x0000002)\n{_rows(rows)}"


def _data(counts: Counts) -> dict[str, int]:
    return {
        "PortXmitData": words(counts.sent_gb),
        "PortRcvData": words(counts.received_gb),
        "PortXmitPkts": packets(counts.sent_gb),
        "PortRcvPkts": packets(counts.received_gb),
    }
