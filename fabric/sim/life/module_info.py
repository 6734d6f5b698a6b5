"""What a transceiver says of itself: ``mlxlink -m``, in the rows and the order of MFT 4.35."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.sim.hashing import mix64, noise_factor, text_hash, word
from fabric.sim.injection import UNWORN
from fabric.sim.life.temperature import MODULE, temperature_c

if TYPE_CHECKING:
    from fabric.sim.ports import Port

_FORMS = {"FDR": "QSFP+", "EDR": "QSFP28", "HDR": "QSFP56", "NDR": "OSFP", "XDR": "OSFP"}
# Recorded of a healthy 400G module: the values around which others lie, and the ranges in brackets.
_VOLTAGE_MV, _VOLTAGE_RANGE = 3261.2, "[2970..3630]"
_BIAS_MA, _BIAS_RANGE = 8.38, "[2..15]"
_RX_DBM, _RX_RANGE = 2.0, "[-10.41..6]"
_TX_DBM, _TX_RANGE = 1.6, "[-8.508..5]"
_WARM_RANGE = "[-5..75]"
_DARK = "-40"
_WORN_DB = 6.0  # less light through a worn cable; choice
_SWITCH_C = 44.0  # a module in a switch, whose air and load are not modelled; choice


def module_rows(port: Port, peer: Port | None, at_s: float, *, up: bool) -> dict[str, str]:
    """Row name to value. Light arrives only while the other end sends."""
    bits = mix64(text_hash(f"module {port.end}{' as replaced' if _replaced(port) else ''}"))
    lit = peer is None or (peer.admin_up and not peer.broken)
    received = [_RX_DBM - (_WORN_DB if _worn(port) else 0.0)] * 4
    rx = _lanes(bits, 0, received) if lit else ",".join([_DARK] * 4)
    tx = _lanes(bits, 4, [_TX_DBM] * 4) if port.admin_up else ",".join([_DARK] * 4)
    bias = ",".join([f"{_BIAS_MA * noise_factor(word(bits, 9), 0.03):.3f}"] * 4)
    lost, locked = ("0", "0") if lit else ("1", "1")
    generation, ethernet = port.line.generation, port.node.ethernet
    compliance = f"{port.rate_gbps:g}GBASE-SR4" if ethernet else f"IB {generation}"
    return {
        "Temperature [C]": f"{_celsius(port, at_s):.0f} {_WARM_RANGE}",
        "Voltage [mV]": f"{_VOLTAGE_MV * noise_factor(word(bits, 8), 0.003):.1f} {_VOLTAGE_RANGE}",
        "Bias Current [mA]": f"{bias} {_BIAS_RANGE}",
        "Rx Power Current [dBm]": f"{rx} {_RX_RANGE}",
        "Tx Power Current [dBm]": f"{tx} {_TX_RANGE}",
        "Identifier": _FORMS[generation],
        "Compliance": compliance,
        "Cable Technology": "850 nm VCSEL",
        "Cable Type": "Optical Module (separated)",
        "OUI": "Nvidia",
        "Vendor Name": "NVIDIA",
        "Vendor Part Number": "MMA4Z00-NS400",
        "Vendor Serial Number": f"MT{bits % 10**10:010d}",
        "Rev": "A2",
        "Wavelength [nm]": "850",
        "Transfer Distance [m]": "50",
        "Attenuation (5g,7g,12g,25g)[dB]": "N/A",
        "FW Version": "46.120.4000",
        "Digital Diagnostic Monitoring": "Yes",
        "Power Class": "9.0 W max",
        "MAX Power": "9.0",
        "CDR RX": "ON,ON,ON,ON",
        "CDR TX": "ON,ON,ON,ON",
        "LOS Alarm": "N/A",
        "SNR Media Lanes [dB]": "N/A",
        "SNR Host Lanes [dB]": "N/A",
        "IB Cable Width": "1x,2x,4x",
        "Memory Map Revision": "80",
        "Linear Direct Drive": "0",
        "Cable Breakout": "N/A",
        "SMF Length": "N/A",
        "Cable Rx AMP": "N/A",
        "Cable Rx Emphasis (Pre)": "N/A",
        "Cable Rx Post Emphasis": "N/A",
        "Cable Tx Equalization": "N/A",
        "Wavelength Tolerance": "N/A",
        "Module State": "Ready state",
        "DataPath state [per lane]": ",".join(["DPActivated" if up else "DPInitialized"] * 4),
        "Rx Output Valid [per lane]": ",".join(["1" if lit else "0"] * 4),
        "Nominal bit rate": "N/A",
        "Rx Power Type": "Average power",
        "Manufacturing Date": "12_03_24",
        "Active Set Host Compliance Code": compliance,
        "Active Set Media Compliance Code": compliance,
        "Error Code Response": "ConfigSuccess",
        "Module FW Fault": "0",
        "DataPath FW Fault": "0",
        "Tx Fault [per lane]": "0,0,0,0",
        "Tx LOS [per lane]": "0,0,0,0",
        "Tx CDR LOL [per lane]": "0,0,0,0",
        "Rx LOS [per lane]": ",".join([lost] * 4),
        "Rx CDR LOL [per lane]": ",".join([locked] * 4),
        "Tx Adaptive EQ Fault [per lane]": "0,0,0,0",
    }


def _replaced(port: Port) -> bool:
    """Whether somebody put another module into an RNIC."""
    faults = None if port.site is None else port.site.faults
    return faults is not None and f"{port.node.device}:leaf" in faults.replaced


def _worn(port: Port) -> bool:
    return port.wear is not UNWORN


def _celsius(port: Port, at_s: float) -> float:
    if port.site is None:
        return _SWITCH_C
    return temperature_c(port.site, port.node.device, MODULE, at_s)


def _lanes(bits: int, first: int, levels_dbm: list[float]) -> str:
    """Four lanes, each a little brighter or darker than its like; the same every time."""
    noise = (noise_factor(word(bits, first + lane), 0.1) - 1.0 for lane in range(4))
    return ",".join(f"{level + 3.0 * off:.3f}" for level, off in zip(levels_dbm, noise, strict=True))
