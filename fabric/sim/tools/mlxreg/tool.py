"""``mlxreg`` and ``mstreg``: registers of ports, read and written, in the words of version 4.36."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from fabric.sim.phy.port import Port
from fabric.sim.tools.call import Asked, Said
from fabric.sim.tools.mlxreg.layout import Field
from fabric.sim.tools.mlxreg.registers import (
    BAD_PARAMETER,
    TOO_LONG,
    AccessRefused,
    Register,
    Values,
    layout,
    read,
    write,
)
from fabric.sim.tools.options import BadOption, options, taken_apart

_OPTIONS = options("""
    device=    -d --device
    name=      --reg_name
    indexes=   -i --indexes
    op=        -o --op
    get        -g --get
    set=       -s --set
    show=      --show_reg
    shows      --show_regs
    yes        -y --yes
    overwrite  -w --overwrite
    detailed   --detailed
    plain      --full_path --no_dynamic
    version    -v --version
""")
# ``iblid-`` and the files that ``mst ib add`` makes are reached by subnet management packets, like ``lid-`` for GET.
_INBAND = re.compile(
    r"(?:(?:ib)?lid-(?P<lid>[0-9]{1,5})(?:,(?P<through>[^,]+(?:,[0-9]+)?))?|/dev/mst/SW_\w+_lid-0x(?P<hex>[0-9A-Fa-f]{1,4}))"
)
_NO_SET = (
    "Sending GMP MAD supports only Get() method, and you are trying to send Set() method\n"
    "to a register which is not small enough to send with SMP MAD."
)
_ENUMS = {
    "error_page": {0: "Injection_of_Phy_Errors", 1: "Port_Errors"},
    "error_type_admin": {0: "No_Error", 1: "Raw_BER", 2: "Effective_BER"},
}


class Refused(Exception):
    """The tool ends with ``-E-`` and this; *said* was printed before."""

    def __init__(self, reason: str, said: str = "") -> None:
        super().__init__(reason)
        self.said = said


@dataclass(frozen=True, slots=True)
class Device:
    """An open device: *port* by its local number, None when management packets do not get there."""

    port: Callable[[int], Port] | None
    switch: bool
    inband: bool


def mlxreg(asked: Asked) -> Said:
    """One call of the tool."""
    try:
        fields, _ = taken_apart(asked.words, _OPTIONS)
    except BadOption as bad:
        return Said(stderr=f"mlxreg: {bad}\n", status=1)
    if "version" in fields:
        return Said("mlxreg, mft 4.36.0, Git SHA Hash: N/A\n")
    try:
        return Said(_run(asked, fields))
    except Refused as refused:
        return Said(refused.said, f"-E- {refused}\n", 1)


def _run(asked: Asked, fields: dict[str, str]) -> str:
    if "device" not in fields:
        raise Refused("you must provide a device name")
    device = opened(asked, fields["device"])
    if "shows" in fields:
        return "".join(f"{name}\n" for name in ("PAOS", "PPCNT", "PTER", "ROCE_ACCL"))
    name = fields.get("show", fields.get("name", ""))
    if layout(name, {}) is None or (name == "ROCE_ACCL" and device.switch):
        raise Refused(f"Can't find access register name: {name}")
    if "show" in fields:
        return _shown(name)
    indexes, given = _told(name, fields)
    if "set" not in fields:
        return _get(asked, device, name, indexes, detailed="detailed" in fields)
    return _set(asked, device, name, indexes | given, given, fields)


def opened(asked: Asked, name: str) -> Device:
    """The device of a name: an RNIC of this host; through the fabric ``lid-N``, ``iblid-N`` or a switch's file."""
    inband = _INBAND.fullmatch(name)
    if not inband:
        local = asked.local_port(name)
        if local is None:
            raise Refused(f'Failed to open device: "{name}", No such file or directory')
        return Device(lambda number: _only(local, number), switch=False, inband=False)
    adapters = [rnic.device for rnic in asked.rnics if not asked.port_of(rnic.device).node.ethernet]
    via = (inband["through"] or "").partition(",")[0] or next(iter(adapters), "")
    number = int(inband["hex"], 16) if inband["hex"] else int(inband["lid"])
    if via not in adapters:
        raise Refused(f'Failed to open device: "{name}", No such device')
    node = asked.by_lid(asked.port_of(via), number)
    if node is None:
        return Device(None, switch=True, inband=True)
    if node.host is not None:
        far = asked.ports.at(asked.ports.cabling.ends(node)[0])
        return Device(lambda number: _only(far, number), switch=False, inband=True)
    ends = dict(asked.ports.cabling.ends(node))

    def port(number: int) -> Port:
        if (node.name, number) not in asked.ports.cabling.rates_gbps:
            raise AccessRefused(BAD_PARAMETER)
        return asked.ports.at((node.name, number))

    return Device(port if ends else None, switch=True, inband=True)


def _only(port: Port, number: int) -> Port:
    """An adapter's function knows one port, by the number 1."""
    if number != 1:
        raise AccessRefused(BAD_PARAMETER)
    return port


