"""Expectations judged only where the change was in force, also by the shipped experiment; and how they end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fabric.app.analyze import reopened
from fabric.judge.changes.effects import hidden_by_fec
from fabric.judge.changes.expectations import covered, judge_expectations
from fabric.judge.changes.ratio import judge_ratio, words
from fabric.judge.normal.keys import samples
from fabric.model.change import Change, ChangeSpec
from fabric.model.outcome import Outcome
from fabric.model.probe import LeftOutHost, ProbeResult
from fabric.model.scenario import Expectation, ExpectedEnd, ExpectedRatio, ExpectedRecovery, Phase, PhaseRef
from fabric.model.verdict import ExpectationVerdict
from tests.changes.asked import ber, port_flap, routing
from tests.judge.changes.changed import RETRIES, Script
from tests.report.shown import run_of

REMOTE = "gpu001: Test NCCL failure 'remote process exited or there was a network error'"
RATIO = ExpectedRatio(PhaseRef("degraded"), PhaseRef("healthy"), at_least=0.9)


def judged(script: Script, expected: Expectation) -> ExpectationVerdict:
    """The only verdict."""
    (found,) = judge_expectations((expected,), script.phases, script.probes, script.results, script.changes)
    return found


@pytest.mark.parametrize(
    ("values", "completes", "outcome"),
    [
        ([100.0, 90.0], True, Outcome.PASS),
        ([100.0, RETRIES], True, Outcome.FAIL),
        ([100.0, REMOTE], True, Outcome.FAIL),
        ([100.0, "error: host silent"], True, Outcome.ERROR),
        ([100.0, "gpu001: wrong results"], True, Outcome.FAIL),
        ([100.0, None], True, Outcome.INCONCLUSIVE),
        ([RETRIES, REMOTE], False, Outcome.PASS),
        ([RETRIES, 100.0], False, Outcome.FAIL),
        ([RETRIES, "error: host silent"], False, Outcome.ERROR),
        ([RETRIES, None], False, Outcome.INCONCLUSIVE),
        ([], True, Outcome.INCONCLUSIVE),
    ],
)
def test_how_a_phase_ends(values: list[float | str | None], completes: bool, outcome: Outcome) -> None:
    """A transport that gave up is told from our own trouble, and from what was never run."""
    script = Script()
    script.phase("cut", values)
    assert judged(script, ExpectedEnd(PhaseRef("cut"), completes)).outcome is outcome


def test_a_host_that_was_left_out_is_not_missed_where_its_partner_was_measured() -> None:
    """Nor is it where its own cable was to be altered, or its partner was not measured: then it is."""
    script = Script()
    phase = script.phase("drill", [100.0])
    for pair in (("gpu002", "gpu003"), ("gpu003", "gpu004")):
        script.phase("drill", [None], pair=pair)
        lost = script.probes[-1].probe_id
        why = LeftOutHost("gpu003", "did not pass a")
        script.results[lost] = ProbeResult(lost, 0, (), Outcome.SKIPPED, "words", 0.0, 0.0, left_out=why)
    expected = ExpectedEnd(PhaseRef("drill"), True)
    assert judged(script, expected).outcome is Outcome.INCONCLUSIVE  # gpu004 was not measured at all
    script.phase("drill", [100.0], pair=("gpu002", "gpu004"))
    found = judged(script, expected)
    assert (found.outcome, found.n) == (Outcome.PASS, 2)
    assert found.reason.endswith("(2 left out with gpu003)")
    made = script.change(phase)
    script.changes[-1] = replace(made, change=replace(made.change, hosts=("gpu003",)))
    assert judged(script, expected).outcome is Outcome.INCONCLUSIVE


def test_what_the_run_did_not_reach_says_that_it_goes_on_with_resume() -> None:
    script = Script()
    script.phase("drill", [100.0, None])
    assert judged(script, ExpectedEnd(PhaseRef("drill"), True)).reason.endswith("1 not reached")


@pytest.mark.parametrize("state", ["refused", "failed", "lost", "open"])
@pytest.mark.parametrize(
    "expected", [RATIO, ExpectedEnd(PhaseRef("degraded"), True), ExpectedRecovery(PhaseRef("degraded"), 10.0)]
)
def test_a_change_that_was_not_made_judges_nothing(state: str, expected: Expectation) -> None:
    """Neither PASS nor FAIL, whatever was measured; the reason names the change."""
    script = Script()
    script.phase("healthy", [100.0, 100.1])
    script.change(script.phase("degraded", [99.0, 99.1, 99.0]), state=state)
    verdict = judged(script, expected)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.reason == f"the change was not in force: degraded-1/ber.leaf1--spine0 {state}: because"


def test_a_planned_change_without_a_trace_judges_nothing() -> None:
    """The phase asks for bit errors and no event speaks of them; adaptive routing for the job alone leaves none."""
    for spec, outcome in (
        (ber("leaf1--spine1", raw="1e-5"), Outcome.INCONCLUSIVE),
        (routing(True, "job"), Outcome.PASS),
    ):
        script = Script()
        phase = script.phase("degraded", [100.0])
        script.phases = [Phase(phase.name, phase.probes, label="degraded", changes=(spec,))]
        assert judged(script, ExpectedEnd(PhaseRef("degraded"), True)).outcome is outcome


def test_both_sides_are_covered_and_only_by_name() -> None:
    """The healthy phase that is compared counts as judged; a probe of another name does not."""
    script = Script()
    script.phase("healthy", [1.0])
    script.phase("degraded", [1.0])
    script.phase("after", [1.0])
    ids = {probe.probe_id for probe in script.probes if probe.phase != "after-1"}
    assert covered((RATIO,), script.phases, script.probes) == ids
    other = ExpectedRatio(PhaseRef("degraded"), PhaseRef("healthy"), at_least=0.9, probe="other")
    assert covered((other,), script.phases, script.probes) == set()


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (RATIO, "degraded / healthy at least 0.9"),
        (
            ExpectedRatio(
                PhaseRef("degraded", (("ar", "on"),)), PhaseRef("healthy", (("ar", "on"),)), 0.4, 0.6, "rings", 8 << 30
            ),
            "degraded / healthy between 0.4 and 0.6, ar=on, probe rings, size 8G",
        ),
        (
            ExpectedRatio(PhaseRef("d", (("ar", "on"),)), PhaseRef("h", (("ar", "off"),)), at_most=2),
            "d[ar=on] / h[ar=off] at most 2",
        ),
        (ExpectedEnd(PhaseRef("cut", (("ar", "on"),)), False), "cut[ar=on]: is given up by the transport"),
        (
            ExpectedRecovery(PhaseRef("flap"), 30.0),
            "flap: back to 95% of its bandwidth within 30 s of each change's end",
        ),
    ],
)
def test_expectations_in_words(expected: Expectation, text: str) -> None:
    """What a person reads at the head of each verdict."""
    assert words(expected) == text


def made(spec: ChangeSpec) -> Change:
    """A change of one cable."""
    return Change("one/ber.x", "one", "leaf1--spine1", "port", spec)


def test_what_forward_error_correction_hides_is_said() -> None:
    assert hidden_by_fec(made(ber("leaf1--spine1", raw="1e-5"))) == (
        "raw BER 1e-5 is corrected by RS-FEC (cliff at about 7e-4 to 2e-3): counters rise, bandwidth stays"
    )


def test_what_it_does_not_hide_is_not() -> None:
    assert hidden_by_fec(made(ber("leaf1--spine1", raw="7e-4"))) == ""
    assert hidden_by_fec(made(ber("leaf1--spine1", effective="1e-5"))) == ""
    assert hidden_by_fec(made(port_flap("leaf1--spine1", down=1.0))) == ""


@pytest.mark.slow
def test_rings_are_alike_with_adaptive_routing_and_not_without(tmp_path: Path) -> None:
    """What the scenario expects of on holds; the same expected of off does not, for it is not true of any fabric."""
    run = reopened(run_of(tmp_path, scenario="ring-contention", hosts=None, reports=False))
    scenario = run.judged.scenario
    assert [found.outcome for found in run.judged.verdict.expectations] == [Outcome.PASS] * 4
    found = list(samples(run.past.probes, run.past.results))
    alone = [one for one in scenario.expect if isinstance(one, ExpectedRatio) and one.over is None]
    assert [one.statistic for one in alone] == ["cv", "slowest/median"]
    for one in alone:
        off = replace(one, of=PhaseRef("rings", (("adaptive_routing", "off"),)))
        assert judge_ratio(off, scenario.phases, found, []).outcome is Outcome.FAIL
