"""What the operator wants measured: a scenario, its phases, and the probes each phase asks for."""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.model.change import ChangeSpec
from fabric.model.link_burn import LinkBurnSpec
from fabric.model.repair import Because
from fabric.model.repetition import FilledTime
from fabric.model.sampling import SampleSettings
from fabric.model.zero_growth import ZeroGrowth

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class LoopbackSpec:
    """Each RNIC to every memory node and GPU of its own host (MegaScale 4.3), with ib_write_bw."""

    name: str = "loopback"
    size_bytes: int = 8 * MIB
    duration_s: int = 5
    queue_pairs: int = 1
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class RnicToRnicSpec:
    """Every ordered pair of RNICs of one host (MegaScale 4.3), with ib_write_bw."""

    name: str = "rnic_to_rnic"
    size_bytes: int = 64 << 10
    duration_s: int = 5
    queue_pairs: int = 2
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class AllToAllSpec:
    """
    All-to-all among the GPUs of one host, with alltoall_perf.

    With *halves* also among complementary halves of the GPUs, one split per bit of the GPU number, so that
    one slow GPU can be named: it is in the slow half of every split.
    """

    name: str = "all_to_all"
    sizes_bytes: tuple[int, ...] = (GIB, 2 * GIB, 4 * GIB, 8 * GIB)
    halves: bool = True
    iterations: int = 20
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class TorAllReduceSpec:
    """
    All-reduce between neighbours under one ToR, with all_reduce_perf over mpirun or srun.

    *algorithm* defaults to RING: on two hosts NCCL would pick Tree or NVLSTree, whose bus bandwidth exceeds
    the network's bottleneck and can hide a slow rail (facts: nccl-tests #290, #196).
    """

    name: str = "tor_all_reduce"
    sizes_bytes: tuple[int, ...] = (GIB, 2 * GIB, 4 * GIB, 8 * GIB)
    algorithm: str = "RING"
    launcher: str = "mpirun"  # "mpirun" | "srun"
    iterations: int = 20
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class GroupAllReduceSpec:
    """
    One all-reduce over the first *hosts* hosts of the run, or as many as have *gpus* GPUs; without either, over all.

    *order* ``sorted`` ranks them as they are listed, ``random`` as *seed* shuffles them: the order decides how many
    connections leave a leaf.
    """

    name: str = "group_all_reduce"
    hosts: int | None = None
    gpus: int | None = None
    sizes_bytes: tuple[int, ...] = (GIB, 2 * GIB, 4 * GIB, 8 * GIB)
    algorithm: str = "RING"
    launcher: str = "mpirun"
    order: str = "sorted"  # "sorted" | "random"
    seed: int = 0
    iterations: int = 20
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class ConcurrentRingsSpec:
    """
    All-reduce in disjoint groups of hosts, all groups at once.

    *pairing*: ``across`` takes hosts of a group as far apart in the list as it goes, ``neighbours`` one after the
    other, ``random`` as *seed* shuffles them.
    """

    name: str = "concurrent_rings"
    groups_of: int = 2
    pairing: str = "across"  # "across" | "neighbours" | "random"
    seed: int = 0
    sizes_bytes: tuple[int, ...] = (8 * GIB,)
    algorithm: str = "RING"
    launcher: str = "mpirun"
    iterations: int = 20
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class PairwiseSpec:
    """
    RNIC to RNIC of another host on the same rail, with ib_write_bw, in *rounds* in which each host is measured once.

    The first round stays under the leaves, the others cross them. *size_bytes* and *queue_pairs* as in the published
    limit (oci-hpc).
    Not empty, *only* keeps the pairs of which one host is named there. *first*: with which round of all it begins.
    """

    name: str = "pairwise"
    rounds: int = 3
    size_bytes: int = 64 << 10
    duration_s: int = 3
    queue_pairs: int = 2
    repeat: int = 1
    only: tuple[str, ...] = ()
    first: int = 0


@dataclass(frozen=True, slots=True)
class AgainSpec:
    """
    Probes of an earlier run, measured *repeat* times each: the evidence against a host that was repaired.

    *because* is None in a file: ``fabric run --because RUN`` fills it with what did not pass there.
    """

    name: str = "again"
    repeat: int = 5
    because: Because | None = None


ProbeSpec = (
    LoopbackSpec
    | RnicToRnicSpec
    | AllToAllSpec
    | TorAllReduceSpec
    | GroupAllReduceSpec
    | ConcurrentRingsSpec
    | PairwiseSpec
    | AgainSpec
    | LinkBurnSpec
)
"""What one entry of a phase's ``probes:`` asks for."""


