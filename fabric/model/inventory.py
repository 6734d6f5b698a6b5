"""What the operator says about the machines: the topology, how to reach it, and what the mock shall break."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

from fabric.model.change import ChangeSettings
from fabric.model.fields.entry import InFiles, NotInFiles, WrittenAs, key
from fabric.model.fields.scalars import ADDRESS, SAFE_NAME, USER, Choice, Decimal, Duration, Flag, Line, Span, Whole
from fabric.model.topology import OptionWords, Rnic, Topology

SITE = {
    "root": "the account is root, as which Open MPI does not start without --allow-run-as-root",
    "no_cuda": "perftest is a distribution's, built without CUDA",
    "dmabuf": "the open GPU driver and no nvidia_peermem: GPU memory is registered by DMA-BUF only",
    "no_persistence": "the GPUs' persistence mode is off",
    "gres": "Slurm shows a job step the GPUs that it asked for, and no others",
    "storage": "a storage adapter on a fabric of its own is the first that management packets go through",
    "m_key": "ports answer management packets with the M_Key 0xfab only",
    "public_opensm": "the distribution's OpenSM, which knows no engine ar_... and routes by minhop then",
    "copper": "the cables of hosts are copper: NDR has RS(272,257+1) there, which mends less than that of optics",
    "old_mft": "NVIDIA MFT 4.22, which knows no plane_ind",
}
"""Traits of real sites that the simulated one may have; without any it is the kindest there is."""
BACKENDS = ("mock", "ssh", "slurm", "process")
ROUTING = ("ftree", "updn", "minhop", "lft_random", "ecmp", "ar")
NOISES = ("clean", "real")
ADDRESSES, POLARISED = "addresses", "polarised"
PARTIAL = ("slow", "erratic", "dipping", "fading", "heat_sick", "tenant")
"""Kinds of faults with a factor: what is left of the bandwidth."""
_KINDS = ("slow", "broken", "hanging", "absent", "garbage", "lemon", "hot", "replaced", "outdated", "pausing")
OF_CABLES = ("dark_lane", "half_width", "batch", "dirty", "flapping", "swapped", "grey")
MISSET_ENDS = ("pfc_off", "short_cable", "trusts_pcp", "small_mtu", "unmapped")
MISSET_HOSTS = ("misset", "no_headroom", "np_off", "rp_off", "other_class", "gid_v1", "firmware_dcbx", "cnp_in_data")
MISSET_SWITCHES = ("ecn_off", "kmin_over_kmax", "kmax_over_xoff")
"""RoCE settings that may be wrong: at either end of a cable, at the host's end, at a switch's end."""
MISSET_KINDS = (*MISSET_ENDS, *MISSET_HOSTS, *MISSET_SWITCHES)
FAULT_KIND = Choice((*_KINDS, *PARTIAL[1:], *OF_CABLES, *MISSET_KINDS))
COMPONENT = Line("a component such as gpu003/mlx5_2 or gpu006/gpu5:nvlink", most=256)
FACTOR = Decimal(0.001, 0.999)

PathText = Annotated[str, Line("a path", most=4096)]
User = Annotated[str, USER]
Port = Annotated[int, Whole(1, 65_535)]


@dataclass(frozen=True, slots=True)
class JumpHost(InFiles):
    """A host to go through; its key is checked like any other."""

    address: Annotated[str, ADDRESS]
    """Its name or address."""
    user: User | None = None
    """The account there."""
    port: Port = 22
    """Its SSH port."""


@dataclass(frozen=True, slots=True)
class SshSettings(InFiles):
    """How hosts are reached over SSH; no password, no switch that turns host keys off."""

    user: User | None = None
    """The account; else your own name."""
    port: Port = 22
    """The SSH port of every host."""
    key_file: PathText | None = None
    """A private key; else the agent."""
    agent: Annotated[bool, Flag()] = True
    """Whether keys of the SSH agent may be used."""
    jump: tuple[JumpHost, ...] = key((), max_length=8)
    """Hosts to go through, nearest first."""
    known_hosts: tuple[PathText, ...] = key(
        ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts"), min_length=1, max_length=16
    )
    """Files of host keys; a host that is in none of them is refused."""
    connect_timeout_s: Annotated[float, Duration(1, 600)] = key(15.0, alias="connect_timeout")
    """How long to wait for a session."""


@dataclass(frozen=True, slots=True)
class ProcessSettings(InFiles):
    """How a command is carried to a host by another command."""

    prefix: tuple[Annotated[str, Line("an argument", option=True)], ...] = key((), max_length=64)
    """The argv before each command, {host} replaced; empty runs it here."""


@dataclass(frozen=True, slots=True)
class SlurmSettings(InFiles):
    """How the agents of a Slurm job's hosts are begun."""

    options: OptionWords = ()
    """Words put after srun's own, such as --gres=gpu:8."""


