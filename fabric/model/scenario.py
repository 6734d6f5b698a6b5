"""What the operator wants measured: a scenario, its phases, and the probes that each phase asks for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field

from fabric.model.change import CHANGES, ChangeSpec
from fabric.model.fields.entry import Entry, InFiles, Kinds, Named, NotInFiles, key
from fabric.model.fields.scalars import (
    BASELINE_NAME,
    PHASE_NAME,
    SAFE_NAME,
    Choice,
    Decimal,
    Duration,
    Flag,
    Whole,
    refusal,
)
from fabric.model.probe import Answered, Probe, ProbeCommands, Reading
from fabric.model.sampling import CRITERIA, SampleSettings, ZeroGrowth
from fabric.model.topology import EnvPairs, Platform, Topology


@dataclass(frozen=True, slots=True)
class FilledTime:
    """The time that all rounds of one repeated phase fill together; *name* is the name they share."""

    name: str
    within_s: float


@dataclass(frozen=True, slots=True)
class Uses:
    """
    What a probe needs of a host besides its RNICs.

    *programs* are called by name. *cuda*: perftest reaches GPU memory itself. *gpudirect*: some RNIC reads GPU memory.
    *pinned_bytes*: the most memory that one program locks.
    """

    programs: tuple[str, ...] = ()
    cuda: bool = False
    gpudirect: bool = False
    pinned_bytes: int = 0


class LimitKey(NamedTuple):
    """The key by which the judge looks up the limit of a probe."""

    kind: str
    link_class: str | None = None
    size_bytes: int | None = None
    ranks: int | None = None
    algorithm: str | None = None


class ProbeSpec(Entry):
    """
    One entry of a phase's ``probes:``, and what its kind does with it.

    Each kind is a class of its own in a file of its own (``fabric.probes``): its fields are the keys of the entry, the
    row in run.json and the JSON Schema; the first line of its docstring is what the schema says of it.
    """

    kind: ClassVar[str]
    needs: ClassVar[str]
    """What a host must have to be measured, in words."""
    some: ClassVar[bool] = False
    """Whether it is asked of some of the hosts only: those that it does not measure miss nothing."""
    collective: ClassVar[bool] = False
    """Whether it runs NCCL, and so is given the variables of its phase."""
    alone: ClassVar[bool] = False
    """Whether one of its probes can be measured again by itself; one of several that run at once would then have the
    network to itself."""
    peers: ClassVar[bool] = False
    """Whether its probes have what they use to themselves, so that like ones can be compared with each other. Rings
    that run at once share the network: what one gains another loses, and a slow one may be bad luck of routing."""

    name: Annotated[str, SAFE_NAME]
    """Its name in ids and reports; the kind when left out."""
    repeat: Annotated[int, Whole(1, 1000)] = 1
    """How often each measurement is made."""

    @property
    def is_of_some(self) -> bool:
        """Return whether this entry itself names its hosts, so that other hosts miss nothing."""
        return False

    @property
    def measured_sizes(self) -> tuple[int, ...]:
        """Return the message sizes that it measures, in bytes."""
        return ()

    def unjoined(self, hosts: Sequence[str], topology: Topology) -> dict[str, list[str]]:
        """Return what it cannot measure because the fabric has no path there, in words, and on which hosts."""
        return {}

    def uses(self, platform: Platform) -> Uses | None:
        """Return what it needs of a host of this platform; None if such a host takes no part."""
        return None

    def limit_keys(self, platform: Platform, *, hosts: int) -> Iterator[LimitKey]:
        """Yield the keys of its probes' limits on one of so many hosts of the platform; none without probes."""
        return iter(())

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """Yield every probe of this kind on these hosts, fully decided."""
        raise NotImplementedError

    @classmethod
    def commands(cls, probe: Probe, topology: Topology) -> ProbeCommands:
        """Return the commands of a probe of this kind."""
        raise ValueError(f"{probe.probe_id}: no probe is of kind {cls.kind}")

    @classmethod
    def read(cls, probe: Probe, topology: Topology, answered: Answered) -> Reading:
        """Return what the output of a probe says."""
        raise ValueError(f"{probe.probe_id}: no probe is of kind {cls.kind}")


class LocaliseSettings(Entry):
    """
    Further rounds of pair tests that find the bad part.

    *paths* ``unknown``: adaptive routing or ECMP decides, and uplinks and spines cannot be told apart.
    """

    rounds: Annotated[int, Whole(1, 32)] = 10
    """How many rounds of each rail there are at most, the planned ones included."""
    budget_s: Annotated[float, Duration(1, 86400), AfterValidator(float)] = Field(1200.0, validation_alias="budget")
    """After this time no further round begins."""
    paths: Annotated[str, Choice(("unknown", "static"))] = "unknown"
    """static: no adaptive routing, so the switches' tables say which uplinks a pair crosses."""