@dataclass(frozen=True, slots=True)
class LocaliseSettings:
    """
    Further rounds of pair tests after the planned ones: at most *rounds* in all, begun within *budget_s* seconds.

    *paths* ``static``: the switches' tables say which uplinks a pair crosses, and they are read; ``unknown``: adaptive
    routing or ECMP decides, and uplinks and spines cannot be told apart.
    """

    rounds: int = 10
    budget_s: float = 1200.0
    paths: str = "unknown"  # "unknown" | "static"


DRILLS = "drills"
"""The word of ``allow:`` with which the phases run that are drills."""

Where = tuple[tuple[str, str], ...]
"""One combination of a matrix, as texts: ``(("adaptive_routing", "on"),)``."""


@dataclass(frozen=True, slots=True)
class Phase:
    """
    A part of a scenario; runs only for hosts that passed every phase in *needs*.

    *changes* are in force while it runs; *env* is given to every collective. A matrix makes several phases of one that
    is written: *label* is the written name (empty: *name*), *where* the combination, *round* which repetition. With
    *localise* further rounds of its pairwise probes find the bad part. Until its rounds are planned *for_s* (seconds)
    or *share* (of the whole run) says how long it is repeated; None: once. *stop_host_on* ``fail``: a host whose own
    probes FAIL, or end in an ERROR where other hosts do the same well, in two rounds one after the other is left out of
    later ones. A *drill* is run only where drills are allowed. A round of a repeated phase *fills* a time with others:
    none is begun after it. *kept* numbers what a budget leaves of its probes: those that are to start together in the
    schedule of them all, in order of start; None: all.
    """

    name: str
    probes: tuple[ProbeSpec, ...]
    needs: tuple[str, ...] = ()
    changes: tuple[ChangeSpec, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    label: str = ""
    where: Where = ()
    round: int = 1
    localise: LocaliseSettings | None = None
    for_s: float | None = None
    share: float | None = None
    stop_host_on: str | None = None
    drill: bool = False
    fills: FilledTime | None = None
    kept: tuple[int, ...] | None = None
    changes_line: int = field(default=0, compare=False)  # of its ``changes:`` in the file, while that is at hand

    @property
    def written(self) -> str:
        """Its name in the file."""
        return self.label or self.name


@dataclass(frozen=True, slots=True)
class PhaseRef:
    """The phases that were made of one written phase, in every round; *where* keeps those with these matrix values."""

    label: str
    where: Where = ()


@dataclass(frozen=True, slots=True)
class ExpectedRatio:
    """
    The bandwidth of one phase over another's, with its confidence interval, is within bounds.

    *at_least* and *at_most* bound it (None: not on that side). Of every probe the same name, size and participants are
    compared; *probe* and *size_bytes* keep only one name or size.
    """

    of: PhaseRef
    over: PhaseRef
    at_least: float | None = None
    at_most: float | None = None
    probe: str | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ExpectedEnd:
    """Every probe of a phase completes (*completes*), or every one is given up by the transport (not *completes*)."""

    phase: PhaseRef
    completes: bool


@dataclass(frozen=True, slots=True)
class ExpectedRecovery:
    """After each change of a phase has ended, a sample reaches *fraction* of the median before it *within_s*."""

    phase: PhaseRef
    within_s: float
    fraction: float = 0.95


Expectation = ExpectedRatio | ExpectedEnd | ExpectedRecovery
"""What an entry of ``expect:`` asks for."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """
    *baseline* replaces every platform's; *marginal* is the fraction above a limit that still counts as near it.

    *samples* ``auto``: as many of each probe as it takes to tell; ``as_written``: as ``repeat`` says. *zero_growth* is
    what ports may not count meanwhile, beside what is always judged.
    """

    baseline: str | None = None
    marginal: float = 0.005
    samples: str = "as_written"
    zero_growth: ZeroGrowth | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario file, decoded; *hosts* names the hosts it runs on, already resolved, in inventory order."""

    name: str
    description: str
    source: str
    inventory: str  # path as resolved against the scenario's own folder
    hosts: tuple[str, ...]
    phases: tuple[Phase, ...]
    judge: JudgeSettings
    expect: tuple[Expectation, ...] = ()
    allow: tuple[str, ...] = ()  # guard rails that are lifted, by the name of the override
    sample: SampleSettings | None = None  # what is read on the hosts meanwhile; None: nothing
    identity: bool = False  # serial numbers and firmware of the hosts' parts are read at the start
    lasts_s: float | None = None  # the whole run, where phases have a share of it
