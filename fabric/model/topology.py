"""The parts of a cluster and how they hang together: hosts, RNICs, GPUs, switches, links."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

from pydantic import Field

from fabric.model import gathered
from fabric.model.fields.entry import Entry, InFiles, WrittenAs
from fabric.model.fields.scalars import OPTION_WORD, AsWritten, Choice, Flag, Whole, Word
from fabric.model.part import Part

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


ENV_NAME = Word(r"[A-Z][A-Z0-9_]{0,63}", "a variable's name of 1 to 64 capital letters, digits and '_'")
Env = dict[Annotated[str, ENV_NAME], Annotated[str, AsWritten("a value", most=4096)]]
EnvPairs = Annotated[
    tuple[tuple[str, str], ...], WrittenAs(Annotated[Env, Field(max_length=64)], lambda env: tuple(env.items()))
]
"""Variables as the program holds them, of which a file writes a mapping."""
PROGRAM_PATH = Word(
    r"(/[A-Za-z0-9._+@-]{1,255}){1,32}",
    "an absolute path such as /opt/perftest/bin/ib_write_bw (letters, digits, '.', '_', '+', '@', '-')",
)
ProgramPath = Annotated[str, PROGRAM_PATH]
OptionWords = Annotated[tuple[Annotated[str, OPTION_WORD], ...], Field(max_length=64)]
GidIndex = Annotated[int, Whole(0, 255)]


class ToolsEntry(Entry):
    """Programs that are not on the path of the account on the hosts."""

    ib_write_bw: ProgramPath | None = None
    """perftest's ib_write_bw, built with CUDA."""
    numactl: ProgramPath | None = None
    """numactl, which binds ib_write_bw to a memory node."""
    alltoall_perf: ProgramPath | None = None
    """nccl-tests' alltoall_perf."""
    all_reduce_perf: ProgramPath | None = None
    """nccl-tests' all_reduce_perf, built with MPI."""
    mpirun: ProgramPath | None = None
    """Open MPI's mpirun."""
    srun: ProgramPath | None = None
    """Slurm's srun, with launcher srun."""

    def given(self) -> tuple[tuple[str, str], ...]:
        """Each program that is given, and its path."""
        return tuple((name, path) for name, path in self if path is not None)


@dataclass(frozen=True, kw_only=True)
class ToolSettings(InFiles):
    """How the tools of a platform are called; what is None is left to the tools, or to what is set on the host."""

    gid_index: GidIndex | None = None
    """RoCE: which entry of the GID table packets carry (show_gids); else the tools choose."""
    traffic_class: GidIndex | None = None
    """RoCE: the traffic class of every probe (106 is DSCP 26); else NCCL_IB_TC of env, if any."""
    congestion_control: Annotated[str, Choice(("dcqcn", "other"))] = "dcqcn"
    """RoCE: who slows senders down: dcqcn, or other (Spectrum-X, none): DCQCN off is no fault then."""
    tools: Annotated[tuple[tuple[str, str], ...], WrittenAs(ToolsEntry, ToolsEntry.given)] = ()
    """Programs that are not on the path, as absolute paths."""
    env: EnvPairs = ()
    """Variables that every collective is given: NCCL_SOCKET_IFNAME."""
    mpirun_options: OptionWords = ()
    """Words put right after mpirun, such as --allow-run-as-root."""
    perftest_options: OptionWords = ()
    """Words that every test of perftest is given, such as -R."""
    srun_options: OptionWords = ()
    """Words put after srun's own, such as --gres=gpu:8 or --partition=burnin."""
    nccl_tests_options: OptionWords = ()
    """Options that every program of nccl-tests is given, such as -R 1."""
    cross_rail: Annotated[bool, Flag()] = False
    """RoCE: whether RNICs of one host reach each other by the leaves of other rails."""
    wrapper: OptionWords = ()
    """What every program that measures is called by: [apptainer, exec, --nv, IMAGE]."""
    nvlink_domain: Annotated[str, Choice(("host", "rack"))] = "host"
    """Which GPUs NVLink joins: those of a host, or of all hosts of one rack (GB200 NVL72)."""
    gpu_maker: Annotated[str, Choice(("nvidia", "amd"))] = "nvidia"
    """nvidia, or amd: RCCL, rocm-smi and perftest built with ROCm."""
    use_cuda: Annotated[str, Choice(("auto", "dmabuf", "peermem", "no"))] = "auto"
    """How ib_write_bw reaches GPU memory: auto, dmabuf, peermem; or no: host memory only."""


