"""The conclusions of a run: limits, verdicts per component, suspects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated

from fabric.model.change import ChangeResult
from fabric.model.fields.entry import InFiles, key
from fabric.model.fields.scalars import Choice, Flag, Line
from fabric.model.outcome import Outcome, Reason
from fabric.model.probe import FailureKind, NamedPart
from fabric.model.recorded import LINK_CLASSES, Algorithm, Gbps, MessageSize, Ranks, Recorded
from fabric.model.scenario import PROBE_KIND, LimitKey, Scenario
from fabric.model.text import three_digits
from fabric.model.topology import NVLINK, Platform


@dataclass(frozen=True, slots=True)
class TrainingImpact:
    """
    What a job of *gpus* GPUs has to expect; None if no measurement tells, then *notes* say why.

    *mttf_s* is the mean time to failure, *ettr* the expected share of time spent training. With *bound* only an upper
    bound of the failure rate is known: both are then at least as large.

    They rest on *failures* in *host_days* of observation. *flaps* counts links that went down in that time and came
    back without a probe dying of it (None: not counted).
    """

    gpus: int
    mttf_s: float | None
    ettr: float | None
    bound: bool = False
    notes: tuple[str, ...] = ()
    failures: int | None = None
    host_days: float | None = None
    flaps: int | None = None


@dataclass(frozen=True, slots=True)
class Limit(InFiles):
    """
    The least that is acceptable for a key, with the source of the number.

    A field that is None matches anything; the most specific matching limit is the one that counts. With *per_rnic* the
    number is for one RNIC, and is multiplied by how many the host has that a GPU can drive (at most one a GPU).
    *min_size_bytes*: the limit says nothing of smaller messages.
    """

    kind: Annotated[str, PROBE_KIND]
    at_least_gbps: Gbps
    source: Annotated[str, Line("a source", most=1000)]
    link_class: Annotated[str, Choice((*LINK_CLASSES, "cross_leaf"))] | None = None
    size_bytes: MessageSize | None = key(None, alias="size")
    ranks: Ranks | None = None
    algorithm: Algorithm | None = None
    per_rnic: Annotated[bool, Flag()] = False
    min_size_bytes: MessageSize = key(0, alias="min_size")

    @property
    def key(self) -> LimitKey:
        """Return the key that it is the limit for."""
        return LimitKey(self.kind, self.link_class, self.size_bytes, self.ranks, self.algorithm)


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is normal for one platform: the lowest acceptable values, and what good runs measured."""

    name: str
    source: str  # the file
    limits: tuple[Limit, ...]
    recorded: tuple[Recorded, ...] = ()


class Recurrence(Enum):
    """Whether a low number was seen again."""

    SEEN_ONCE = "seen once: measure it again"
    CONFIRMED = "confirmed by others"
    CONGESTED = "only while others may have been in its way, and these were as bad: congestion, no part"


@dataclass(frozen=True, slots=True)
class ProbeVerdict:
    """
    One probe, judged: outcome, the reason in words, measured and required Gb/s if there are any.

    *ran* is False if none of its commands was started: such a probe is evidence of nothing. *expected_gbps* is what is
    normal for its key (the median of its peers, or the recorded one), None if unknown. *against* says in words what it
    is slower than, if that is not the limit: "the median of 128 peers". *missing*: what is missing to compare it with.
    *recurrence* becomes part of the reason by ``with_recurrence``.
    """

    probe_id: str
    outcome: Outcome
    reason: str
    value_gbps: float | None = None
    limit_gbps: float | None = None
    named: NamedPart | None = None
    ran: bool = True
    expected_gbps: float | None = None
    against: str = ""
    failure: FailureKind | None = None
    missing: str = ""
    recurrence: Recurrence | None = None

    def with_recurrence(self) -> ProbeVerdict:
        """Return the verdict with its recurrence added to the reason."""
        return self if self.recurrence is None else replace(self, reason=f"{self.reason}; {self.recurrence.value}")

    @property
    def required_gbps(self) -> float | None:
        """Return what it was found to be below: the limit, or what is normal if it met the limit."""
        return self.expected_gbps if self.against else self.limit_gbps


Verdicts = Mapping[str, ProbeVerdict]
"""Verdicts on probes, by their ids."""


DRIFT, HEAT = "drift", "heat"
"""Courses of a suspect that decide how it must be measured again: it became worse gradually, or is bad when warm."""

CAME_BACK = "came_back"
"""The course of a part that failed and was well again later."""


@dataclass(frozen=True, slots=True)
class OwnFails:
    """*failed*: hosts with a bad probe of their own, and its name; *well*: hosts whose own probes all did well."""

    failed: Mapping[str, str]
    well: frozenset[str]


