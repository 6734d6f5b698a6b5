"""The kernel's files about RDMA devices, read with ``cat``; with ``grep``: firmware, board and PCI address."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fabric.errors import ToolError, UnreadableOutput
from fabric.model.found import FoundRnic
from fabric.tools.driver import complaint, need, need_success, whole, whole_lines, word
from fabric.tools.infiniband import PHYSICAL_STATES, PortState

ROOT = "/sys/class/infiniband"
DEVICES = ("ls", ROOT)
"""Ask for the names of all devices."""
STATES = frozenset({"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"})
"""The kernel's words for logical states (drivers/infiniband/core/sysfs.c)."""

COUNTERS = ("link_downed", "link_error_recovery", "symbol_error")
"""Error counters of a receiver; link_downed stops at 255."""

IDENTITY = ("node_guid", "fw_ver", "board_id", "device/uevent")
"""Files that say what a device is."""

PLACE = ("device/numa_node",)
OF_PORT = ("state", "rate", "link_layer", "gids/0", "gid_attrs/ndevs/0")
"""Files that say where a device sits, and what is behind a port."""

PORTS_MOST = 2
"""Most ports of one device that are looked for: no adapter for GPU hosts has more."""

_ABSENT = re.compile(r"^cat: '?\S+/counters/([a-z_]+)'?: No such file or directory$", re.MULTILINE)
_COUNT = re.compile(r"[0-9]{1,20}", re.ASCII)
_GUID = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4}){3}", re.ASCII)
_NAME = re.compile(r"[^\s/:]{1,15}")
_FILE = re.compile(rf"{ROOT}/([^/:]+)/(?:ports/([0-9])/)?({'|'.join((*IDENTITY, *PLACE, *OF_PORT))}):(.*)", re.ASCII)
_GID = re.compile(r"(?:[0-9a-f]{4}:){4}([0-9a-f]{4}:[0-9a-f]{4}:[0-9a-f]{4}:[0-9a-f]{4})", re.ASCII)
_RATE = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) Gb/sec.*", re.ASCII)
_SHAPES = {
    "node_guid": _GUID,
    "fw_ver": re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,5}){1,3}", re.ASCII),
    "board_id": re.compile(r"[!-~]{1,64}", re.ASCII),
    "PCI_SLOT_NAME": re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII),
}


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """
    One RDMA device; None: its file is missing. *board_id* (PSID) says which firmware images fit it.

    Its fields are in the order of ``_SHAPES``.
    """

    node_guid: str | None = None
    firmware: str | None = None
    board_id: str | None = None
    pci_address: str | None = None


def port_state(device: str, port: int) -> tuple[str, ...]:
    """Ask for both states of one port."""
    folder = _port_folder(device, port)
    return ("cat", f"{folder}/state", f"{folder}/phys_state")


def states(ports: list[tuple[str, int]]) -> tuple[str, ...]:
    """Ask for the logical states of many ports; missing ports are left out, and ``cat`` exits 1."""
    return ("cat", *(f"{_port_folder(device, port)}/state" for device, port in ports))


def node_guid(device: str) -> tuple[str, ...]:
    """Ask for a device's GUID."""
    return ("cat", f"{ROOT}/{word(device, 'device')}/node_guid")


def vendor(device: str) -> tuple[str, ...]:
    """Ask for the PCI vendor of a device; soft RoCE has none."""
    return ("cat", f"{ROOT}/{word(device, 'device')}/device/vendor")


def netdev(device: str, port: int) -> tuple[str, ...]:
    """Ask for the network interface under a RoCE device: that of its first GID."""
    return ("cat", f"{_port_folder(device, port)}/gid_attrs/ndevs/0")


def counters(device: str, port: int) -> tuple[str, ...]:
    """Ask for the counters of COUNTERS, in that order."""
    folder = _port_folder(device, port)
    return ("cat", *(f"{folder}/counters/{name}" for name in COUNTERS))


def read_counters(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, int]:
    """
    Return counters by name; "N/A (no PMA)" and counters that a driver does not have are left out.

    Soft-RoCE, irdma and older bnxt_re have hw_counters/ only. Raises ToolError when ``cat`` failed, else
    UnreadableOutput.
    """
    absent = _ABSENT.findall(stderr)
    if exit_status != 1 or len(absent) != len(stderr.splitlines()):  # other complaints than missing files
        need_success("cat", stdout, stderr, exit_status)
    names = [name for name in COUNTERS if name not in absent]
    lines = whole_lines(stdout) if stdout else ()
    if len(lines) != len(names) or not all(_COUNT.fullmatch(line) or line.startswith("N/A") for line in lines):
        raise UnreadableOutput(f"sysfs: not {len(names)} counters: {stdout[:80]!r}")
    return {name: int(line) for name, line in zip(names, lines, strict=True) if _COUNT.fullmatch(line)}


def read_port_state(stdout: str, stderr: str = "", exit_status: int = 0) -> PortState:
    """Return both states; raises ToolError with what ``cat`` said, UnreadableOutput on anything else."""
    need_success("cat", stdout, stderr, exit_status)
    words = _words(stdout)
    if len(words) != 2 or words[0] not in STATES or words[1] not in PHYSICAL_STATES:
        raise UnreadableOutput(f"sysfs: not the two states of a port: {stdout[:80]!r}")
    return PortState(*words)


