"""What accused a host before it was repaired, and what became of it afterwards."""

from dataclasses import dataclass
from enum import Enum

from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.verdict import Suspect


@dataclass(frozen=True, slots=True)
class PartIdentity:
    """
    One part as it names itself; None: it does not say.

    *part* is its name within the host: ``mlx5_3``, ``mlx5_3:port`` (the cable or transceiver plugged into it),
    ``gpu3``. *kind*: ``rnic``, ``module`` or ``gpu``. *unique* is the node GUID of an RNIC and the UUID of a GPU.
    *firmware* of a GPU is its VBIOS.
    """

    part: str
    kind: str
    serial: str | None = None
    part_number: str | None = None
    firmware: str | None = None
    unique: str | None = None


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """The parts of one host; *unread* says in words what could not be read, and why."""

    host: str
    parts: tuple[PartIdentity, ...]
    unread: tuple[str, ...] = ()

    @property
    def by_part(self) -> dict[str, PartIdentity]:
        """The parts by name."""
        return {one.part: one for one in self.parts}


@dataclass(frozen=True, slots=True)
class Evidence:
    """
    One probe that did not pass in the run that failed the host, Gb/s.

    *value_gbps* is None where nothing was measured then, *limit_gbps* where there was no limit. *past_gbps* is what the
    same probe measured in earlier runs, where it met its limit. *repeat*: how often it is measured again; 0: as often
    as the scenario says.
    """

    probe: Probe
    outcome: Outcome
    reason: str
    value_gbps: float | None = None
    limit_gbps: float | None = None
    past_gbps: tuple[float, ...] = ()
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Need:
    """
    What *part* has to show, from how it failed: *bad* of the *of* tests through it then.

    *tests*: so many good ones tell that it is bad that often no more. *after_s*: it was bad no sooner than so long
    under load, and *warm_c*: only when its module was so warm (Celsius); None: that had no part in it.
    """

    part: str
    bad: int
    of: int
    tests: int
    after_s: float = 0.0
    warm_c: float | None = None


@dataclass(frozen=True, slots=True)
class Because:
    """
    The run that failed *hosts*, which are said to be repaired; or *links*: leaves, spines and cables between switches.

    *needs* is what their parts have to show. *run* is ``scenario/run-id``, *path* its directory. *quick*: bit errors
    are not watched. *identity* is what the parts were then, empty where that was not read. *notes* say what could not
    be repeated.
    """

    run: str
    path: str
    hosts: tuple[str, ...]
    quick: bool
    suspects: tuple[Suspect, ...]
    evidence: tuple[Evidence, ...]
    identity: tuple[HostIdentity, ...] = ()
    notes: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What was repaired, each of which gets a decision."""
        return self.links or self.hosts


class Decision(Enum):
    """Whether repaired hosts may go back into service."""

    ACCEPT = "ACCEPT"
    REJECT = "REJECT"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True)
class Weighed:
    """
    One piece of evidence, measured again: the median of *n* repetitions, Gb/s, beside what it is compared with.

    *past* and *peers* say in words how it lies to the same probe in earlier runs and to others of its kind in this run;
    empty where there is nothing to compare with.
    """

    label: str
    outcome: Outcome
    reason: str
    before_gbps: float | None
    before: str
    now_gbps: float | None
    n: int
    limit_gbps: float | None
    past: str = ""
    peers: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """Of one host or link: whether it may go back, and why, the weightiest reason first."""

    name: str
    decision: Decision
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Acceptance:
    """
    The end of a post-repair validation: one decision for *each* host or link, and the worst of them for all.

    *hosts* are their names (links' as well). *reasons* explain the decision, the weightiest first; *notes* are what a
    reader should know and what does not change it. *parts* says what was replaced. *watched_s* is how long the ports
    were watched for bit errors, the shortest of them (None: not at all).
    """

    decision: Decision
    hosts: tuple[str, ...]
    because: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    weighed: tuple[Weighed, ...]
    parts: tuple[str, ...]
    watched_s: float | None
    quick: bool
    each: tuple[Decided, ...] = ()
