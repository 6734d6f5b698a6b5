"""The tool ``mlxreg`` (``mstreg``): registers of ports, read and written, in the words of version 4.36."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

from fabric.sim import page
from fabric.sim.phy import Ports
from fabric.sim.phy.cabling import End
from fabric.sim.phy.port import ERRORS, Port
from fabric.sim.phy.quality import EFFECTIVE, RAW, Injection
from fabric.sim.tools.call import BadOption, ToolCall, ToolOutput, options, parse_options


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a register; *access* is INDEX, RO, RW or WO."""

    name: str
    bits: int
    access: str


def _layout(register: str) -> tuple[Field, ...]:
    """Return the fields of a register in the order in which the tool prints them (recorded)."""
    rows = (row.split(" | ") for row in page(f"mlxreg-{register}").splitlines()[1:])
    return tuple(Field(name, int(bits), access) for name, bits, access in rows)


LAYOUTS = {name: _layout(name) for name in ("PTER", "ROCE_ACCL")}
"""
Every register and its fields.

PTER: Port Transmit Errors, page 0 (physical errors). ROCE_ACCL: RoCE accelerations, of host adapters only. PAOS is
missing: ports are closed by ibportstate, mlxlink or ip.
"""

ACCL_SELECTS = tuple(one.name.removesuffix("_field_select") for one in LAYOUTS["ROCE_ACCL"][:9])
"""The first nine settings, which this firmware lets users choose: their ``_field_select`` bits read 1."""

ENDLESS = 0xFFFF
"""The injection time that has no end; other times are written in units of 10 ms and read in ms left."""
CAPABLE = RAW | EFFECTIVE
BAD_PARAMETER = "Register access bad parameter"
NOT_UP, OUT_OF_RANGE = 3, 4  # PTER's status

Values = dict[str, int]


class ToolRefused(Exception):
    """The tool ends with ``-E-`` and this message."""


def _by_firmware(reason: str) -> ToolRefused:
    """Return the error for a refusal by the firmware."""
    return ToolRefused(f"Failed to send access register: {reason}")


def read(name: str, port: Port, at_s: float) -> Values:
    """GET: return every field that is not 0."""
    if name == "PTER":
        return _read_pter(port, at_s)
    return {"roce_adp_retrans_en": 1} | {f"{select}_field_select": 1 for select in ACCL_SELECTS} | port.registers


def write(name: str, port: Port, values: Values, ports: Ports, at_s: float) -> None:
    """SET a whole register. Raises ToolRefused."""
    if name == "PTER":
        _write_pter(port, values, ports, at_s)
    else:
        chosen = [select for select in ACCL_SELECTS if values.get(f"{select}_field_select")]
        names = [select if select.endswith(("_en", "_disabled")) else f"{select}_en" for select in chosen]
        ports.write(port, {name: values.get(name, 0) for name in names}, at_s)


def _read_pter(port: Port, at_s: float) -> Values:
    now = port.injection
    values = {"status": port.registers.get("PTER status", 0) if port.up else NOT_UP, "error_type_cap": CAPABLE}
    if now is not None:
        left = ENDLESS if now.until_s == inf else min(round((now.until_s - at_s) * 1e3), ENDLESS - 1)
        values |= {"error_type_admin": now.kind, "error_type_oper": int(port.up), "error_injection_time": left}
        values |= {"ber_mantissa": now.mantissa, "ber_exp": now.exponent}
    return values


def _write_pter(port: Port, values: Values, ports: Ports, at_s: float) -> None:
    kind, time = values.get("error_type_admin", 0), values.get("error_injection_time", 0)
    if values.get("error_page") or kind not in (0, RAW, EFFECTIVE):
        raise _by_firmware(BAD_PARAMETER)
    port.registers["PTER status"] = 0
    if kind == 0 or time == 0:
        ports.inject(port, None, at_s)
        return
    until_s = inf if time == ENDLESS else at_s + time * 0.01
    wanted = Injection(kind, values.get("ber_mantissa", 0), values.get("ber_exp", 0), until_s)
    if not 0.0 < wanted.ber <= 0.5:
        port.registers["PTER status"] = OUT_OF_RANGE
    elif port.up or ERRORS in port.held:  # its own errors took the link down: they can be renewed
        ports.inject(port, wanted, at_s)


_OPTIONS = options("""
    device=    -d --device
    name=      --reg_name
    indexes=   -i --indexes
    get        -g --get
    set=       -s --set
    yes        -y --yes
    version    -v --version
""")
_INBAND = re.compile(r"(?:ib)?lid-(?P<lid>[0-9]{1,5})(?:,(?P<through>[^,]+)(?:,[0-9]+)?)?")
_NO_SET = (
    "Sending GMP MAD supports only Get() method, and you are trying to send Set() method\n"
    "to a register which is not small enough to send with SMP MAD."
)


@dataclass(frozen=True, slots=True)
class Device:
    """An open device: its ports by their local numbers, none when management packets do not get there."""

    ends: Mapping[int, End]
    switch: bool
    inband: bool

    def port(self, asked: ToolCall, number: int) -> Port:
        """Return a port; raises ToolRefused. An adapter's function has one port, with number 1."""
        if not self.ends:
            raise _by_firmware("Failed to send MAD")
        if number not in self.ends:
            raise _by_firmware(BAD_PARAMETER)
        return asked.ports.at(self.ends[number])


