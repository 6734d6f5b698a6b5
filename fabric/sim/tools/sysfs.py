"""The kernel's files, of itself and of RNICs: by ``cat``, and read again and again by a sampler."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from fabric.model.topology import Rnic
from fabric.sim.hosts.hosts import firmware_of, pci_address
from fabric.sim.hosts.temperature import ASIC, MODULE, Nature, Warmth
from fabric.sim.phy.port import PACKET_BYTES, PHYSICAL_TEXT, Port, capped, packets, words
from fabric.sim.phy.quality import MESSAGE_BYTES
from fabric.sim.rack import Rack
from fabric.sim.tools.call import Said, ToolCall
from fabric.sim.tools.infiniband import subnet_manager

ROOT = "/sys/class/infiniband/"
_STATES = {1: "DOWN", 2: "INIT", 3: "ARMED", 4: "ACTIVE"}
_QUIET = (
    "VL15_dropped excessive_buffer_overrun_errors local_link_integrity_errors multicast_rcv_packets "
    "multicast_xmit_packets port_rcv_constraint_errors port_rcv_remote_physical_errors port_rcv_switch_relay_errors "
    "port_xmit_constraint_errors port_xmit_discards"
)
_QUIET_HARDWARE = (
    "duplicate_request implied_nak_seq_err local_ack_timeout_err out_of_buffer out_of_sequence packet_seq_err "
    "req_cqe_error req_cqe_flush_error resp_cqe_error resp_cqe_flush_error rnr_nak_retry_err roce_adp_retrans "
    "roce_adp_retrans_to roce_slow_restart rx_icrc_encapsulated"
)

_KERNEL = {
    "/proc/self/limits": (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max processes             4126000              4126000              processes \n"
        "Max locked memory         unlimited            unlimited            bytes     \n"
    ),
    "/proc/self/status": "Name:\tcat\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n",
    "/proc/modules": (
        "nvidia_peermem 16384 0 - Live 0x0000000000000000\n"
        "nvidia 56692736 2011 nvidia_uvm,nvidia_peermem, Live 0x0000000000000000\n"
        "mlx5_ib 524288 0 - Live 0x0000000000000000\n"
    ),
    "/proc/driver/nvidia/version": (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build\n"
    ),
}

PACKETS_PER_TAIL = MESSAGE_BYTES // PACKET_BYTES
"""Of so many lost packets one is the last of its message: nobody misses it until a timeout."""


def cat(asked: ToolCall) -> Said:
    """Print files one after the other."""
    stdout, stderr = "", ""
    folders: dict[str, dict[str, str]] = {}
    for path in asked.words:
        text = content(asked, path, folders)
        stdout += "" if text is None else f"{text}\n"
        stderr += f"cat: {path}: No such file or directory\n" if text is None else ""
    return Said(stdout, stderr, int(bool(stderr)))


def content(asked: ToolCall, path: str, folders: dict[str, dict[str, str]]) -> str | None:
    """What is in a file, None where there is none; each of the *folders* is filled when somebody looks into it."""
    if path == "/sys/devices/system/node/online":
        nodes = asked.site.layout.platform.numa_nodes
        return f"0-{nodes - 1}" if nodes > 1 else "0"
    text = _KERNEL.get(path) or asked.rack.managers.read(asked.site.host.name, path)
    if text is not None:
        lines = text.removesuffix("\n").split("\n")
        peermem = path != "/proc/modules" or "dmabuf" not in asked.rack.site
        return "\n".join(line for line in lines if peermem or not line.startswith("nvidia_peermem"))
    folder, _, name = path.rpartition("/")
    device, _, below = folder.removeprefix(ROOT).partition("/")
    rnic = next((one for one in asked.rnics if one.device == device), None)
    if rnic is None or not path.startswith(ROOT):
        return None
    if folder not in folders:
        folders[folder] = _files(asked, rnic, below)
    if name == "sm_lid" and "lid" in folders[folder]:
        return _manager_lid(asked, asked.port_of(device))
    return folders[folder].get(name)


def _port_states(port: Port) -> dict[str, str]:
    """The files of a port that need no look at the rest of the fabric."""
    return {
        "state": f"{port.kernel_logical}: {_STATES[port.kernel_logical]}",
        "phys_state": f"{port.kernel_physical}: {PHYSICAL_TEXT[port.kernel_physical]}",
        "rate": _rate_text(port),
        "link_layer": "Ethernet" if port.node.ethernet else "InfiniBand",
    }


def _rate_text(port: Port) -> str:
    """What the kernel says about the rate: a port that is down stands at the slowest."""
    if port.kernel_up:
        return port.line.rate
    return "40 Gb/sec (4X QDR)" if port.node.ethernet else "10 Gb/sec (4X SDR)"


def _identity_files(asked: ToolCall, rnic: Rnic) -> dict[str, str]:
    """What an RNIC is, and where it sits; a GUID is that of its slot: one that was replaced keeps it here."""
    number = asked.site.layout.platform.rnics.index(rnic)
    guid = f"{asked.port_of(rnic.device).node.guid:016x}"
    return {
        "board_id": "MT_0000000838",
        "fw_ver": firmware_of(asked.site, rnic.device),
        "hca_type": "MT4129",
        "node_guid": ":".join(guid[at : at + 4] for at in range(0, 16, 4)),
        "device/numa_node": str(rnic.numa),
        "device/uevent": f"DRIVER=mlx5_core\nPCI_ID=15B3:1021\nPCI_SLOT_NAME={pci_address(number)}",
    }


def _files(asked: ToolCall, rnic: Rnic, folder: str) -> dict[str, str]:
    """The files in one folder below an RNIC's own."""
    port, number, own = asked.port_of(rnic.device), asked.site.layout.platform.rnics.index(rnic), f"ports/{rnic.port}"
    if folder == f"device/hwmon/hwmon{number}":
        return hwmon_files(Warmth(asked.site, asked.at_s), rnic.device)
    if folder in ("", "device"):
        files = _identity_files(asked, rnic) | {"node_desc": port.node.description}
        return {name.rpartition("/")[2]: text for name, text in files.items() if name.rpartition("/")[0] == folder}
    if folder == f"{own}/counters":
        return {name: str(value) for name, value in _counters(asked, port).items()}
    if folder == f"{own}/hw_counters":
        return {name: str(value) for name, value in _hardware(asked, port).items()}
    if folder == f"{own}/gid_attrs/ndevs":
        return {"0": f"eth{number + 1}"} if port.node.ethernet else {}  # as interfaces.py names them
    lid = 0 if port.node.ethernet else port.node.lid if port.kernel_up else 0xFFFF
    if folder == f"{own}/gids":
        guid = f"{port.node.guid:016x}"
        return {"0": "fe80:0000:0000:0000:" + ":".join(guid[at : at + 4] for at in range(0, 16, 4))}
    return _port_states(port) | {"lid": f"0x{lid:x}"} if folder == own else {}


