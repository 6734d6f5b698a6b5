"""The files and tools of a host that show the state of its links and GPUs while probes run, and their names for it."""

import re
from dataclasses import dataclass

from fabric.model.sampling import DROPS, JUDGED, NEARLY_FULL, TRAFFIC, SampleSettings, module_c
from fabric.model.topology import Platform
from fabric.ports import Source
from fabric.tools.infiniband import COUNTED, WAIT
from fabric.tools.sysfs import ROOT

SLOWLY = 5
"""What changes all the time, or is expensive to read, is read so many times less often (a choice)."""

COUNTERS = tuple(name for name in COUNTED.values() if name != WAIT)
"""Files of ``ports/N/counters`` (linux: drivers/infiniband/core/sysfs.c)."""

HARDWARE = ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err")
"""Files of ``ports/N/hw_counters`` that count retransmissions and why (linux: mlx5/counters.c)."""

HARDWARE_ETHERNET = (
    *("roce_adp_retrans", "rx_icrc_encapsulated"),
    *("np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled"),
)
NET_DEVICE = ("statistics/rx_crc_errors", "carrier_down_count")
"""Files with what ``ethtool -S`` calls ``rx_crc_errors_phy`` and ``link_down_events_phy``."""

GPU_FIELDS = "temperature.gpu,clocks.sm"

PFC_NAME = "fabric-pfc"
"""The name ($0) under which the script ``PFC`` is started."""

PFC = (
    'for net in /sys/class/infiniband/"$1"/device/net/*; do ethtool -S "${net##*/}"; done | '
    "awk '/^ *[rt]x_prio[0-7]_pause:/ { frames[substr($1, 1, 2)] += $2 } "
    "/^ *[rt]x_prio[0-7]_pause_duration:/ { us[substr($1, 1, 2)] += $2 } "
    "/^ *([rt]x_discards_phy|rx_out_of_buffer|rx_buffer_passed_thres_phy|rx_prio[0-7]_(buf|cong)_discard):/ "
    '{ sub(/_prio[0-7]/, "", $1); sub(/:/, "", $1); drops[$1] += $2 } '
    'END { for (way in us) printf "%s:%s_pfc_us: %.0f\\n%s:%s_pfc_frames: %.0f\\n", '
    "dev, way, us[way], dev, way, frames[way]; "
    'for (name in drops) printf "%s:%s: %.0f\\n", dev, name, drops[name] }\' dev="$1"'
)
"""
A script that prints the PFC counters of an RNIC's interface and its drops by cause, priorities added up.

Its lines read ``mlx5_0:rx_pfc_us: 1200``. Drops (Linux, mlx5 counters.rst): ``rx_discards_phy`` for lack of buffers of
the port, ``rx_out_of_buffer`` of receive queues, ``rx_buf_discard`` and ``rx_cong_discard`` for lack of a priority's
buffer and by congestion, ``tx_discards_phy`` in sending; ``rx_buffer_passed_thres_phy`` counts how often the port's
buffer was more than 85 % full.
"""