WHOLE = 1.0
"""The factor of a fault that has none: no file can write it."""


@dataclass(frozen=True, slots=True)
class Fault(InFiles):
    """
    Something the simulated rack shall do wrong.

    *component*: ``gpu003`` (host), ``gpu003/mlx5_2``, ``gpu003/gpu5``, ``gpu003/gpu5:nvlink``, ``gpu003/numa1``,
    ``gpu003/pcie2``, ``gpu003/mlx5_2->gpu4`` (one path), ``gpu003/mlx5_2->numa1`` (path to that memory node),
    ``gpu003/mlx5_2->numa1-gpus`` (paths to that node's GPUs), ``gpu003/mlx5_2:tx`` (one direction of its cable), a
    switch, ``su0-leaf3--spine2`` (the cables between two switches) or ``su0-leaf3->spine2`` (one direction of them).
    *kind*: ``slow`` (keeps *factor* of its bandwidth), ``broken``, ``hanging``, ``absent``, ``garbage``; ``lemon`` (a
    host, an RNIC or a cable that fails now and then), ``hot`` (an RNIC whose link errs, a GPU that throttles),
    ``bit_errors`` (an RNIC's cable; *factor* is the bit error ratio behind the FEC), ``symbol_errors`` (the same behind
    the link's own retries); of a cable ``dark_lane``, ``half_width``, ``dirty``, ``flapping``, of a switch above the
    leaves ``batch`` (sim/phy/cabling.py); ``erratic`` (a host, an RNIC or its cable), ``dipping``, ``fading``,
    ``heat_sick`` (an RNIC or its cable: sim/life.py); ``tenant`` (a cable between switches that is well and carries
    others' flows, too: *factor* is what they leave to one flow); what is set wrong for RoCE at one end of a cable
    (sim/phy/qos.py).
    """

    component: Annotated[str, COMPONENT]
    """What is bad: gpu003, gpu003/mlx5_2, gpu006/gpu5:nvlink, a switch, su0-leaf3--spine2."""
    kind: Annotated[str, FAULT_KIND]
    """How it is bad: slow, broken, hanging; docs/inventory.md says what each kind does."""
    factor: Annotated[float, FACTOR] = key(default_factory=lambda: WHOLE)
    """With slow, erratic, dipping, fading, heat_sick, tenant: the fraction of its bandwidth that is left."""


@dataclass(frozen=True, kw_only=True)
class TimedFaultEntry(Fault):
    """Something that goes wrong for a while, as a file writes it."""

    at: Annotated[float, Span(0, 10_000_000)]
    """When it comes, by the simulated clock: 10m."""
    lasts: Annotated[float, Span(0.001, 10_000_000)]
    """How long it stays: 30s."""

    def made(self) -> TimedFault:
        """Return the fault."""
        return TimedFault(self.at, self.lasts, Fault(self.component, self.kind, self.factor))


@dataclass(frozen=True, slots=True)
class TimedFault:
    """A fault that comes at *at_s* of simulated time and goes *duration_s* later."""

    at_s: float
    duration_s: float
    fault: Fault


