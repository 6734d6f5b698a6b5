"""A job that hangs: what is known of its ranks, and which of them the others wait for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from fabric.model.diagnosis import PairTest
from fabric.model.outcome import Outcome


class CallState(Enum):
    """How far a collective came on one rank; *OVER*: it returned, well or with an error."""

    CALLED = 0
    STARTED = 1
    OVER = 2
    COMPLETED = 3


class Call(NamedTuple):
    """One collective as one rank called it, and when; all ranks must agree on *op*, *elements* and *dtypes*."""

    op: str
    elements: tuple[int, ...]
    dtypes: tuple[str, ...]
    state: CallState
    at_ns: int | None = None

    @property
    def alike(self) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
        """Return what all ranks must agree on."""
        return self[:3]


@dataclass(frozen=True, slots=True)
class RankTrace:
    """
    How far one rank came in one group: by its flight recorder, its log's watchdog messages, or NCCL RAS.

    Collectives of a group are numbered in the order in which a rank calls them. *called* is the last number, *open* the
    first that is not over (``called + 1`` if all are); *calls* are those with more details. *members* are the ranks of
    the group, as far as this trace tells. *at_s* is when NCCL RAS looked; None: the rank itself reported, when the job
    was given up.
    """

    rank: int
    group: str
    called: int
    open: int
    calls: Mapping[int, Call] = field(default_factory=dict)
    members: frozenset[int] = frozenset()
    at_s: float | None = None
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank runs: a host name or an address, its GPU, and the RNICs that it was seen to use."""

    host: str
    gpu: int | None = None
    rnics: frozenset[str] = frozenset()


class HangKind(Enum):
    """What speaks against a rank, or a host."""

    DEAD = "dead"  # NCCL RAS gave up on its process
    ABSENT = "absent"  # it did not call the collective that the others wait in
    DIFFERENT = "different"  # it called another collective than the others
    UNFINISHED = "unfinished"  # it came less far than the others in the same collective
    SILENT = "silent"  # nothing is known of it, and the others wait
    FAILED = "failed"  # its host, or the other end, says that a part failed


@dataclass(frozen=True, slots=True)
class HangSuspect:
    """
    A rank that the others wait for; *rank* is None if a log accuses a host.

    *outcome* FAIL: that is certain; INCONCLUSIVE: it may be. *group* and *number* say which collective. *said*: what
    this rank called, or what was logged. *others*: what the other ranks called, or the host at the other end of what
    failed. *parts* are to be tested.
    """

    kind: HangKind
    outcome: Outcome
    rank: int | None = None
    group: str = ""
    number: int | None = None
    said: str = ""
    others: str = ""
    host: str | None = None
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Standstill:
    """
    The first collective of a group that not all its ranks called alike and finished, and which ranks did what.

    *certain*: the group stands still. False if the evidence is one look at a job that may well be working, or an old
    dump.
    """

    group: str
    number: int
    op: str
    absent: tuple[int, ...]
    unfinished: tuple[int, ...]
    finished: tuple[int, ...]
    silent: tuple[int, ...]
    certain: bool = True

    @property
    def order(self) -> list[int]:
        """Return every rank of the group, in the order of its rings unless NCCL changes it."""
        return sorted({*self.absent, *self.unfinished, *self.finished, *self.silent})


@dataclass(frozen=True, slots=True)
class JobEvidence:
    """
    What one file, or all files, say of a job of these *ranks*, as far as any file names them.

    *furthest*: by group, how far unnamed ranks came. *addresses*: the host of each address. *lost*: ranks that NCCL RAS
    did not reach; *dead*: those of them that it has given up on. *in_exchange*: ranks with a send or receive that is
    not over. *gave_up*: ranks that report that a peer went away.
    """

    traces: tuple[RankTrace, ...] = ()
    places: Mapping[int, Place] = field(default_factory=dict)
    furthest: Mapping[str, int] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    lost: frozenset[int] = frozenset()
    dead: frozenset[int] = frozenset()
    ranks: frozenset[int] = frozenset()
    in_exchange: frozenset[int] = frozenset()
    gave_up: frozenset[int] = frozenset()
    failures: tuple[HangSuspect, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hang:
    """
    The verdict: where the job stands still (the causes first), who is waited for, what to test now.

    *ranks* are those of the job; *all_known* if the evidence says that there are no others; *reporting* are those that
    left evidence themselves. *hosts* should be tested, with their neighbours (*next_tests*).
    """

    outcome: Outcome
    standstills: tuple[Standstill, ...]
    suspects: tuple[HangSuspect, ...]
    ranks: frozenset[int]
    reporting: frozenset[int]
    all_known: bool
    hosts: tuple[str, ...] = ()
    next_tests: tuple[PairTest, ...] = ()
    in_exchange: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()
