"""What a phase's ``probes:`` may hold: one entry a kind, every key, its type, its range and what it means."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from fabric.model.fields.entry import Entry
from fabric.model.fields.quantities import Duration, Size, geometric
from fabric.model.fields.scalars import SAFE_NAME, Choice, Flag, Whole, refusal
from fabric.model.fields.wording import nearest, one_of, quoted
from fabric.model.link_burn import LinkBurnSpec
from fabric.model.scenario import (
    GIB,
    AgainSpec,
    AllToAllSpec,
    ConcurrentRingsSpec,
    GroupAllReduceSpec,
    LoopbackSpec,
    PairwiseSpec,
    RnicToRnicSpec,
    TorAllReduceSpec,
)

ALGORITHMS = ("RING", "TREE", "NVLS", "NVLSTREE", "COLLNETDIRECT", "COLLNETCHAIN")  # NCCL_ALGO
LAUNCHERS = ("mpirun", "srun")
PROBE_KINDS = (
    "loopback",
    "rnic_to_rnic",
    "all_to_all",
    "tor_all_reduce",
    "group_all_reduce",
    "concurrent_rings",
    "pairwise",
    "again",
    "link_burn",
)
ORDERS = ("sorted", "random")
BURN_ROUTINGS = ("ftree", "updn", "minhop", "ar", "ecmp")
MEMORIES = ("gpu", "host")
PAIRINGS = ("across", "neighbours", "random")

_LOOPBACK, _RNICS, _ALL_TO_ALL, _TOR = LoopbackSpec(), RnicToRnicSpec(), AllToAllSpec(), TorAllReduceSpec()
_GROUP, _RINGS, _PAIRS = GroupAllReduceSpec(), ConcurrentRingsSpec(), PairwiseSpec()
_AGAIN = AgainSpec()
_BURN = LinkBurnSpec()

Name = Annotated[str, SAFE_NAME]
MessageSize = Annotated[int, Size(1, GIB)]
Seconds = Annotated[int, Duration(1, 3600)]
QueuePairs = Annotated[int, Whole(1, 1024)]
Repeat = Annotated[int, Whole(1, 1000)]
Sizes = Annotated[
    tuple[Annotated[int, Size(1 << 10, 256 * GIB)], ...], Field(min_length=1, max_length=30), AfterValidator(geometric)
]
Iterations = Annotated[int, Whole(1, 10_000)]

_NAME_TEXT = "Its name in ids and reports; the kind when left out."
_REPEAT_TEXT = "How often each measurement is made."
_SIZES_TEXT = "Message sizes, each the same whole multiple of the one before."
_ITERATIONS_TEXT = "Iterations of each size (nccl-tests -n)."
_ALGORITHM_TEXT = "NCCL_ALGO. RING judges the network; others can exceed it on two hosts."
_LAUNCHER_TEXT = "What starts the ranks: mpirun or srun."
_SEED_TEXT = "What a random order is drawn with."


class LoopbackEntry(Entry):
    """Each RNIC to every memory node and GPU of its own host."""

    name: Name = Field(_LOOPBACK.name, description=_NAME_TEXT)
    size: MessageSize = Field(_LOOPBACK.size_bytes, description="Message size (ib_write_bw --size).")
    duration: Seconds = Field(_LOOPBACK.duration_s, description="How long each pair is measured.")
    queue_pairs: QueuePairs = Field(_LOOPBACK.queue_pairs, description="Queue pairs of each measurement.")
    repeat: Repeat = Field(_LOOPBACK.repeat, description=_REPEAT_TEXT)


class RnicToRnicEntry(Entry):
    """Every ordered pair of RNICs of one host."""

    name: Name = Field(_RNICS.name, description=_NAME_TEXT)
    size: MessageSize = Field(_RNICS.size_bytes, description="Message size (ib_write_bw --size).")
    duration: Seconds = Field(_RNICS.duration_s, description="How long each pair is measured.")
    queue_pairs: QueuePairs = Field(_RNICS.queue_pairs, description="Queue pairs of each measurement.")
    repeat: Repeat = Field(_RNICS.repeat, description=_REPEAT_TEXT)


class AllToAllEntry(Entry):
    """All-to-all among the GPUs of one host."""

    name: Name = Field(_ALL_TO_ALL.name, description=_NAME_TEXT)
    sizes: Sizes = Field(_ALL_TO_ALL.sizes_bytes, description=_SIZES_TEXT)
    halves: Annotated[bool, Flag()] = Field(
        _ALL_TO_ALL.halves,
        description="Whether halves of the GPUs are measured too, so that one slow GPU can be named.",
    )
    iterations: Iterations = Field(_ALL_TO_ALL.iterations, description=_ITERATIONS_TEXT)
    repeat: Repeat = Field(_ALL_TO_ALL.repeat, description=_REPEAT_TEXT)


class TorAllReduceEntry(Entry):
    """All-reduce between neighbours under one ToR."""

    name: Name = Field(_TOR.name, description=_NAME_TEXT)
    sizes: Sizes = Field(_TOR.sizes_bytes, description=_SIZES_TEXT)
    algorithm: Annotated[str, Choice(ALGORITHMS)] = Field(_TOR.algorithm, description=_ALGORITHM_TEXT)
    launcher: Annotated[str, Choice(LAUNCHERS)] = Field(_TOR.launcher, description=_LAUNCHER_TEXT)
    iterations: Iterations = Field(_TOR.iterations, description=_ITERATIONS_TEXT)
    repeat: Repeat = Field(_TOR.repeat, description=_REPEAT_TEXT)


class GroupAllReduceEntry(Entry):
    """One all-reduce over many hosts."""

    name: Name = Field(_GROUP.name, description=_NAME_TEXT)
    hosts: Annotated[int, Whole(2, 100_000)] | None = Field(
        None,
        description="How many: the first of the run that are alike; all of them when neither this nor gpus is given.",
    )
    gpus: Annotated[int, Whole(2, 1_000_000)] | None = Field(
        None, description="Instead of hosts: as many hosts as have so many GPUs, whole hosts only."
    )
    sizes: Sizes = Field(_GROUP.sizes_bytes, description=_SIZES_TEXT)
    algorithm: Annotated[str, Choice(ALGORITHMS)] = Field(_GROUP.algorithm, description=_ALGORITHM_TEXT)
    launcher: Annotated[str, Choice(LAUNCHERS)] = Field(_GROUP.launcher, description=_LAUNCHER_TEXT)
    order: Annotated[str, Choice(ORDERS)] = Field(
        _GROUP.order, description="How the hosts are ranked: sorted as they are listed, or random."
    )
    seed: Annotated[int, Whole(0, 2**32 - 1)] = Field(_GROUP.seed, description=_SEED_TEXT)
    iterations: Iterations = Field(_GROUP.iterations, description=_ITERATIONS_TEXT)
    repeat: Repeat = Field(_GROUP.repeat, description=_REPEAT_TEXT)


class ConcurrentRingsEntry(Entry):
    """All-reduce in disjoint groups of hosts, all groups at once."""

    name: Name = Field(_RINGS.name, description=_NAME_TEXT)
    groups_of: Annotated[int, Whole(2, 1024)] = Field(_RINGS.groups_of, description="How many hosts form a group.")
    pairing: Annotated[str, Choice(PAIRINGS)] = Field(
        _RINGS.pairing, description="Which hosts: across (far apart in the list), neighbours or random."
    )
    seed: Annotated[int, Whole(0, 2**32 - 1)] = Field(_RINGS.seed, description=_SEED_TEXT)
    sizes: Sizes = Field(_RINGS.sizes_bytes, description=_SIZES_TEXT)
    algorithm: Annotated[str, Choice(ALGORITHMS)] = Field(_RINGS.algorithm, description=_ALGORITHM_TEXT)
    launcher: Annotated[str, Choice(LAUNCHERS)] = Field(_RINGS.launcher, description=_LAUNCHER_TEXT)
    iterations: Iterations = Field(_RINGS.iterations, description=_ITERATIONS_TEXT)
    repeat: Repeat = Field(_RINGS.repeat, description=_REPEAT_TEXT)


class PairwiseEntry(Entry):
    """RNIC to RNIC of another host on the same rail."""

    name: Name = Field(_PAIRS.name, description=_NAME_TEXT)
    rounds: Annotated[int, Whole(1, 16)] = Field(
        _PAIRS.rounds, description="How many rounds are planned: the first under the leaves, the others across them."
    )
    size: MessageSize = Field(_PAIRS.size_bytes, description="Message size (ib_write_bw --size).")
    duration: Seconds = Field(_PAIRS.duration_s, description="How long each pair is measured.")
    queue_pairs: QueuePairs = Field(_PAIRS.queue_pairs, description="Queue pairs of each measurement.")
    repeat: Repeat = Field(_PAIRS.repeat, description=_REPEAT_TEXT)


class AgainEntry(Entry):
    """The probes that did not pass in an earlier run."""

    name: Name = Field(_AGAIN.name, description=_NAME_TEXT)
    repeat: Repeat = Field(_AGAIN.repeat, description=_REPEAT_TEXT)


class LinkBurnEntry(Entry):
    """Flows between RNICs in stages that load every link."""

    name: Name = Field(_BURN.name, description=_NAME_TEXT)
    routing: Annotated[str, Choice(BURN_ROUTINGS)] = Field(
        _BURN.routing, description="How the fabric routes: ftree, updn, minhop (OpenSM's tables), ar or ecmp."
    )
    size: MessageSize = Field(_BURN.size_bytes, description="Message size (ib_write_bw --size).")
    memory: Annotated[str, Choice(MEMORIES)] = Field(
        _BURN.memory, description="Where the buffers are: gpu (the nearest of the RNIC, if it has one) or host."
    )
    duration: Annotated[int, Duration(1, 86400)] = Field(_BURN.duration_s, description="How long each stage runs.")
    queue_pairs: QueuePairs = Field(_BURN.queue_pairs, description="Queue pairs of each flow.")


class LoopbackProbe(Entry):
    """The probe kind loopback."""

    loopback: LoopbackEntry = Field(description="Each RNIC to every memory node and GPU of its own host (ib_write_bw).")


class RnicToRnicProbe(Entry):
    """The probe kind rnic_to_rnic."""

    rnic_to_rnic: RnicToRnicEntry = Field(description="Every ordered pair of RNICs of one host (ib_write_bw).")


class AllToAllProbe(Entry):
    """The probe kind all_to_all."""

    all_to_all: AllToAllEntry = Field(description="All-to-all among the GPUs of one host (alltoall_perf).")


class TorAllReduceProbe(Entry):
    """The probe kind tor_all_reduce."""

    tor_all_reduce: TorAllReduceEntry = Field(
        description="All-reduce between neighbours under one ToR (all_reduce_perf)."
    )


class GroupAllReduceProbe(Entry):
    """The probe kind group_all_reduce."""

    group_all_reduce: GroupAllReduceEntry = Field(description="One all-reduce over many hosts (all_reduce_perf).")


class ConcurrentRingsProbe(Entry):
    """The probe kind concurrent_rings."""

    concurrent_rings: ConcurrentRingsEntry = Field(
        description="All-reduce in disjoint groups of hosts, all groups at once (all_reduce_perf)."
    )


class PairwiseProbe(Entry):
    """The probe kind pairwise."""

    pairwise: PairwiseEntry = Field(
        description="RNIC to RNIC of another host on the same rail, in rounds of pairs (ib_write_bw)."
    )


class AgainProbe(Entry):
    """The probe kind again."""

    again: AgainEntry = Field(description="The probes that did not pass in the run of --because, repeated.")


class LinkBurnProbe(Entry):
    """The probe kind link_burn."""

    link_burn: LinkBurnEntry = Field(
        description="Flows between RNICs, in stages that load every link to half its rate or more (ib_write_bw)."
    )


def _one_kind(value: object) -> object:
    """``loopback`` or ``{loopback: {…}}`` as the latter; anything else is refused."""
    whole = {value: {}} if isinstance(value, str) else value
    if not isinstance(whole, dict) or len(whole) != 1:
        raise refusal(f"one probe kind ({one_of(PROBE_KINDS)}) and its settings", value)
    kind = next(iter(whole))
    if kind not in PROBE_KINDS:
        text = f"unknown probe kind {quoted(kind)}{nearest(kind, PROBE_KINDS)}"
        raise PydanticCustomError("kind", text)
    return whole


ProbeEntry = Annotated[
    Annotated[LoopbackProbe, Tag("loopback")]
    | Annotated[RnicToRnicProbe, Tag("rnic_to_rnic")]
    | Annotated[AllToAllProbe, Tag("all_to_all")]
    | Annotated[TorAllReduceProbe, Tag("tor_all_reduce")]
    | Annotated[GroupAllReduceProbe, Tag("group_all_reduce")]
    | Annotated[ConcurrentRingsProbe, Tag("concurrent_rings")]
    | Annotated[PairwiseProbe, Tag("pairwise")]
    | Annotated[AgainProbe, Tag("again")]
    | Annotated[LinkBurnProbe, Tag("link_burn")],
    Discriminator(lambda whole: next(iter(whole))),
    BeforeValidator(_one_kind),
]
