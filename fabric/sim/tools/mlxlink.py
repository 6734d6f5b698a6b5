"""The tool ``mlxlink`` (``mstlink``): the state of one port, in the layout of MFT 4.35."""

import json
from dataclasses import dataclass
from functools import lru_cache, partial
from math import exp, factorial, pi, sin
from textwrap import indent

from fabric.sim import page
from fabric.sim.hashing import mix64, noise_factor, text_hash, word
from fabric.sim.hosts.temperature import MODULE, Warmth
from fabric.sim.phy.cabling import DIM_DB, DIM_DRIFT_DB
from fabric.sim.phy.port import Physical, Port, capped
from fabric.sim.phy.quality import CODEWORD_BITS, KP4, UNWORN, LineKind, ber_text
from fabric.sim.tools.call import BadOption, ToolCall, ToolOutput, options, parse_options
from fabric.sim.tools.mlxreg import ToolRefused, opened

_OPTIONS = options("""
    device=   -d --device
    port=     -p --port
    counters  -c --show_counters
    module    -m --show_module
    state=    -a --port_state
    json      --json
    yes       -y --yes
    version   -v --version
    histogram --rx_fec_histogram
    bins      --show_histogram
""")
_CLOSED = (1, "The port is closed by command. Please check that the interface is enabled")
_ALONE = (2, "Auto-negotiation - No partner detected")
_STATES = {Physical.LINK_UP: ("Active", "LinkUp"), Physical.DISABLED: ("Disable", "Disabled")}
_MASKS = {"FDR": 0x1F, "EDR": 0x3F, "HDR": 0x7F, "NDR": 0xF1, "XDR": 0x1F1}
_SLOWER = {"FDR": "FDR10,QDR,DDR,SDR", "EDR": "FDR,FDR10,QDR,DDR,SDR", "HDR": "EDR,FDR,FDR10,QDR,DDR,SDR"}
_SLOWER |= {"NDR": "HDR,EDR,FDR,SDR", "XDR": "NDR,HDR,EDR,FDR,SDR"}

Sections = dict[str, list[str]]
"""Rows by the title above them, each ``Name=value``."""


def mlxlink(asked: ToolCall) -> ToolOutput:
    """Answer one call of the tool."""
    try:
        fields, _ = parse_options(asked.words, _OPTIONS)
    except BadOption as bad:
        return ToolOutput(stderr=f"\n-E- Invalid option: {bad}\n", status=1)
    if "version" in fields:
        return ToolOutput("mlxlink, mft 4.35.0-159, Git SHA Hash: N/A\n")
    try:
        if "device" not in fields:
            raise ToolRefused("Device argument is required, please specify a device using -d flag.")
        port = _port(asked, fields)
        if "state" in fields:
            return ToolOutput(_set_state(asked, port, fields["state"]))
    except ToolRefused as refused:
        return _document({}, str(refused)) if "json" in fields else ToolOutput(stderr=f"\n-E- {refused}\n", status=1)
    sections = _sections(asked, port, fields)
    if "json" not in fields:
        return ToolOutput(_text(sections))
    return _document(sections, _add_histogram(asked, port, sections) if "bins" in fields else "")


def _set_state(asked: ToolCall, port: Port, state: str) -> str:
    ways = {"DN": (asked.ports.disable, "Down"), "UP": (asked.ports.enable, "Up")}
    if state not in ways:
        raise ToolRefused(f"Please provide a valid paos command [UP(up)/DN(down)/TG(toggle)]: {state}")
    act, word = ways[state]
    act(port, asked.at_s)
    return f"\nConfiguring Port State ({word})...\n"


def _port(asked: ToolCall, fields: dict[str, str]) -> Port:
    device = opened(asked, fields["device"])
    cage, slash, half = fields.get("port", "1").partition("/")
    try:
        number = 2 * int(cage) - 2 + int(half) if slash else int(cage)  # two ports a cage
    except ValueError:
        raise ToolRefused(f'Invalid port number: "{fields["port"]}"') from None
    if device.ends and number not in device.ends:
        raise ToolRefused(f"Invalid port number! Port number {number} does not exist")
    return device.port(asked, number)


