"""``mlxlink`` and ``mstlink``: the state of one port, in the layout of MFT 4.35."""

from __future__ import annotations

import json

from fabric.sim.life.module_info import module_rows
from fabric.sim.mlxreg import Refused, opened
from fabric.sim.mlxreg_values import AccessRefused, capped, lanes
from fabric.sim.options import BadOption, Option, taken_apart
from fabric.sim.phy import ber_text
from fabric.sim.port_tool import Asked, Said, whole_number
from fabric.sim.ports import DISABLED, LINK_UP, Port

_OPTIONS = {
    name: Option(field, value)
    for field, value, names in (
        ("device", "yes", "-d --device"),
        ("port", "yes", "-p --port"),
        ("counters", "no", "-c --show_counters"),
        ("clear", "no", "--pc"),
        ("fec", "no", "--show_fec"),
        ("module", "no", "-m --show_module"),
        ("state", "yes", "-a --port_state"),
        ("json", "no", "--json"),
        ("yes", "no", "-y --yes"),
        ("version", "no", "-v --version"),
    )
    for name in names.split()
}
_CLOSED = (1, "The port is closed by command. Please check that the interface is enabled")
_ALONE = (2, "Auto-negotiation - No partner detected")
_MASKS = {"FDR": 0x1F, "EDR": 0x3F, "HDR": 0x7F, "NDR": 0xF1, "XDR": 0x1F1}
_ENABLED = {
    "FDR": "FDR,FDR10,QDR,DDR,SDR",
    "EDR": "EDR,FDR,FDR10,QDR,DDR,SDR",
    "HDR": "HDR,EDR,FDR,FDR10,QDR,DDR,SDR",
    "NDR": "NDR,HDR,EDR,FDR,SDR",
    "XDR": "XDR,NDR,HDR,EDR,FDR,SDR",
}

Sections = dict[str, dict[str, str]]


def mlxlink(asked: Asked) -> Said:
    """One call of the tool."""
    try:
        fields, _ = taken_apart(asked.words, _OPTIONS)
    except BadOption as bad:
        return Said(stderr=f"\n-E- Invalid option: {bad}\n", status=1)
    if "version" in fields:
        return Said("mlxlink, mft 4.35.0-159, Git SHA Hash: N/A\n")
    in_json = "json" in fields
    try:
        if "device" not in fields:
            raise Refused("Device argument is required, please specify a device using -d flag.")
        port = _port(asked, fields)
        state = fields.get("state", "").upper()
        if state not in ("", "DN", "UP", "TG"):
            raise Refused(f"Please provide a valid paos command [UP(up)/DN(down)/TG(toggle)]: {state}")
    except Refused as refused:
        if in_json:
            return Said(_json({}, [], code=1, message=str(refused)), status=1)
        return Said(stderr=f"\n-E- {refused}\n", status=1)
    done = _changed(asked, port, state, clear="clear" in fields)
    sections = _sections(asked, port, fields) if not done or "counters" in fields else {}
    if in_json:
        return Said(_json(sections, done, code=0, message="success"))
    return Said("".join(f"\n{line}\n" for line in done) + _text(sections))


def _port(asked: Asked, fields: dict[str, str]) -> Port:
    device = opened(asked, fields["device"])
    number = whole_number(fields.get("port", "1"))
    if number is None:
        raise Refused(f'Invalid port number: "{fields["port"]}"')
    try:
        if device.port is not None:
            return device.port(number)
    except AccessRefused:
        raise Refused(f"Invalid port number! Port number {number} does not exist") from None
    raise Refused("Failed to send access register: Failed to send MAD")


def _changed(asked: Asked, port: Port, state: str, *, clear: bool) -> list[str]:
    """Do what was asked for; one line about each step."""
    done = []
    if state in ("DN", "TG"):
        done.append("Configuring Port State (Down)...")
    if state in ("UP", "TG"):
        done.append("Configuring Port State (Up)...")
    if state == "DN":
        asked.ports.disable(port, asked.at_s)
    elif state == "UP":
        asked.ports.enable(port, asked.at_s)
    elif state == "TG":
        asked.ports.bounce(port, asked.at_s)
    if clear:
        asked.ports.clear(port, asked.at_s, view="phy")
        done.append("Clearing Counters...")
    return done