def read_states(stdout: str, stderr: str = "", exit_status: int = 0) -> tuple[str, ...]:
    """Return the logical states that were there, in order. Raises ToolError when ``cat`` itself failed."""
    if exit_status not in (0, 1):
        raise ToolError(f"cat: exit {exit_status}: {complaint(stdout, stderr)}")
    words = _words(stdout)
    if not STATES.issuperset(words):
        raise UnreadableOutput(f"sysfs: not states of ports: {stdout[:80]!r}")
    return words


def _words(stdout: str) -> tuple[str, ...]:
    """Return states without their numbers."""
    return tuple(line.partition(": ")[2] for line in whole_lines(stdout))


def read_node_guid(stdout: str, stderr: str = "", exit_status: int = 0) -> int:
    """Return a GUID as a number; raises ToolError with what ``cat`` said, UnreadableOutput on anything else."""
    return int(_line(_GUID, "GUID", stdout, stderr, exit_status).replace(":", ""), 16)


def read_netdev(stdout: str, stderr: str = "", exit_status: int = 0) -> str:
    """Return the name of an interface; raises ToolError with what ``cat`` said (on InfiniBand there is none)."""
    return _line(_NAME, "network interface", stdout, stderr, exit_status)


def identity(devices: Sequence[str]) -> tuple[str, ...]:
    """Ask for the files that ``read_identity`` reads."""
    return _grep(devices, IDENTITY)


def _grep(devices: Sequence[str], paths: Sequence[str]) -> tuple[str, ...]:
    """Return a command that prints files; ``grep -H .`` puts the file's name before each line."""
    return ("grep", "-H", ".", *(f"{ROOT}/{word(device, 'device')}/{path}" for device in devices for path in paths))


def _lines(stdout: str) -> Iterator[tuple[str, int, str, str]]:
    """Yield each line with its device, port (0: the device itself) and file."""
    for line in whole_lines(stdout):
        found = need(_FILE.fullmatch(line), f"sysfs: not a line of these files: {line[:80]!r}")
        yield found[1], int(found[2] or 0), found[3], found[4]


def read_identity(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[str, RdmaDevice]:
    """
    Return devices by name; a missing device is left out (``grep`` then exits 2 and says so).

    Raises ToolError when nothing could be read, UnreadableOutput for a value of the wrong form.
    """
    by_device: dict[str, dict[str, str]] = {}
    for device, _, name, value in _lines(stdout):
        if name == "device/uevent":
            name, _, value = value.partition("=")
        if shape := _SHAPES.get(name):
            if not shape.fullmatch(value) or name in by_device.get(device, {}):
                raise UnreadableOutput(f"sysfs: {device}: {name} is {value[:60]!r}, or there twice")
            by_device.setdefault(device, {})[name] = value
    if not by_device:
        raise ToolError(f"grep: exit {exit_status}: {complaint(stdout, stderr)}")
    return {device: RdmaDevice(*(got.get(name) for name in _SHAPES)) for device, got in by_device.items()}


def places(devices: Sequence[str]) -> tuple[str, ...]:
    """Ask for the files that ``read_places`` reads."""
    ports = (f"ports/{number}/{name}" for number in range(1, PORTS_MOST + 1) for name in OF_PORT)
    return _grep(devices, (*PLACE, *ports))


def read_places(stdout: str, stderr: str = "", exit_status: int = 0) -> dict[tuple[str, int], FoundRnic]:
    """
    Return the ports that are there, by device and number; without a NUMA node where the kernel says -1.

    Raises ToolError when nothing could be read, UnreadableOutput for a line that is none of these files.
    """
    numa: dict[str, int] = {}
    by_port: dict[tuple[str, int], dict[str, str]] = {}
    for device, port, name, value in _lines(stdout):
        if port:
            by_port.setdefault((device, port), {})[name] = value
        elif name in PLACE and _COUNT.fullmatch(value):
            numa[device] = int(value)
    if not by_port:
        raise ToolError(f"grep: exit {exit_status}: {complaint(stdout, stderr)}")
    return {(device, port): _rnic(device, port, numa.get(device), got) for (device, port), got in by_port.items()}


def _rnic(device: str, port: int, numa: int | None, files: Mapping[str, str]) -> FoundRnic:
    rate, gid = _RATE.fullmatch(files.get("rate", "")), _GID.fullmatch(files.get("gids/0", ""))
    netdev = files.get("gid_attrs/ndevs/0", "")
    return FoundRnic(
        device,
        port,
        guid=(int(gid[1].replace(":", ""), 16) or None) if gid else None,
        active=files.get("state", "").endswith(": ACTIVE"),
        rate_gbps=float(rate[1]) if rate else None,
        link_layer=files.get("link_layer", "").lower() or "infiniband",
        numa=numa,
        netdev=netdev if _NAME.fullmatch(netdev) else None,
    )


def _line(shape: re.Pattern[str], what: str, stdout: str, stderr: str, exit_status: int) -> str:
    need_success("cat", stdout, stderr, exit_status)
    lines = whole_lines(stdout)
    if len(lines) != 1 or not shape.fullmatch(lines[0]):
        raise UnreadableOutput(f"sysfs: {stdout[:80]!r} is no {what}")
    return lines[0]


def _port_folder(device: str, port: int) -> str:
    return f"{ROOT}/{word(device, 'device')}/ports/{whole(port, 'port', at_least=1, at_most=254)}"
