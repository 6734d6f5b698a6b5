"""The page of a post-repair validation begins with whether the host may return."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from junitparser import JUnitXml

from fabric.model.repair import Because, Decision
from fabric.probes.again import AgainSpec
from fabric.report.decision import decision_of, run_exit_code
from fabric.report.exports import metrics_text
from fabric.report.junit import junit_xml
from fabric.report.markdown import summary
from fabric.report.page import page
from fabric.report.shown_run import ShownRun
from fabric.runs.told_verdict import DECISION as FILE


@pytest.fixture
def repaired_run(bad_run: ShownRun, tmp_path: Path) -> ShownRun:
    """The same run as a validation of gpu002, in a directory of its own."""
    because = Because(
        run="self-check/1", path="results/self-check/1", hosts=("gpu002",), quick=False, suspects=(), evidence=()
    )
    first, *rest = bad_run.judged.scenario.phases
    scenario = replace(
        bad_run.judged.scenario, phases=(replace(first, probes=(AgainSpec(because=because), *first.probes)), *rest)
    )
    return replace(bad_run, judged=replace(bad_run.judged, scenario=scenario, path=str(tmp_path)))


def test_a_decision_is_said_with_its_reasons_and_what_else_to_know(repaired_run: ShownRun, tmp_path: Path) -> None:
    reasons = ["still bad: 22 of 24 probes", "x" * 900]
    notes = ["nothing was replaced: every serial number is as it was: the fault may come back", reasons[0]]
    (tmp_path / FILE).write_bytes(orjson.dumps({"decision": "REJECT", "reasons": reasons, "notes": notes}))
    found = decision_of(repaired_run)
    assert found is not None
    assert found.line == "REJECT gpu002 after repair"
    assert (found.reasons[0], found.reasons[2:]) == (reasons[0], (f"but know: {notes[0]}",))
    assert len(found.reasons[1]) < 300
    above = page(repaired_run).partition("<nav>")[0]
    assert all(words in above for words in ("REJECT</span> gpu002", reasons[0], "nothing was replaced"))


@pytest.mark.parametrize("data", [None, b"{", b"[]", b'{"decision": 1, "reasons": []}', b'{"decision": "ACCEPT"}'])
def test_what_cannot_be_read_is_no_decision(repaired_run: ShownRun, tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / FILE).write_bytes(data)
    found = decision_of(repaired_run)
    assert found is not None
    assert found.reasons == ()
    assert found.line.startswith("May gpu002 return to service?")


def test_any_other_run_has_no_decision(bad_run: ShownRun) -> None:
    assert decision_of(bad_run) is None


def decide(folder: Path, decision: Decision) -> None:
    """What a validation left beside its run."""
    (folder / FILE).write_bytes(orjson.dumps({"decision": decision.value, "reasons": ["why"]}))


def test_the_ticket_begins_with_the_decision(repaired_run: ShownRun, tmp_path: Path) -> None:
    decide(tmp_path, Decision.REJECT)
    lines = [line for line in summary(repaired_run).splitlines() if line]
    assert lines[2:4] == ["**REJECT gpu002 after repair**", "- why"]


@pytest.mark.parametrize(("decision", "code"), [(Decision.ACCEPT, 0), (Decision.REJECT, 1), (Decision.INCONCLUSIVE, 3)])
def test_page_exit_code_and_metrics_are_those_of_the_decision(
    repaired_run: ShownRun, tmp_path: Path, decision: Decision, code: int
) -> None:
    """The run itself FAILs, which would be 1; an acceptance does not look like a warning."""
    decide(tmp_path, decision)
    shown = page(repaired_run)
    assert run_exit_code(repaired_run) == code
    assert f"<th>exit code</th><td>{code}</td>" in shown
    assert f"<title>{decision.value} self-check" in shown
    assert f"{decision.name}</span>" in shown
    assert f'fabric_run_exit_code{{scenario="self-check"}} {code}.0' in metrics_text(repaired_run)


def test_a_quick_validation_says_what_it_does_not_cover(repaired_run: ShownRun, tmp_path: Path) -> None:
    first, *rest = repaired_run.judged.scenario.phases
    again = first.probes[0]
    assert isinstance(again, AgainSpec)
    assert again.because is not None
    quick = replace(first, probes=(again.changed(because=replace(again.because, quick=True)), *first.probes[1:]))
    scenario = replace(repaired_run.judged.scenario, phases=(quick, *rest))
    decide(tmp_path, Decision.ACCEPT)
    found = decision_of(replace(repaired_run, judged=replace(repaired_run.judged, scenario=scenario)))
    assert found is not None
    assert found.line.endswith("quick: bit errors are not covered")


@pytest.mark.parametrize(("decision", "failures"), [(Decision.ACCEPT, 0), (Decision.REJECT, 1)])
def test_a_pipeline_sees_the_decision(
    repaired_run: ShownRun, tmp_path: Path, decision: Decision, failures: int
) -> None:
    """A host that is slower than its own past is refused with every probe above its limit."""
    decide(tmp_path, decision)
    suite = next(suite for suite in JUnitXml.fromstring(junit_xml(repaired_run).encode()) if suite.name == "decision")
    assert (suite.tests, suite.failures) == (1, failures)