def _sections(asked: ToolCall, port: Port, fields: dict[str, str]) -> Sections:
    ethernet, width = port.node.ethernet, port.mark.width
    sections = dict(_state(port.line, width, port.physical, ethernet=ethernet, admin_up=port.admin_up))
    if "module" in fields:
        sections["Module Info"] = _module_rows(port, plugged(asked, port))
    if "counters" in fields:
        sections["Physical Counters and BER Info"] = _counters(asked, port)
    return sections


@lru_cache(maxsize=256)
def _state(line: LineKind, width: int, physical: Physical, *, ethernet: bool, admin_up: bool) -> Sections:
    """
    Return the rows that are printed for every port in this state.

    For Ethernet the physical state is that of auto-negotiation (mstflint mlxlink_commander.cpp:2345): LinkUp where it
    was used (a recorded 100G port), else ENABLE whether the port is up, polling or closed.
    """
    kind, up = line.generation, physical == Physical.LINK_UP
    opcode, advice = (0, "No issue was observed") if up else _ALONE if admin_up else _CLOSED
    state, physical_state = _STATES.get(physical, ("Polling", "Polling"))
    if ethernet and not (up and kind == "EDR"):
        physical_state = "ETH_AN_FSM_ENABLE"
    speeds = f"({line.speed}_4X)" if ethernet else f"({kind},{_SLOWER[kind]})"
    mask = f"0x{0x200 if ethernet else _MASKS[kind]:08x} {speeds}"
    words = {"state": state, "physical": physical_state, "mask": mask, "opcode": opcode, "advice": advice}
    negotiated = {"speed": line.speed, "width": f"{width}x", "fec": line.fec_text, "cable": mask}
    words |= negotiated if up else dict.fromkeys(negotiated, "N/A")
    text = page("mlxlink", **words, ext=" (Ext.)" if ethernet else "", group="N/A" if up else "PHY FW")
    parts = (part.partition("\n") for part in text.split("\n\n"))
    return {title: rows.splitlines() for title, _, rows in parts}


def _counters(asked: ToolCall, port: Port) -> list[str]:
    """Return counters and error ratios; nothing is known of a port that is down."""
    counts = asked.ports.counts(port, asked.at_s)
    ethernet = port.node.ethernet
    narrow = {"downed": capped(counts.downed, 32 if ethernet else 8), "recovered": capped(counts.recovered, 8)}
    rows = page("mlxlink-counters", counts=counts, ber=ber_text, ethernet=ethernet, **narrow).splitlines()
    return rows if port.up else [f"{row.partition('=')[0]}=N/A" for row in rows]


_BINS = 16


def _add_histogram(asked: ToolCall, port: Port, sections: Sections) -> str:
    """
    Add the histogram of blocks by their number of wrong symbols, which do not come in bursts here (choice).

    Return why there is none: the link is down, or its code is not RS(544,514) and so not simulated.
    """
    if not port.up or port.line.fec != KP4:
        why = "is valid with active link operation only" if not port.up else "is not simulated"
        return f"Providing FEC histogram cause the following exception:\nFEC Histogram {why}\n"
    counts = asked.ports.counts(port, asked.at_s)
    blocks = counts.bits / CODEWORD_BITS
    each = counts.raw / blocks if blocks else 0.0
    numbers = [int(blocks * exp(-each) * each**wrong / factorial(wrong)) for wrong in range(_BINS - 1)]
    bins = (f"Bin {wrong}=[{wrong}],{number}" for wrong, number in enumerate([*numbers, int(counts.full)]))
    sections["Histogram of FEC Errors"] = ["Header=Range,Occurrences", *bins]
    return ""


def _text(sections: Sections) -> str:
    """Return sections one below the other; values end with a blank in this version."""
    text = ""
    for title, rows in sections.items():
        text += f"\n{title}\n{'-' * len(title)}\n"
        text += "".join(f"{name:<35}: {value} \n" for name, _, value in (row.partition("=") for row in rows))
    return text


_dumps = partial(json.dumps, indent="\t", separators=(",", " : "))


def _document(sections: Sections, complaint: str) -> ToolOutput:
    """Return all sections as JSON."""
    status = {"code": int(bool(complaint)), "message": complaint or "success"}
    document = _dumps({"result": {"output": {}}, "status": status})
    blocks = []
    for title, rows in sections.items():
        inside = ",\n".join(map(_row, rows))
        blocks.append(f'\n\t\t\t"{title}" : {{\n{inside}\n\t\t\t}}')
    if blocks:
        document = document.replace("{}", f"{{{','.join(blocks)}\n\t\t}}", 1)
    return ToolOutput(f"{document}\n", status=int(bool(complaint)))


