"""How NCCL runs a collective: choices by its environment, its own tuning, NVLink and rails, its timeouts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import ceil, inf

from fabric.model.topology import Gpu, Platform, Rnic
from fabric.sim.hosts.capacity import GENERATIONS
from fabric.sim.hosts.site import Site
from fabric.sim.phy.qos import SHORT_TIMEOUTS
from fabric.sim.rack import Rack

RAIL_RATIO = 0.966
"""A ring's bus bandwidth per rail over what the RNIC carries: 46 to 48 GB/s of 400 Gb/s (nccl-tests issue 290)."""

PROTOCOLS = ("ll", "ll128", "simple")
"""NCCL's wire protocols, in the order of its tables."""

ALGORITHMS = ("ring", "tree")
"""Algorithms that are tried by default; "nvls_tree" on request: measured busbw at scale is nearer to trees."""

# NCCL's own tuning numbers (nccl 5067397c, src/graph/tuning.cc): microseconds, and GB/s per channel. The three numbers
# of a row are LL, LL128, Simple for latencies, and one, two, more hosts for bandwidths.
_Row = tuple[float, float, float]
_BASE_US: dict[str, _Row] = {"tree": (6.8, 14.0, 8.4), "ring": (6.6, 14.0, 8.4)}  # baseLatencies
_NVLINK_US: dict[str, _Row] = {"tree": (0.6, 1.25, 4.0), "ring": (0.6, 1.9, 3.4)}  # hwLatencies, one step
_NET_US: dict[str, _Row] = {"tree": (5.0, 8.5, 14.0), "ring": (2.7, 4.0, 14.0)}  # the same over the network
_NVLS_US, _NVLS_TREE_NET_US = 25.0, 20.9  # hwLatencies of NVLS and NVLSTree: NVLink, one step over the network
_NET_OVERHEAD_US = 1.0  # getNetOverhead of an Intel host: posting one operation; Simple pays it three times
_PLATEAU, _PLATEAU_BYTES = 1.4, 64  # Ring/Simple between hosts: latency times this from so many bytes a rank on
_CHANNELS = 16

