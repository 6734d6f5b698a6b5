"""The headline, parts in words, what to do next, and whether a repaired host may return."""

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from junitparser import JUnitXml

from fabric.app.analyze import reopened
from fabric.model.change import Change, ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.repair import Because, Decision
from fabric.model.scenario import Scenario
from fabric.model.verdict import ComponentVerdict, JudgedRun, Suspect, Verdict
from fabric.probes.again import AgainSpec
from fabric.report.changes import after_change
from fabric.report.decision import decision_of, run_exit_code
from fabric.report.exports import junit_xml, metrics_text
from fabric.report.meaning import commands, faults_line, kept_line, meaning, part_words
from fabric.report.page import page
from fabric.report.shown_run import ShownRun
from fabric.report.shown_verdict import shown_suspect
from fabric.report.verdict_text import summary
from fabric.runs.run_lock import holding
from fabric.runs.stored_verdict import DECISION as FILE
from tests.changes.asked import port_flap
from tests.cli.command_line import called
from tests.runs.small_run import begin, cut_journal, killed, run_of

NEVER = ("fabric resume", "ended before", "interrupted", "fabric restore")
"""Words that are wrong while a run goes on: it is refused, or not so."""


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A run that came half way, with its change in force, and is not judged."""
    killed(tmp_path, "finished", 3)
    cut_journal(run_of(tmp_path), "in_force")
    return run_of(tmp_path)


def going_on(run: Path) -> ShownRun:
    """It, while somebody works on it."""
    with holding(run.parent.parent, run.parent.name, ["gpu001"], run=run.name):
        return reopened(run)


def test_a_run_that_goes_on_says_so_and_names_what_may_be_typed(half: Path) -> None:
    judged = going_on(half).judged
    assert (judged.goes_on, judged.complete) == (True, False)
    assert meaning(judged).endswith("the run goes on, and this is what was measured until now")
    assert commands(judged) == (("How far", f"fabric status {half}"), ("End it", f"fabric stop {half}"))
    assert judged.verdict.lines[0] == "the run goes on: what it has not reached yet is not judged"


def test_a_run_that_ended_early_is_still_gone_on_with(half: Path) -> None:
    judged = reopened(half).judged
    assert not judged.goes_on
    assert "the run ended before everything was measured" in meaning(judged)
    assert ("Go on", f"fabric resume {half}") in commands(judged)


def test_no_report_of_a_run_that_goes_on_asks_to_go_on_with_it(half: Path) -> None:
    run = going_on(half)
    with holding(half.parent.parent, half.parent.name, ["gpu001"], run=half.name):
        console = called(["report", str(half)]).stdout
    for text in (console, page(run), summary(run)):
        assert [words for words in NEVER if words in text] == []
        assert "goes on" in text or "went on" in text


def test_a_run_whose_end_is_written_goes_on_no_more_though_its_reports_are_being_made(tmp_path: Path) -> None:
    begin(tmp_path)
    judged = going_on(run_of(tmp_path)).judged
    assert (judged.goes_on, judged.complete) == (False, True)


def test_a_change_in_force_is_not_to_be_taken_back_by_hand_while_its_run_goes_on(half: Path) -> None:
    judged = going_on(half).judged
    assert [one.state for one in judged.verdict.changes] == ["open"]
    assert meaning(judged).startswith("1 change may be live while it goes on; the run goes on")
    (change,) = judged.verdict.changes
    assert "fabric restore" not in after_change(change, judged)
    dead = replace(judged, goes_on=False)
    assert "fabric restore" in after_change(change, dead)
    assert commands(dead)[0] == ("Take back", f"fabric restore {half}")


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("gpu003/mlx5_2->numa1-gpus", "path", "gpu003 PCIe path mlx5_2 to the GPUs of NUMA 1"),
        ("gpu003/mlx5_2->numa1", "path", "gpu003 PCIe path mlx5_2 to the memory of NUMA 1"),
        ("gpu003/mlx5_2->numa0-side", "path", "gpu003 PCIe path mlx5_2 to NUMA 0 and its GPUs"),
        ("gpu003/mlx5_2->gpu5", "path", "gpu003 PCIe path mlx5_2 to GPU 5"),
        ("gpu006/gpu5:nvlink", "nvlink", "gpu006 GPU 5 NVLink"),
        ("gpu006/nvlink", "nvlink", "gpu006 NVLink"),
        ("gpu006/gpu5", "gpu", "gpu006 GPU 5"),
        ("gpu006/gpu5", "gpu_pcie", "gpu006 GPU 5 PCIe"),
        ("gpu006/numa1", "numa", "gpu006 NUMA 1"),
        ("gpu006/cpu-interconnect", "cpu_interconnect", "gpu006 link between its CPUs"),
        ("gpu002/mlx5_1", "rnic", "gpu002 RNIC mlx5_1"),
        ("gpu002/mlx5_1:port", "link", "gpu002 port and cable of mlx5_1"),
        ("gpu002/mlx5_1:tx", "link", "gpu002 port and cable of mlx5_1 (sending)"),
        ("gpu005", "host", "host gpu005"),
        ("su0-leaf3", "leaf", "leaf switch su0-leaf3"),
        ("su0-leaf3--spine02#1", "link", "cable su0-leaf3--spine02#1"),
        ("gpu001+gpu002", "pair", "the pair gpu001 and gpu002"),
        ("what nobody knows", "", "what nobody knows"),
    ],
)
def test_a_part_has_words(name: str, kind: str, words: str) -> None:
    assert part_words(name, kind) == words


def suspect(name: str, kind: str, outcome: Outcome = Outcome.FAIL) -> Suspect:
    """A suspect."""
    return Suspect(name, kind, outcome, 0.9, ())


def test_a_rack_says_which_hosts_it_is() -> None:
    found = replace(suspect("rack r7", "rack"), hosts=("gpu036", "gpu037", "gpu038"))
    assert shown_suspect(found).where == "hosts gpu[036-038]"


def test_faults_are_counted_and_what_could_not_be_measured_is_said(bad_run: ShownRun) -> None:
    found = (suspect("gpu006/gpu5:nvlink", "nvlink"), suspect("gpu005", "host", Outcome.ERROR))
    verdict: Verdict = replace(bad_run.judged.verdict, suspects=found)
    assert faults_line(verdict) == "1 fault: gpu006 GPU 5 NVLink; could not be measured: host gpu005"
    many = tuple(suspect(f"gpu00{number}", "host") for number in range(5))
    assert faults_line(replace(verdict, suspects=many)).endswith("host gpu002; and 2 more")
    assert faults_line(replace(verdict, suspects=())) == ""


def test_a_host_that_was_left_out_is_in_the_headline(bad_run: ShownRun) -> None:
    """Nobody knows how it is: it is no good host. One that missed a job of all hosts alone was measured."""
    names = ("gpu003", "gpu003/mlx5_0", "gpu004")
    left_out = tuple(ComponentVerdict(name, Outcome.SKIPPED, "not measured in soak") for name in names)
    found = (suspect("gpu006/gpu5:nvlink", "nvlink"),)
    verdict: Verdict = replace(bad_run.judged.verdict, suspects=found, components=left_out)
    assert faults_line(verdict) == "1 fault: gpu006 GPU 5 NVLink; not measured to the end: gpu003"


def test_a_run_without_a_fault_made_has_no_such_answer(bad_run: ShownRun) -> None:
    assert kept_line(bad_run.judged) == ""


def test_the_answer_of_a_run_under_bit_errors(changed_run: ShownRun) -> None:
    said = kept_line(changed_run.judged)
    assert said.startswith("with adaptive routing the job kept 99.")
    assert ", without 3" in said


SCENARIO = Scenario(name="s", source="s.yaml", inventory="i.yaml", hosts=("gpu001",), phases=())
FLAP = Change("drill/flap", "drill", "gpu001/mlx5_0", "port", port_flap("gpu001/mlx5_0", down=1.0, at=20.0))


def step(state: str, reason: str, *, complete: bool = True) -> str:
    """What is advised."""
    judged = JudgedRun(
        SCENARIO, Verdict(Outcome.PASS, (), (), (), ()), "results/r", "r", 1.0, "ssh", (), "", complete=complete
    )
    return after_change(ChangeResult(FLAP, state, reason), judged)


def test_a_drill_that_was_cut_short_is_resumed_and_not_mended() -> None:
    said = step("failed", "nothing was altered: the phase ended before its time came", complete=False)
    assert "fabric resume results/r" in said
    assert "mend it" not in said


def test_a_flap_that_was_cut_off_is_resumed() -> None:
    assert "fabric resume results/r" in step("reverted", "cut off after 0 of 1 cycles", complete=False)


def test_in_a_run_that_is_complete_nothing_is_left_to_resume() -> None:
    said = step("reverted", "cut off after 0 of 1 cycles")
    assert "fabric resume" not in said
    assert "let the change begin earlier" in said


def test_what_went_wrong_is_to_be_mended() -> None:
    assert "mend it" in step("failed", "gpu001: mlxreg: permission denied")


def test_a_change_that_was_taken_back_in_order_needs_nothing() -> None:
    assert step("reverted", "") == ""


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


@pytest.mark.slow
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


def test_every_host_of_a_decision_has_its_own_reasons(repaired_run: ShownRun, tmp_path: Path) -> None:
    """The first host has more reasons than are shown of it; the second was not told of at all."""
    own = {"gpu002": ["a", "b", "c", "d"], "gpu006": ["e"]}
    each = [{"name": name, "decision": "REJECT", "reasons": reasons} for name, reasons in own.items()]
    merged = [f"{name}: {reason}" for name, reasons in own.items() for reason in reasons]
    (tmp_path / FILE).write_bytes(orjson.dumps({"decision": "REJECT", "reasons": merged, "each": each}))
    found = decision_of(repaired_run)
    assert found is not None
    assert found.line == "REJECT gpu[002,006] after repair"
    assert found.reasons == ("gpu002: a", "gpu002: b", "gpu002: c", "gpu006: e")


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


@pytest.mark.slow
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
