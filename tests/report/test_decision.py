"""The page of a post-repair validation begins with whether the host may return."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from fabric.model.repair import Because
from fabric.model.scenario import AgainSpec
from fabric.report.decision import FILE, decision_of
from fabric.report.html.page import page
from fabric.report.shown_run import ShownRun


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


def test_a_decision_is_said_with_its_reasons(repaired_run: ShownRun, tmp_path: Path) -> None:
    reasons = ["still bad: 22 of 24 probes", "x" * 900]
    (tmp_path / FILE).write_bytes(orjson.dumps({"decision": "REJECT", "reasons": reasons}))
    found = decision_of(repaired_run)
    assert found is not None
    assert found.line == "REJECT gpu002, which was measured after its repair"
    assert found.reasons[0] == reasons[0]
    assert len(found.reasons[1]) < 300
    above = page(repaired_run, found).partition("<nav>")[0]
    assert "REJECT gpu002" in above
    assert reasons[0] in above


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
