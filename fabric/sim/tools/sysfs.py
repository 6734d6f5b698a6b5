"""The kernel's files, about itself and about RNICs: read by ``cat``, and again and again by a sampler."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from fabric.model.topology import Rnic
from fabric.sim import page
from fabric.sim.hashing import mix64, text_hash
from fabric.sim.hosts import firmware_of, pci_address
from fabric.sim.hosts.temperature import ASIC, MODULE, Nature, Warmth
from fabric.sim.phy.port import PHYSICAL_TEXT, Counts, Physical, Port, capped, ticks, words
from fabric.sim.phy.quality import MESSAGE_BYTES, MTU_BYTES
from fabric.sim.rack import Rack
from fabric.sim.tools.call import ToolCall, ToolOutput

ROOT = "/sys/class/infiniband/"
_STATES = {1: "DOWN", 2: "INIT", 3: "ARMED", 4: "ACTIVE"}
_OF_KERNEL = frozenset({"/proc/self/limits", "/proc/self/status", "/proc/modules", "/proc/driver/nvidia/version"})

PACKETS_PER_TAIL = MESSAGE_BYTES // MTU_BYTES
"""Of this many lost packets one is the last of its message, whose loss is noticed only by a timeout."""

_STEP = 125  # the register of a temperature counts eighths of a degree


class _Adapter:
    """One RNIC at one moment, as its host's kernel shows it; *warmth* is that of all parts of the host."""

    def __init__(self, asked: ToolCall, rnic: Rnic, warmth: Warmth) -> None:
        self.asked, self.rnic, self.device, self._warmth = asked, rnic, rnic.device, warmth

    @cached_property
    def port(self) -> Port:
        """Return its port."""
        return self.asked.port_of(self.device)

    @cached_property
    def errors(self) -> Counts:
        """Return its error counters."""
        return self.port.tally.errors(self.asked.at_s)

    @property
    def number(self) -> int:
        """Return its number among its host's RNICs."""
        return self.asked.site.layout.platform.rnics.index(self.rnic)

    @cached_property
    def counts(self) -> Counts:
        """Return all its counters; traffic must be added up for that, which is expensive."""
        return self.asked.ports.counts(self.port, self.asked.at_s)

    @cached_property
    def lost(self) -> tuple[int, int, int]:
        """Return packets that came out of order here, our packets that the other end missed, and timeouts for these."""
        near, far = self.port, self.asked.ports.peer(self.port)
        if not near.loses and (far is None or not far.loses):
            return 0, 0, 0
        there = 0.0 if far is None else self.asked.ports.counts(far, self.asked.at_s).lost_packets
        timeouts = int(there / PACKETS_PER_TAIL)
        return int(self.counts.lost_packets), int(there) - timeouts, timeouts

    def congested(self, name: str) -> int:
        """Return how much congestion has raised a counter; counters of queue pairs have 32 bits."""
        grown = self.asked.rack.above.counted(self.asked.site.host.name, self.device, name, self.asked.at_s)
        return grown if name.startswith(("np_", "rp_")) else grown & 0xFFFFFFFF

    @property
    def guid(self) -> str:
        """Return the GUID of its slot: a replaced RNIC keeps it here."""
        return self.port.node.guid.to_bytes(8).hex(":", 2)

    @property
    def rate(self) -> str:
        """Return the rate as the kernel reports it: a port that is down shows the slowest."""
        down = "40 Gb/sec (4X QDR)" if self.port.node.ethernet else "10 Gb/sec (4X SDR)"
        return self.port.line.rate if self.port.kernel_physical == Physical.LINK_UP else down

    def millidegrees(self, nature: Nature) -> int:
        """Return a temperature in thousandths of a degree Celsius."""
        return round(self._warmth.of(self.device, nature) * 1000 / _STEP) * _STEP


Value = int | float | None
_Read = Callable[[_Adapter], str | int | None]

