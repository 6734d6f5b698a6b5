"""What many runs say of a component, and which hosts are in trouble again and again ("lemons")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fabric.model.part import Part
from fabric.report.output import columns, counted, some

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
    """One host over all runs looked at: values in the order of ``SIGNALS``; *high*: which of them count."""

    host: str
    runs: int
    troubled: int  # runs with any trouble
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
    cannot be read, and why: there may be more runs.
    """

    component: str | None
    runs: tuple[RunLine, ...]
    signals: tuple[HostSignals, ...]
    unreadable: int
    total: int
    not_judged: tuple[str, ...] = ()
    at_work: int = 0
    closed: tuple[str, ...] = ()


_BARS = "▁▂▃▄▅▆▇█"
_MOST_RUNS = 40
_MOST_HOSTS = 20
_MOST_NAMES = 4


def spark(shares: Sequence[float | None]) -> str:
    """Shares from half to normal as a line of bars; a dot where nothing was measured."""
    return "".join("·" if s is None else _BARS[min(max(int((s - 0.5) * 2 * 8), 0), 7)] for s in shares)


def lines(found: PartHistory) -> Iterator[str]:
    """For a terminal; the newest run last."""
    if found.component is None:
        yield f"{counted(found.total, 'run')}, all hosts"
    else:
        known = any(one.host == Part.of(found.component).host for one in found.signals)
        yield f"{len(found.runs):,} of {found.total:,} runs {'had' if known else 'suspected'} {found.component}"
    yield from _left_out(found)
    shown = found.runs[-_MOST_RUNS:]
    if found.component is not None and any(run.share is not None for run in shown):
        yield f"  {spark([run.share for run in shown])}  least share of normal, 50 to 100 %"
    if len(shown) < len(found.runs):
        yield f"  the last {len(shown)} of {len(found.runs):,}:"
    width = max((len(run.scenario) for run in shown), default=0)
    yield from (_run_line(run, width) for run in shown)
    yield from _offenders(found)


def _left_out(found: PartHistory) -> Iterator[str]:
    if found.at_work:
        yield f"  {found.at_work} not judged yet: still going on (fabric status)"
    if found.not_judged:
        yield f"  {found.unreadable} not judged yet: fabric analyze RUN; {some(found.not_judged, _MOST_NAMES)}"
    for text in found.closed[:_MOST_NAMES]:
        yield f"  cannot be read: {text}"
    if len(found.closed) > _MOST_NAMES:
        yield f"  and {len(found.closed) - _MOST_NAMES} more cannot be read"


def _run_line(run: RunLine, width: int) -> str:
    share = "" if run.share is None else f"{run.share:.1%}"
    failed = f"{run.failed} failed" if run.failed else ""
    names = some(run.suspected, _MOST_NAMES)
    mock = " (simulated)" if run.backend == "mock" else ""
    head = f"  {run.run_id:<17} {run.scenario:<{width}} {run.decision or run.outcome.upper():<12}"
    return f"{head} {share:>6} {failed:<12} {names}{mock}".rstrip()


def _offenders(found: PartHistory) -> Iterator[str]:
    host = Part.of(found.component or "").host
    if host and not any(one.host == host for one in found.signals):
        return  # a part of the network: the signals are those of hosts
    about = [one for one in found.signals if not host or one.host == host]
    lemons = [one for one in about if one.lemon]
    troubled = [one for one in about if one.troubled]
    if not troubled:
        yield f"\n{host or 'No host'} was {'never ' if host else ''}in trouble."
        return
    yield f"\nRepeat offenders: {len(lemons)} of {len(about):,} hosts"
    rows = lemons or troubled
    shown = [("host", "runs", *_HEADS), *(_signal_row(one) for one in rows[:_MOST_HOSTS])]
    yield from (f"  {line}" for line in columns(shown, range(1, len(_HEADS) + 2)))
    if not lemons:
        yield "  none of them again and again (yet)"
    if len(rows) > _MOST_HOSTS:
        yield f"  and {len(rows) - _MOST_HOSTS} more"
    rule = f"{LEAST_SIGNALS} of these and trouble in {LEAST_RUNS} runs make an offender"
    yield f"  *: at or above the {QUANTILE:.0%} quantile of all hosts; {rule}"
    yield from _LEGEND


def _signal_row(one: HostSignals) -> tuple[str, ...]:
    cells = [f"{value:g}" if value >= 1 or value == 0 else f"{value:.2f}" for value in one.values]
    marked = [f"{cell}{'*' if name in one.high else ' '}" for cell, name in zip(cells, SIGNALS, strict=True)]
    return one.host, str(one.runs), *marked


_LEGEND = (
    "  how many runs suspected it (tickets), in how many ways (troubles), could not measure it (out), kept it from a",
    "  later phase (excluded), had failed probes of it with others (multi) or of its own (single; rate: their share)",
)
_HEADS = ("tickets", "troubles", "out", "excluded", "multi fails", "single fails", "single rate")