def _manager_lid(asked: ToolCall, port: Port) -> str:
    """That takes a walk of the fabric."""
    manager = subnet_manager(asked, port) if port.kernel_up and not port.node.ethernet else None
    return f"0x{manager.lid if manager else 0:x}"


def _counters(asked: ToolCall, port: Port) -> dict[str, int]:
    """The same counters that perfquery reads."""
    counts = asked.ports.counts(port, asked.at_s)
    return dict.fromkeys(_QUIET.split(), 0) | {
        "link_downed": capped(counts.downed, 8),
        "link_error_recovery": capped(counts.recovered, 8),
        "symbol_error": capped(counts.symbol, 16),
        "port_rcv_errors": capped(counts.symbol, 16),
        "port_xmit_wait": int(counts.wait_ticks),
        "port_rcv_data": words(counts.received_gb),
        "port_xmit_data": words(counts.sent_gb),
        "port_rcv_packets": packets(counts.received_gb),
        "port_xmit_packets": packets(counts.sent_gb),
        "unicast_rcv_packets": packets(counts.received_gb),
        "unicast_xmit_packets": packets(counts.sent_gb),
    }


def _hardware(asked: ToolCall, port: Port) -> dict[str, int]:
    """What the transport counts: packets that came out of order here, and those that the other end missed of ours."""
    peer = asked.ports.peer(port)
    here = asked.ports.counts(port, asked.at_s).lost_packets
    there = 0.0 if peer is None else asked.ports.counts(peer, asked.at_s).lost_packets
    found = dict.fromkeys(_QUIET_HARDWARE.split(), 0) | {"lifespan": 12}
    timeouts = int(there / PACKETS_PER_TAIL)
    return found | {
        "out_of_sequence": int(here),
        "packet_seq_err": int(there) - timeouts,
        "local_ack_timeout_err": timeouts,
        "roce_adp_retrans": timeouts if port.node.ethernet else 0,
    }


_STEP = 125  # the register counts eighths of a degree


def _register(warmth: Warmth, device: str, nature: Nature) -> int:
    """Thousandths of a degree Celsius."""
    return round(warmth.of(device, nature) * 1000 / _STEP) * _STEP


def hwmon_files(warmth: Warmth, device: str) -> dict[str, str]:
    """File name below ``mlx5_0/device/hwmon/hwmon0/`` to content."""
    return {
        "name": "mlx5",
        "temp1_label": "asic",
        "temp1_input": str(_register(warmth, device, ASIC)),
        "temp2_label": "Module0",
        "temp2_input": str(_register(warmth, device, MODULE)),
    }


