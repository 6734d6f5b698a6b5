"""How long a collective takes, by the numbers NCCL itself chooses its algorithm with."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from fabric.sim.nccl_constants import (
    BASE_US,
    GENERATIONS,
    LL128_EFFICIENCY,
    LL_MAX_GBYTES,
    NET_OVERHEAD_US,
    NET_US,
    NVLINK_US,
    NVLS_TREE_GBYTES,
    NVLS_TREE_NET_US,
    NVLS_US,
    PLATEAU,
    PLATEAU_BYTES,
    PROTOCOLS,
    RING_LL128_GBYTES,
    TREE_CORRECTION,
    TREE_EFFICIENCY,
    TREE_GBYTES,
    TREE_LL128_GBYTES,
    TREE_PATTERN,
)

ALGORITHMS = ("ring", "tree", "nvls")
"""What is tried when nothing is asked for; "nvls_tree" on request: measured busbw at scale is nearer to trees."""

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv")
"""What time_s knows."""

SWEEP_BYTES = tuple(8 << step for step in range(32))
"""8 B to 16 GiB, doubling: the usual sweep of nccl-tests."""

_FULL = ("broadcast", "reduce", "sendrecv", "hypercube")
_SHARED = ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter")


@dataclass(frozen=True, slots=True)
class Platform:
    """
    What a host gives NCCL; rates of one GPU and direction, decimal Gb/s.

    *nvlink_gbps* is the wire rate; the next three are the bus bandwidths measured on one host with rings, NVLS
    all-reduce (0: no NVLS) and alltoall.
    """

    generation: str
    nvlink_gbps: float
    ring_gbps: float
    nvls_gbps: float
    alltoall_gbps: float
    nics_per_host: int = 8
    channels: int = 16
    cpu: str = "intel"

    def __post_init__(self) -> None:
        if self.generation not in GENERATIONS:
            raise ValueError(f"there is no GPU generation {self.generation!r}; there are {', '.join(GENERATIONS)}")
        if self.cpu not in NET_OVERHEAD_US:
            raise ValueError(f"there is no CPU {self.cpu!r}; there are {', '.join(NET_OVERHEAD_US)}")


H100 = Platform("hopper", 3600.0, 2960.0, 3720.0, 2736.0)
"""450 GB/s of NVLink; all-reduce 465 with NVLS (Azure NHC accepts 460), 367 with rings; alltoall 342."""

A100 = Platform("ampere", 2400.0, 1856.0, 0.0, 1856.0)
"""300 GB/s of NVLink; 230 with rings (Azure NHC accepts 228), 8 GiB alltoall 231; no NVLS."""


@dataclass(frozen=True, slots=True)
class Job:
    """The GPUs that take part, and what each RNIC carries as payload on its slowest edge, Gb/s."""

    ranks: int
    hosts: int
    rate_gbps: float
    platform: Platform = H100

    def __post_init__(self) -> None:
        if self.ranks < 2 or not 1 <= self.hosts <= self.ranks:
            raise ValueError(f"{self.ranks} ranks on {self.hosts} hosts are no collective")
        if not 0.0 < self.rate_gbps < inf:
            raise ValueError(f"rate_gbps {self.rate_gbps!r} is not above 0")

    @property
    def per_host(self) -> int:
        """GPUs on one host; the most, when hosts differ."""
        return -(-self.ranks // self.hosts)

    @property
    def column(self) -> int:
        """Which column of NCCL's bandwidth tables: one, two, or more hosts."""
        return min(self.hosts, 3) - 1

    @property
    def rnics_gbps(self) -> float:
        """All of a host's RNICs that its GPUs use, one each."""
        return min(self.platform.nics_per_host, self.per_host) * self.rate_gbps

    @property
    def network_gbps(self) -> float:
        """What a ring or tree gets between hosts: the RNICs, and never more than NVLink brings to them."""
        return min(self.rnics_gbps, self.platform.nvlink_gbps)


@dataclass(frozen=True, slots=True)
class Choice:
    """The fastest way to do one operation at one size."""

    algorithm: str
    protocol: str
    time_s: float


