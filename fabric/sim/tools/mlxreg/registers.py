"""What the registers of a port say, and what writing them does."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from fabric.sim.phy.lines import EFFECTIVE, RAW, Injection
from fabric.sim.phy.port import ACTIVE, ERRORS, LINK_UP, Counts, Port, capped, lanes, packets, words
from fabric.sim.phy.ports import Ports
from fabric.sim.phy.quality import ber_text
from fabric.sim.tools.mlxreg.layout import (
    ACCL_SELECTS,
    PAOS,
    PPCNT_GROUPS,
    PPCNT_HEAD,
    PTER,
    PTER_PORT_PAGE,
    ROCE_ACCL,
    Field,
)

ENDLESS = 0xFFFF
"""The injection time that has no end; others are written in units of 10 ms and read in ms left."""
CAPABLE = RAW | EFFECTIVE
BAD_PARAMETER = "Register access bad parameter"
NOT_UP, OUT_OF_RANGE = 3, 4  # PTER's status

# Registers whose layout is longer than a subnet management packet carries (44 bytes): in-band they are GET only.
TOO_LONG = frozenset({"ROCE_ACCL", "PPCNT"})

Values = dict[str, int]


class AccessRefused(Exception):
    """The firmware refuses; the message is what the tool prints."""


@dataclass(frozen=True, slots=True)
class Register:
    """A register of one port, as a tool reaches it at one moment."""

    name: str
    port: Port
    ports: Ports
    at_s: float


def layout(name: str, indexes: Values) -> tuple[Field, ...] | None:
    """The fields of a register, the page or group of these indexes; None when there is no such register."""
    if name == "PPCNT":
        return PPCNT_HEAD + PPCNT_GROUPS.get(indexes.get("grp", 0), ())
    if name == "PTER":
        return PTER_PORT_PAGE if indexes.get("error_page") == 1 else PTER
    return {"PAOS": PAOS, "ROCE_ACCL": ROCE_ACCL}.get(name)


def read(register: Register, indexes: Values) -> Values:
    """GET: every field that is not 0. Raises AccessRefused."""
    if register.name == "PTER":
        return _read_pter(register, indexes)
    if register.name == "PAOS":
        return _read_paos(register.port)
    if register.name == "PPCNT":
        return _read_ppcnt(register, indexes)
    return {"roce_adp_retrans_en": 1} | {f"{name}_field_select": 1 for name in ACCL_SELECTS} | register.port.registers


def write(register: Register, values: Values) -> None:
    """SET of a whole register. Raises AccessRefused."""
    port, ports, at_s = register.port, register.ports, register.at_s
    if register.name == "PTER":
        _write_pter(register, values)
    elif register.name == "PAOS":
        if not values.get("ase"):  # firmware ignores the state without its enable bit, without a word
            return
        if values.get("admin_status") in (1, 3):
            ports.enable(port, at_s)
        elif values.get("admin_status") == 2:
            ports.disable(port, at_s)
        else:
            raise AccessRefused(BAD_PARAMETER)
    elif register.name == "ROCE_ACCL":
        for name in ACCL_SELECTS:
            value = name if name.endswith(("_en", "_disabled")) else f"{name}_en"
            if values.get(f"{name}_field_select"):
                port.registers[value] = values.get(value, 0)
    else:
        raise AccessRefused("Bad Reg Access method")


def _read_pter(register: Register, indexes: Values) -> Values:
    port, now = register.port, register.port.injection
    up = port.physical == LINK_UP
    values = {"status": port.registers.get("PTER status", 0) if up else NOT_UP}
    if indexes.get("error_page") == 1:
        return values
    values["error_type_cap"] = CAPABLE
    if now is not None:
        left = ENDLESS if now.until_s == inf else min(round((now.until_s - register.at_s) * 1e3), ENDLESS - 1)
        values |= {"error_type_admin": now.kind, "error_type_oper": int(up), "error_injection_time": left}
        values |= {"ber_mantissa": now.mantissa, "ber_exp": now.exponent}
    return values


def _write_pter(register: Register, values: Values) -> None:
    port, ports, at_s = register.port, register.ports, register.at_s
    kind, time = values.get("error_type_admin", 0), values.get("error_injection_time", 0)
    if values.get("error_page") == 1 or kind not in (0, RAW, EFFECTIVE):
        raise AccessRefused(BAD_PARAMETER)
    port.registers["PTER status"] = 0
    if kind == 0 or time == 0:
        ports.inject(port, None, at_s)
        return
    until_s = inf if time == ENDLESS else at_s + time * 0.01
    wanted = Injection(kind, values.get("ber_mantissa", 0), values.get("ber_exp", 0), until_s)
    if not 0.0 < wanted.ber <= 0.5:
        port.registers["PTER status"] = OUT_OF_RANGE
    elif port.physical == LINK_UP or ERRORS in port.held:  # its own errors took the link down: they can be renewed
        ports.inject(port, wanted, at_s)


def _read_paos(port: Port) -> Values:
    return {
        "oper_status": 1 if port.physical == LINK_UP else 2,
        "admin_status": 1 if port.admin_up else 2,
        "physical_state_status": port.physical,
        "logical_state_status": port.logical,
    }


def _read_ppcnt(register: Register, indexes: Values) -> Values:
    port, ports, at_s = register.port, register.ports, register.at_s
    group = indexes.get("grp", 0)
    if group not in PPCNT_GROUPS:
        raise AccessRefused(BAD_PARAMETER)
    counts = ports.counts(port, at_s, view="phy")
    if indexes.get("clr"):
        ports.clear(port, at_s, view="phy")
    if group == 0x22:
        found = _retries(register, counts)
    else:
        found = {0x12: _physical, 0x16: _statistical, 0x20: _infiniband}[group](counts)
    return {name: int(value) for name, value in found.items()}


def _halves(name: str, value: float) -> dict[str, float]:
    whole = int(value)
    return {f"{name}_high": whole >> 32 & 0xFFFFFFFF, f"{name}_low": whole & 0xFFFFFFFF}


def _physical(counts: Counts) -> dict[str, float]:
    return {
        **_halves("time_since_last_clear", counts.age_s * 1e3),
        **_halves("symbol_errors", counts.symbol),
        **_halves("rs_fec_corrected_symbols_total", counts.corrected_errors),
        "link_down_events": counts.downed,
        "successful_recovery_events": counts.recovered,
        "unintentional_link_down_events": counts.downed,
        "intentional_link_down_events": counts.intentional,
    }


def _ber(name: str, ber: float) -> dict[str, float]:
    """A BER in the two small fields that hold it, 15E-255 for none."""
    coefficient, _, magnitude = ber_text(ber).partition("E-")
    return {f"{name}_coef": int(coefficient), f"{name}_magnitude": int(magnitude)}


def _statistical(counts: Counts) -> dict[str, float]:
    found = {
        **_halves("time_since_last_clear", counts.age_s * 1e3),
        **_halves("phy_received_bits", counts.bits),
        **_halves("phy_symbol_errors", counts.symbol),
        **_halves("phy_corrected_bits", counts.corrected_errors),
        **_halves("phy_effective_errors", counts.effective_errors),
        **_ber("raw_ber", counts.raw_ber),
        **_ber("effective_ber", counts.effective_ber),
        **_ber("symbol_ber", counts.symbol_ber),
    }
    for lane, errors in enumerate(lanes(counts)):
        found |= _halves(f"phy_raw_errors_lane{lane}", errors)
    return found


def _infiniband(counts: Counts) -> dict[str, float]:
    return {
        "link_downed_counter": capped(counts.downed, 8),
        "link_error_recovery_counter": capped(counts.recovered, 8),
        "symbol_error_counter": capped(counts.symbol, 16),
        "port_xmit_data": capped(words(counts.sent_gb), 32),
        "port_rcv_data": capped(words(counts.received_gb), 32),
        "port_xmit_pkts": capped(packets(counts.sent_gb), 32),
        "port_rcv_pkts": capped(packets(counts.received_gb), 32),
    }


def _retries(register: Register, counts: Counts) -> dict[str, float]:
    """Bandwidth that link-level retry costs now, in units of 1e-10 (NVIDIA: loss % = plr_codes_loss / 1e10 * 100)."""
    peer = register.ports.peer(register.port)
    into = 1.0 if peer is None or not peer.line.retries else peer.quality().capacity_factor
    out = 1.0 if not register.port.line.retries else register.port.quality().capacity_factor
    if register.port.logical != ACTIVE:
        into = out = 1.0
    found = _halves("plr_codes_loss", (1.0 - into) * 1e10) | _halves("plr_tx_codes_loss", (1.0 - out) * 1e10)
    return {**found, **_halves("plr_rcv_code_err", counts.effective)}
