"""The parts of a cluster and how they are connected: hosts, RNICs, GPUs, switches, links."""

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
    """One GPU of a host; *pcie_switch* is None if it is connected directly to the CPU."""

    index: int
    numa: int
    pcie_switch: str | None

    @property
    def name(self) -> Endpoint:
        """Return its name: ``gpu3``."""
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
"""Variables as the program holds them; a file writes a mapping."""
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
        """Return each given program with its path."""
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
    """A host layout, described once and shared by all hosts of that kind; how its tools are called belongs to it."""

    name: str
    gpus: tuple[Gpu, ...]
    rnics: tuple[Rnic, ...]
    numa_nodes: int
    pcie_switches: tuple[PcieSwitch, ...]
    link_layer: str  # "infiniband" | "ethernet"
    baseline: str  # name of the baseline file that says what is normal, e.g. "h100-ndr"

    @property
    def amd(self) -> bool:
        """
        Return whether its GPUs are AMD's.

        Then perftest is built with ROCm, collectives are RCCL's, and rocm-smi lists the GPUs.
        """
        return self.gpu_maker == "amd"

    @cached_property
    def reached(self) -> tuple[Endpoint, ...]:
        """Return the endpoints that perftest can put its buffers on."""
        return self.endpoints[: self.numa_nodes] if self.use_cuda == "no" else self.endpoints

    @cached_property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return every memory node, then every GPU."""
        return tuple(f"numa{n}" for n in range(self.numa_nodes)) + tuple(gpu.name for gpu in self.gpus)

    @cached_property
    def gpu_by_name(self) -> Mapping[str, Gpu]:
        """Return the GPUs by ``gpuN``."""
        return {gpu.name: gpu for gpu in self.gpus}

    @cached_property
    def rnic_by_device(self) -> Mapping[str, Rnic]:
        """Return the RNICs by ``mlx5_N``."""
        return {rnic.device: rnic for rnic in self.rnics}

    @cached_property
    def rnic_by_rail(self) -> Mapping[int, Rnic]:
        """Return the first RNIC of each rail."""
        return {rnic.rail: rnic for rnic in reversed(self.rnics)}

    def program(self, name: str) -> str:
        """Return the word that calls a program on these hosts: its path if given, else its name."""
        return next((path for tool, path in self.tools if tool == name), name)

    def link_class(self, rnic: Rnic, endpoint: Endpoint) -> str:
        """
        Return the PCIe distance between an RNIC and an endpoint, in the words of ``nvidia-smi topo -m``.

        ``pix`` same PCIe switch, ``node`` same NUMA node, ``sys`` across sockets; for memory ``mem_local`` and
        ``mem_remote``.
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
        """Return the leaf switch of a rail; None if the inventory does not give it."""
        return self.leaves[rail] if rail < len(self.leaves) else None

    def rnic(self, rail: int) -> Rnic:
        """Return its first RNIC of a rail."""
        return self.platform.rnic_by_rail[rail]


NVLINK = "nvlink"
"""The link class of a collective over hosts that NVLink joins: what is normal for the network does not apply."""


def joined_by_nvlink(hosts: Sequence[Host]) -> bool:
    """Return whether all GPUs of several hosts are in one NVLink domain, so that their bytes need no network."""
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
    How to reach a switch, or a machine for management; *user* and *port* None: as for hosts.

    *management* is the system that configures it (``nvue``); None: we do not configure it.
    """

    address: str
    management: str | None = None
    user: str | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Switch:
    """
    One switch, never a host under test; *tier* is ``leaf``, ``spine`` or ``core``. *login* None: it cannot be reached.
    """

    name: str
    tier: str
    login: Login | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A cable between two ports; each of its two directions can fail alone."""

    a: str
    b: str
    number: int  # among parallel links of the same two ends
    line_rate_gbps: float

    @property
    def name(self) -> str:
        """Return ``leaf3--spine2#1``, the second of its kind; the cable of an RNIC has the RNIC's name."""
        number = f"#{self.number}" if self.number else ""
        return self.a if "/" in self.a else f"{self.a}--{self.b}{number}"


@dataclass(frozen=True, slots=True)
class Pod:
    """
    The place of a leaf below cores: its pod's *name* (its first spine), its *place* in it, cables up of each spine.
    """

    name: str
    place: int
    spines: int
    cores: int