_LL_MAX_GBYTES: dict[str, _Row] = {  # llMaxBws: by GPU generation on one host, by CPU vendor on more; not per channel
    "ampere": (87.7, 22.5, 19.0),
    "hopper": (141.0, 45.0, 35.0),
    "blackwell": (282.0, 90.0, 70.0),
    "intel": (39.0, 39.0, 20.4),
}
_RING_LL128_GBYTES = {"ampere": 20.0, "hopper": 36.7, "blackwell": 40.0}  # perChMaxRingLL128Bws
_TREE_LL128_GBYTES: dict[str, _Row] = {  # perChMaxTreeLL128Bws
    "ampere": (20.0, 20.0, 20.0),
    "hopper": (36.7, 36.7, 29.0),
    "blackwell": (55.6, 31.67, 20.0),
}
_TREE_GBYTES: dict[str, _Row] = {  # perChMaxTreeBws
    "ampere": (24.0, 23.6, 17.8),
    "hopper": (38.7, 41.4, 36.0),
    "blackwell": (70.0, 42.8, 24.0),
}
_NVLS_TREE_GBYTES = {"hopper": 45.5, "blackwell": 80.0}  # perChMaxNVLSTreeBws of more than two hosts
_LL128_EFFICIENCY = 0.92  # data in what LL128 sends: 120 of 128 bytes, and a little lost
_TREE_EFFICIENCY = 0.92
_TREE_PATTERN = 0.85  # trees whose two halves meet on one GPU (NCCL_TOPO_PATTERN_TREE), usual with NVSwitch
# treeCorrectionFactor: factor of a tree's bandwidth, by protocol and by the power of two of the size from 64 bytes.
_TREE_CORRECTION = (
    (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
    (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1),
    (0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9),
)
_SIMPLE = PROTOCOLS.index("simple")

OPERATIONS = ("alltoall", "all_reduce")
"""The operations that probes start."""


def bus_factor(operation: str, gpus: int) -> float:
    """Return bus bandwidth over algorithm bandwidth (nccl-tests doc/PERFORMANCE.md)."""
    return (2 if operation == "all_reduce" else 1) * (gpus - 1) / gpus


def is_tree(operation: str, hosts: int, *, algorithm: str) -> bool:
    """Return whether a tree is used: between hosts NCCL takes one for all-reduce unless told to take rings."""
    return operation == "all_reduce" and hosts > 1 and "RING" not in algorithm.upper()


def nvlink_ratio(operation: str, generation: str, *, rings: bool) -> float:
    """Return bus bandwidth inside a host over one GPU's NVLink rate."""
    gpus = PLATFORMS[generation]
    of_all_reduce_gbps = gpus.ring_gbps if rings else gpus.all_reduce_gbps
    return (gpus.all_to_all_gbps if operation == "alltoall" else of_all_reduce_gbps) / gpus.nvlink_gbps


def rail_weight(operation: str, gpus: int, hosts: int, *, rails: int, tree: bool) -> float:
    """
    Return bus bandwidth over what one RNIC carries, when all *rails* carry the same.

    Rings cross a host's edge once over all rails together. With a tree on two hosts each byte crosses once each way
    while the bus bandwidth counts it nearly twice, so a slow rail hides. In an all-to-all a GPU sends only the part for
    other hosts over its RNIC (16 GPUs on 2 hosts: 91.8 GB/s recorded, this gives 90).
    """
    if operation == "alltoall":
        per_host = -(-gpus // hosts)  # the most, when hosts differ
        return RAIL_RATIO * (gpus - 1) / max(1, gpus - per_host) * rails / per_host
    crossing = bus_factor("all_reduce", gpus) if tree and hosts == 2 else 1.0
    return RAIL_RATIO * rails * crossing


def latency_us(operation: str, gpus: int, hosts: int, *, tree: bool) -> float:
    """Return the time of a collective of any small size, by the numbers of NCCL's Simple protocol."""
    if operation == "all_reduce":
        plateau = 1.0 if tree or hosts == 1 else _PLATEAU
        return _latency_us(gpus, hosts, "tree" if tree else "ring", _SIMPLE) * plateau
    base_us, step_us, net_us = (table["ring"][_SIMPLE] for table in (_BASE_US, _NVLINK_US, _NET_US))
    return base_us + (gpus - hosts) * step_us + (hosts - 1) * net_us


BASE_TIMEOUT_S = 4.096e-6
"""Unit of the RC ack timeout: T = 4.096 us * 2^t (InfiniBand architecture; the timeout of ``ibv_modify_qp``)."""

NCCL_TIMEOUT = 20
"""NCCL_IB_TIMEOUT when not set (nccl src/transport/net_ib/connect.cc); older versions took 18, before that 14."""

NCCL_RETRY = 7
"""NCCL_IB_RETRY_CNT when not set (same place)."""


def rc_timeout_s(t: int) -> float:
    """
    Return how long one try waits for its ack, T = 4.096 us * 2^t: t = 14 is 67 ms, 18 1.07 s, 20 4.29 s, 22 17.2 s.

    0 means for ever. The specification lets an RNIC take up to four times as long; this is the shortest.
    """
    return BASE_TIMEOUT_S * 2.0**t if t else inf


def abort_window_s(t: int, retry: int) -> float:
    """
    Return how long packets may vanish before the queue pair fails, W = T * (retry + 1): 34.4 s by NCCL's defaults.
    """
    return rc_timeout_s(t) * (retry + 1)


def stall_s(down_s: float, t: int) -> float:
    """
    Return how long a flow stands still when its packets vanish for *down_s*, if it survives.

    The time is quantised: it moves on only when a retry finds a working path, ceil(d/T)*T; 0.1 s costs 4.3 s at t = 20,
    5 s cost 8.6 s. With t = 0 there is no retry, and so no end.
    """
    return max(1, ceil(down_s / rc_timeout_s(t))) * rc_timeout_s(t) if down_s else 0.0


LEAST_TIMEOUT = 17
"""
The least timeout that a RoCE RNIC uses by itself.

At 14 with 7 retries a queue pair failed after 3.5 to 3.8 s, seven times 0.54 s (ConnectX-6, NCCL 2.32.3, a public test
of its resilience). That this is the firmware's least is inferred from it.
"""


def patience_of(env: Mapping[str, str], *, least: int = 0) -> tuple[int, int]:
    """
    Return the timeout and retries of a reliable connection: NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT, else the defaults.

    No timeout is shorter than *least*, except 0, which means for ever.
    """
    timeout = number_of(env, "NCCL_IB_TIMEOUT", NCCL_TIMEOUT, most=31)
    return max(timeout, least) if timeout else 0, number_of(env, "NCCL_IB_RETRY_CNT", NCCL_RETRY, most=7)


def number_of(env: Mapping[str, str], name: str, default: int = 0, *, most: int) -> int:
    """Return the number that a variable holds; *default* where it is not set, is no number, or is above *most*."""
    text = env.get(name, "")
    number = int(text[:9]) if text.isascii() and text.isdigit() else default
    return number if number <= most else default


ONE_OF_TWO_SHARE = 0.5
"""The fraction left of two RNICs that NCCL has merged into one, while it uses one of them."""


def fails_over(env: Mapping[str, str], device: str) -> bool:
    """
    Return whether NCCL (2.29.7 and later) goes on without this RNIC: failover is on, and it is merged with another
    RNIC.

    Of the ways to merge RNICs only NCCL_NET_FORCE_MERGE is known here: ``mlx5_0,mlx5_1;mlx5_2,mlx5_3``.
    """
    groups = [group.split(",") for group in env.get("NCCL_NET_FORCE_MERGE", "").split(";")]
    fused = any(device in group and len(group) > 1 for group in groups)
    return env.get("NCCL_IB_RESILIENCY_PORT_FAILOVER") == "1" and fused


def comes_back(env: Mapping[str, str]) -> bool:
    """Return whether NCCL uses that RNIC again once its port is up (2.30.3 and later)."""
    return env.get("NCCL_IB_RESILIENCY_PORT_RECOVERY") == "1"


@dataclass(frozen=True, slots=True)
class Gpus:
    """
    What the GPUs of a host give NCCL; rates of one GPU and direction, decimal Gb/s.

    *nvlink_gbps* is the wire rate; the others are bus bandwidths measured on one host: of an all-reduce with rings, of
    an all-reduce by default (with *nvls* where the GPUs have it), and of an all-to-all.
    """

    generation: str
    nvlink_gbps: float
    ring_gbps: float
    all_reduce_gbps: float
    all_to_all_gbps: float
    nvls: bool = False


PLATFORMS = {
    "a100": Gpus("ampere", GENERATIONS["a100"], 1856.0, 1856.0, 1856.0),
    "h100": Gpus("hopper", GENERATIONS["h100"], 2960.0, 3720.0, 2736.0, nvls=True),
    "b200": Gpus("blackwell", GENERATIONS["b200"], 5920.0, 7440.0, 5472.0, nvls=True),
    "mi300x": Gpus("hopper", GENERATIONS["mi300x"], 2496.0, 3120.0, 2496.0),
}
"""
Rates by GPU generation, with their sources.

A100: 300 GB/s of NVLink, 230 with rings (Azure NHC accepts 228), 231 in an all-to-all. H100: 450 GB/s; 465 with NVLS
(Azure NHC accepts 460), 367 with rings, 340 in an all-to-all (a recorded 4-GPU run, sizes from 8 GiB). B200: choice,
the shares of NVLink that H100 reaches. MI300X: 312 of 448 GB/s (choice: AMD's acceptance script wants 304), and enough
for the 365 that 16 ranks on two hosts showed (recorded, RCCL 2.27); how RCCL tunes itself is not modelled, Hopper's
tables stand for it (choice).
"""


@dataclass(frozen=True, slots=True)
class AllReduce:
    """The GPUs that take part, and what a host's RNICs carry together as payload on the slowest edge, Gb/s."""

    ranks: int
    hosts: int
    rate_gbps: float
    gpus: Gpus

    @property
    def column(self) -> int:
        """Return the column of NCCL's bandwidth tables: one, two, or more hosts."""
        return min(self.hosts, 3) - 1

    @property
    def network_gbps(self) -> float:
        """Return what a ring or tree gets between hosts: the RNICs' rate, and never more than NVLink brings to them."""
        return min(self.rate_gbps, self.gpus.nvlink_gbps)


def all_reduce_us(
    size_bytes: int, job: AllReduce, algorithms: Sequence[str] = ALGORITHMS, protocols: Sequence[str] = PROTOCOLS
) -> float:
    """
    Return the time that NCCL's tuner picks: the least latency + size / bandwidth over all usable algorithms and
    protocols.
    """
    return min(
        _time_us(size_bytes, job, algorithm, row)
        for algorithm in algorithms
        for row, protocol in enumerate(PROTOCOLS)
        if protocol in protocols and (protocol == "simple" or algorithm != "nvls_tree")
    )


def _time_us(size_bytes: int, job: AllReduce, algorithm: str, row: int) -> float:
    """Compute NCCL's ncclTopoGetAlgoTime; *row* is the protocol's."""
    latency_us = _latency_us(job.ranks, job.hosts, algorithm, row)
    bandwidth_gbps = _bus_gbps(job, algorithm, row)
    if algorithm == "tree":
        power = (size_bytes >> 6).bit_length() - 1
        if 0 <= power < len(_TREE_CORRECTION[0]):
            bandwidth_gbps *= _TREE_CORRECTION[row][power]
        return latency_us + size_bytes * 8e-3 / (bandwidth_gbps * 0.5)
    if (algorithm, PROTOCOLS[row]) == ("ring", "simple") and job.hosts > 1:
        latency_us *= _PLATEAU if size_bytes // (_CHANNELS * job.ranks) >= _PLATEAU_BYTES else 1.0
    return latency_us + size_bytes * 8e-3 / bandwidth_gbps * (2 * (job.ranks - 1) / job.ranks)


def _bus_gbps(job: AllReduce, algorithm: str, row: int) -> float:
    """Return the bus bandwidth of a large collective, before the latency."""
    gpus, column, generation, channels_gbps = job.gpus, job.column, job.gpus.generation, _CHANNELS * 8.0
    if algorithm == "nvls_tree":
        return min(gpus.all_reduce_gbps, job.network_gbps, channels_gbps * _NVLS_TREE_GBYTES[generation])
    ll_gbps = _LL_MAX_GBYTES[generation if job.hosts == 1 else "intel"][column] * 8.0
    plain_gbps = gpus.ring_gbps if job.hosts == 1 else job.network_gbps
    if algorithm == "ring":
        fast = min(plain_gbps * _LL128_EFFICIENCY, channels_gbps * _RING_LL128_GBYTES[generation])
        return (min(ll_gbps, plain_gbps * 0.5), fast, plain_gbps)[row]
    if job.hosts == 2:
        plain_gbps = min(2 * job.network_gbps, gpus.ring_gbps)
    tree_gbps = min(plain_gbps * _TREE_EFFICIENCY, channels_gbps * _TREE_GBYTES[generation][column])
    fast = tree_gbps * (7 / 9 if job.hosts == 1 else 120 / 128)
    fast = min(fast, channels_gbps * _TREE_LL128_GBYTES[generation][column])
    return (min(tree_gbps / 3.8, ll_gbps), fast, tree_gbps)[row] * _TREE_PATTERN


def _latency_us(ranks: int, hosts: int, algorithm: str, row: int) -> float:
    """Compute NCCL's ncclTopoTuneModel: the time of an operation of any small size."""
    levels = hosts.bit_length() - 1  # log2i
    if algorithm == "nvls_tree":
        return _NVLS_US + 2 * levels * _NVLS_TREE_NET_US
    step_us, net_us = _NVLINK_US[algorithm][row], _NET_US["tree" if ranks == hosts else algorithm][row]
    if algorithm == "tree":
        return _BASE_US["tree"][row] + 2 * ((ranks // hosts - 1) * step_us + levels * net_us)
    if hosts > 1:
        step_us = max(step_us, _NET_OVERHEAD_US * (3 if PROTOCOLS[row] == "simple" else 1))
    return _BASE_US["ring"][row] + 2 * ((ranks - hosts) * step_us + (hosts - 1) * net_us)


_NAMES = {"RING": "ring", "TREE": "tree", "NVLS": "nvls_tree", "NVLSTREE": "nvls_tree"}


def algorithms_of(operation: str, hosts: int, *, generation: str, algorithm: str) -> tuple[str, ...]:
    """
    Return the algorithms that NCCL chooses from; none for anything but an all-reduce over more than two hosts.

    One or two hosts stay with ``latency_us``, which was fitted to recorded runs of those. *algorithm* is NCCL_ALGO;
    algorithms that need switches that reduce (CollNet) are ignored.
    """
    if operation != "all_reduce" or hosts < 3:
        return ()
    asked = tuple(dict.fromkeys(_NAMES[word] for word in algorithm.upper().split(",") if word in _NAMES))
    if not PLATFORMS[generation].nvls:
        asked = tuple(name for name in asked if name != "nvls_tree")
    return asked or ALGORITHMS


def rails(site: Site, gpus: list[Gpu], env: Mapping[str, str]) -> list[tuple[Rnic, Gpu]]:
    """
    Return the RNICs of a host that NCCL uses for these GPUs, each with the GPU that it serves; absent ones are left
    out.
    """
    platform = site.layout.platform
    usable = [rnic for rnic in _allowed(platform, env) if site.trouble_of(rnic.device) != "absent"]
    used = {gpu.index: gpu for gpu in gpus}
    near: list[tuple[Rnic, Gpu]] = []
    for rnic in usable:
        served = [used[index] for index in rnic.nearest_gpus if index in used]
        if served:
            near.append((rnic, served[len(near) % len(served)]))
    return near or _by_numa(usable, gpus)


def _by_numa(rnics: list[Rnic], gpus: list[Gpu]) -> list[tuple[Rnic, Gpu]]:
    """Pair each RNIC with a GPU on its memory node, in turn; with any GPU where that node has none."""
    near = {rnic.numa: cycle([gpu for gpu in gpus if gpu.numa == rnic.numa] or gpus) for rnic in rnics}
    return [(rnic, next(near[rnic.numa])) for rnic in rnics]


def _allowed(platform: Platform, env: Mapping[str, str]) -> list[Rnic]:
    """
    Return the RNICs that NCCL_IB_HCA allows: names by prefix, exact with "=", all but these with "^" (NCCL's
    documentation).
    """
    text = env.get("NCCL_IB_HCA", "")
    if not text:
        return list(platform.rnics)
    exclude = text.startswith("^")
    exact = text.lstrip("^").startswith("=")
    entries = [entry.strip() for entry in text.lstrip("^=").split(",") if entry.strip()]
    return [
        rnic for rnic in platform.rnics if any(_matches(rnic, entry, exact=exact) for entry in entries) is not exclude
    ]


def _matches(rnic: Rnic, entry: str, *, exact: bool) -> bool:
    name, _, port = entry.partition(":")
    named = rnic.device == name if exact else rnic.device.startswith(name)
    return named and (not port or port == str(rnic.port))


FORCED = "adaptive_routing_forced_en"
"""The field of an RNIC's register ROCE_ACCL that lets the packets of queue pairs made from then on be reordered."""


def may_adapt(rack: Rack, hosts: tuple[str, ...], env: Mapping[str, str]) -> bool:
    """
    Return whether a job that starts now lets the fabric route it adaptively, if the fabric does that.

    InfiniBand: unless NCCL_IB_ADAPTIVE_ROUTING is 0; the job is then taken to use a service level without adaptive
    routing. RoCE: when every RNIC of every host of the job is set to force it.
    """
    platforms = [rack.topology.hosts[name].platform for name in hosts]
    if platforms[0].link_layer != "ethernet":
        return env.get("NCCL_IB_ADAPTIVE_ROUTING", "") != "0"
    if not rack.nvue.switches and rack.mock.routing != "ar":
        return False
    return is_set_everywhere(rack, hosts, FORCED)


def is_set_everywhere(rack: Rack, hosts: tuple[str, ...], field: str) -> bool:
    """Return whether this field of the register ROCE_ACCL is 1 at every RNIC of these hosts."""
    return all(
        rack.ports.of_adapter(name, rnic.device).registers.get(field, 0)
        for name in hosts
        for rnic in rack.topology.hosts[name].platform.rnics
    )


def least_timeout(rack: Rack, hosts: tuple[str, ...]) -> int:
    """Return the shortest timeout that the RNICs of a job use: none on InfiniBand, or where the limit is lifted."""
    ethernet = rack.topology.hosts[hosts[0]].platform.link_layer == "ethernet"
    return LEAST_TIMEOUT if ethernet and not is_set_everywhere(rack, hosts, SHORT_TIMEOUTS) else 0
