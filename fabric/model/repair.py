"""The evidence that accused a host before its repair, and the decision after it."""

from dataclasses import dataclass
from enum import Enum

from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.verdict import Suspect


@dataclass(frozen=True, slots=True)
class PartIdentity:
    """
    The identity of one part as it reports it; None: it does not say.

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
        """Return the parts by name."""
        return {one.part: one for one in self.parts}


@dataclass(frozen=True, slots=True)
class Evidence:
    """
    One probe that did not pass in the run that failed the host; numbers in Gb/s.

    *value_gbps* is None if nothing was measured, *limit_gbps* if there was no limit. *past_gbps* is what the same probe
    measured in earlier runs in which it met its limit. *repeat*: how often it is measured again; 0: as often as the
    scenario says.
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
    What *part* has to show because of how it failed: then, *bad* of *of* tests through it were bad.

    *tests*: how many good tests show that it is no longer bad that often. *after_s*: it was bad only after so long
    under load. *warm_c*: it was bad only when its module was at least so warm (Celsius); None: warmth did not matter.
    *lost*: the share of its best bandwidth that was missing in its bad tests (their median); 0: they gave no number.
    """

    part: str
    bad: int
    of: int
    tests: int
    after_s: float = 0.0
    warm_c: float | None = None
    lost: float = 0.0


@dataclass(frozen=True, slots=True)
class Because:
    """
    The run that failed *hosts* (said to be repaired) or *links* (leaves, spines, cables between switches).

    *needs* is what their parts have to show. *run* is ``scenario/run-id``, *path* its directory. *quick*: bit errors
    are not watched. *identity* is that of the parts then, empty if it was not read. *notes* say what could not be
    repeated.
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
        """Return the names of what was repaired; each gets a decision."""
        return self.links or self.hosts


class Decision(Enum):
    """Whether repaired hosts may go back into service."""

    ACCEPT = "ACCEPT"
    REJECT = "REJECT"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True)
class Weighed:
    """
    One piece of evidence, measured again: the median of *n* repetitions, Gb/s, and what it is compared with.

    *past* and *peers* say in words how it compares with the same probe in earlier runs, and with others of its kind in
    this run; empty if there is nothing to compare with.
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
    """The decision on one host or link: whether it may go back, and why, the weightiest reason first."""

    name: str
    decision: Decision
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Acceptance:
    """
    The end of a post-repair validation: one decision for *each* host or link, and the worst of them for all.

    *hosts* are their names (of links too). *reasons* explain the decision, the weightiest first; *notes* are worth
    knowing but do not change it. *parts* says what was replaced. *watched_s* is how long the ports were watched for bit
    errors, the shortest time of all (None: not at all).
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