@dataclass(frozen=True)
class Topology:
    """
    All hosts and switches of the inventory; it derives ToR groups, links and routes.

    *management* are machines that changes may run on (a subnet manager's, say) and that are never under test.
    *routing*: how its switches choose paths, such as ``ftree`` or ``ecmp``; None: not known.
    """

    hosts: Mapping[str, Host]
    switches: Mapping[str, Switch]
    uplinks: tuple[Uplinks, ...] = ()
    management: Mapping[str, Login] = field(default_factory=dict)
    routing: str | None = None

    @property
    def paths_are_random(self) -> bool:
        """
        Return whether the path of a pair cannot be planned, because a hash draws it.

        That is ECMP, and Ethernet unless stated otherwise. It is also true for static tables without an order
        (lft_random): they tell the paths once they are read, but no plan does.
        """
        return self.routing in ("ecmp", "lft_random") or (self.routing is None and self.ethernet)

    @cached_property
    def tor_groups(self) -> tuple[tuple[str, ...], ...]:
        """
        Return groups of hosts on the very same leaf switches, in inventory order; hosts without leaves are in none.
        """
        groups = gathered((host.leaves, host.name) for host in self.hosts.values() if host.leaves)
        return tuple(map(tuple, groups.values()))

    @cached_property
    def above(self) -> Mapping[str, Mapping[str, int]]:
        """Return for each switch those above it, and how many cables lead to each."""
        found: dict[str, Counter[str]] = {}
        for uplinks in self.uplinks:
            for lower in uplinks.lower:
                found.setdefault(lower, Counter()).update(dict.fromkeys(uplinks.upper, uplinks.count))
        return found

    def cables_between(self, one: str, other: str) -> int:
        """Return how many cables join two switches, whichever is above the other."""
        return self.above.get(one, {}).get(other, 0) + self.above.get(other, {}).get(one, 0)

    @cached_property
    def parts(self) -> Mapping[str, int]:
        """
        Return a number for each leaf; leaves that switches join have the same number.

        Without any uplinks in the inventory, leaves are joined by something not described, or by nothing (``apart``).
        """
        return {leaf: self.switch_parts[leaf] for host in self.hosts.values() for leaf in host.leaves}

    @cached_property
    def switch_parts(self) -> Mapping[str, int]:
        """Return the same number for every switch that a host's leaves reach."""
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
        """Return the switches that RNICs with Ethernet ports reach."""
        hosts = [host for host in self.hosts.values() if host.platform.link_layer == "ethernet"]
        parts = {self.parts[leaf] for host in hosts for leaf in host.leaves}
        return frozenset(name for name, part in self.switch_parts.items() if part in parts)

    @cached_property
    def apart(self) -> bool:
        """Return whether nothing is above the leaves: no spines, no uplinks, and all hosts on one leaf per rail."""
        above = self.uplinks or any(switch.tier != "leaf" for switch in self.switches.values())
        of_rail = gathered(each for host in self.hosts.values() for each in enumerate(host.leaves))
        return not above and all(len(set(leaves)) == 1 for leaves in of_rail.values())

    def part_of(self, host: Host, rail: int) -> int | None:
        """Return the part that a host's rail is on; RNICs can reach each other if it is the same (or unknown)."""
        leaf = host.leaf(rail)
        return None if leaf is None else self.parts[leaf]

    @cached_property
    def _on_leaf(self) -> Mapping[str, list[str]]:
        """Return for each leaf the RNICs (``gpu003/mlx5_2``) in its ports, as the inventory lists them."""
        return gathered((link.b, link.a) for link in self.links() if "/" in link.a)

    @cached_property
    def pods(self) -> Mapping[str, Pod]:
        """Return the pod of each leaf that has cores above its spines."""
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
        Return the cables to the cores, up and down, that a static route takes from one leaf to an *rnic* on another.

        As OpenSM's ftree assigns them: RNICs of a leaf in turn to the spines, those of a spine in turn to its cores
        (``fabric.sim.net.route``). Empty if both leaves are in one pod.
        """
        here, there = self.pods.get(sender), self.pods.get(receiver)
        if here is None or there is None or here.name == there.name:
            return ()
        row, spine = divmod(self._on_leaf[receiver].index(rnic), there.spines)
        of_leaf = -(-(len(self._on_leaf[receiver]) - spine) // there.spines)  # the leaf's ports assigned to this spine
        core = (there.place * of_leaf + row) % there.cores
        return f"{here.name}:up:{spine}.{core}", f"{there.name}:down:{spine}.{core}"

    @cached_property
    def logins(self) -> Mapping[str, Login]:
        """
        Return all logins that are not hosts under test: switches in inventory order, then machines for management.
        """
        switches = {switch.name: switch.login for switch in self.switches.values() if switch.login is not None}
        return {**switches, **self.management}

    @cached_property
    def ethernet(self) -> bool:
        """Return whether every host is on Ethernet (RoCE), so that each switch decides on its own how to route."""
        return bool(self.hosts) and all(host.platform.link_layer == "ethernet" for host in self.hosts.values())

    @cached_property
    def link_count(self) -> int:
        """Return the number of cables."""
        return sum(1 for _ in self.links())

    def links_between(self, hosts: Iterable[str]) -> list[Link]:
        """
        Return the cables that traffic between these hosts may cross: their own, and all that lead up from their leaves.
        """
        names = set(hosts)
        reached = {leaf for name in names for leaf in self.hosts[name].leaves}
        for uplinks in self.uplinks:  # lower tiers first
            if reached.intersection(uplinks.lower):
                reached.update(uplinks.upper)
        return [one for one in self.links() if one.a in reached or Part.of(one.a).host in names]

    def links(self) -> Iterator[Link]:
        """Yield every cable: host to leaf first, then switch to switch."""
        for host in self.hosts.values():
            for rnic in host.platform.rnics:
                if leaf := host.leaf(rnic.rail):
                    yield Link(f"{host.name}/{rnic.device}", leaf, 0, rnic.line_rate_gbps)
        for uplinks in self.uplinks:
            for lower in uplinks.lower:
                for upper in uplinks.upper:
                    for number in range(uplinks.count):
                        yield Link(lower, upper, number, uplinks.line_rate_gbps)