_QUIET = ("excessive_buffer_overrun_errors", "local_link_integrity_errors", "port_xmit_discards")
_QUIET_HARDWARE = ("rnr_nak_retry_err", "rx_icrc_encapsulated")


_FILES: Mapping[str, _Read] = MappingProxyType(
    {
        "board_id": lambda _: "MT_0000000838",
        "fw_ver": lambda one: firmware_of(one.asked.site, one.device),
        "node_guid": lambda one: one.guid,
        "device/numa_node": lambda one: one.rnic.numa,
        "device/uevent": lambda one: f"DRIVER=mlx5_core\nPCI_ID=15B3:1021\nPCI_SLOT_NAME={pci_address(one.number)}",
        "hwmon/temp1_input": lambda one: one.millidegrees(ASIC),
        "hwmon/temp2_input": lambda one: one.millidegrees(MODULE),
        "net/statistics/rx_crc_errors": lambda one: one.errors.effective_errors if one.port.node.ethernet else None,
        "net/carrier_down_count": lambda one: int(one.errors.downed) if one.port.node.ethernet else None,
        "port/state": lambda one: f"{one.port.kernel_logical}: {_STATES[one.port.kernel_logical]}",
        "port/phys_state": lambda one: f"{one.port.kernel_physical}: {PHYSICAL_TEXT[one.port.kernel_physical]}",
        "port/rate": lambda one: one.rate,
        "port/link_layer": lambda one: "Ethernet" if one.port.node.ethernet else "InfiniBand",
        "port/gids/0": lambda one: f"fe80:0000:0000:0000:{one.guid}",
        "port/gid_attrs/ndevs/0": lambda one: f"eth{one.number + 1}" if one.port.node.ethernet else None,
        **dict.fromkeys([f"port/counters/{name}" for name in _QUIET], lambda _: 0),
        **dict.fromkeys([f"port/hw_counters/{name}" for name in _QUIET_HARDWARE], lambda _: 0),
        "port/counters/link_downed": lambda one: capped(one.errors.downed, 8),
        "port/counters/link_error_recovery": lambda one: capped(one.errors.recovered, 8),
        "port/counters/symbol_error": lambda one: capped(one.errors.symbol, 16),
        "port/counters/port_rcv_errors": lambda one: capped(one.errors.symbol, 16),
        "port/counters/port_xmit_wait": lambda one: capped(ticks(one.counts.waited_s, one.port.rate_gbps), 32),
        "port/counters/port_rcv_data": lambda one: words(one.counts.received_gb),
        "port/counters/port_xmit_data": lambda one: words(one.counts.sent_gb),
        "port/hw_counters/out_of_sequence": lambda one: one.lost[0] + one.congested("out_of_sequence"),
        "port/hw_counters/packet_seq_err": lambda one: one.lost[1] + one.congested("packet_seq_err"),
        **{
            f"port/hw_counters/{name}": partial(_Adapter.congested, name=name)
            for name in ("np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled")
        },
        "port/hw_counters/local_ack_timeout_err": lambda one: one.lost[2],
        "port/hw_counters/roce_adp_retrans": lambda one: one.lost[2] if one.port.node.ethernet else 0,
    }
)
"""The files below an RNIC's folder; ``port/``, ``hwmon/`` and ``net/`` stand for folders with its numbers in them."""

_PLACE = re.compile(
    rf"{ROOT}([^/]+)/(?:ports/(?P<port>[0-9]+)/|device/hwmon/hwmon(?P<hwmon>\*|[0-9]+)/|device/net/(?P<net>\*|eth[0-9]+)/)?(.+)"
)


class _File(NamedTuple):
    """One file: its whole *path*, the RNIC it belongs to, and how it is *read*; None: it belongs to no RNIC."""

    path: str
    device: str = ""
    read: _Read | None = None


