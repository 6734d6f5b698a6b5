"""What many runs say of a component, and the signals of a host that is in trouble again and again."""

from dataclasses import dataclass

SIGNALS = ("tickets", "troubles", "out", "excluded", "multi_fails", "single_fails", "single_fail_rate")
"""
Seven signals of a lemon, after Meta's (arXiv 2410.21680, section 4.3), as far as our runs can tell them.

*tickets*: runs that suspected it (theirs: repair tickets); *troubles*: different kinds of suspicion (distinct XIDs);
*out*: runs in which it could not be measured (taken out of the scheduler); *excluded*: runs that kept it from a later
phase (excluded by jobs); *multi_fails*: runs in which a probe of several hosts with it failed; *single_fails*: runs in
which a probe of its own failed; *single_fail_rate*: these over the runs it took part in.
"""

QUANTILE = 0.98
"""A signal counts when it is above 0 and at or above this quantile of all hosts (a choice: Meta's are unknown)."""

LEAST_SIGNALS = 3
LEAST_RUNS = 2
"""How many signals, and in how many runs trouble, make a lemon (choices): one bad run is no pattern."""


@dataclass(frozen=True, slots=True)
class HostSignals:
    """
    The signals of one host (with records, also of a part) over all runs.

    *values* are in the order of ``SIGNALS``; *high*: the signals that count, compared with others of its class.
    *told_by*: where its last records are, ``tickets.csv:3``.
    """

    host: str
    runs: int
    troubled: int  # runs, and days of records, with any trouble
    values: tuple[float, ...]
    high: tuple[str, ...]
    told_by: tuple[str, ...] = ()

    @property
    def lemon(self) -> bool:
        """Return whether it is in trouble again and again, more than others."""
        return len(self.high) >= LEAST_SIGNALS and self.troubled >= LEAST_RUNS


@dataclass(frozen=True, slots=True)
class RunLine:
    """
    One run as it concerns a component.

    *share* is the lowest of its results over the median of the same measurement on all hosts of that run; None if there
    is none. *suspected*: its components that the run suspected. *decision*: whether the hosts of a post-repair
    validation may return, ``ACCEPT`` or ``REJECT``; None for other runs and if undecided.
    """

    run_id: str
    scenario: str
    backend: str
    outcome: str
    hosts: int
    share: float | None
    failed: int
    suspected: tuple[str, ...]
    decision: str | None = None


@dataclass(frozen=True, slots=True)
class PartHistory:
    """
    The history of a *component*, or of all hosts if that is None.

    *unreadable* counts runs without a verdict of all that they measured; *not_judged* names them, ``scenario/run``.
    *at_work*: how many of *total* go on and are judged when they end. *closed* says what cannot be read, and why: there
    may be more runs. *records*: how many records from elsewhere are counted in.
    """

    component: str | None
    runs: tuple[RunLine, ...]
    signals: tuple[HostSignals, ...]
    unreadable: int
    total: int
    not_judged: tuple[str, ...] = ()
    at_work: int = 0
    closed: tuple[str, ...] = ()
    records: int = 0