def mlxreg(asked: ToolCall) -> ToolOutput:
    """Answer one call of the tool."""
    try:
        fields, _ = parse_options(asked.words, _OPTIONS)
    except BadOption as bad:
        return ToolOutput(stderr=f"mlxreg: {bad}\n", status=1)
    if "version" in fields:
        release = "4.22.1" if "old_mft" in asked.rack.mock.site else "4.36.0"
        return ToolOutput(f"mlxreg, mft {release}, Git SHA Hash: N/A\n")
    printed = ""
    try:
        for part in _run(asked, fields):
            printed += part
    except ToolRefused as refused:
        return ToolOutput(printed, f"-E- {refused}\n", 1)
    return ToolOutput(printed)


def _run(asked: ToolCall, fields: dict[str, str]) -> Iterator[str]:
    """Yield what the tool prints, part by part, until it is done or refused."""
    if "device" not in fields:
        raise ToolRefused("you must provide a device name")
    device = opened(asked, fields["device"])
    name = fields.get("name", "")
    if name not in LAYOUTS or (name == "ROCE_ACCL" and device.switch):
        raise ToolRefused(f"Can't find access register name: {name}")
    if "old_mft" in asked.rack.mock.site and "plane_ind=" in fields.get("indexes", ""):
        raise ToolRefused('Can\'t find INDEX name: "plane_ind"')  # an INDEX of PTER from 4.26 on
    indexes, given = _given_values(name, fields)
    if "set" in fields:
        yield from _set(asked, device, name, indexes | given, answered="yes" in fields)
    else:
        yield "Sending access register...\n\n"
        values = read(name, device.port(asked, _number(name, indexes)), asked.at_s)
        yield table(name, values | indexes)


def opened(asked: ToolCall, name: str) -> Device:
    """Return the device of a name: an RNIC of this host, or through the fabric ``lid-N`` or ``iblid-N``."""
    inband = _INBAND.fullmatch(name)
    if not inband:
        local = asked.local_port(name)
        if local is None:
            raise ToolRefused(f'Failed to open device: "{name}", No such file or directory')
        return Device({1: local.end}, switch=False, inband=False)
    named = inband["through"]
    if (not named and "storage" in asked.rack.mock.site) or "m_key" in asked.rack.mock.site:
        return Device({}, switch=True, inband=True)  # another fabric, or no answer: mlxreg gets no M_Key
    adapters = [rnic.device for rnic in asked.rnics if not asked.port_of(rnic.device).node.ethernet]
    via = named or next(iter(adapters), "")
    if via not in adapters:
        raise ToolRefused(f'Failed to open device: "{name}", No such device')
    node = asked.by_lid(asked.port_of(via), int(inband["lid"]))
    ends = [] if node is None else asked.ports.cabling.ends(node)
    if node is not None and node.host is not None:
        return Device({1: ends[0]}, switch=False, inband=True)
    return Device({end[1]: end for end in ends}, switch=True, inband=True)


def _given_values(name: str, fields: dict[str, str]) -> tuple[Values, Values]:
    """Return indexes and values to set; fields that are not given stay 0."""
    texts = {kind: fields[kind].split(",") if kind in fields else [] for kind in ("indexes", "set")}
    keys = [text.partition("=")[0] for kind in texts.values() for text in kind]
    twice = next((key for place, key in enumerate(keys) if key in keys[:place]), None)
    if twice is not None:
        raise ToolRefused(f"Field: {twice} appears twice.")
    known = {field.name: field for field in LAYOUTS[name]}
    indexes = dict(_pair(text, known, index=True) for text in texts["indexes"])
    return indexes, dict(_pair(text, known, index=False) for text in texts["set"])


def _pair(text: str, known: dict[str, Field], *, index: bool) -> tuple[str, int]:
    """Return one ``field=value`` that the tool accepts, of an index or of a field to set."""
    key, equals, digits = text.partition("=")
    if not equals:
        raise ToolRefused(f"Argument: {text} is invalid")
    try:
        value = int(digits, 0)
    except ValueError:
        raise ToolRefused(f"Argument: {digits} is invalid.") from None
    if key not in known:
        raise ToolRefused(f'Can\'t find {"INDEX" if index else "field"} name: "{key}"')
    if index and known[key].access != "INDEX":
        raise ToolRefused(f"Field: {key} is not an INDEX.")
    if not index and known[key].access == "RO":
        raise ToolRefused(f"Field: {key} is ReadOnly")
    bits = known[key].bits
    if not 0 <= value < 1 << bits:
        most = f"({bits} bits, max: 0x{(1 << bits) - 1:x})"
        raise ToolRefused(f"Value: 0x{value:x} exceeds maximum value for field '{key}' {most}")
    return key, value


def _number(name: str, indexes: Values) -> int:
    return 1 if name == "ROCE_ACCL" else indexes.get("local_port", 0)


def _set(asked: ToolCall, device: Device, name: str, values: Values, *, answered: bool) -> Iterator[str]:
    """Read, overlay, show, ask, write; without ``--yes`` nobody answers, and nothing is sent."""
    port = device.port(asked, _number(name, values))
    values = read(name, port, asked.at_s) | values
    yield f"You are about to send access register: {name} with the following data:\n"
    yield table(name, values) + "\n Do you want to continue ? (y/n) [n] : "
    if answered:
        yield "y\n Sending access register...\n"
        if device.inband and name == "ROCE_ACCL":  # longer than a subnet management packet carries (44 bytes)
            raise _by_firmware(_NO_SET)
        write(name, port, values, asked.ports, asked.at_s)


def table(register: str, values: Values) -> str:
    """Return all fields of a register with their values, in the tool's two columns."""
    names = [field.name for field in LAYOUTS[register]]
    return page("mlxreg", names=names, values=values, width=max(map(len, names)) + 2)
