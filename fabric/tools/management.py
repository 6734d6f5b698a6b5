"""What manages a fabric: OpenSM's configuration file, one ``key value`` a line, and its log; UFM's REST interface."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from fabric.errors import ToolError, UnreadableOutput
from fabric.model.change import ChangeSettings
from fabric.model.sampling import module_c
from fabric.tools.driver import matching, need, need_json, need_success
from fabric.tools.mlxlink import Module, Optics

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LITERAL = {char: f"[{char}]" for char in ".*+?$|(){"} | {"^": r"\^", "[": r"\[", "\\": r"[\\]"}
_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")


def parse_conf(text: str) -> dict[str, str]:
    """
    Return every key of OpenSM's file and its value; the last line of a repeated key counts, as in OpenSM.

    Comments (``#`` first), empty lines, and lines that are not a key with a value are skipped.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split(None, 1)
        if len(words) == 2 and _KEY.fullmatch(words[0]):
            found[words[0]] = words[1].rstrip()
    return found


def conf_words(values: Mapping[str, str | None]) -> tuple[str, ...]:
    """
    Return ``key=value`` words for the text that edits the file, ``key`` where a key has no value.

    Raises ValueError when one would not stay on its line.
    """
    for key, value in values.items():
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no key of a subnet manager's file")
        if value is not None and not _VALUE.fullmatch(value):
            raise ValueError(f"{key}: {value!r} is not one line of printable text")
    return tuple(key if value is None else f"{key}={value}" for key, value in values.items())


def conf_equals(key: str, value: str) -> str:
    """Return a pattern (grep -E, and Python's) for the line in which a key has a value."""
    literal = "".join(_LITERAL.get(char, char) for char in value)
    return f"^[ \t]*{key}[ \t]+{literal}[ \t]*$"


AT_START_ONLY = frozenset({"routing_engine", "use_ucast_cache", "avoid_throttled_links", "root_guid_file", "lmc"})
"""
Options that a running OpenSM never reads again, whatever signal it gets.

``can_update`` is 0 for them in opensm 3.3.24, osm_subnet.c. Of some sixty such options only those that decide about
routing are here. NVIDIA's own options have no public table.
"""

_SIGNAL = re.compile(r"-{0,2}(?:s|signal)?=?(?:SIG)?HUP|-1|reload", re.IGNORECASE)


def only_signals(reload: tuple[str, ...]) -> bool:
    """Return whether an argv asks a running manager to read its file again, instead of restarting it."""
    return any(_SIGNAL.fullmatch(word) for word in reload)


LOG = "/var/log/opensm.log"
"""The file to which OpenSM logs unless ``log_file`` says otherwise."""
LOG_NAME = "fabric-sm-log"
_LOG_TEXT = (
    '[ -r "$1" ] || { echo "$1: cannot be read" >&2; exit 1; }; '
    "grep -aE -e '-> OpenSM [0-9]|Entering (MASTER|STANDBY|DISCOVERING) state|tables configured on all switches"
    '|cannot find or setup routing engine\' -- "$1" | tail -n 200'
)
_CONFIGURED = re.compile(r"(\S{1,40}) tables configured on all switches")
_UNKNOWN = re.compile(r"cannot find or setup routing engine '([^']{1,64})'")


@dataclass(frozen=True, slots=True)
class ManagerLog:
    """
    What a manager's log says since its start: whether it is master, which engine routes, which engines it does not
    know.
    """

    master: bool = False
    engine: str | None = None
    unknown: tuple[str, ...] = ()


def ask_log(path: str) -> tuple[str, ...]:
    """Ask for the lines of OpenSM's log about its state and its routing, the last 200."""
    return ("sh", "-c", _LOG_TEXT, LOG_NAME, path)


def read_log(stdout: str, stderr: str = "", exit_status: int = 0) -> ManagerLog:
    """
    Return what the log says since the manager started; it routes by another engine where it does not know the wanted
    one.

    The lines are at level INFO, which is on by default (osm_ucast_mgr.c, osm_opensm.c). Raises ToolError.
    """
    need_success("the log", stdout, stderr, exit_status)
    log = ManagerLog()
    for line in stdout.splitlines():
        if "-> OpenSM " in line:
            log = ManagerLog()
        elif "Entering " in line:
            log = replace(log, master="Entering MASTER" in line)
        elif found := _CONFIGURED.search(line):
            log = replace(log, engine=found[1])
        elif found := _UNKNOWN.search(line):
            log = replace(log, unknown=(*log.unknown, found[1]))
    return replace(log, unknown=tuple(dict.fromkeys(log.unknown)))


SM_PATH = "/ufmRest/app/smconf"


def ask_engine(ufm: UfmAccess) -> tuple[str, ...]:
    """Ask UFM for the settings that its subnet manager runs with (REST API 6.16 to 6.22)."""
    return _curl(ufm, SM_PATH)


def read_engine(stdout: str, stderr: str = "", exit_status: int = 0) -> str:
    """
    Return the engine that routes; raises ToolError with curl's own words, UnreadableOutput when the answer has none.
    """
    document = _document(stdout, stderr, exit_status)
    engine = document.get("routing_engine_active") if isinstance(document, dict) else None
    if not isinstance(engine, str):
        raise UnreadableOutput(f"UFM: no routing_engine_active: {stdout[:120]!r}")
    return engine[:64]


PATH = "/ufmRest/app/unhealthy_ports"
_UNTRUSTED = 60  # CURLE_PEER_FAILED_VERIFICATION; UFM ships a self-signed certificate
LIMIT_S = 10
"""How long one request may take (seconds; choice)."""

_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(?:/[A-Za-z0-9._/-]*)?")
_PORT = re.compile(r"[0-9a-f]{16}_[0-9]{1,4}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class UfmAccess:
    """
    Where UFM is, and from which host it is asked (*via*).

    *ca*: a file of certificates that are trusted; *insecure*: any certificate is trusted (``-k``).
    """

    via: str
    url: str
    ca: str | None = None
    insecure: bool = False

    @classmethod
    def of(cls, settings: ChangeSettings) -> UfmAccess | None:
        """Return the access that an inventory describes; None where it has no UFM, or no host to ask from."""
        if settings.ufm_url is None or settings.via is None:
            return None
        return cls(via=settings.via, url=settings.ufm_url, ca=settings.ufm_ca, insecure=settings.ufm_insecure)


def list_unhealthy(ufm: UfmAccess) -> tuple[str, ...]:
    """Ask UFM for its list of unhealthy ports; name and password come from ~/.netrc."""
    return _curl(ufm, PATH)


TELEMETRY = ":9002/csv/xcset/low_freq_debug"
"""
UFM's secondary telemetry, a table of all ports every 300 s.

It needs no password, and answers only on UFM's own host unless its bind address was widened.
"""

_ABSENT = ("", "na", "n/a", "nan")
_COUNT = re.compile(r"[0-9]{1,20}", re.ASCII)
_GUID = re.compile(r"(?:0x)?[0-9a-fA-F]{1,16}", re.ASCII)
_WARMTH = re.compile(r"(-?[0-9]{1,3}(?:\.[0-9]{1,3})?)C?", re.ASCII)


def ask_telemetry(ufm: UfmAccess) -> tuple[str, ...]:
    """Ask UFM for modules and bit errors of all ports."""
    host = urlsplit(_address(ufm)).hostname or ""
    place = f"[{host}]" if ":" in host else host
    return ("curl", "-s", "-S", "--fail", "--max-time", "25", f"http://{place}{TELEMETRY}")


def read_telemetry(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[tuple[int, int], Optics]:
    """
    Return module and bit errors by node's GUID and port ("Low-Frequency (Secondary) Telemetry Fields", UFM 6.17 to
    6.24).

    Light is not read: depending on the page of the documentation it is in dBm or in mW. Raises ToolError with curl's
    own words, UnreadableOutput where the table is cut, or a field is not as documented.
    """
    need_success("curl", stdout, stderr, exit_status)
    rows = csv.DictReader(stdout.splitlines(), restkey="more")
    found: dict[tuple[int, int], Optics] = {}
    try:
        if not {"Node_GUID", "Port_Number", "Raw_Errors_Lane_0"} <= set(rows.fieldnames or ()):
            raise ValueError("no table of ports")
        for row in rows:
            port = (int(_like(_GUID, row["Node_GUID"])[0], 16), int(_like(_COUNT, row["Port_Number"])[0]))
            if port in found:
                raise ValueError(f"port {port[1]} of {port[0]:016x} is there twice")
            found[port] = _optics(row)
    except (UnreadableOutput, ValueError, TypeError, AttributeError, csv.Error) as exc:
        raise UnreadableOutput(f"UFM: telemetry that cannot be read ({exc}): {stdout[:120]!r}") from exc
    return found


def _like(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    return need(pattern.fullmatch(text.strip()), f"not what is documented: {text[:40]!r}")


def _optics(row: Mapping[str, str]) -> Optics:
    if None in row.values() or "more" in row:
        raise ValueError("a row that was cut")
    known = {name: text.strip() for name, text in row.items() if text.strip().lower() not in _ABSENT}
    lanes = [int(_like(_COUNT, text)[0]) for name, text in known.items() if name.startswith("Raw_Errors_Lane_")]
    effective, warm = known.get("Effective_Errors"), known.get("Module_Temperature")
    return Optics(
        module=Module(None, known.get("Cable_PN"), known.get("Cable_SN"), None),
        temperature_c=None if warm in (None, "0", "0C") else module_c(float(_like(_WARMTH, warm)[1])),
        raw_errors=sum(lanes) if lanes else None,
        effective_errors=None if effective is None else int(_like(_COUNT, effective)[0]),
    )


def _curl(ufm: UfmAccess, path: str, *how: str) -> tuple[str, ...]:
    trust = ("-k",) if ufm.insecure else ("--cacert", ufm.ca) if ufm.ca is not None else ()
    return ("curl", "-n", "-s", "-S", "--fail", "--max-time", str(LIMIT_S), *trust, *how, _address(ufm) + path)


def put_healthy(ufm: UfmAccess, ports: tuple[str, ...]) -> tuple[str, ...]:
    """Take ports (``<guid>_<number>``) off the list."""
    names = [matching(_PORT, port, "port") for port in ports]
    body = json.dumps({"ports": names, "ports_policy": "HEALTHY"}, separators=(",", ":"))
    return _curl(ufm, PATH, "-X", "PUT", "-H", "Content-Type: application/json", "-d", body)


def port_name(guid: int, number: int) -> str:
    """Return UFM's name of a port."""
    return f"{guid:016x}_{number}"


def read_unhealthy(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, str]:
    """
    Return the ports on UFM's list as ``<guid>_<number>``, the name that requests need, each with its condition.

    Raises ToolError with curl's own words, UnreadableOutput when the answer is not the list.
    """
    document = _document(stdout, stderr, exit_status)
    if not isinstance(document, list) or not all(isinstance(entry, dict) for entry in document):
        raise UnreadableOutput(f"UFM: not a list of ports: {stdout[:120]!r}")
    return {_port(entry): str(entry.get("Condition", "")) for entry in document}


def _document(stdout: str, stderr: str, exit_status: int) -> object:
    if exit_status == _UNTRUSTED:
        raise ToolError("curl does not trust the certificate of UFM (exit 60): name its CA (ufm_ca under changes:)")
    need_success("curl", stdout, stderr, exit_status)
    return need_json("UFM", stdout)


def _port(entry: dict[str, object]) -> str:
    guid, number = str(entry.get("UnhealthyGUID", "")).removeprefix("0x"), str(entry.get("UnhealthyPortNumber", ""))
    if not re.fullmatch(r"[0-9a-f]{1,16}", guid) or not re.fullmatch(r"[0-9]{1,4}", number, re.ASCII):
        raise UnreadableOutput(f"UFM: a port with GUID {guid[:40]!r} and number {number[:40]!r}")
    return port_name(int(guid, 16), int(number))


def _address(ufm: UfmAccess) -> str:
    """Return UFM's address without the path, which an inventory may have written."""
    return matching(_URL, ufm.url, "UFM's address").rstrip("/").removesuffix(PATH)
