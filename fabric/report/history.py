"""What many runs say of a component, and which hosts are in trouble again and again ("lemons")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fabric.model.part import Part
from fabric.report import templates
from fabric.report.output import columns, some

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
    """One host (of records also a part) over all runs: values in order of ``SIGNALS``; *high*: which of them count."""

    host: str
    runs: int
    troubled: int  # runs, and days of records, with any trouble
    values: tuple[float, ...]
    high: tuple[str, ...]

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


_BARS = "▁▂▃▄▅▆▇█"
_MOST_RUNS = 40
_MOST_HOSTS = 20
_MOST_NAMES = 4


def spark(shares: Sequence[float | None]) -> str:
    """Shares from half to normal as a line of bars; a dot where nothing was measured."""
    return "".join("·" if s is None else _BARS[min(max(int((s - 0.5) * 2 * 8), 0), 7)] for s in shares)


def history_text(found: PartHistory) -> str:
    """For a terminal; the newest run last."""
    shown = found.runs[-_MOST_RUNS:]
    host = Part.of(found.component or "").host
    about = [one for one in found.signals if not host or one.host == host]
    lemons = [one for one in about if one.lemon]
    rows = lemons or [one for one in about if one.troubled]
    table = [("host", "runs", *_HEADS), *(_signal_row(one) for one in rows[:_MOST_HOSTS])]
    return templates.text(
        "history.txt.j2",
        it=found,
        shown=[(run, some(run.suspected, _MOST_NAMES)) for run in shown],
        bars=spark([run.share for run in shown]) if found.component and any(run.share for run in shown) else "",
        width=max((len(run.scenario) for run in shown), default=0),
        of_host=bool(about) or not host,  # else a part of the network: the signals are those of hosts
        host=host,
        hosts=len(about),
        lemons=len(lemons),
        more=len(rows) - _MOST_HOSTS,
        table=columns(table, range(1, len(_HEADS) + 2)) if rows else [],
        not_judged=some(found.not_judged, _MOST_NAMES),
        most=_MOST_NAMES,
        rule=f"{LEAST_SIGNALS} of these and trouble in {LEAST_RUNS} runs make an offender",
        quantile=f"{QUANTILE:.0%}",
    )


def _signal_row(one: HostSignals) -> tuple[str, ...]:
    cells = [f"{value:g}" if value >= 1 or value == 0 else f"{value:.2f}" for value in one.values]
    marked = [f"{cell}{'*' if name in one.high else ' '}" for cell, name in zip(cells, SIGNALS, strict=True)]
    return one.host, str(one.runs), *marked


_HEADS = ("tickets", "troubles", "out", "excluded", "multi fails", "single fails", "single rate")