def _sections(asked: Asked, port: Port, fields: dict[str, str]) -> Sections:
    ethernet, kind, up = port.node.ethernet, port.line.generation, port.physical == LINK_UP
    opcode, advice = (0, "No issue was observed") if up else _ALONE if port.admin_up else _CLOSED
    speeds = f"({port.line.speed}_4X)" if ethernet else f"({_ENABLED[kind]})"
    mask = f"0x{0x200 if ethernet else _MASKS[kind]:08x} {speeds}"
    extended = " (Ext.)" if ethernet else ""
    sections = {
        "Operational Info": {
            "State": "Active" if up else "Disable" if port.physical == DISABLED else "Polling",
            "Physical state": "LinkUp" if up else "Disabled" if port.physical == DISABLED else "Polling",
            "Speed": port.line.speed if up else "N/A",
            "Width": "4x" if up else "N/A",
            "FEC": port.line.fec_text if up else "N/A",
            "Loopback Mode": "No Loopback",
            "Auto Negotiation": "ON",
        },
        "Supported Info": {
            f"Enabled Link Speed{extended}": mask,
            f"Supported Cable Speed{extended}": mask if up else "N/A",
        },
        "Troubleshooting Info": {
            "Status Opcode": str(opcode),
            "Group Opcode": "N/A" if opcode == 0 else "PHY FW",
            "Recommendation": advice,
        },
        "Tool Information": {
            "Firmware Version": "28.46.3048",
            "amBER Version": "6.4",
            "MFT Version": "4.35.0-159",
        },
    }
    if "module" in fields:
        sections["Module Info"] = module_rows(port, asked.ports.peer(port), asked.at_s, up=up)
    if "fec" in fields:
        sections["FEC Capability Info"] = {
            f"FEC Capability {port.line.speed.removeprefix('IB-')}": f"0x4 ({port.line.fec_text})" if up else "N/A"
        }
    if "counters" in fields:
        sections["Physical Counters and BER Info"] = _counters(asked, port)
    return sections


def _counters(asked: Asked, port: Port) -> dict[str, str]:
    """Counters and error ratios since they were cleared; nothing is known of a port that is down."""
    counts = asked.ports.counts(port, asked.at_s, view="phy")
    shown = {
        "Time Since Last Clear [Min]": f"{counts.age_s / 60:.1f}",
        "Symbol Errors": str(int(counts.symbol)),
        "Symbol BER": ber_text(counts.symbol_ber),
        "Effective Physical Errors": str(counts.effective_errors),
        "Effective Physical BER": ber_text(counts.effective_ber),
        "Raw Physical Errors Per Lane": ",".join(str(errors) for errors in lanes(counts)),
        "Link Down Counter": str(capped(counts.downed, 32 if port.node.ethernet else 8)),
        "Link Error Recovery Counter": str(capped(counts.recovered, 8)),
        "Raw Physical BER": ber_text(counts.raw_ber),
    }
    if port.node.ethernet:
        del shown["Symbol Errors"], shown["Symbol BER"]
    return shown if port.physical == LINK_UP else dict.fromkeys(shown, "N/A")


def _text(sections: Sections) -> str:
    """Sections one below the other; values end with a blank in this version."""
    said = ""
    for title, rows in sections.items():
        said += f"\n{title}\n{'-' * len(title)}\n"
        said += "".join(f"{name:<35}: {value} \n" for name, value in rows.items())
    return said


def _json(sections: Sections, done: list[str], *, code: int, message: str) -> str:
    """The same as one document; masks come apart into number and values."""
    output = {title: {name: _apart(value) for name, value in rows.items()} for title, rows in sections.items()}
    result: dict[str, object] = {"output": output}
    if done:
        result["configurations"] = done
    document = {"result": result, "status": {"code": code, "message": message}}
    return json.dumps(document, indent="\t", separators=(",", " : ")) + "\n"


def _apart(value: str) -> object:
    mask, _, rest = value.partition(" (")
    if not mask.startswith("0x") or not rest:
        return value
    return {"mask": mask, "values": rest.removesuffix(")").split(",")}
