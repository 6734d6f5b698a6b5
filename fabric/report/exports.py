"""metrics.prom: what a run found as OpenMetrics, for node_exporter's textfile directory or a push gateway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from statistics import median
from typing import TYPE_CHECKING

from fabric.model.outcome import Outcome
from fabric.report.decision import run_exit_code
from fabric.report.output import visible
from fabric.report.shown_run import ShownRun

if TYPE_CHECKING:
    import pandas as pd
    from prometheus_client import CollectorRegistry


MOST_SUSPECTS = 100
_BITS_PER_SECOND = 1e9  # base units, as Prometheus asks for; a bandwidth of ours is in Gb/s


def metrics_text(run: ShownRun) -> str:
    """The text format that node_exporter reads; its own samples only, no time stamps."""
    from prometheus_client import generate_latest

    return generate_latest(registry(run)).decode()


def registry(run: ShownRun) -> CollectorRegistry:
    """Gauges of the last run of a scenario; all are labelled with the scenario, so that runs replace each other."""
    from prometheus_client import CollectorRegistry, Gauge

    made, scenario = CollectorRegistry(), visible(run.judged.scenario.name)
    for (name, text, *labels), found in _gauges(run):
        gauge = Gauge(name, text, ("scenario", *labels), registry=made)
        for values, number in found:
            gauge.labels(scenario, *map(visible, values)).set(number)
    return made


_Found = Iterable[tuple[tuple[str, ...], float]]


def _gauges(run: ShownRun) -> Iterator[tuple[tuple[str, ...], _Found]]:
    """Of each its name, what it is and its labels; then what was found: values of the labels, and the number."""
    judged, verdict, suspects = run.judged, run.judged.verdict, run.judged.verdict.suspects
    outcome = ("fabric_run_outcome", "1 for the outcome of the last run, 0 for the others", "outcome")
    yield outcome, [((one.value,), float(one is verdict.outcome)) for one in Outcome]
    yield ("fabric_run_exit_code", "Exit code of the last run"), [((), run_exit_code(run))]
    yield ("fabric_run_duration_seconds", "How long it took by its own clock"), [((), judged.elapsed_s)]
    yield ("fabric_run_complete", "0 when the run was interrupted"), [((), float(run.complete))]
    info = ("fabric_run_info", "Always 1; the labels say what ran", "run_id", "backend")
    yield info, [((judged.run_id, judged.backend), 1)]
    many = Counter((row.probe.phase, row.probe.kind, row.verdict.outcome.value) for row in run.rows)
    yield ("fabric_probes", "Probes by phase, kind and outcome", "phase", "kind", "outcome"), many.items()
    values: dict[tuple[str, ...], list[float]] = {}
    for row in run.rows:
        if row.verdict.value_gbps is not None:
            values.setdefault((row.probe.phase, row.probe.kind), []).append(row.verdict.value_gbps * _BITS_PER_SECOND)
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


def push(run: ShownRun, url: str) -> None:
    """Replace this scenario's group at a push gateway; raises OSError with the reason."""
    from prometheus_client import push_to_gateway

    push_to_gateway(
        url, job="fabric", grouping_key={"scenario": run.judged.scenario.name}, registry=registry(run), timeout=10
    )


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_ROWS = 20_000  # made and written at once: a bound on memory


def csv_lines(samples: pd.DataFrame) -> Iterator[str]:
    """The frame of ``fabric.load`` as CSV, its columns' names first; many lines at a time."""
    shown = samples.assign(
        **{name: samples[name].map(cell, na_action="ignore") for name in samples.select_dtypes("category")}
    )
    for first in range(0, max(len(shown), 1), _ROWS):
        yield shown.iloc[first : first + _ROWS].to_csv(index=False, header=first == 0, lineterminator="\n")


def cell(text: str) -> str:
    """Bounded and on one line; an apostrophe before what a spreadsheet would calculate."""
    shown = visible(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown
