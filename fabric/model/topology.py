"""The parts of a cluster and how they hang together: hosts, RNICs, GPUs, switches, links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

Endpoint = str
"""Where bytes start or end inside a host: ``numa0``, ``gpu3``."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of a host; *pcie_switch* is None when it hangs directly off the CPU."""

    index: int
    numa: int
    pcie_switch: str | None

    @property
    def name(self) -> Endpoint:
        """How it is written everywhere: ``gpu3``."""
        return f"gpu{self.index}"


@dataclass(frozen=True, slots=True)
class Rnic:
    """One RDMA port of a host; *line_rate_gbps* is what the link signals, decimal Gb/s."""

    device: str
    port: int
    rail: int
    numa: int
    pcie_switch: str | None
    line_rate_gbps: float
    nearest_gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PcieSwitch:
    """A PCIe switch inside a host, on one NUMA node."""

    name: str
    numa: int


GPU_MAKERS = ("nvidia", "amd")
USE_CUDA = ("auto", "dmabuf", "peermem", "no")
"""How ib_write_bw reaches GPU memory: by DMA-BUF, by the driver's peer memory (as does auto), or not at all."""


@dataclass(frozen=True)
class Platform:
    """
    A host layout, described once and shared by every host of that make.

    How its tools are called belongs to it: *gid_index* picks the GID of its RNICs, *traffic_class* the queue that
    switches put RoCE packets into, *tools* holds programs that are not on the path, *env* what every collective is
    given, *mpirun_options* what follows ``mpirun``, *srun_options* what follows srun's own options,
    *nccl_tests_options* those of nccl-tests, *perftest_options* those of perftest. *wrapper* is put before every
    program that measures. *use_cuda* is how perftest reaches GPU memory, one of USE_CUDA;
    *gpu_maker* one of GPU_MAKERS. *nvlink_domain*: which GPUs NVLink joins, those of a ``host``, or of all hosts of one
    ``rack`` (GB200 NVL72).
    """

    name: str
    gpus: tuple[Gpu, ...]
    rnics: tuple[Rnic, ...]
    numa_nodes: int
    pcie_switches: tuple[PcieSwitch, ...]
    link_layer: str  # "infiniband" | "ethernet"
    baseline: str  # name of the baseline file that says what is normal, e.g. "h100-ndr"
    gid_index: int | None = None  # none: the tools choose
    tools: tuple[tuple[str, str], ...] = ()  # program and its absolute path
    env: tuple[tuple[str, str], ...] = ()
    mpirun_options: tuple[str, ...] = ()
    traffic_class: int | None = None  # none: what is set on the host
    perftest_options: tuple[str, ...] = ()
    cross_rail: bool = False  # Ethernet: RNICs of one host under different leaves reach each other
    srun_options: tuple[str, ...] = ()
    nccl_tests_options: tuple[str, ...] = ()
    wrapper: tuple[str, ...] = ()
    use_cuda: str = "auto"
    gpu_maker: str = "nvidia"
    nvlink_domain: str = "host"

    @property
    def amd(self) -> bool:
        """Its GPUs are AMD's: perftest is built with ROCm, collectives are RCCL's, rocm-smi lists the GPUs."""
        return self.gpu_maker == "amd"

    @cached_property
    def reached(self) -> tuple[Endpoint, ...]:
        """The endpoints that perftest can put its buffers on."""
        return self.endpoints[: self.numa_nodes] if self.use_cuda == "no" else self.endpoints

    @cached_property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Every memory node, then every GPU."""
        return tuple(f"numa{n}" for n in range(self.numa_nodes)) + tuple(gpu.name for gpu in self.gpus)

    @cached_property
    def gpu_by_name(self) -> Mapping[str, Gpu]:
        """GPUs by ``gpuN``."""
        return {gpu.name: gpu for gpu in self.gpus}

    @cached_property
    def rnic_by_device(self) -> Mapping[str, Rnic]:
        """RNICs by ``mlx5_N``."""
        return {rnic.device: rnic for rnic in self.rnics}

    @cached_property
    def rnic_by_rail(self) -> Mapping[int, Rnic]:
        """The first RNIC of each rail."""
        return {rnic.rail: rnic for rnic in reversed(self.rnics)}

    def program(self, name: str) -> str:
        """The word by which a program is called on these hosts: its path where one is given, else its name."""
        return next((path for tool, path in self.tools if tool == name), name)

    def link_class(self, rnic: Rnic, endpoint: Endpoint) -> str:
        """
        PCIe distance between an RNIC and an endpoint, in the words of ``nvidia-smi topo -m``.

        ``pix`` same PCIe switch, ``node`` same NUMA node, ``sys`` across sockets; for memory
        ``mem_local`` and ``mem_remote``.
        """
        gpu = self.gpu_by_name.get(endpoint)
        if gpu is None:
            return "mem_local" if endpoint == f"numa{rnic.numa}" else "mem_remote"
        if rnic.pcie_switch is not None and gpu.pcie_switch == rnic.pcie_switch:
            return "pix"
        return "node" if gpu.numa == rnic.numa else "sys"


@dataclass(frozen=True, slots=True)
class Host:
    """One machine under test; *leaves* holds the leaf switch of each rail, in rail order."""

    name: str
    platform: Platform
    address: str
    rack: str | None
    leaves: tuple[str, ...]


NVLINK = "nvlink"
"""The link class of a collective over hosts that NVLink joins: what is normal for the network is not for it."""


def joined_by_nvlink(hosts: Sequence[Host]) -> bool:
    """Whether all GPUs of several hosts are in one NVLink domain, so that their bytes need no network."""
    racks = {host.rack for host in hosts if host.platform.nvlink_domain == "rack"}
    return len(racks) == 1 and None not in racks and all(host.platform.nvlink_domain == "rack" for host in hosts)


@dataclass(frozen=True, slots=True)
class Uplinks:
    """Each switch of *lower* joins each switch of *upper* with *count* parallel links."""

    lower: tuple[str, ...]
    upper: tuple[str, ...]
    count: int
    line_rate_gbps: float


@dataclass(frozen=True, slots=True)
class Login:
    """
    How a switch, or a machine for management, is reached; *user* and *port* None: as hosts are.

    *management* is what its system is configured with (``nvue``); None: it is not configured by us.
    """

    address: str
    management: str | None = None
    user: str | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch; *tier* is ``leaf``, ``spine`` or ``core``; it is never a host under test. *login* None: unreached."""

    name: str
    tier: str
    login: Login | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A cable between two ports; its two directions can fail apart."""

    a: str
    b: str
    number: int  # among parallel links of the same two ends
    line_rate_gbps: float


@dataclass(frozen=True, slots=True)
class Pod:
    """Where a leaf is below cores: its pod's *name* (its first spine), its *place* in it, cables up of each spine."""

    name: str
    place: int
    spines: int
    cores: int