def _file(rnics: Sequence[Rnic], path: str) -> _File:
    """Return the file that a path names; a pattern stands for the one that it matches here."""
    place = _PLACE.fullmatch(path)
    number = next((at for at, one in enumerate(rnics) if place and one.device == place[1]), None)
    if place is None or number is None:
        return _File(path)
    own = {"port": str(rnics[number].port), "hwmon": str(number), "net": f"eth{number + 1}"}
    folder = next((name for name in own if place[name]), "")
    read = _FILES.get(f"{folder}/{place[5]}" if folder else place[5])
    if read is None or (folder and place[folder] not in ("*", own[folder])):
        return _File(path)
    return _File(path.replace("*", own[folder]) if folder else path, rnics[number].device, read)


def cat(asked: ToolCall) -> ToolOutput:
    """Print files one after the other."""
    texts = contents(asked, asked.words)
    stdout = "".join(f"{text}\n" for text in texts if text is not None)
    missing = (path for path, text in zip(asked.words, texts, strict=True) if text is None)
    stderr = "".join(f"cat: {path}: No such file or directory\n" for path in missing)
    return ToolOutput(stdout, stderr, int(bool(stderr)))


def contents(asked: ToolCall, paths: Sequence[str]) -> list[str | None]:
    """Return the content of each file, None where there is none."""
    files = [_file(asked.site.layout.platform.rnics, path) for path in paths]
    return [None if value is None else str(value) for value in _values(asked, files)]


def _values(asked: ToolCall, files: Iterable[_File]) -> Iterator[str | int | None]:
    warmth = Warmth(asked.site, asked.at_s)
    adapters = {rnic.device: _Adapter(asked, rnic, warmth) for rnic in asked.rnics}
    for one in files:
        if one.read is None:
            yield _of_kernel(asked, one.path)
        else:
            adapter = adapters.get(one.device)
            yield None if adapter is None else one.read(adapter)


def _of_kernel(asked: ToolCall, path: str) -> str | None:
    """Return the content of a file that belongs to no RNIC."""
    if path == "/sys/devices/system/node/online":
        nodes = asked.site.layout.platform.numa_nodes
        return f"0-{nodes - 1}" if nodes > 1 else "0"
    if path == "/proc/sys/kernel/random/boot_id":
        return _boot_id(asked)
    if path in _OF_KERNEL:
        text: str | None = page(path.strip("/").replace("/", "-"), peermem="dmabuf" not in asked.rack.mock.site)
    else:
        text = asked.rack.managers.files.get((asked.site.host.name, path))
    return None if text is None else text.removesuffix("\n")


def _boot_id(asked: ToolCall) -> str:
    """Return the boot id; an address whose first word is another host's name leads to that host, as in DNS."""
    host = asked.site.host
    meant = asked.rack.hosts.reached(asked.site, host.address.partition(".")[0])
    bits = mix64(text_hash(f"boot {host.name if meant is None else meant.host.name}"))
    return str(UUID(int=bits << 64 | bits))


class Readings:
    """Some files of one host; a pattern stands for the one file that it matches here."""

    def __init__(self, rack: Rack, host: str, paths: Sequence[str]) -> None:
        self._rack, self._site = rack, rack.hosts.site(host)
        self._files = [_file(self._site.layout.platform.rnics, path) for path in paths]
        self.names = tuple(one.path for one in self._files)

    def row(self, at_s: float) -> list[Value] | None:
        """Return the numbers now, None for a file that is not there; None for all when the host does not answer."""
        kind = self._rack.hosts.kind(self._site.host.name)
        if kind == "hanging":
            return None
        if kind == "garbage":
            return [None] * len(self.names)
        values = _values(ToolCall(self._rack, self._site, (), at_s, 0), self._files)
        return [value if isinstance(value, int) else _number(value) for value in values]


def _number(text: str | None) -> Value:
    """Return the number in a file, None if it is not one number."""
    return int(text) if text and re.fullmatch(r"-?[0-9]+", text) else None