def bus_factor(op: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth (nccl-tests doc/PERFORMANCE.md)."""
    if op == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if op in _SHARED:
        return (ranks - 1) / ranks
    if op in _FULL:
        return 1.0
    raise ValueError(f"there is no operation {op!r}")


def bus_bandwidth_gbps(op: str, size_bytes: int, *, ranks: int, time_s: float) -> float:
    """Bus bandwidth, Gb/s decimal (nccl-tests prints GB/s: divide by 8)."""
    return size_bytes * 8e-9 / time_s * bus_factor(op, ranks)


def time_s(
    op: str,
    size_bytes: int,
    *,
    ranks: int,
    hosts: int,
    rate_gbps: float,
    platform: Platform = H100,
    algorithms: tuple[str, ...] = ALGORITHMS,
    protocols: tuple[str, ...] = PROTOCOLS,
) -> float:
    """How long the operation takes with the fastest of *algorithms* and *protocols*; size as nccl-tests counts it."""
    job = Job(ranks, hosts, rate_gbps, platform)
    return choice(op, size_bytes, job=job, algorithms=algorithms, protocols=protocols).time_s


def choice(
    op: str,
    size_bytes: int,
    *,
    job: Job,
    algorithms: tuple[str, ...] = ALGORITHMS,
    protocols: tuple[str, ...] = PROTOCOLS,
) -> Choice:
    """What NCCL's tuner would take: the least of latency + size / bandwidth over all that can do the operation."""
    if op not in OPERATIONS:
        raise ValueError(f"there is no operation {op!r}; there are {', '.join(OPERATIONS)}")
    if size_bytes < 1:
        raise ValueError(f"size_bytes {size_bytes} is not above 0")
    if op in ("alltoall", "sendrecv"):
        return Choice("p2p", "simple", _point_to_point_us(op, size_bytes, job) * 1e-6)
    found = [
        Choice(algorithm, protocol, _time_us(op, size_bytes, job, way=(algorithm, protocol)) * 1e-6)
        for algorithm in algorithms
        for protocol in protocols
        if _can(op, job, algorithm=algorithm, protocol=protocol)
    ]
    if not found:
        raise ValueError(
            f"none of {', '.join(algorithms)} with {', '.join(protocols)} can do {op} on {job.hosts} hosts"
        )
    return min(found, key=lambda one: one.time_s)


def _can(op: str, job: Job, *, algorithm: str, protocol: str) -> bool:
    if algorithm not in (*ALGORITHMS, "nvls_tree") or protocol not in PROTOCOLS:
        raise ValueError(f"there is no {algorithm!r} with {protocol!r}")
    if algorithm == "ring":
        return True
    if op != "all_reduce" or algorithm == "tree":
        return op == "all_reduce"
    return protocol == "simple" and job.platform.nvls_gbps > 0 and (algorithm == "nvls") == (job.hosts == 1)


def _time_us(op: str, size_bytes: int, job: Job, *, way: tuple[str, str]) -> float:
    """ncclTopoGetAlgoTime."""
    algorithm, protocol = way
    latency_us = _latency_us(op, job, algorithm=algorithm, row=PROTOCOLS.index(protocol))
    bandwidth_gbps = _bus_gbps(job, algorithm=algorithm, row=PROTOCOLS.index(protocol))
    if algorithm == "tree":
        power = (size_bytes >> 6).bit_length() - 1
        if 0 <= power < len(TREE_CORRECTION[0]):
            bandwidth_gbps *= TREE_CORRECTION[PROTOCOLS.index(protocol)][power]
        return latency_us + size_bytes * 8e-3 / (bandwidth_gbps * 0.5)
    if (algorithm, protocol, op) == ("ring", "simple", "all_reduce") and job.hosts > 1:
        plateau = size_bytes // (job.platform.channels * job.ranks) >= PLATEAU_BYTES
        latency_us *= PLATEAU if plateau else 1.0
    return latency_us + size_bytes * 8e-3 / bandwidth_gbps * bus_factor(op, job.ranks)


def _bus_gbps(job: Job, *, algorithm: str, row: int) -> float:
    """Bus bandwidth of a large collective, before the latency; *row* is the protocol's."""
    platform, column = job.platform, job.column
    channels_gbps, generation = platform.channels * 8.0, platform.generation
    if algorithm == "nvls":
        return platform.nvls_gbps
    if algorithm == "nvls_tree":  # on two hosts each byte crosses once each way, which bus bandwidth counts twice
        crossing_gbps = job.network_gbps * (2 if job.hosts == 2 else 1)
        return min(platform.nvls_gbps, crossing_gbps, channels_gbps * NVLS_TREE_GBYTES[generation][column])
    ll_gbps = LL_MAX_GBYTES[generation if job.hosts == 1 else platform.cpu][column] * 8.0
    plain_gbps = platform.ring_gbps if job.hosts == 1 else job.network_gbps
    if algorithm == "ring":
        fast = min(plain_gbps * LL128_EFFICIENCY, channels_gbps * RING_LL128_GBYTES[generation][column])
        return (min(ll_gbps, plain_gbps * 0.5), fast, plain_gbps)[row]
    if job.hosts == 2:
        plain_gbps = min(2 * job.network_gbps, platform.ring_gbps)
    tree_gbps = min(plain_gbps * TREE_EFFICIENCY, channels_gbps * TREE_GBYTES[generation][column])
    fast = tree_gbps * (7 / 9 if job.hosts == 1 else 120 / 128)
    fast = min(fast, channels_gbps * TREE_LL128_GBYTES[generation][column])
    return (min(tree_gbps / 3.8, ll_gbps), fast, tree_gbps)[row] * TREE_PATTERN


def _latency_us(op: str, job: Job, *, algorithm: str, row: int) -> float:
    """ncclTopoTuneModel: what the operation takes however small it is; *row* is the protocol's."""
    levels = job.hosts.bit_length() - 1  # log2i
    if algorithm == "nvls":
        return NVLS_US
    if algorithm == "nvls_tree":
        return NVLS_US + 2 * levels * NVLS_TREE_NET_US
    step_us, net_us = NVLINK_US[algorithm][row], NET_US["tree" if job.ranks == job.hosts else algorithm][row]
    if algorithm == "tree":
        return BASE_US["tree"][row] + 2 * ((job.ranks // job.hosts - 1) * step_us + levels * net_us)
    simple = PROTOCOLS[row] == "simple"
    if op in ("broadcast", "reduce"):
        table = NVLINK_US if job.hosts == 1 else NET_US
        return BASE_US["ring"][row] + job.ranks * table["tree" if simple else "ring"][row]
    if job.hosts > 1:
        step_us = max(step_us, NET_OVERHEAD_US[job.platform.cpu] * (3 if simple else 1))
    rounds = 2 if op == "all_reduce" else 1
    return BASE_US["ring"][row] + rounds * ((job.ranks - job.hosts) * step_us + (job.hosts - 1) * net_us)


def _point_to_point_us(op: str, size_bytes: int, job: Job) -> float:
    """
    Sends and receives: the tuner does not model them; the slowest link's bytes over its rate do.

    In an alltoall a GPU sends 1/n of its buffer to each other GPU, over NVLink or over its RNIC, at the same time; it
    posts one network operation for every peer on other hosts. In sendrecv one GPU of each host crosses the edge.
    """
    row = PROTOCOLS.index("simple")
    step_us = (NVLINK_US if job.hosts == 1 else NET_US)["ring"][row]
    base_us = BASE_US["ring"][row] + step_us
    if op == "sendrecv":
        return base_us + size_bytes * 8e-3 / (job.platform.ring_gbps if job.hosts == 1 else job.rate_gbps)
    outside, inside = job.ranks - job.per_host, job.per_host - 1
    nvlink_us = size_bytes * 8e-3 * inside / job.ranks / job.platform.alltoall_gbps
    if outside == 0:
        return base_us + nvlink_us
    network_us = size_bytes * 8e-3 * outside / job.ranks / (job.rnics_gbps / job.per_host)
    posts_us = outside * NET_OVERHEAD_US[job.platform.cpu]
    return base_us + posts_us + max(nvlink_us, network_us)
