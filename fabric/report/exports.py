"""Exports for other programs: metrics.prom for Prometheus, measurements as CSV, and junit.xml."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from fabric.model import gathered
from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.text import fold
from fabric.report.decision import OUTCOMES, decision_of, run_exit_code
from fabric.report.output import visible
from fabric.report.shown_run import Row, ShownRun

if TYPE_CHECKING:
    import pandas as pd


MOST_SUSPECTS = 100
_BITS_PER_SECOND = 1e9  # Prometheus asks for base units; our bandwidths are in Gb/s


Rows = Iterable[tuple[tuple[str, ...], float]]
Metrics = Iterable[tuple[tuple[str, ...], Rows]]
"""For each metric (name, help text, labels...), and its rows: values of the labels, and the number."""


class LookedMetrics(Collector):
    """
    A collector of the metrics that each *look* finds; *look* also returns the value of one more *label* of all.

    A metric whose name ends with ``_total`` is a counter, all others are gauges.
    """

    def __init__(self, label: str, look: Callable[[], tuple[str, Metrics]]) -> None:
        self._label, self._look = label, look

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering does not need a look."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Look once and yield the metrics."""
        of, metrics = self._look()
        for (name, text, *labels), found in metrics:
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            made = kind(name, text, labels=(self._label, *labels))
            for values, number in found:
                made.add_metric(tuple(map(visible, (of, *values))), number)
            yield made


def metrics_text(run: ShownRun) -> str:
    """Return the text format that node_exporter reads: only this run's samples, no time stamps."""
    return generate_latest(LookedMetrics("scenario", lambda: (run.judged.scenario.name, _gauges(run)))).decode()


def _gauges(run: ShownRun) -> Metrics:
    """Yield the metrics of the last run of a scenario."""
    judged, verdict, suspects = run.judged, run.judged.verdict, run.judged.verdict.suspects
    outcome = ("fabric_run_outcome", "1 for the outcome of the last run, 0 for the others", "outcome")
    yield outcome, [((one.value,), float(one is verdict.outcome)) for one in Outcome]
    yield ("fabric_run_exit_code", "Exit code of the last run"), [((), run_exit_code(run))]
    yield ("fabric_run_duration_seconds", "How long it took by its own clock"), [((), judged.elapsed_s)]
    yield ("fabric_run_complete", "0 when the run was interrupted"), [((), float(judged.complete))]
    info = ("fabric_run_info", "Always 1; the labels say what ran", "run_id", "backend")
    yield info, [((judged.run_id, judged.backend), 1)]
    many = Counter((row.probe.phase, row.probe.kind, row.verdict.outcome.value) for row in run.rows)
    yield ("fabric_probes", "Probes by phase, kind and outcome", "phase", "kind", "outcome"), many.items()
    measured = ((row.probe, row.verdict.value_gbps) for row in run.rows)
    values = gathered(((one.phase, one.kind), gbps * _BITS_PER_SECOND) for one, gbps in measured if gbps is not None)
    least = ("fabric_bandwidth_least_bits_per_second", "The least of a phase and kind", "phase", "kind")
    yield least, [(key, min(found)) for key, found in values.items()]
    middle = ("fabric_bandwidth_median_bits_per_second", "The median of a phase and kind", "phase", "kind")
    yield middle, [(key, median(found)) for key, found in values.items()]
    yield ("fabric_suspects", "How many components are suspected"), [((), len(suspects))]
    sure = ("fabric_suspect_confidence_ratio", "How sure it is, 0 to 1", "component", "kind", "outcome")
    yield sure, [((one.component, one.kind, one.outcome.value), one.confidence) for one in suspects[:MOST_SUSPECTS]]
    states = {("open",): 0, **Counter((one.state,) for one in verdict.changes)}
    yield ("fabric_changes", "Changes by how they ended; open: may still be live", "state"), states.items()
    kept = ("fabric_change_retained_ratio", "Bandwidth during a change over before it", "change")
    effects = [one for one in verdict.effects[:MOST_SUSPECTS] if one.retained is not None]
    yield kept, [((one.change_id,), one.retained or 0.0) for one in effects]


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_ROWS = 20_000  # rows made and written at once: a bound on memory


def csv_lines(samples: pd.DataFrame) -> Iterator[str]:
    """Yield the frame of ``fabric.load`` as CSV, column names first; many lines at a time."""
    shown = samples.assign(
        **{name: samples[name].map(cell, na_action="ignore") for name in samples.select_dtypes("category")}
    )
    for first in range(0, max(len(shown), 1), _ROWS):
        yield shown.iloc[first : first + _ROWS].to_csv(index=False, header=first == 0, lineterminator="\n")