@dataclass(frozen=True)
class Platform(ToolSettings):
    """A host layout, described once and shared by every host of that make; how its tools are called belongs to it."""

    name: str
    gpus: tuple[Gpu, ...]
    rnics: tuple[Rnic, ...]
    numa_nodes: int
    pcie_switches: tuple[PcieSwitch, ...]
    link_layer: str  # "infiniband" | "ethernet"
    baseline: str  # name of the baseline file that says what is normal, e.g. "h100-ndr"

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

    def leaf(self, rail: int) -> str | None:
        """The leaf switch of a rail; None where the inventory says none."""
        return self.leaves[rail] if rail < len(self.leaves) else None

    def rnic(self, rail: int) -> Rnic:
        """Its first RNIC of a rail."""
        return self.platform.rnic_by_rail[rail]


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

    @property
    def name(self) -> str:
        """``leaf3--spine2#1``, the second of its kind; the cable of an RNIC has the RNIC's name."""
        number = f"#{self.number}" if self.number else ""
        return self.a if "/" in self.a else f"{self.a}--{self.b}{number}"


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
    *routing*: how its switches choose paths, ``ftree`` or ``ecmp``, say; None: nobody says.
    """

    hosts: Mapping[str, Host]
    switches: Mapping[str, Switch]
    uplinks: tuple[Uplinks, ...] = ()
    management: Mapping[str, Login] = field(default_factory=dict)
    routing: str | None = None

    @property
    def draws_ways(self) -> bool:
        """
        Whether nobody can plan which way a pair takes: a hash draws it (ECMP; Ethernet where nobody says otherwise).

        Also static tables that follow no order (lft_random): these say the ways once they are read, and no plan does.
        """
        return self.routing in ("ecmp", "lft_random") or (self.routing is None and self.ethernet)

    @cached_property
    def tor_groups(self) -> tuple[tuple[str, ...], ...]:
        """Hosts on the very same leaf switches, in inventory order, one tuple a group; leafless hosts are in none."""
        groups = gathered((host.leaves, host.name) for host in self.hosts.values() if host.leaves)
        return tuple(map(tuple, groups.values()))

    @cached_property
    def above(self) -> Mapping[str, Mapping[str, int]]:
        """By switch, those above it and how many cables lead to each."""
        found: dict[str, Counter[str]] = {}
        for uplinks in self.uplinks:
            for lower in uplinks.lower:
                found.setdefault(lower, Counter()).update(dict.fromkeys(uplinks.upper, uplinks.count))
        return found

    def cables_between(self, one: str, other: str) -> int:
        """How many cables join two switches, whichever is above the other."""
        return self.above.get(one, {}).get(other, 0) + self.above.get(other, {}).get(one, 0)

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
        of_switch = gathered((name, uplinks) for uplinks in self.uplinks for name in (*uplinks.lower, *uplinks.upper))
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
        above = self.uplinks or any(switch.tier != "leaf" for switch in self.switches.values())
        of_rail = gathered(each for host in self.hosts.values() for each in enumerate(host.leaves))
        return not above and all(len(set(leaves)) == 1 for leaves in of_rail.values())

    def part_of(self, host: Host, rail: int) -> int | None:
        """The part that a rail of a host is on: RNICs have a way to each other where it is the same (or unknown)."""
        leaf = host.leaf(rail)
        return None if leaf is None else self.parts[leaf]

    @cached_property
    def _on_leaf(self) -> Mapping[str, list[str]]:
        """By leaf the RNICs (``gpu003/mlx5_2``) in its ports, as the inventory lists them."""
        return gathered((link.b, link.a) for link in self.links() if "/" in link.a)

    @cached_property
    def pods(self) -> Mapping[str, Pod]:
        """The pod of each leaf that has cores above its spines."""
        found: dict[str, Pod] = {}
        places: dict[tuple[str, ...], int] = {}
        for leaf in self.parts:
            spines = tuple(spine for spine in self.above.get(leaf, ()) if spine in self.above)
            if spines:
                place = places[spines] = places.get(spines, -1) + 1
                found[leaf] = Pod(spines[0], place, len(spines), sum(self.above[spines[0]].values()))
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
        row, spine = divmod(self._on_leaf[receiver].index(rnic), there.spines)
        of_leaf = -(-(len(self._on_leaf[receiver]) - spine) // there.spines)  # its ports that come to this spine
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
        return [one for one in self.links() if one.a in reached or Part.of(one.a).host in names]

    def links(self) -> Iterator[Link]:
        """Every cable: host to leaf first, then switch to switch."""
        for host in self.hosts.values():
            for rnic in host.platform.rnics:
                if leaf := host.leaf(rnic.rail):
                    yield Link(f"{host.name}/{rnic.device}", leaf, 0, rnic.line_rate_gbps)
        for uplinks in self.uplinks:
            for lower in uplinks.lower:
                for upper in uplinks.upper:
                    for number in range(uplinks.count):
                        yield Link(lower, upper, number, uplinks.line_rate_gbps)