PHASES_MOST = 2000
"""The most phases of one scenario (a choice: 72 h of rounds of two minutes)."""

DRILLS = "drills"
"""The word in ``allow:`` that lets phases run that are drills."""
ALLOWED = ("isolate", "busy_hosts", "blast_radius", "power_loss", DRILLS)
"""Guard rails that a scenario may lift, and phases that run only if allowed."""

Where = tuple[tuple[str, str], ...]
"""One combination of a matrix, as texts: ``(("adaptive_routing", "on"),)``."""

LONGEST_S = 30 * 86_400
"""The longest run in seconds (a choice; 3 to 4 weeks is the longest burn-in that anybody recommends)."""

Name = Annotated[str, SAFE_NAME]
PhaseName = Annotated[str, PHASE_NAME]
RunTime = Annotated[float, Duration(1, LONGEST_S), AfterValidator(float)]

PROBES = Kinds()
"""The kinds of probe; ``fabric.config.phases`` fills them in."""


PROBE_KIND = Choice(PROBES.kinds)
"""The name of a kind of probe."""


def _auto(value: object) -> object:
    """Accept ``auto`` or a mapping; refuse anything else."""
    if value == "auto":
        return {}
    if not isinstance(value, dict):
        raise refusal("auto, or a mapping with rounds and budget", value)
    return value


Localise = Annotated[
    LocaliseSettings, BeforeValidator(_auto, json_schema_input_type=Literal["auto"] | LocaliseSettings)
]


@dataclass(frozen=True, slots=True)
class Phase(InFiles):
    """
    A part of the scenario; phases run in the order written.

    It runs only for hosts that passed every phase in *needs*. A matrix makes several phases of one that is written:
    *label* is the written name (empty: *name*), *where* the combination, *round* which repetition. Until its rounds
    are planned *for_s* (seconds) or *share* (of the whole run) says how long it is repeated; None: once. A host whose
    own probes end in an ERROR where other hosts do the same well fails with *stop_host_on*, too. A round of a repeated
    phase *fills* a time with others: none is begun after it.
    """

    name: PhaseName
    """Its name in ids and reports."""
    probes: Annotated[tuple[Annotated[ProbeSpec, PROBES], ...], Field(min_length=1, max_length=64)]
    """What is measured, in this order."""
    needs: tuple[PhaseName, ...] = key((), max_length=64)
    """Phases that a host must have passed to take part."""
    changes: tuple[Annotated[ChangeSpec, CHANGES], ...] = key((), max_length=64)
    """What is altered while it runs; everything is undone at its end."""
    env: EnvPairs = ()
    """Variables for its collectives; they win over the platform's env."""
    label: Annotated[str, NotInFiles()] = ""
    where: Annotated[Where, NotInFiles()] = ()
    round: Annotated[int, NotInFiles()] = 1
    localise: Localise | None = None
    """auto: further rounds of its pairwise probes find the bad part."""
    for_s: RunTime | None = key(None, alias="for")
    """It is run again and again for so long: 4h; no round is begun after it."""
    share: Annotated[float, Decimal(0.001, 1)] | None = None
    """The same for a share of the whole run, whose 'for' or --for says how long it lasts."""
    stop_host_on: Annotated[str, Choice(("fail",))] | None = None
    """fail: a host whose own probes FAIL in two rounds in a row is left out of later ones."""
    drill: Annotated[bool, Flag()] = False
    """true: this phase alters the fabric for practice, and is left out unless 'allow' has drills."""
    fills: Annotated[FilledTime | None, NotInFiles()] = None

    @property
    def written(self) -> str:
        """Return its name in the file."""
        return self.label or self.name

    @property
    def repeated(self) -> tuple[str, Where]:
        """Return what all its rounds share: the written name, and the combination of a matrix."""
        return self.written, self.where


@dataclass(frozen=True, slots=True)
class PhaseRef:
    """All phases made of one written phase, in every round; *where* keeps only those with these matrix values."""

    label: str
    where: Where = ()


MEAN, CV, P5, SLOWEST = "mean", "cv", "p5", "slowest/median"
STATISTICS = (MEAN, CV, P5, SLOWEST)
"""
Statistics of a phase that can be judged.

The geometric mean; sigma / mean of its members (the rings, the pairs); their 5th percentile; the slowest over the
median of them.
"""