@dataclass(frozen=True, slots=True)
class Suspect:
    """
    A component to act upon.

    *kind*: ``host``, ``rnic``, ``gpu``, ``gpu_pcie``, ``nvlink``, ``numa``, ``pcie_switch``, ``cpu_interconnect``,
    ``path``, ``link``, ``uplinks``, ``leaf``, ``spine``, ``spines``, ``core``, ``rack``, ``pair``, ``group`` (of more
    than two hosts), ``traffic_class`` (of RoCE). *confidence*, 0 to 1: its share of the likelihood among itself, its
    rivals and "no part", at most 0.99. *outcome* FAIL: replace or repair; ERROR: it could not be measured, and why.
    *probes*: the ids of the bad probes, the worst first, at most 20; *hosts*: the hosts whose parts are meant.

    From its samples, None if there are none: *loss*, the median loss (0 to 1) of those that did not pass; the worst one
    and what is normal for it (Gb/s); *rate*, the share that did not pass; *since_s*, when the first of these began.
    *direction*: ``tx`` or ``rx`` if only one is meant. Where and what it is, if known: *rack*, *leaf* at the other end
    of its cable, *serial*, *part_number*, *firmware*. *course*: what its losses over many rounds follow (``drift``,
    ``step``, ``heat``, ...: ``judge/course``), empty if there were none.
    """

    component: str
    kind: str
    outcome: Outcome
    confidence: float
    evidence: tuple[str, ...]
    ambiguous_with: tuple[str, ...] = ()
    next_step: str = ""
    hosts: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    loss: float | None = None
    worst_gbps: float | None = None
    normal_gbps: float | None = None
    rate: float | None = None
    since_s: float | None = None
    direction: str | None = None
    rack: str | None = None
    leaf: str | None = None
    serial: str | None = None
    part_number: str | None = None
    firmware: str | None = None
    course: str = ""


@dataclass(frozen=True, slots=True)
class ComponentVerdict:
    """The outcome of one component: the worst that is attributed to it, and why."""

    component: str
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class ExpectationVerdict:
    """
    One expectation of a scenario, judged: *text* says it in words, *reason* what was found.

    *value* is the ratio or the time (seconds) that was found, *low* and *high* bound its 95 % confidence interval, *n*
    counts the samples it rests on; None if there is no such number. *in_force* is False if a change that it is about
    was not in force.
    """

    text: str
    outcome: Outcome
    reason: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    in_force: bool = True

    @property
    def number(self) -> tuple[str, str]:
        """
        Return value and interval: ``1.62`` and ``1.58 to 1.66``.

        A ratio or a statistic has an interval; a time has none and is given in seconds. A dash if nothing was found.
        """
        if self.value is None:
            return "-", ""
        if self.low is None or self.high is None:
            return f"{self.value:.1f} s", ""
        return three_digits(self.value), f"{three_digits(self.low)} to {three_digits(self.high)}"


@dataclass(frozen=True, slots=True)
class WindowEffect:
    """
    The effect of a change in one window, in the executor's seconds.

    *detect_s*: from its beginning until the end of the first sample that showed a loss; *recover_s*: from its end until
    the end of a sample that reached 95 % of the median before. None: not seen.
    """

    began_s: float
    ended_s: float | None
    detect_s: float | None
    recover_s: float | None


@dataclass(frozen=True, slots=True)
class ChangeEffect:
    """
    The effect of one change.

    *retained* is the median bandwidth during it over the median before, by key; *reference* says before what ("before
    it" in the same phase, or the name of the phase without a fault that is used instead). *samples* counts the samples
    during it, *given_up* those that the transport gave up. *spacing_s*: the time resolution of all this. *note*
    explains a bandwidth that did not change. *gbps* is the median bandwidth during it and before, if all samples are of
    one kind and size. Fields are None, empty or 0 if nothing was measured.
    """

    change_id: str
    retained: float | None = None
    reference: str = ""
    samples: int = 0
    given_up: int = 0
    spacing_s: float | None = None
    windows: tuple[WindowEffect, ...] = ()
    note: str = ""
    gbps: tuple[float, float] | None = None

    @property
    def detect_s(self) -> float | None:
        """Return the longest of its windows; None if no window showed a loss."""
        return max((window.detect_s for window in self.windows if window.detect_s is not None), default=None)

    @property
    def recover_s(self) -> float | None:
        """
        Return the longest of its windows that showed a loss.

        None if no window showed a loss, or one was not seen to recover.
        """
        found = [window.recover_s for window in self.windows if window.detect_s is not None]
        known = [seconds for seconds in found if seconds is not None]
        return max(known) if known and len(known) == len(found) else None


@dataclass(frozen=True, slots=True)
class HallPoint:
    """
    One collective over so many hosts, or the bisection: measured bus bandwidth, the inventory's bound, and the limit.

    None: not measured, not known, none. *reason*: why it is not good, or was not measured.
    """

    kind: str
    hosts: int
    gpus: int
    gbps: float | None
    bound_gbps: float | None
    limit_gbps: float | None
    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HallPairs:
    """Results of single flows between RNICs in the same run: how many, the lowest, the median, and their limit."""

    kind: str
    count: int
    least_gbps: float
    median_gbps: float
    limit_gbps: float | None


