"""metrics.prom: what a run found as OpenMetrics, for node_exporter's textfile directory or a push gateway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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

    made = CollectorRegistry()
    scenario, verdict = visible(run.judged.scenario.name), run.judged.verdict

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, ("scenario", *labels), registry=made)

    outcome = gauge("fabric_run_outcome", "1 for the outcome of the last run, 0 for the others", "outcome")
    for one in Outcome:
        outcome.labels(scenario, one.value).set(float(one is verdict.outcome))
    gauge("fabric_run_exit_code", "Exit code of the last run").labels(scenario).set(run_exit_code(run))
    gauge("fabric_run_duration_seconds", "How long it took by its own clock").labels(scenario).set(run.judged.elapsed_s)
    complete = gauge("fabric_run_complete", "0 when the run was interrupted")
    complete.labels(scenario).set(float(run.complete))
    info = gauge("fabric_run_info", "Always 1; the labels say what ran", "run_id", "backend")
    info.labels(scenario, visible(run.judged.run_id), visible(run.judged.backend)).set(1)
    probes = gauge("fabric_probes", "Probes by phase, kind and outcome", "phase", "kind", "outcome")
    values: dict[tuple[str, str], list[float]] = {}
    counted = Counter((row.probe.phase, row.probe.kind, row.verdict.outcome.name) for row in run.rows)
    for (phase, kind, ended), many in counted.items():
        probes.labels(scenario, visible(phase), kind, Outcome[ended].value).inc(many)
    for row in run.rows:
        if row.verdict.value_gbps is not None:
            values.setdefault((row.probe.phase, row.probe.kind), []).append(row.verdict.value_gbps)
    _bandwidths(gauge, scenario, values)
    _suspects(gauge, scenario, run)
    _changes(gauge, scenario, run)
    return made


def push(run: ShownRun, url: str) -> None:
    """Replace this scenario's group at a push gateway; raises OSError with the reason."""
    from prometheus_client import push_to_gateway

    push_to_gateway(
        url, job="fabric", grouping_key={"scenario": run.judged.scenario.name}, registry=registry(run), timeout=10
    )


def _bandwidths(gauge: object, scenario: str, values: dict[tuple[str, str], list[float]]) -> None:
    assert callable(gauge)
    least = gauge("fabric_bandwidth_least_bits_per_second", "The least of a phase and kind", "phase", "kind")
    middle = gauge("fabric_bandwidth_median_bits_per_second", "The median of a phase and kind", "phase", "kind")
    for (phase, kind), found in values.items():
        least.labels(scenario, visible(phase), kind).set(min(found) * _BITS_PER_SECOND)
        middle.labels(scenario, visible(phase), kind).set(median(found) * _BITS_PER_SECOND)


def _suspects(gauge: object, scenario: str, run: ShownRun) -> None:
    assert callable(gauge)
    suspects = run.judged.verdict.suspects
    gauge("fabric_suspects", "How many components are suspected").labels(scenario).set(len(suspects))
    sure = gauge("fabric_suspect_confidence_ratio", "How sure it is, 0 to 1", "component", "kind", "outcome")
    for one in suspects[:MOST_SUSPECTS]:
        sure.labels(scenario, visible(one.component), one.kind, one.outcome.value).set(one.confidence)


def _changes(gauge: object, scenario: str, run: ShownRun) -> None:
    assert callable(gauge)
    states = gauge("fabric_changes", "Changes by how they ended; open: may still be live", "state")
    states.labels(scenario, "open").set(0)
    for result in run.judged.verdict.changes:
        states.labels(scenario, result.state).inc()
    kept = gauge("fabric_change_retained_ratio", "Bandwidth during a change over before it", "change")
    for effect in run.judged.verdict.effects[:MOST_SUSPECTS]:
        if effect.retained is not None:
            kept.labels(scenario, visible(effect.change_id)).set(effect.retained)


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
