"""infiniband-diags: every port of a fabric, one by LID, its counters, routes, the subnet manager, a host's own ports.

Also the links of a fabric as UFM lists them. Every command takes the words of ``through``: without them libibumad takes
the first adapter with an active port (umad.c resolve_ca_name), which may be that of another fabric.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need, need_json, need_success, need_whole, plain, whole, whole_lines, word

LIDS_MOST = 0xBFFF
"""The highest unicast LID (InfiniBand specification, volume 1)."""

_NEAR = r'(?P<guid>0x[0-9a-f]{16}) "(?P<description>.*?)" +(?P<lid>\d{1,6}) +(?P<port>\d{1,4})\[[^\]]*\] '
_STATE = r"==\((?P<speed>.*?) *(?P<state>[A-Za-z?]+)/ *(?P<physical>[A-Za-z?]+)\)==>"
_FAR = r' +(?P<far_guid>0x[0-9a-f]{16}) +(?P<far_lid>\d{1,6}) +(?P<far_port>\d{1,4})\[[^\]]*\] "(?P<far>.*)" \(.*\)'
_LINE = re.compile(_NEAR + _STATE + r"(?:" + _FAR + r'| +\[ *\] "" \( *\)| +"Port not available")', re.ASCII)


@dataclass(frozen=True, slots=True)
class PortState:
    """The two states of a port, in the words of the source: a tool says ``Active``, the kernel ``ACTIVE``."""

    state: str
    physical_state: str

    @property
    def up(self) -> bool:
        """Return whether the physical link is up."""
        return self.physical_state == "LinkUp"

    @property
    def active(self) -> bool:
        """Return whether traffic passes."""
        return self.state.upper() == "ACTIVE" and self.up

    @property
    def disabled(self) -> bool:
        """Return whether somebody closed the port."""
        return self.physical_state == "Disabled"

    def __str__(self) -> str:
        return f"{self.state}/{self.physical_state}"


ACTIVE = PortState("Active", "LinkUp")
"""The state of a port through which traffic passes."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a cable; *guid* is the port's on an adapter, the node's on a switch."""

    guid: int
    description: str
    lid: int
    port: int


@dataclass(frozen=True, slots=True)
class PortLine:
    """
    One port as it was found; *peer* None: nothing is there, or it is not visible (a link that is down has no peer).

    *speed* is the text as printed (``4X 53.125 Gbps``, ``???``), empty when there is none.
    """

    end: End
    speed: str
    state: PortState
    peer: End | None

    @property
    def lanes(self) -> tuple[int | None, float | None]:
        """Return how many lanes are up, and the rate of each (Gb/s on the wire); None where unknown."""
        found = _LANES.fullmatch(self.speed)
        if found is None or (found[3] and found[3] not in _GENERATIONS):
            return None, None
        return int(found[1]), _GENERATIONS[found[3]] if found[3] else float(found[2])


_LANES = re.compile(r"(\d{1,2})[xX] (?:(\d{1,4}(?:\.\d{1,6})?) Gbps|([A-Z]{3}(?:10)?))", re.ASCII)
_GENERATIONS = {
    "SDR": 2.5, "DDR": 5.0, "QDR": 10.0, "FDR10": 10.3125, "FDR": 14.0625,
    "EDR": 25.78125, "HDR": 53.125, "NDR": 106.25, "XDR": 212.5,
}  # fmt: skip
"""Gb/s that a lane signals, by the name that ibnetdiscover prints (ibnetdiscover.c, dump_linkspeed_compat)."""

# Switches of MLNX-OS describe themselves as MF0;name:MQM8700/U1.
_MANAGED = re.compile(r"MF\d+;(?P<name>[^:]+):.*")


def switch_name(description: str) -> str:
    """Return a switch's name in the inventory, from its own description."""
    managed = _MANAGED.fullmatch(description)
    return managed["name"] if managed else description


Words = tuple[str, ...]


def through(device: str, number: int, m_key: str | None = None) -> Words:
    """
    Return the options for the port of this host that sends management packets, and for the M_Key that the targets need.
    """
    place = ("-C", word(device, "device"), "-P", str(whole(number, "port", at_least=1, at_most=254)))
    return place if m_key is None else (*place, "-y", word(m_key, "M_Key"))