def cell(text: str) -> str:
    """Return a text for a cell: bounded, on one line, an apostrophe before anything a spreadsheet would calculate."""
    shown = visible(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


_MOST_REASONS = 10
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(run: ShownRun) -> str:
    """
    Return a test suite for each phase, and a case for each host and kind of probe.

    Where several hosts measure together, a case is for a set of hosts. FAIL is ``failure`` (the fabric is bad), ERROR
    and INCONCLUSIVE are ``error`` (we could not tell), SKIPPED is ``skipped``. MARGINAL and PASS passed. Expectations,
    changes and the decision after a repair have suites of their own; a suspect is in the text of the cases that
    revealed it.
    """
    document = JUnitXml(_clean(run.judged.scenario.name))
    for name, cases in _suites(run):
        suite = TestSuite(_clean(name))
        suite.add_testcases(cases)  # adding one at a time would count all cases again each time
        document.add_testsuite(suite)
    document.update_statistics()  # type: ignore[no-untyped-call]
    text: bytes = document.tostring()  # type: ignore[no-untyped-call]
    return text.decode()


def _suites(run: ShownRun) -> Iterator[tuple[str, list[TestCase]]]:
    """Yield each suite's name and its cases."""
    scenario = run.judged.scenario.name
    for phase, measured in gathered((row.probe.phase, row) for row in run.rows).items():
        cases = gathered(((_who(row), row.probe.kind), row) for row in measured)
        yield phase, [_measured(f"{scenario}.{phase}", who, kind, rows) for (who, kind), rows in cases.items()]
    decided, verdict = decision_of(run), run.judged.verdict
    if decided is not None and decided.decision is not None:
        reasons = [f"{decided.line}: {'; '.join(decided.reasons)}"]
        outcome = OUTCOMES[decided.decision]
        yield "decision", [_case(f"{scenario}.decision.acceptance", decided.line, outcome, reasons)]
    if verdict.expectations:
        group = f"{scenario}.expected.expect"
        yield "expected", [_case(group, one.text, one.outcome, [one.reason]) for one in verdict.expectations]
    if verdict.changes:
        yield "changes", [_changed(f"{scenario}.changes", one) for one in verdict.changes]


def _who(row: Row) -> str:
    hosts = row.probe.hosts
    return " + ".join(hosts) if len(hosts) <= 2 else fold(hosts)


def _measured(suite: str, who: str, kind: str, rows: Sequence[Row]) -> TestCase:
    bad = [row for row in rows if row.verdict.outcome is not Outcome.PASS]
    reasons = [f"{row.verdict.outcome.name} {row.probe.probe_id}: {row.verdict.reason}" for row in bad]
    worst = max((row.verdict.outcome for row in rows), key=lambda one: one.rank)
    return _case(f"{suite}.{kind}", f"{who} {kind}", worst, reasons, sum(row.took_s for row in rows))


def _changed(suite: str, one: ChangeResult) -> TestCase:
    """Return the case of a change: taken back as asked is a pass; one that may still be live is an error of ours."""
    outcome = {"reverted": Outcome.PASS, "refused": Outcome.SKIPPED}.get(one.state, Outcome.ERROR)
    return _case(f"{suite}.{one.change.kind}", one.change.change_id, outcome, [f"{one.state}: {one.reason}"])


def _case(group: str, name: str, outcome: Outcome, reasons: Sequence[str], took_s: float = 0.0) -> TestCase:
    """Return what is known of one component in one phase."""
    made = TestCase(_clean(name), classname=_clean(group), time=round(took_s, 3))
    if outcome in (Outcome.PASS, Outcome.MARGINAL):
        return made
    # Reasons are filtered, not sorted by outcome: the first one is the one that counts.
    worst = [reason for reason in reasons if reason.startswith(outcome.name)] or reasons
    kinds = {Outcome.FAIL: Failure, Outcome.SKIPPED: Skipped}
    result = kinds.get(outcome, Error)(_clean(worst[0]) if worst else outcome.name, outcome.name)
    rest = len(reasons) - _MOST_REASONS
    lines = [*reasons[:_MOST_REASONS], *([f"and {rest} more"] if rest > 0 else [])]
    result.text = "\n".join(_clean(line) for line in lines)
    made.result = [result]
    return made


def _clean(text: str) -> str:
    """Return the text without characters that XML 1.0 cannot hold, not even escaped."""
    return _NOT_XML.sub("\ufffd", visible(text))
