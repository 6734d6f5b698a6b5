"""``mlxreg`` and ``mstreg``: registers of a port, read and written.

An INDEX that is not given silently stays 0, and the default SET reads, overlays and writes: so every INDEX of a
register is always given, and every writable field that matters. ``--yes`` is always given: a SET whose question nobody
answers sends nothing and exits 0.
"""

import re
from collections.abc import Mapping

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools.driver import complaint, matching, plain, whole, word
from fabric.tools.infiniband import LIDS_MOST

TIME_UNIT_S = 0.01
"""The unit in which ``error_injection_time`` of PTER is written (it is read back in milliseconds left)."""
TIME_MOST = 0xFFFE
"""The longest injection that ends by itself, 655.34 s; 0xFFFF has no end and is never written."""
ERROR_TYPES = {"raw": 1, "effective": 2}
"""``error_type_admin`` of PTER: bit errors before and after forward error correction."""
STATUS_TEXT = {
    0: "good",
    2: "no injection source is available",
    3: "the port is neither up nor in test mode",
    4: "the bit error rate is out of range",
}
"""The meaning of ``status`` of PTER."""

_DEVICE = re.compile(r"[A-Za-z0-9/][A-Za-z0-9._:/,-]*")
_FIELD = re.compile(r"[A-Za-z0-9_.\[\]]+")
_ROW = re.compile(r"\s*(\S+)\s*\|\s*(0x[0-9a-fA-F]{8})(?![0-9a-fA-F])", re.ASCII)

Fields = Mapping[str, int]


def in_band(lid: int, device: str, port: int) -> str:
    """Return the device of a node in the fabric, reached by subnet management packets through a port of this host."""
    through = f"{word(device, 'device')},{whole(port, 'port', at_least=1, at_most=254)}"
    return f"iblid-{whole(lid, 'LID', at_least=1, at_most=LIDS_MOST)},{through}"


def get(device: str, register: str, indexes: Fields) -> tuple[str, ...]:
    """GET a register; *indexes* are all its INDEX fields."""
    given = ("--indexes", _pairs(indexes)) if indexes else ()
    return ("mlxreg", "-d", matching(_DEVICE, device, "device"), "--get", "--reg_name", register, *given)


def write(device: str, register: str, indexes: Fields, values: Fields) -> tuple[str, ...]:
    """SET a register; the tool's question is answered with yes beforehand."""
    given = ("--indexes", _pairs(indexes)) if indexes else ()
    place = ("mlxreg", "-d", matching(_DEVICE, device, "device"), "--reg_name", register)
    return (*place, *given, "--set", _pairs(values), "--yes")


def pter_indexes(port: int, *, ib_number: bool) -> Fields:
    """
    Return all five INDEX fields of PTER, page 0 (physical errors).

    *ib_number*: *port* is numbered as InfiniBand tools do it (a switch, ``pnat`` 1); else as the device itself does.
    """
    whole(port, "port", at_least=1, at_most=1023)
    return {"local_port": port & 0xFF, "lp_msb": port >> 8, "pnat": int(ib_number), "plane_ind": 0, "error_page": 0}


def pter_values(error_type: int, mantissa: int, exponent: int, time: int) -> Fields:
    """
    Return all four writable fields of PTER; *time* in units of TIME_UNIT_S. Raises ValueError when one does not fit.
    """
    return {
        "error_type_admin": whole(error_type, "error_type_admin", at_least=0, at_most=255),
        "ber_mantissa": whole(mantissa, "ber_mantissa", at_least=0, at_most=15),
        "ber_exp": whole(exponent, "ber_exp", at_least=0, at_most=255),
        "error_injection_time": whole(time, "error_injection_time", at_least=0, at_most=TIME_MOST),
    }


def read(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, int]:
    """
    Return the fields of a GET by their exact names; of duplicates (both pages of PTER in old versions) the first.

    Raises ToolError with the tool's own words, UnreadableOutput when there is no whole table.
    """
    _not_failed(stdout, stderr, exit_status)
    rows: dict[str, int] = {}
    rules = 0
    for line in plain(stdout).split("\n"):
        if line.strip() and not line.strip().strip("="):
            rules += 1
        elif rules == 1 and line.strip():
            found = _ROW.match(line)
            if not found:
                raise UnreadableOutput(f"mlxreg: not a row of a register: {line.strip()[:120]!r}")
            rows.setdefault(found[1], int(found[2], 16))
    if rules != 2 or not rows:
        raise UnreadableOutput(f"mlxreg: no whole register table in {stdout[-120:]!r}")
    return rows


_UNKNOWN = re.compile(r"Can't find INDEX name: \"?(plane_ind|lp_msb)\b")


def without_unknown(indexes: Fields, reason: str) -> Fields | None:
    """
    Return the indexes that an older release has, from its *reason* to refuse a command; None for any other reason.

    ``plane_ind`` is an INDEX of PTER and PAOS from MFT 4.26 on, ``lp_msb`` from 4.17 on; what is left out stays 0.
    """
    found = _UNKNOWN.search(reason)
    if found is None or indexes.get(found[1]) != 0:
        return None
    return {name: value for name, value in indexes.items() if name != found[1]}


def need(fields: Fields, name: str) -> int:
    """Return one field; raises UnreadableOutput when the register has no field of this exact name."""
    if name not in fields:
        raise UnreadableOutput(f"mlxreg: no field {name} among {', '.join(sorted(fields))[:200]}")
    return fields[name]


def equals(field: str, value: int) -> str:
    """Return a pattern (grep -E) for the row in which a field has a value."""
    return f"^{field} *[|] *0x{value:08x}"


def _not_failed(stdout: str, stderr: str, exit_status: int) -> None:
    marked = [line.strip() for line in plain(stderr + "\n" + stdout).split("\n") if line.strip().startswith("-E-")]
    if marked:
        raise ToolError(f"mlxreg: {marked[0].removeprefix('-E-').strip()[:300]}")
    if exit_status != 0:
        raise ToolError(f"mlxreg: exit {exit_status}: {complaint(stdout, stderr)}")


def _pairs(values: Fields) -> str:
    """Return ``a=1,b=2``: the tool splits at commas and trims nothing, so there are no blanks."""
    return ",".join(f"{matching(_FIELD, name, 'field')}={value}" for name, value in values.items())