def all_ports(*, through: Words = ()) -> Words:
    """Ask for all ports, one line each."""
    return ("iblinkinfo", *through, "-l")


HERE = ("-D", "0")
"""Options of ``all_ports`` and ``errors`` that ask only the node from which they send: a directed route of no hop."""


def read_ports(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[PortLine, ...]:
    """
    Return every port, in the order printed; warnings between the lines are skipped.

    Raises ToolError with the tool's own words, UnreadableOutput when a line is not whole or there is none.
    """
    need_success("iblinkinfo", stdout, stderr, exit_status)
    lines = [line for line in plain(stdout).split("\n") if line.startswith("0x")]
    return tuple(_port_line(line) for line in need_whole("iblinkinfo", lines, stdout))


def switches(ports: Iterable[PortLine]) -> frozenset[int]:
    """
    Return the GUIDs of switches: they are listed with more than one port (each port of an adapter has its own GUID).
    """
    count = Counter(port.end.guid for port in ports)
    return frozenset(guid for guid, times in count.items() if times > 1)


def _port_line(line: str) -> PortLine:
    found = need(_LINE.fullmatch(line.rstrip()), f"iblinkinfo: not a port: {line[:160]!r}")
    near = End(int(found["guid"], 16), found["description"].strip(), int(found["lid"]), int(found["port"]))
    peer = None
    if found["far_guid"]:
        peer = End(int(found["far_guid"], 16), found["far"].strip(), int(found["far_lid"]), int(found["far_port"]))
    return PortLine(near, " ".join(found["speed"].split()), PortState(found["state"], found["physical"]), peer)


STATES = ("Down", "Initialize", "Armed", "Active")
PHYSICAL_STATES = (
    *("No state change", "Sleep", "Polling", "Disabled"),
    *("PortConfigurationTraining", "LinkUp", "LinkErrorRecovery", "PhyTest"),
)
NOT_DISABLED = r"^PhysLinkState:[.]+(Polling|PortConfigurationTraining|LinkUp|LinkErrorRecovery)$"
"""A pattern (grep -E) for a port that is not closed."""

_WHERE = re.compile(r"# Port info: .* port [0-9]{1,4}", re.ASCII)
_STATE_ROW = re.compile(r"([A-Za-z]+):\.+(.*)")


def port_info(lid: int, number: int, *, through: Words = ()) -> Words:
    """
    Ask for a port of the node with a LID.

    ``ibportstate ... query`` is not used: for an active port it asks the peer, too, and exits 255 when that does not
    answer (ibportstate.c:685), so that a healthy port looks lost.
    """
    return ("smpquery", *through, "portinfo", *_place(lid, number))


def port(lid: int, number: int, *, up: bool, through: Words = ()) -> Words:
    """
    Close or open a port of the node with a LID.

    ``on`` opens a port only if it is closed; ``enable`` takes an open link down for a moment.
    """
    return ("ibportstate", *through, *_place(lid, number), "on" if up else "disable")


def read_port(stdout: str, stderr: str = "", exit_status: int = 0) -> PortState:
    """
    Return the port that ``port_info`` asked for.

    Raises ToolError with the tool's own words, UnreadableOutput when its states are not both there and known.
    """
    need_success("smpquery", stdout, stderr, exit_status)
    rows: dict[str, str] = {}
    heads = 0
    for line in whole_lines(stdout):
        heads += _WHERE.fullmatch(line) is not None
        if heads == 1 and (row := _STATE_ROW.fullmatch(line)):
            rows.setdefault(row[1], row[2].strip())
    state, physical = rows.get("LinkState"), rows.get("PhysLinkState")
    if heads != 1 or state not in STATES or physical not in PHYSICAL_STATES:
        seen = f"a port with state {state!r} and physical state {physical!r} in {stdout[:120]!r}"
        raise UnreadableOutput(f"smpquery: {seen}")
    return PortState(state, physical)


def _place(lid: int, number: int) -> tuple[str, str]:
    """Return the words that name a port."""
    return str(whole(lid, "LID", at_least=1, at_most=LIDS_MOST)), str(whole(number, "port", at_least=1, at_most=254))


_ROUTE = re.compile(r"0x(?P<lid>[0-9a-f]{4}) (?P<port>\d{3})(?: +:.*)?", re.ASCII)
_DUMPED = re.compile(r"(?P<count>\d+) (?:valid )?lids? dumped ?", re.ASCII)


def routes(lid: int, *, through: Words = ()) -> Words:
    """Ask for the table of the switch with this LID; ``-n``: do not ask for the node at the end of each route."""
    return ("ibroute", *through, "-n", str(whole(lid, "LID", at_least=1, at_most=LIDS_MOST)))


def read_routes(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[int, int]:
    """
    Return LID to port; 0 is the switch itself. LIDs without a route are missing.

    Raises ToolError with the tool's own words, UnreadableOutput when the closing line is missing or its count is wrong.
    """
    need_success("ibroute", stdout, stderr, exit_status)
    found: dict[int, int] = {}
    for line in whole_lines(stdout):
        if row := _ROUTE.fullmatch(line.rstrip()):
            found[int(row["lid"], 16)] = int(row["port"])
        elif end := _DUMPED.fullmatch(line):
            if int(end["count"]) != len(found):
                raise UnreadableOutput(f"ibroute: {len(found)} routes, and {line.strip()!r} at the end")
            return found
    raise UnreadableOutput(f"ibroute: the closing line is missing: output was cut at {stdout[-80:]!r}")


ERRORS = {
    "symbol_errors": "SymbolErrorCounter",
    "link_error_recovery": "LinkErrorRecoveryCounter",
    "link_downed": "LinkDownedCounter",
    "receive_errors": "PortRcvErrors",
}
"""Error counters of a receiver, by our name; short ones stop at 255 or 65535, LinkDownedCounter always at 255."""

_COUNTER = re.compile(r"([A-Za-z0-9]+):\.+([0-9]{1,20})", re.ASCII)
_COUNTERS_HEAD = re.compile(r"# Port (?:extended )?counters: .*")


def counters(lid: int, number: int, *, extended: bool = False, through: Words = ()) -> Words:
    """Read the counters of a port; nothing is reset."""
    return ("perfquery", *through, *(("-x",) if extended else ()), *_place(lid, number))


def read_counters(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, int]:
    """
    Return every counter by the tool's own name; values in hexadecimal are not counters.

    Raises ToolError with the tool's own words, UnreadableOutput when there is none.
    """
    need_success("perfquery", stdout, stderr, exit_status)
    lines = whole_lines(stdout)
    found: dict[str, int] = {}
    if any(_COUNTERS_HEAD.fullmatch(line) for line in lines):
        for line in lines:
            row = _COUNTER.fullmatch(line.strip())
            if row and row[1] != "PortSelect":
                found.setdefault(row[1], int(row[2]))
    return need(found, f"perfquery: no counters in {stdout[:120]!r}")


WAIT = "port_xmit_wait"
"""The counter of how long a port had data to send and was not allowed to."""

COUNTED = {
    "SymbolErrorCounter": "symbol_error",
    "LinkDownedCounter": "link_downed",
    "LinkErrorRecoveryCounter": "link_error_recovery",
    "PortRcvErrors": "port_rcv_errors",
    "PortXmitDiscards": "port_xmit_discards",
    "LocalLinkIntegrityErrors": "local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "excessive_buffer_overrun_errors",
    "PortXmitWait": WAIT,
}
"""The tools' names of counters and the kernel's, so that both ends of a cable have one name."""

SENT = "port_xmit_data"
"""The counter of what a port sent, in words of 4 bytes, by the kernel's name."""

BUSY = ("PortXmitWait", "PortRcvSwitchRelayErrors")
"""Counters that grow on a good fabric: a switch that counted nothing else is asked in three packets, not two a port."""

_OF_NODE = re.compile(r"   GUID (0x[0-9a-f]{1,16}) port (\d{1,4}|ALL): (.*)", re.ASCII)
_NONZERO = re.compile(r"\[([A-Za-z0-9]+) == ([0-9]{1,20})(?: \([^)\]]*\))?\]", re.ASCII)
_SUMMARY = re.compile(r"## Summary: (\d{1,7}) nodes checked, \d{1,7} bad nodes found", re.ASCII)
_UNASKED = re.compile(r"## +(\d{1,7}) PMA query failures", re.ASCII)
_MUTE = re.compile(r"query failed on .*, Lid (\d{1,6}) port \d{1,4}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ErrorSweep:
    """
    What all ports of a fabric have counted since the last reset: *counters* that are not 0, by GUID and port number.

    *mute*: the LIDs of nodes that did not report all of theirs.
    """

    counters: Mapping[tuple[int, int], Mapping[str, int]]
    mute: frozenset[int]


def errors(*, without: Iterable[str] = (), through: Words = ()) -> Words:
    """Ask all ports for their error counters, except some; nothing is cleared."""
    left_out = ",".join(without)
    return ("ibqueryerrors", *through, *(("-s", left_out) if left_out else ()))


def read_errors(stdout: str, stderr: str = "", exit_status: int = 0) -> ErrorSweep:
    """
    Return every counter that is not 0, by our names; status 1 says that there are some.

    Raises ToolError with the tool's own words, UnreadableOutput without its summary, or when mute nodes are not named.
    """
    need_success("ibqueryerrors", stdout, stderr, 0 if exit_status == 1 else exit_status)
    lines = _scanned(stdout)
    found = {
        port: {COUNTED[name]: count for name, count in counts.items() if name in COUNTED}
        for port, counts in _counts(lines).items()
    }
    mute = frozenset(int(lid) for lid in _MUTE.findall(stderr))
    unasked = sum(int(failed[1]) for failed in map(_UNASKED.fullmatch, lines) if failed)
    if unasked and not mute:
        raise UnreadableOutput(f"ibqueryerrors: {unasked} queries failed, of which ports is not said")
    return ErrorSweep(found, mute)


def _scanned(stdout: str) -> list[str]:
    """Return the lines of a scan that came to its end; raise UnreadableOutput for any other."""
    lines = [line.rstrip() for line in whole_lines(stdout)]
    if not any(map(_SUMMARY.fullmatch, lines)):
        raise UnreadableOutput(f"ibqueryerrors: no summary in {stdout[-80:]!r}")
    return lines


def _counts(lines: Iterable[str]) -> dict[tuple[int, int], dict[str, int]]:
    """Return what each port counted that is not 0, by GUID and number, with the tool's names."""
    rows = (row for line in lines if (row := _OF_NODE.fullmatch(line)) and row[2] != "ALL")
    return {
        (int(row[1], 16), int(row[2])): {name: int(count) for name, count in _NONZERO.findall(row[3])} for row in rows
    }


def data(*, through: Words = ()) -> Words:
    """Ask all ports for how much they have sent and received; nothing is cleared."""
    return ("ibqueryerrors", *through, "--counters")


def read_data(stdout: str, stderr: str = "", exit_status: int = 0) -> Mapping[tuple[int, int], int]:
    """
    Return how much each port has sent (words of 4 bytes), by GUID and number, without counters that are full.

    Raises ToolError with the tool's own words, UnreadableOutput without its summary.
    """
    need_success("ibqueryerrors", stdout, stderr, exit_status)
    sent = {port: counts.get("PortXmitData", _FULL) for port, counts in _counts(_scanned(stdout)).items()}
    return {port: words for port, words in sent.items() if words != _FULL}


_FULL = 0xFFFFFFFF
"""The value at which a counter of 32 bits stops."""

_MANAGER = re.compile(
    r"sminfo: sm lid (?P<lid>\d{1,6}) sm guid (?P<guid>0x[0-9a-f]{1,16}), activity count \d{1,12} "
    r"priority \d{1,3} state \d SMINFO_(?P<state>[A-Z]+)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class SubnetManagerInfo:
    """A subnet manager as it answers; *state* is ``MASTER``, ``STANDBY``, ``DISCOVERING`` or ``NOTACT``."""

    lid: int
    guid: int
    state: str


def subnet_manager(*, through: Words = ()) -> Words:
    """Ask the subnet manager that the own port knows."""
    return ("sminfo", *through)


def read_subnet_manager(stdout: str, stderr: str = "", exit_status: int = 0) -> SubnetManagerInfo:
    """Return the subnet manager; raises ToolError with the tool's own words, UnreadableOutput without a whole line."""
    need_success("sminfo", stdout, stderr, exit_status)
    lines = (_MANAGER.fullmatch(line.strip()) for line in whole_lines(stdout))
    found = need(next(filter(None, lines), None), f"sminfo: no subnet manager in {stdout[:120]!r}")
    return SubnetManagerInfo(int(found["lid"]), int(found["guid"], 16), found["state"])


_NODE = r"(?P<{0}type>CA|SW|RT) +(?P<{0}lid>\d{{1,6}}) +(?P<{0}port>\d{{1,4}}) (?P<{0}guid>0x[0-9a-f]{{16}})"
_LISTED = re.compile(
    _NODE.format("near_")
    + r" (?P<speed>\S+ \S+)(?: - " + _NODE.format("far_")
    + r" \( (?P<names>.*) \)| +(?! |- (?:CA|SW|RT) |.* \)$)(?P<name>.*))", re.ASCII
)  # fmt: skip


def read_links(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[PortLine, ...]:
    """
    Return every port of ``ibnetdiscover -p`` in the order printed, as ``read_ports`` does.

    States are not printed: they are Active and LinkUp where a peer is at the other end, else Down and Polling. Names
    keep no blanks at their ends; some have no quotes.

    Raises ToolError with the tool's own words, UnreadableOutput when a line is not whole or there is none.
    """
    need_success("ibnetdiscover", stdout, stderr, exit_status)
    lines = [line.rstrip() for line in whole_lines(stdout) if line.strip()]
    return tuple(_link_line(line) for line in need_whole("ibnetdiscover", lines, stdout))


def _link_line(line: str) -> PortLine:
    found = _LISTED.fullmatch(line)
    # Names may contain quotes, too: the separator splits them only where it is there once.
    names = (found["names"] or "").split("' - '") if found and found["far_guid"] else []
    if found is None or len(names) not in (0, 2):
        raise UnreadableOutput(f"ibnetdiscover: not a port: {line[:160]!r}")

    def end(which: str, name: str) -> End:
        guid, lid, port = (found[f"{which}_{what}"] for what in ("guid", "lid", "port"))
        return End(int(guid, 16), name.strip("'").strip(), int(lid), int(port))

    if not names:
        return PortLine(end("near", found["name"] or ""), found["speed"], PortState("Down", "Polling"), None)
    return PortLine(end("near", names[0]), found["speed"], ACTIVE, end("far", names[1]))


_UFM_PORT = re.compile(r"(?P<guid>[0-9a-f]{16})_(?P<port>\d{1,4})", re.ASCII)


def read_ufm(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[PortLine, ...]:
    """
    Return both ends of every link in ``GET /ufmRest/resources/links`` (UFM Enterprise REST API guide 6.20, Links REST
    API).

    A port is identified by its name, GUID and number: ``source_guid`` was seen to be that of a whole host (guide 6.11).
    The description of a switch ends with its port's label (``leaf01:1/3/1``). LIDs and speeds are not given: 0, and
    none.

    Raises ToolError where the request failed, UnreadableOutput with the link that is not whole, or when there is none.
    """
    need_success("UFM", stdout, stderr, exit_status)
    links = need_json("UFM", stdout)
    if not isinstance(links, list) or not links:
        raise UnreadableOutput(f"UFM: no list of links: {stdout[:120]!r}")
    lines = []
    for link in links:
        here, there = _ufm_end(link, "source"), _ufm_end(link, "destination")
        lines += [PortLine(here, "", ACTIVE, there), PortLine(there, "", ACTIVE, here)]
    return tuple(lines)


def _ufm_end(link: object, which: str) -> End:
    keys = ("port_name", "port", "port_dname", "port_node_description")
    values = [link.get(f"{which}_{key}") if isinstance(link, dict) else None for key in keys]
    name, number, label, description = (text if isinstance(text, str) else "" for text in values)
    found = _UFM_PORT.fullmatch(name)
    if found is None or found["port"] != number or not label or not description:
        wanted = ", ".join(f"{which}_{key}" for key in keys)
        raise UnreadableOutput(f"UFM: no end of a link in {wanted} (UFM 6.20 and later tell them): {str(link)[:300]}")
    return End(int(found["guid"], 16), description.removesuffix(f":{label}").strip(), 0, int(number))