@dataclass(frozen=True, slots=True)
class Hall:
    """How a hall scales: the *points* of its curve and its bisection, with RNIC to RNIC for comparison."""

    points: tuple[HallPoint, ...]
    pairs: tuple[HallPairs, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a whole run: outcome, reasons, and what they rest on."""

    outcome: Outcome
    reasons: tuple[Reason, ...]
    suspects: tuple[Suspect, ...]
    components: tuple[ComponentVerdict, ...]
    probes: tuple[ProbeVerdict, ...]
    expectations: tuple[ExpectationVerdict, ...] = ()
    changes: tuple[ChangeResult, ...] = ()
    effects: tuple[ChangeEffect, ...] = ()  # of the changes, in their order
    training: TrainingImpact | None = None  # None: no GPUs, or not asked
    hall: Hall | None = None  # None: no scaling curve was asked for
    links: LinkCoverage | None = None  # None: nobody looked, and nobody asked for it

    @property
    def lines(self) -> tuple[str, ...]:
        """Return its reasons as they are printed, one per line."""
        return tuple(map(str, self.reasons))


@dataclass(frozen=True, slots=True)
class LinkCoverage:
    """
    How much of the links of a run was seen: *whole* of *cables* at both ends from the first probe to the last.

    *looks*: how often; *lit* of *ends* reported the light that they receive. *least_ber*: the symbol error ratio that
    could hide on a cable without an error in that time (5 %), None if nobody looked.
    """

    cables: int
    whole: int
    looks: int
    ends: int
    lit: int
    least_ber: float | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether both ends of every cable were seen all the time."""
        return self.looks > 0 and self.whole == self.cables

    def __str__(self) -> str:
        if not self.looks:
            return f"none of the {self.cables:,} cables was looked at from both ends"
        which = f"both ends of {self.whole:,} of {self.cables:,} cables"
        seen = f"{which} from the first probe to the last, {self.looks:,} times"
        hides = "" if self.least_ber is None else f"; a symbol error ratio below {self.least_ber:.1e} would not show"
        return f"{seen}; light of {self.lit:,} of {self.ends:,} ends{hides}"


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """
    What was asked, the verdict, and what it rests on.

    *path* is the run's directory; *elapsed_s* is by the run's own clock (simulated on the mock); *judged_by* names the
    baselines used; *again* is the command that gives this verdict again. *complete* is False if not all was reached:
    the run ended early, or it *goes_on* and is judged by what was measured until now. *history_bytes* is how much of
    its history the verdict rests on. *go_on* is the command that measures what is left, empty if nothing is.
    """

    scenario: Scenario
    verdict: Verdict
    path: str
    run_id: str
    elapsed_s: float
    backend: str
    judged_by: tuple[str, ...]
    again: str
    complete: bool = True
    goes_on: bool = False
    history_bytes: int = 0
    go_on: str = ""


ONE_LINE = frozenset({"loopback", "rnic_to_rnic", "pairwise", "link_burn"})
"""
Kinds of probes whose bytes all pass through one RNIC at either end.

A loopback does not leave the RNIC, and is no faster: its engine is built for the line (measured limits for 400 Gb/s are
380 and 390, see ``inventory/baselines``).
"""

ALL_LINES = frozenset({"tor_all_reduce", "group_all_reduce", "concurrent_rings"})
"""Kinds of probes between hosts over all their RNICs."""

RING = "RING"
"""
The only algorithm whose bus bandwidth is bounded by the lines: each ring leaves each host once.

Trees, NVLS and CollNet move fewer bytes than the bus bandwidth stands for.
"""


def bound_by_lines(kind: str, algorithm: object) -> bool:
    """Return whether a measurement can be no faster than the lines; *algorithm* is NCCL_ALGO, None if there is none."""
    return kind in ONE_LINE or (kind in ALL_LINES and algorithm == RING)


def most_specific(limits: Iterable[Limit], wanted: tuple[str, object, object, object, object]) -> Limit | None:
    """Return the matching limit that says most about what is *wanted*, as in a ``LimitKey``; None if none matches."""
    kind, link_class, size, *_ = wanted

    def matches(limit: Limit) -> bool:
        fits = limit.kind == kind and all(one in (None, want) for one, want in zip(limit.key, wanted, strict=True))
        large = (size if isinstance(size, int) else 0) >= limit.min_size_bytes
        # A limit for the network does not apply to NVLink.
        return fits and large and (link_class != NVLINK or limit.link_class == NVLINK)

    return max(filter(matches, limits), key=lambda limit: sum(one is not None for one in limit.key), default=None)


def least_gbps(limit: Limit, platform: Platform) -> float:
    """Return what a limit asks for on a host of the platform, Gb/s."""
    return limit.at_least_gbps * (min(len(platform.rnics), len(platform.gpus)) if limit.per_rnic else 1)


def out_of_reach(least: float, lines_gbps: Sequence[float]) -> str:
    """
    Say why lines of these rates cannot carry *least* (Gb/s); empty if they can.

    All of the lines' rate is too much as well, because headers take a share of it.
    """
    total = sum(lines_gbps)
    if not lines_gbps or least < total:
        return ""
    line = f"line rate of {total:g} Gb/s"
    if len(lines_gbps) > 1:
        line = f"line rate of {len(lines_gbps)} RNICs together, {total:g} Gb/s"
    return f"limit {least:g} Gb/s is {'above' if least > total else 'all of'} the {line}"
