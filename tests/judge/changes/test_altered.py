"""A fault that we made is not the fabric's: no limit applies, nobody is blamed, and expectations decide."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fabric.judge.verdict.conclude import conclude
from fabric.judge.verdict.during_run import out_after
from fabric.judge.verdict.probes import Judge
from fabric.model.outcome import Outcome, Reason, ReasonKind, note
from fabric.model.scenario import Expectation, ExpectedEnd, ExpectedRatio, JudgeSettings, Phase, PhaseRef
from fabric.model.topology import Topology
from fabric.model.verdict import Baseline, Limit, Verdict
from tests.judge.changes.changed import RETRIES, Script

KEPT = ExpectedRatio(PhaseRef("degraded"), PhaseRef("healthy"), at_least=0.5)
GIVEN_UP = ExpectedEnd(PhaseRef("degraded"), completes=False)


def concluded(
    script: Script, rack: Topology, *expect: Expectation, limits: Sequence[Limit] = (), notes: Sequence[Reason] = ()
) -> Verdict:
    """The verdict of the whole."""
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", tuple(limits))}, JudgeSettings(marginal=0.01), rack)
    return conclude(
        script.probes,
        script.results,
        topology=rack,
        judge=judge,
        phases=script.phases,
        expect=expect,
        changes=script.changes,
        notes=notes,
    )


def ber_run(degraded: Sequence[float | str | None], **change: object) -> Script:
    """A healthy phase, then one with bit errors."""
    script = Script()
    script.phase("healthy", [100.0, 100.2, 99.8])
    script.change(script.phase("degraded", degraded, starts_s=100.0), (90.0, 200.0), **change)  # type: ignore[arg-type]
    return script


def test_what_could_not_be_planned_is_skipped_and_a_note_is_nothing(rack: Topology) -> None:
    """Whatever their words are: their kind decides."""
    for one, outcome, line in (
        (Reason("note: no x", ReasonKind.UNPLANNED), Outcome.SKIPPED, "SKIPPED: note: no x"),
        (note("SKIPPED: y"), Outcome.PASS, "note: SKIPPED: y"),
    ):
        verdict = concluded(ber_run([60.0, 60.5, 60.2]), rack, KEPT, notes=(one,))
        assert (verdict.outcome, verdict.lines) == (outcome, (line,))


def test_all_expectations_held_is_a_pass(rack: Topology) -> None:
    """No limit in any baseline, half of the bandwidth gone on purpose: PASS, nobody suspected."""
    verdict = concluded(ber_run([60.0, 60.5, 60.2]), rack, KEPT)
    assert verdict.outcome is Outcome.PASS
    assert (verdict.suspects, verdict.lines) == ((), ())
    assert {probe.reason for probe in verdict.probes if "Gb/s" not in probe.reason} == {"judged by what is expected"}


def test_a_missed_expectation_fails_the_whole(rack: Topology) -> None:
    """The expectation's own outcome counts, and is said first; still nobody is suspected."""
    verdict = concluded(ber_run([30.0, 30.5, 30.2]), rack, KEPT)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.lines[0].startswith("FAIL: expected degraded / healthy at least 0.5: 0.302 (95 % interval")
    assert verdict.suspects == ()


def test_an_altered_phase_that_nobody_expects_anything_of_is_inconclusive(rack: Topology) -> None:
    """With limits for the healthy one."""
    limits = [Limit("group_all_reduce", 90.0, "own")]
    verdict = concluded(ber_run([60.0, RETRIES, 61.0]), rack, limits=limits)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert [probe.outcome for probe in verdict.probes] == [Outcome.PASS] * 3 + [Outcome.INCONCLUSIVE] * 3
    assert any("altered on purpose, and nothing says what to expect" in reason for reason in verdict.lines)
    assert verdict.suspects == ()


def test_limits_still_count_where_nothing_was_altered(rack: Topology) -> None:
    """A healthy phase below its limit fails and is blamed, although an expectation covers it."""
    limits = [Limit("group_all_reduce", 150.0, "own")]
    verdict = concluded(ber_run([60.0, 60.5, 60.2]), rack, KEPT, limits=limits)
    assert verdict.outcome is Outcome.FAIL
    assert len(verdict.suspects) == 1
    assert all(probe_id.startswith("healthy") for probe_id in verdict.suspects[0].probes)