LEAST_ROUNDS = 3
"""
From so many rounds on, the rounds themselves show how much they differ (a choice).

With two differences Student's t is 12.7.
"""


@dataclass(frozen=True, slots=True)
class ExpectedRatio:
    """
    A statistic of one phase over another's, with its confidence interval, is within bounds; *over* None: its own value.

    *at_least* and *at_most* bound it (None: not on that side). Probes of the same name, size and participants are
    compared; *probe* and *size_bytes* keep only one name or size. *statistic* is one of ``STATISTICS``.
    """

    of: PhaseRef
    over: PhaseRef | None
    at_least: float | None = None
    at_most: float | None = None
    probe: str | None = None
    size_bytes: int | None = None
    statistic: str = MEAN

    @property
    def refs(self) -> tuple[PhaseRef, ...]:
        """Return the phases that it is about."""
        return (self.of,) if self.over is None else (self.of, self.over)


@dataclass(frozen=True, slots=True)
class OfPhase:
    """The base of expectations about one phase."""

    phase: PhaseRef

    @property
    def refs(self) -> tuple[PhaseRef, ...]:
        """Return the phases that it is about."""
        return (self.phase,)


@dataclass(frozen=True, slots=True)
class ExpectedEnd(OfPhase):
    """Every probe of a phase completes (*completes*), or every one is given up by the transport (not *completes*)."""

    completes: bool


@dataclass(frozen=True, slots=True)
class ExpectedRecovery(OfPhase):
    """
    After each change of a phase has ended, a sample reaches *fraction* of the median before it *within_s*.

    *since* ``begin``: the time counts from the change's begin, even if it is still in force, and all later samples have
    to reach the fraction, too.
    """

    within_s: float
    fraction: float = 0.95
    since: str = "end"


Expectation = Annotated[
    ExpectedRatio | ExpectedEnd | ExpectedRecovery,
    Named({"ratio": ExpectedRatio, "end": ExpectedEnd, "recovery": ExpectedRecovery}),
]
"""What an entry of ``expect:`` asks for."""


@dataclass(frozen=True)
class JudgeSettings(InFiles):
    """How measurements are judged."""

    baseline: Annotated[str, BASELINE_NAME] | None = None
    """Use this baseline for every host, not its platform's own."""
    marginal: Annotated[float, Decimal(0, 0.5)] = 0.005
    """Fraction above a limit that is said to be near it."""
    zero_growth: tuple[Annotated[str, Choice(CRITERIA)], ...] = key((), max_length=8)
    """What ports may not count while the run works; a port that does is bad."""
    allowed_growth: ZeroGrowth | None = None
    """Of zero_growth: how much is too much of what grows on a good fabric, too."""

    @property
    def growth(self) -> ZeroGrowth | None:
        """Return what ports may not count, and how much is too much; None if the scenario does not ask."""
        return replace(self.allowed_growth or ZeroGrowth(), criteria=self.zero_growth) if self.zero_growth else None


Lines = tuple[tuple[str, str, int], ...]
"""A key (``changes``, or a kind of probe), the phase that has it, and the line; not kept in run.json."""


@dataclass(frozen=True, kw_only=True)
class ScenarioSettings(InFiles):
    """What a scenario says besides which phases run on which hosts, and what shall come out."""

    name: Name
    """Its name; results go to results/<name>/."""
    judge: JudgeSettings = JudgeSettings()
    """Which limits count, and what is near them."""
    allow: tuple[Annotated[str, Choice(ALLOWED)], ...] = key((), max_length=len(ALLOWED))
    """What is allowed besides: isolate, busy_hosts, blast_radius, power_loss (guard rails), drills."""
    sample: SampleSettings | None = None
    """What is read on the hosts while the run works."""
    identity: Annotated[bool, Flag()] = False
    """Whether serial numbers and firmware of the hosts' parts are read when the run begins."""
    lasts_s: RunTime | None = key(None, alias="for")
    """How long the whole run lasts, for phases with a share of it; or --for."""


@dataclass(frozen=True, kw_only=True)
class Scenario(ScenarioSettings):
    """One scenario file, decoded; *hosts* names the hosts it runs on, already resolved, in inventory order."""

    description: str = ""
    source: str
    inventory: str  # path as resolved against the scenario's own folder
    hosts: tuple[str, ...]
    phases: tuple[Phase, ...]
    expect: tuple[Expectation, ...] = ()
    # lines of keys whose problems show only when planned
    lines: Annotated[Lines, Field(exclude=True)] = field(default=(), compare=False)
