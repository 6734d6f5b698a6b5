"""What pipelines read, read back by the libraries that they use."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import jsonschema
import orjson
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped
from prometheus_client.parser import text_string_to_metric_families

from fabric.app.analyze import load
from fabric.model.outcome import Outcome
from fabric.report.exports import cell, csv_lines, metrics_text
from fabric.report.junit import junit_xml
from fabric.report.markdown import summary
from fabric.report.shown_run import ShownRun
from fabric.report.templates import plain
from fabric.report.verdict_json import verdict_document, verdict_schema
from fabric.runs.tables import TABLES
from tests.report.shown import HOSTILE, hostile


def cases(run: ShownRun) -> dict[str, object]:
    """Result type by the name of the case, as a JUnit reader sees it."""
    document = JUnitXml.fromstring(junit_xml(run).encode())
    return {case.name: type(case.result[0]) if case.result else None for suite in document for case in suite}


def with_outcome(run: ShownRun, outcome: Outcome) -> ShownRun:
    """The same run with this outcome for every probe."""
    verdict = run.judged.verdict
    probes = tuple(replace(probe, outcome=outcome, reason="because") for probe in verdict.probes)
    return replace(run, judged=replace(run.judged, verdict=replace(verdict, probes=probes)))


def test_junit_has_one_case_for_each_host_and_kind(bad_run: ShownRun) -> None:
    found = cases(bad_run)
    assert found["gpu002 loopback"] is Failure
    assert found["gpu001 loopback"] is None
    assert len(found) == len({(row.probe.phase, row.probe.hosts, row.probe.kind) for row in bad_run.rows})


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (Outcome.PASS, None),
        (Outcome.MARGINAL, None),
        (Outcome.SKIPPED, Skipped),
        (Outcome.INCONCLUSIVE, Error),
        (Outcome.ERROR, Error),
        (Outcome.FAIL, Failure),
    ],
)
def test_junit_keeps_outcomes_apart(bad_run: ShownRun, outcome: Outcome, result: object) -> None:
    assert set(cases(with_outcome(bad_run, outcome)).values()) == {result}


def test_junit_survives_what_xml_cannot_hold(bad_run: ShownRun) -> None:
    assert Error in set(cases(hostile(bad_run)).values())


def test_junit_counts_are_those_of_its_cases(bad_run: ShownRun) -> None:
    document = JUnitXml.fromstring(junit_xml(bad_run).encode())
    found = list(cases(bad_run).values())
    assert (document.tests, document.failures, document.skipped) == (
        len(found),
        found.count(Failure),
        found.count(Skipped),
    )


def test_metrics_are_read_back_by_prometheus_own_parser(bad_run: ShownRun) -> None:
    families = {family.name: family for family in text_string_to_metric_families(metrics_text(bad_run))}
    outcome = {s.labels["outcome"]: s.value for s in families["fabric_run_outcome"].samples}
    assert outcome["fail"] == 1.0
    assert sum(outcome.values()) == 1.0
    probes = sum(sample.value for sample in families["fabric_probes"].samples)
    assert probes == len(bad_run.rows)
    least = families["fabric_bandwidth_least_bits_per_second"].samples
    assert {s.value for s in least if s.labels["kind"] == "loopback"} == {
        min(r.verdict.value_gbps or 1e9 for r in bad_run.rows if r.probe.kind == "loopback") * 1e9
    }


def test_hostile_labels_stay_labels(bad_run: ShownRun) -> None:
    families = list(text_string_to_metric_families(metrics_text(hostile(bad_run))))
    sure = next(family for family in families if family.name == "fabric_suspect_confidence_ratio")
    assert any("<script>" in sample.labels["component"] for sample in sure.samples)


def test_changes_are_counted_by_how_they_ended(changed_run: ShownRun) -> None:
    families = {family.name: family for family in text_string_to_metric_families(metrics_text(changed_run))}
    states = {sample.labels["state"]: sample.value for sample in families["fabric_changes"].samples}
    assert states == {"open": 0.0, "reverted": float(len(changed_run.judged.verdict.changes))}


def test_csv_has_the_columns_and_rows_of_the_samples(bad_rack: Path) -> None:
    samples = load(bad_rack).samples
    rows = list(csv.DictReader(io.StringIO("".join(csv_lines(samples)))))
    assert tuple(rows[0]) == tuple(TABLES["samples"].columns)
    assert [float(row["gbps"] or "nan") for row in rows] == pytest.approx(list(samples.gbps), nan_ok=True)


@given(st.text())
def test_no_cell_is_a_formula(text: str) -> None:
    shown = cell(text)
    assert not shown.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert "\n" not in shown


def test_hostile_csv_has_its_columns_and_no_formula() -> None:
    frame = pd.DataFrame({"reason": pd.Categorical([*HOSTILE, None]), "gbps": 1.0})
    rows = list(csv.reader(io.StringIO("".join(csv_lines(frame)))))
    assert {len(row) for row in rows} == {2}
    assert len(rows) == len(HOSTILE) + 2
    assert not any(row[0].startswith(("=", "+", "-", "@")) for row in rows)


def test_summary_says_where_how_sure_and_what_to_do(bad_run: ShownRun) -> None:
    text = summary(bad_run)
    assert text.startswith("# FAIL: self-check on 4 hosts")
    for part in (
        "gpu002/mlx5\\_3 (rnic): FAIL, sure: 9",
        "**the fabric is bad. 1 fault: gpu002 RNIC mlx5\\_3**",
        "**next**: check link width",
        "Simulated",
    ):
        assert part in text


def test_summary_of_changes_lists_expectations(changed_run: ShownRun) -> None:
    assert "| PASS | degraded / healthy at least 0.9" in summary(changed_run)


@given(st.text())
def test_markdown_reads_nothing_into_hostile_text(text: str) -> None:
    shown = plain(text)
    assert "\n" not in shown
    for sign in "<[`*|&":
        assert shown.count(sign) == shown.count(f"\\{sign}")


@pytest.mark.parametrize("name", ["bad_run", "changed_run"])
def test_verdict_fits_its_schema(name: str, request: pytest.FixtureRequest) -> None:
    run: ShownRun = request.getfixturevalue(name)
    jsonschema.Draft202012Validator.check_schema(verdict_schema())
    jsonschema.validate(orjson.loads(orjson.dumps(verdict_document(run.judged))), verdict_schema())


def test_schema_notices_a_missing_key(bad_run: ShownRun) -> None:
    document = orjson.loads(orjson.dumps(verdict_document(bad_run.judged)))
    jsonschema.validate(document, verdict_schema())
    del document["suspects"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, verdict_schema())


def test_schema_knows_every_key_of_the_verdict(changed_run: ShownRun) -> None:
    """The hall is only there where it was measured."""
    assert {*verdict_document(changed_run.judged), "hall"} == set(verdict_schema()["properties"])
