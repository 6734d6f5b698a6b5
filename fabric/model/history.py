"""What many runs say of a component, and the signals of a host in trouble again and again."""

from dataclasses import dataclass

SIGNALS = ("tickets", "troubles", "out", "excluded", "multi_fails", "single_fails", "single_fail_rate")
"""
Seven signals of a lemon, after Meta's (arXiv 2410.21680, section 4.3), as far as our runs can tell them:

*tickets*: runs that suspected it (theirs: repair tickets); *troubles*: different kinds of suspicion (distinct XIDs);
*out*: runs in which it could not be measured (taken out of the scheduler); *excluded*: runs that kept it from a later
phase (excluded by jobs); *multi_fails*: runs in which a probe of several hosts with it failed; *single_fails*: runs in
which a probe of its own failed; *single_fail_rate*: those over the runs it took part in.
"""

QUANTILE = 0.98
"""A signal counts when it is above 0 and at or above this quantile of all hosts (a choice: Meta's are unknown)."""

LEAST_SIGNALS = 3
LEAST_RUNS = 2
"""So many signals, and trouble in so many runs, make a lemon (choices): one bad run is no pattern."""


@dataclass(frozen=True, slots=True)
class HostSignals:
    """
    One host (of records also a part) over all runs: values in order of ``SIGNALS``; *high*: which of them count, beside
    what is of its kind. *told_by*: where the last records of it stand, ``tickets.csv:3``.
    """

    host: str
    runs: int
    troubled: int  # runs, and days of records, with any trouble
    values: tuple[float, ...]
    high: tuple[str, ...]
    told_by: tuple[str, ...] = ()

    @property
    def lemon(self) -> bool:
        """Whether it is in trouble again and again, more than others."""
        return len(self.high) >= LEAST_SIGNALS and self.troubled >= LEAST_RUNS


@dataclass(frozen=True, slots=True)
class RunLine:
    """
    One run as a component saw it.

    *share* is the least of what was measured of it over the median of the same measurement on all hosts of that run;
    None where nothing was. *suspected*: components of it that the run suspected. *decision*: whether the hosts of a
    post-repair validation may return, ``ACCEPT`` or ``REJECT``; None for other runs and where it is not decided.
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
    *component* None: of all hosts. *unreadable* counts runs without a verdict of all that they measured: *not_judged*
    names them, ``scenario/run``. *at_work*: so many of *total* go on and are judged when they end. *closed* says what
    cannot be read, and why: there may be more runs. *records*: so many that others wrote down are counted in.
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