@lru_cache(maxsize=4096)
def _row(row: str) -> str:
    """Return a row of a document, with its indentation; cached because most are the same for every port."""
    name, _, value = row.partition("=")
    return indent(_dumps({name: _apart(value)})[2:-2], "\t\t\t")


def _apart(value: str) -> object:
    """Split a mask into number and values, lanes into a list."""
    if "," in value and " " not in value:  # one value a lane (mlxlink_cmd_print.cpp:80-108)
        return {"values": value.split(",")}
    mask, _, rest = value.partition(" (")
    if not mask.startswith("0x") or not rest:
        return value
    return {"mask": mask, "values": rest.removesuffix(")").split(",")}


_FORMS = {"FDR": "QSFP+", "EDR": "QSFP28", "HDR": "QSFP56", "NDR": "OSFP", "XDR": "OSFP"}
# Recorded of a healthy 400G module: the values that other modules scatter around, and the whole page.
_VOLTAGE_MV, _BIAS_MA, _RX_DBM, _TX_DBM = 3261.2, 8.38, 2.0, 1.6
VENDOR, PART_NUMBER = "NVIDIA", "MMA4Z00-NS400"
RX_LIMITS_DBM, TX_LIMITS_DBM = (-10.41, 6.0), (-8.508, 5.0)
DARK_DBM = -40.0
WARNS_DB = 3.0
"""Distance of a module's warning from its alarm limit (choice: a recorded cable warns 4.9 dB above it)."""
_WAVERS_DB = 0.3  # variation over a day; choice
_WORN_DB = 6.0  # less light through a worn cable; choice
_SWITCH_C = 44.0  # a module in a switch, whose air and load are not modelled; choice


@dataclass(frozen=True, slots=True)
class PluggedModule:
    """
    One module at one moment: *bits* make it differ from others; the light of each lane; *lit*: some light arrives.
    """

    bits: int
    warm_c: float
    rx_dbm: tuple[float, ...]
    tx_dbm: tuple[float, ...]
    lit: bool

    @property
    def serial(self) -> str:
        """Return the serial number, ``MT0123456789``."""
        return f"MT{self.bits % 10**10:010d}"


def plugged(asked: ToolCall, port: Port) -> PluggedModule:
    """Return the module in a port. Light arrives only while the other end sends."""
    peer, at_s = asked.ports.peer(port), asked.at_s
    replaced = port.site is not None and port.site.feels("replaced", f"{port.node.device}:leaf")
    bits = mix64(text_hash(f"module {port.end}{' as replaced' if replaced else ''}"))
    lit = peer is None or (peer.admin_up and not peer.broken)
    mark, days = port.mark, at_s / 86400.0
    worn = port.wear is not UNWORN and port.wear is not mark.wear
    wavers_db = _WAVERS_DB * sin(2.0 * pi * (days + word(bits, 10) % 1000 / 1000.0))
    received = [_RX_DBM + wavers_db - (_WORN_DB if worn else 0.0)] * 4
    if mark.lane is not None:
        received[mark.lane] -= DIM_DB + DIM_DRIFT_DB * days
    warm_c = _SWITCH_C if port.site is None else Warmth(port.site, at_s).of(port.node.device, MODULE)
    dark = (DARK_DBM,) * 4
    rx, tx = _lanes(bits, 0, received) if lit else dark, _lanes(bits, 4, [_TX_DBM] * 4) if port.admin_up else dark
    return PluggedModule(bits, round(warm_c), rx, tx, lit)


def _lanes(bits: int, first: int, levels_dbm: list[float]) -> tuple[float, ...]:
    """Return the light of four lanes, each a little off its level; the same every time."""
    noise = (noise_factor(word(bits, first + lane), 0.1) - 1.0 for lane in range(4))
    return tuple(round(level + 3.0 * off, 3) for level, off in zip(levels_dbm, noise, strict=True))


def _module_rows(port: Port, module: PluggedModule) -> list[str]:
    volts = _VOLTAGE_MV * noise_factor(word(module.bits, 8), 0.003)
    bias = _BIAS_MA * noise_factor(word(module.bits, 9), 0.03)
    form = _FORMS[port.line.generation]
    return page(
        "mlxlink-module", port=port, module=module, volts=volts, bias=bias, form=form, dark=DARK_DBM
    ).splitlines()