_COUNTER = re.compile(rf"{ROOT}([^/]+)/ports/[0-9]+/(?:hw_)?counters/([^/]+)")
_SENSOR = re.compile(rf"{ROOT}([^/]+)/device/hwmon/hwmon(?:\*|[0-9]+)/temp([12])_input")
_NET = re.compile(rf"{ROOT}([^/]+)/device/net/(?:\*|eth[0-9]+)/(statistics/rx_crc_errors|carrier_down_count)")

# The counters that errors alone move: where they are in what _errors tells, and their width in bits.
_BY_RATE = {"symbol_error": (0, 16), "port_rcv_errors": (0, 16), "link_downed": (1, 8), "link_error_recovery": (2, 8)}
_LOSSES = frozenset({"out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "roce_adp_retrans"})
_NEVER = frozenset(
    {
        "port_xmit_discards",
        "local_link_integrity_errors",
        "excessive_buffer_overrun_errors",
        "rnr_nak_retry_err",
        "rx_icrc_encapsulated",
    }
)
_WAIT = "port_xmit_wait"
Value = int | float | None
Read = Callable[[Warmth], Value]


class Readings:
    """Some files of one host; a pattern stands for the one file that it matches here."""

    def __init__(self, rack: Rack, host: str, paths: Sequence[str]) -> None:
        self._rack, self._host, self._site = rack, host, rack.hosts.site(host)
        self._numbers = {rnic.device: number for number, rnic in enumerate(self._site.layout.platform.rnics)}
        found = [self._found(path) for path in paths]
        self.names = tuple(name for name, _, _ in found)
        self._reads = [(device, read) for _, device, read in found]

    def row(self, at_s: float) -> list[Value] | None:
        """The numbers now, None for a file that is not there; None for all when the host does not answer."""
        kind = self._rack.hosts.kind(self._host)
        if kind == "hanging":
            return None
        if kind == "garbage":
            return [None] * len(self.names)
        warmth = Warmth(self._site, at_s)
        absent = {device for device in self._numbers if self._site.trouble_of(device) == "absent"}
        return [None if device in absent else read(warmth) for device, read in self._reads]

    def _found(self, path: str) -> tuple[str, str, Read]:
        """The file's name here, the RNIC that it is about, and how it is read."""
        counter, sensor, net = _COUNTER.fullmatch(path), _SENSOR.fullmatch(path), _NET.fullmatch(path)
        if counter and counter[1] in self._numbers:
            return path, counter[1], self._counter(path, counter[1], counter[2])
        if sensor and sensor[1] in self._numbers:
            device, nature = sensor[1], ASIC if sensor[2] == "1" else MODULE
            name = path.replace("hwmon*", f"hwmon{self._numbers[device]}")
            return name, device, lambda now: _register(now, device, nature)
        if net and net[1] in self._numbers:
            name = path.replace("/net/*/", f"/net/eth{self._numbers[net[1]] + 1}/")
            return name, net[1], self._of_net(net[1], down=net[2] == "carrier_down_count")
        return path, "", lambda now: self._by_cat(path, now.at_s)

    def _counter(self, path: str, device: str, name: str) -> Read:
        """Of a port that loses nothing most follow from its rates alone, and its traffic need not be added up."""
        if name in _NEVER:
            return lambda _: 0
        ports = self._rack.ports
        port = ports.of_adapter(self._host, device)
        if name in _BY_RATE:
            place, bits = _BY_RATE[name]
            return lambda now: capped(_errors(port, now.at_s)[place], bits)
        if name == _WAIT:
            return lambda now: int(ports.counts(port, now.at_s).wait_ticks)
        ends = (port, ports.peer(port) or port)
        if name in _LOSSES:
            return lambda now: self._by_cat(path, now.at_s) if any(map(_loses, ends)) else 0
        return lambda now: self._by_cat(path, now.at_s)

    def _of_net(self, device: str, *, down: bool) -> Read:
        port = self._rack.ports.of_adapter(self._host, device)

        def read(now: Warmth) -> Value:
            tally = port.tally
            effective = tally.counts.effective + tally.rates.effective * (now.at_s - tally.since_s)
            return int(tally.counts.downed if down else effective)

        return read if port.node.ethernet else lambda _: None

    def _by_cat(self, path: str, at_s: float) -> Value:
        """What any other file says, if it is one number."""
        said = cat(ToolCall(self._rack, self._site, (path,), at_s, 0))
        text = said.stdout.strip()
        if said.status == 0 and re.fullmatch(r"-?[0-9]+", text):
            return int(text)
        return None


def _loses(port: Port) -> bool:
    return port.tally.rates.loss > 0.0 or port.tally.counts.lost_gb > 0.0


def _errors(port: Port, at_s: float) -> tuple[float, float, float]:
    """Symbol errors, times down and recoveries; leaves the tally as it is."""
    tally, counts, lasted_s = port.tally, port.tally.counts, at_s - port.tally.since_s
    symbol = counts.symbol + tally.rates.symbol * lasted_s
    recovered = counts.recovered + tally.rates.recovered * lasted_s
    return symbol, counts.downed, recovered