@dataclass(frozen=True, slots=True)
class MockSettings(InFiles):
    """How the simulated rack behaves."""

    faults: tuple[Fault, ...] = key((), max_length=1000)
    """What is bad in it."""
    noise_cv: Annotated[float, Decimal(0, 0.5)] = 0.003
    """Spread of a healthy measurement (sigma / mean)."""
    noise: Annotated[str, Choice(NOISES)] = "clean"
    """clean, or real: as real clusters are; noise_cv then counts for nothing."""
    routing: Annotated[str, Choice(ROUTING)] | None = None
    """How paths between leaves are chosen; ftree when left out."""
    lossless_class: Annotated[int, Whole(0, 255)] | None = None
    """RoCE: the traffic class that is never dropped; all are kept when left out."""
    congestion: Annotated[str, Choice(("max_min", "dcqcn"))] = "max_min"
    """How flows share what is too narrow: max_min, or dcqcn (RoCE): by queues, marks, pauses."""
    ecn: Annotated[bool, Flag()] = True
    """Whether switches mark packets (ECN): what they are set to, and with dcqcn what becomes of it."""
    pfc: Annotated[bool, Flag()] = True
    """Whether ports pause (PFC), likewise; else they drop."""
    retransmission: Annotated[str, Choice(("go_back_n", "selective_repeat"))] = "go_back_n"
    """With dcqcn: what an RNIC sends again after a loss."""
    qps: Annotated[int, Whole(1, 1024)] = 1
    """With ecmp: the queue pairs of each connection, which are hashed apart."""
    salt: Annotated[int, Whole(0, 2**32 - 1)] = 0
    """With ecmp and lft_random: another number is another draw of paths."""
    hashing: Annotated[str, Choice(("ports", ADDRESSES, POLARISED))] = "ports"
    """With ecmp: ports are hashed, or addresses alone; polarised: spines hash as leaves do."""
    shield: Annotated[bool, Flag()] = False
    """Whether the switches reroute around dead ports by themselves (SHIELD)."""
    sm_reroute_s: Annotated[float, Span(0, 600)] = key(15.0, alias="sm_reroute")
    """How long the subnet manager takes to route around a dead port."""
    ufm_isolates: Annotated[bool, Flag()] = False
    """Whether UFM isolates ports with many bit errors; they stay so until it is told."""
    site: tuple[Annotated[str, Choice(tuple(SITE))], ...] = key((), max_length=len(SITE))
    """What the hosts have of a real site: an account that is root, a GPU driver without nvidia_peermem."""
    timed_faults: tuple[Annotated[TimedFault, WrittenAs(TimedFaultEntry, TimedFaultEntry.made)], ...] = key(
        (), max_length=1000
    )
    """What goes wrong for a while."""
    lemon_per_hour: Annotated[float, Decimal(0.001, 3600)] = 1.0
    """How often a lemon errs or flaps."""


@dataclass(frozen=True, kw_only=True)
class InventorySettings(InFiles):
    """What an inventory says besides what is there; *source* is the file it came from, for messages."""

    name: Annotated[str, SAFE_NAME]
    """What this fabric is called."""
    source: Annotated[str, NotInFiles()] = ""
    backend: Annotated[str, Choice(BACKENDS)]
    """How hosts are reached: mock (simulated), ssh, slurm or process."""
    ssh: SshSettings = SshSettings()
    """With backend ssh: how hosts are reached."""
    process: ProcessSettings = ProcessSettings()
    """With backend process: what carries a command to a host."""
    mock: MockSettings = MockSettings()
    """With backend mock: how the simulated rack behaves."""
    changes: ChangeSettings = field(default_factory=ChangeSettings)
    """How changes are made on this fabric, and how many at once."""
    slurm: SlurmSettings = SlurmSettings()
    """With backend slurm: how the agents of a job's hosts are begun."""
    routing: Annotated[str, Choice(ROUTING)] | None = None
    """How the switches choose paths, as link_burn is planned: ftree, updn, minhop, ar or ecmp."""


@dataclass(frozen=True, kw_only=True)
class Inventory(InventorySettings):
    """One inventory file, decoded; its topology knows how switches choose paths, where anybody does."""

    topology: Topology

    def __post_init__(self) -> None:
        # A simulated rack routes like OpenSM's ftree by default.
        routing = self.mock.routing or self.routing or ("ftree" if self.backend == "mock" else None)
        if self.topology.routing != routing:
            object.__setattr__(self, "topology", replace(self.topology, routing=routing))

    def ways_out(self, name: str) -> dict[int | None, Rnic]:
        """
        Return the RNIC through which a host asks each subnet: its first one there; ``via`` its ``via_device`` if it is.

        Where it is not known which leaves are joined, all RNICs are in one subnet (None).
        """
        host, found = self.topology.hosts[name], dict[int | None, Rnic]()
        stated = self.changes.via_device if name == self.changes.via else None
        for rnic in sorted(host.platform.rnics, key=lambda one: one.device != stated):
            found.setdefault(self.topology.part_of(host, rnic.rail), rnic)
        return found