_FILE = re.compile(rf"{ROOT}/([^/]+)/(?:.*/)?([^/]+)")
_GPU = re.compile(r"([0-9]+):(temperature\.gpu|clocks\.(?:current\.)?sm)\b.*")
_OF_PFC = re.compile(rf"([^:/]+):([rt]x_(?:pfc_us|pfc_frames)|{'|'.join((*DROPS, NEARLY_FULL))})")
_FILE_NAMES = {
    "temp1_input": ("asic_c", 1e-3),
    "temp2_input": ("module_c", 1e-3),
    "carrier_down_count": ("link_downed", 1.0),
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a sampled name: a *part* of the host, the *name* of the reading, and *scale* to its unit."""

    part: str
    name: str
    scale: float = 1.0

    def level(self, value: float) -> float | None:
        """Return a wavering reading in its unit, None if it cannot be one."""
        return module_c(value * self.scale) if self.name == "module_c" else value * self.scale

    @property
    def step(self) -> float:
        """Return by how much it must change to be recorded again; 0: every change is recorded."""
        return STEPS.get(self.name, 0.0)


STEPS = {"asic_c": 2.0, "module_c": 2.0, "gpu_c": 2.0, "sm_mhz": 50.0}
"""By how much a wavering reading must change to be recorded again (a choice); counters are recorded exactly."""

LEVELS = ("C", "MHz", "dBm", "Gb/s", "lanes", "0 or 1")
"""Units of readings that go up and down; all others only grow, until somebody clears them."""

_UNITS = {"c": "C", "mhz": "MHz", "dbm": "dBm", "us": "us", "gbps": "Gb/s", "width": "lanes", "up": "0 or 1"}


def unit_of(name: str) -> str:
    """Return the unit of a reading, which is its last word (``module_c``); ``count`` if that is not a unit."""
    return _UNITS.get(name.rpartition("_")[2], "count")


def sources_of(platform: Platform, settings: SampleSettings) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """Return what is read every time on a host of this platform, and what only every ``SLOWLY`` times."""
    often: list[Source] = []
    slowly: list[Source] = []
    ethernet = platform.link_layer == "ethernet"
    for rnic in platform.rnics:
        device, port = f"{ROOT}/{rnic.device}", f"{ROOT}/{rnic.device}/ports/{rnic.port}"
        names = [name for name in COUNTERS if not (ethernet and name in ("link_downed", "symbol_error"))]
        if settings.traffic:
            judged = [name for name in names if name in JUDGED]
            often += [Source(f"{port}/counters/{name}") for name in (*judged, *TRAFFIC)]
        if settings.counters:
            often += [Source(f"{port}/counters/{name}") for name in names]
            hardware = () if ethernet and settings.congestion_s else HARDWARE + (HARDWARE_ETHERNET if ethernet else ())
            often += [Source(f"{port}/hw_counters/{name}") for name in hardware]
            slowly.append(Source(f"{port}/counters/{WAIT}"))
        if ethernet and (settings.traffic or settings.counters):
            often += [Source(f"{device}/device/net/*/{name}") for name in NET_DEVICE]
        if settings.temperatures:
            often += [Source(f"{device}/device/hwmon/hwmon*/temp{number}_input") for number in (1, 2)]
        if settings.pfc and ethernet and not settings.congestion_s:
            slowly.append(Source(argv=("sh", "-c", PFC, PFC_NAME, rnic.device)))
    if settings.temperatures and platform.gpus and not platform.amd:
        often.append(Source(argv=("nvidia-smi", f"--query-gpu={GPU_FIELDS}", "--format=csv,nounits"), form="csv"))
    return tuple(often), tuple(slowly)


def congestion_sources(platform: Platform) -> tuple[Source, ...]:
    """Return the sources that show congestion on RoCE ports, millisecond by millisecond; none for other ports."""
    found: list[Source] = []
    for rnic in platform.rnics if platform.link_layer == "ethernet" else ():
        port = f"{ROOT}/{rnic.device}/ports/{rnic.port}"
        found += [Source(f"{port}/hw_counters/{name}") for name in (*HARDWARE, *HARDWARE_ETHERNET)]
        found += [Source(f"{port}/counters/{name}") for name in TRAFFIC]
        found.append(Source(argv=("sh", "-c", PFC, PFC_NAME, rnic.device)))
    return tuple(found)


def meaning(sampled: str) -> Meaning | None:
    """Return the meaning of a sampled name; None if none of our sources has it."""
    found = _OF_PFC.fullmatch(sampled)
    if found:
        return Meaning(found[1], found[2])
    found = _GPU.fullmatch(sampled)
    if found:
        return Meaning(f"gpu{found[1]}", "gpu_c" if found[2].startswith("temperature") else "sm_mhz")
    found = _FILE.fullmatch(sampled)
    if found is None:
        return None
    name, scale = _FILE_NAMES.get(found[2], (found[2], 1.0))
    return Meaning(found[1], name, scale)