def _told(name: str, fields: dict[str, str]) -> tuple[Values, Values]:
    """Indexes (operations among them) and values to set; what is not given stays 0."""
    texts = [("index", text) for key in ("indexes", "op") for text in _parts(fields.get(key))]
    texts += [("set", text) for text in _parts(fields.get("set"))]
    seen: set[str] = set()
    for _, text in texts:
        key = text.partition("=")[0]
        if key in seen:
            raise Refused(f"Field: {key} appears twice.")
        seen.add(key)
    indexes: Values = {}
    given: Values = {}
    for kind, text in texts:
        key, value = _pair(text)
        (indexes if kind == "index" else given)[key] = value
    _check(name, indexes, given)
    return indexes, given


def _check(name: str, indexes: Values, given: Values) -> None:
    """Every name is one of the register's, may be used so, and its value fits."""
    known = {field.name: field for field in layout(name, indexes) or ()}
    for key, value in indexes.items():
        if key not in known:
            raise Refused(f'Can\'t find INDEX name: "{key}"')
        if known[key].access not in ("INDEX", "OP"):
            raise Refused(f"Field: {key} is not an INDEX.")
        _fits(known[key], value)
    for key, value in given.items():
        if key not in known:
            raise Refused(f'Can\'t find field name: "{key}"')
        if known[key].access == "RO":
            raise Refused(f"Field: {key} is ReadOnly")
        _fits(known[key], value)


def _parts(text: str | None) -> list[str]:
    return [] if text is None else text.split(",")


def _pair(text: str) -> tuple[str, int]:
    key, equals, value = text.partition("=")
    if not equals:
        raise Refused(f"Argument: {text} is invalid")
    try:
        return key, int(value, 0)
    except ValueError:
        raise Refused(f"Argument: {value} is invalid.") from None


def _fits(field: Field, value: int) -> None:
    most = (1 << field.bits) - 1
    if not 0 <= value <= most:
        raise Refused(
            f"Value: 0x{value:x} exceeds maximum value for field '{field.name}' ({field.bits} bits, max: 0x{most:x})"
        )


def _reach(asked: Asked, device: Device, name: str, indexes: Values) -> Register:
    if device.port is None:
        raise AccessRefused("Failed to send MAD")
    number = 1 if name == "ROCE_ACCL" else indexes.get("local_port", 0)
    return Register(name, device.port(number), asked.ports, asked.at_s)


def _get(asked: Asked, device: Device, name: str, indexes: Values, *, detailed: bool) -> str:
    said = "Sending access register...\n\n"
    try:
        values = read(_reach(asked, device, name, indexes), indexes)
    except AccessRefused as refused:
        raise Refused(f"Failed to send access register: {refused}", said) from None
    return said + table(layout(name, indexes) or (), values | indexes | {"clr": 0}, detailed=detailed)


def _set(asked: Asked, device: Device, name: str, values: Values, given: Values, fields: dict[str, str]) -> str:
    """Read, overlay, show, ask, write; without ``--yes`` nobody answers, and nothing is sent."""
    said = ""
    try:
        register = _reach(asked, device, name, values)
        old: Values = {} if "overwrite" in fields else read(register, values)
        values = old | values
        del given
        said = f"You are about to send access register: {name} with the following data:\n"
        said += table(layout(name, values) or (), values, detailed="detailed" in fields)
        said += "\n Do you want to continue ? (y/n) [n] : "
        if "yes" not in fields:
            return said
        said += "y\n Sending access register...\n"
        if device.inband and name in TOO_LONG:
            raise AccessRefused(_NO_SET)
        write(register, values)
    except AccessRefused as refused:
        raise Refused(f"Failed to send access register: {refused}", said) from None
    return said


def table(fields: tuple[Field, ...], values: Values, *, detailed: bool = False) -> str:
    """All fields with their values, in the tool's two columns (four with *detailed*)."""
    width = max((len(field.name) for field in fields), default=10) + 2
    titles = "| Hex Value  | Decimal    | Enum/Type                     " if detailed else "| Data    "
    rule = "=" * (width + (58 if detailed else 13)) + "\n"
    lines = [f"{'Field Name':<{width}}{titles}\n", rule]
    for field in fields:
        value = values.get(field.name, 0)
        line = f"{field.name:<{width}}| 0x{value:08x}"
        if detailed:
            meant = _ENUMS.get(field.name, {}).get(value, "")
            line += f" | {value:<10d} | {meant:<30}"
        lines.append(line + "\n")
    return "".join([*lines, rule])


def _shown(name: str) -> str:
    """The layout itself; PTER shows both its pages one after the other."""
    fields = layout(name, {}) or ()
    if name == "PTER":
        fields += tuple(field for field in layout(name, {"error_page": 1}) or () if field.address)
    width = max(len(field.name) for field in fields) + 2
    rule = "=" * (width + 40) + "\n"
    rows = "".join(
        f"{field.name:<{width}}| 0x{field.address:08x} | {field.offset:6d} | {field.bits:4d} | {field.access:<6}\n"
        for field in fields
    )
    return f"{'Field Name':<{width}}| Address    | Offset | Size | Access\n{rule}{rows}{rule}"