@dataclass(frozen=True)
class Topology:
    """
    Everything that is there; answers who shares this ToR and which links there are.

    *management* are machines that changes may run on (a subnet manager's, say) and that are never under test.
    """

    hosts: Mapping[str, Host]
    switches: Mapping[str, Switch]
    uplinks: tuple[Uplinks, ...] = ()
    management: Mapping[str, Login] = field(default_factory=dict)

    @cached_property
    def tor_groups(self) -> tuple[tuple[str, ...], ...]:
        """Hosts on the very same leaf switches, in inventory order, one tuple a group; leafless hosts are in none."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for host in self.hosts.values():
            if host.leaves:
                groups.setdefault(host.leaves, []).append(host.name)
        return tuple(tuple(group) for group in groups.values())

    @cached_property
    def above(self) -> Mapping[str, Mapping[str, int]]:
        """By switch, those above it and how many cables lead to each."""
        found: dict[str, dict[str, int]] = {}
        for uplinks in self.uplinks:
            for lower in uplinks.lower:
                found.setdefault(lower, {}).update(dict.fromkeys(uplinks.upper, uplinks.count))
        return found

    @cached_property
    def parts(self) -> Mapping[str, int]:
        """
        A number for each leaf: switches join those with the same one.

        Where no uplinks are given at all, leaves are joined by what is not described, or by nothing (``apart``).
        """
        return {leaf: self.switch_parts[leaf] for host in self.hosts.values() for leaf in host.leaves}

    @cached_property
    def switch_parts(self) -> Mapping[str, int]:
        """The same for every switch that a host's leaves reach."""
        leaves = list(dict.fromkeys(leaf for host in self.hosts.values() for leaf in host.leaves))
        if not self.uplinks:
            return {leaf: number if self.apart else 0 for number, leaf in enumerate(leaves)}
        found: dict[str, int] = {}
        of_switch: dict[str, list[Uplinks]] = {}
        for uplinks in self.uplinks:
            for name in (*uplinks.lower, *uplinks.upper):
                of_switch.setdefault(name, []).append(uplinks)
        for number, leaf in enumerate(leaves):
            left = [leaf]
            while left:
                if (name := left.pop()) not in found:
                    found[name] = number
                    left += (end for uplinks in of_switch.pop(name, ()) for end in (*uplinks.lower, *uplinks.upper))
        return found

    @cached_property
    def ethernet_switches(self) -> frozenset[str]:
        """The switches that RNICs with Ethernet ports reach."""
        hosts = [host for host in self.hosts.values() if host.platform.link_layer == "ethernet"]
        parts = {self.parts[leaf] for host in hosts for leaf in host.leaves}
        return frozenset(name for name, part in self.switch_parts.items() if part in parts)

    @cached_property
    def apart(self) -> bool:
        """Whether nothing is above the leaves: no spines and no uplinks are given, all hosts are on one leaf a rail."""
        of_rail: dict[int, set[str]] = {}
        for host in self.hosts.values():
            for rail, leaf in enumerate(host.leaves):
                of_rail.setdefault(rail, set()).add(leaf)
        above = self.uplinks or any(switch.tier != "leaf" for switch in self.switches.values())
        return not above and all(len(leaves) == 1 for leaves in of_rail.values())

    def part_of(self, host: Host, rail: int) -> int | None:
        """The part that a rail of a host is on: RNICs have a way to each other where it is the same (or unknown)."""
        return self.parts[host.leaves[rail]] if rail < len(host.leaves) else None

    @cached_property
    def ports(self) -> Mapping[tuple[str, str], int]:
        """By leaf and RNIC (``gpu003/mlx5_2``) the port that it is in, counted as the inventory lists them, from 0."""
        found: dict[tuple[str, str], int] = {}
        taken: dict[str, int] = {}
        for link in self.links():
            if "/" in link.a:
                number = taken[link.b] = taken.get(link.b, -1) + 1
                found[link.b, link.a] = number
        return found

    @cached_property
    def _on_leaf(self) -> Mapping[str, int]:
        return Counter(leaf for leaf, _ in self.ports)

    @cached_property
    def pods(self) -> Mapping[str, Pod]:
        """The pod of each leaf that has cores above its spines."""
        cables: dict[str, int] = {}
        above: dict[str, dict[str, None]] = {}
        for uplinks in self.uplinks:
            for lower in uplinks.lower:
                cables[lower] = cables.get(lower, 0) + uplinks.count * len(uplinks.upper)
                above.setdefault(lower, {}).update(dict.fromkeys(uplinks.upper))
        found: dict[str, Pod] = {}
        places: dict[tuple[str, ...], int] = {}
        for leaf in self.parts:
            spines = tuple(spine for spine in above.get(leaf, ()) if cables.get(spine))
            if spines:
                place = places[spines] = places.get(spines, -1) + 1
                found[leaf] = Pod(spines[0], place, len(spines), cables[spines[0]])
        return found

    def core_cables(self, sender: str, receiver: str, rnic: str) -> tuple[str, ...]:
        """
        Up and down, which cables to the cores a static route takes from one leaf to an *rnic* on another.

        As OpenSM's ftree deals them out: RNICs of a leaf in turn to the spines, what a spine gets in turn to its cores
        (``fabric.sim.net.route``). Empty where the leaves are of one pod.
        """
        here, there = self.pods.get(sender), self.pods.get(receiver)
        if here is None or there is None or here.name == there.name:
            return ()
        row, spine = divmod(self.ports[receiver, rnic], there.spines)
        of_leaf = -(-(self._on_leaf[receiver] - spine) // there.spines)  # its ports that come to this spine
        core = (there.place * of_leaf + row) % there.cores
        return f"{here.name}:up:{spine}.{core}", f"{there.name}:down:{spine}.{core}"

    @cached_property
    def logins(self) -> Mapping[str, Login]:
        """Whatever is reached and is no host under test: switches in inventory order, then machines for management."""
        switches = {switch.name: switch.login for switch in self.switches.values() if switch.login is not None}
        return {**switches, **self.management}

    @cached_property
    def ethernet(self) -> bool:
        """Whether every host is on Ethernet (RoCE), so that the switches decide how to route, each for itself."""
        return bool(self.hosts) and all(host.platform.link_layer == "ethernet" for host in self.hosts.values())

    @cached_property
    def link_count(self) -> int:
        """How many cables there are."""
        return sum(1 for _ in self.links())

    def links_between(self, hosts: Iterable[str]) -> list[Link]:
        """The cables that traffic between these hosts may cross: their own, and all that lead up from their leaves."""
        names = set(hosts)
        reached = {leaf for name in names for leaf in self.hosts[name].leaves}
        for uplinks in self.uplinks:  # lower tiers first
            if reached.intersection(uplinks.lower):
                reached.update(uplinks.upper)
        return [one for one in self.links() if one.a in reached or one.a.partition("/")[0] in names]

    def links(self) -> Iterator[Link]:
        """Every cable: host to leaf first, then switch to switch."""
        for host in self.hosts.values():
            for rnic in host.platform.rnics:
                if rnic.rail < len(host.leaves):
                    yield Link(f"{host.name}/{rnic.device}", host.leaves[rnic.rail], 0, rnic.line_rate_gbps)
        for uplinks in self.uplinks:
            for lower in uplinks.lower:
                for upper in uplinks.upper:
                    for number in range(uplinks.count):
                        yield Link(lower, upper, number, uplinks.line_rate_gbps)
