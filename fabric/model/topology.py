"""The parts of a cluster and how they hang together: hosts, RNICs, GPUs, switches, links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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


@dataclass(frozen=True)
class Platform:
    """
    A host layout, described once and shared by every host of that make.

    How its tools are called belongs to it: *gid_index* picks the GID of its RNICs, *tools* holds programs that are not
    on the path, *env* what every collective is given, *mpirun_options* what follows ``mpirun``.
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