def test_a_toggle_leaves_limits_in_force(rack: Topology) -> None:
    """Adaptive routing on is no fault: what is too slow then is too slow."""
    limits = [Limit("group_all_reduce", 150.0, "own")]
    script = ber_run([60.0, 60.5, 60.2], kind="adaptive_routing")
    verdict = concluded(script, rack, KEPT, limits=limits)
    assert verdict.outcome is Outcome.FAIL
    assert any(probe_id.startswith("degraded") for probe_id in verdict.suspects[0].probes)


def test_given_up_on_purpose_is_a_pass(rack: Topology) -> None:
    """What was to be given up, and was."""
    verdict = concluded(ber_run([RETRIES, RETRIES]), rack, GIVEN_UP, KEPT_HEALTHY)
    assert verdict.outcome is Outcome.PASS
    assert verdict.suspects == ()
    assert verdict.probes[-1].reason == "given up under the change, judged by what is expected"


KEPT_HEALTHY = ExpectedEnd(PhaseRef("healthy"), completes=True)


def test_what_the_transport_does_not_explain_stays_bad(rack: Topology) -> None:
    """Wrong results are no effect of a lost packet; the reason is given, since no suspect speaks for it."""
    verdict = concluded(ber_run([60.0, "gpu001: wrong results in 8G"]), rack, ExpectedEnd(PhaseRef("degraded"), True))
    assert verdict.probes[-1].outcome is Outcome.FAIL
    assert verdict.suspects == ()
    assert "  gpu001: wrong results in 8G" in verdict.lines


@pytest.mark.parametrize("state", ["refused", "failed", "lost"])
@pytest.mark.parametrize("kind", ["ber", "adaptive_routing"])
def test_not_as_asked_is_an_error(rack: Topology, state: str, kind: str) -> None:
    """Whatever was measured in that phase is not what was asked for."""
    verdict = concluded(ber_run([60.0, 60.5], state=state, kind=kind), rack, KEPT)
    assert verdict.outcome is Outcome.ERROR
    assert {probe.outcome for probe in verdict.probes[3:]} == {Outcome.ERROR}
    assert f"not measured as asked: degraded-1/{kind}.leaf1--spine0 {state}: because" in verdict.probes[-1].reason
    assert verdict.suspects == ()
    assert verdict.expectations[0].outcome is Outcome.INCONCLUSIVE


def test_a_refused_toggle_hides_no_real_fault(rack: Topology) -> None:
    """What a tool itself calls bad while nothing was altered is the fabric's, and blamed."""
    verdict = concluded(ber_run([RETRIES, RETRIES], state="refused", kind="adaptive_routing"), rack, KEPT)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.suspects


def test_open_comes_first(rack: Topology) -> None:
    """Nothing is more urgent than a change that may still be live; and it is no pass."""
    script = ber_run([60.0, 60.5], state="refused")
    script.change(script.phases[1], (90.0, None), state="open")
    verdict = concluded(script, rack, KEPT)
    assert verdict.lines[0] == "a change may still be live: degraded-1/ber.leaf1--spine1 open: because"
    assert verdict.lines[1] == "ERROR: change degraded-1/ber.leaf1--spine0 refused: because"
    assert verdict.outcome is Outcome.ERROR


def test_open_is_no_pass_however_good_the_rest_is(rack: Topology) -> None:
    """Every probe is within its limit, and still the run is an ERROR."""
    script = ber_run([100.0, 100.1], kind="adaptive_routing", state="open")
    limits = [Limit("group_all_reduce", 90.0, "own")]
    verdict = concluded(script, rack, limits=limits)
    assert {probe.outcome for probe in verdict.probes} == {Outcome.PASS}
    assert verdict.outcome is Outcome.ERROR


def test_components_are_not_praised_for_what_was_altered(rack: Topology) -> None:
    """A host that was measured only while the fabric was bad on purpose is INCONCLUSIVE."""
    script = Script()
    script.change(script.phase("degraded", [60.0, 60.5]), (0.0, 20.0))
    verdict = concluded(script, rack, ExpectedEnd(PhaseRef("degraded"), True))
    assert verdict.outcome is Outcome.PASS
    assert {found.outcome for found in verdict.components} == {Outcome.INCONCLUSIVE}


def test_the_gate_is_as_it_was(rack: Topology) -> None:
    """Hosts of a phase that did not pass stay out of the next."""
    script = ber_run([60.0])
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", ())}, JudgeSettings(marginal=0.01), rack)
    healthy = [probe for probe in script.probes if probe.phase == "healthy-1"]
    found = out_after(Phase("healthy-1", ()), healthy, script.results, judge=judge)
    assert found["gpu001"].startswith("3 group_all_reduce inconclusive")
