"""When a loss was seen, and when the bandwidth was back: known no finer than the samples are spaced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.judge.changes.effects import windows_report
from fabric.judge.changes.expectations import judge_time
from fabric.judge.normal.keys import samples
from fabric.model.outcome import Outcome
from fabric.model.scenario import ExpectedRecovery, PhaseRef
from fabric.model.verdict import ChangeEffect, ExpectationVerdict
from tests.judge.changes.changed import RETRIES, Script

# Samples of 10 s each: 0-10, 10-20, and so on.


def judged(script: Script, *, within_s: float = 15.0, fraction: float = 0.95) -> ExpectationVerdict:
    """Back within 15 s?"""
    found = list(samples(script.probes, script.results))
    expected = ExpectedRecovery(PhaseRef("flap"), within_s, fraction)
    return judge_time(expected, script.phases, found, script.changes)


def effect(script: Script) -> ChangeEffect:
    """Of the only change."""
    (found,) = windows_report(script.phases, script.probes, script.results, script.changes)
    return found


def flap(values: list[float | str | None], *windows: tuple[float, float | None], **more: object) -> Script:
    """One phase with one change in it."""
    script = Script()
    script.change(script.phase("flap", values, **more), *windows)
    return script


@pytest.mark.parametrize(
    ("values", "windows", "outcome", "value", "said"),
    [
        # lost in 20-30, whole again in 40-50: seen 8 s after it began, back 15 s after its end at 35 s
        ([100, 101, 40, 50, 100, 99], [(22, 35)], Outcome.PASS, 15.0, "loss seen after 8.0 s, back 15.0 s after its"),
        # a sample that began 25 s after the end was still below: that is no question of spacing
        ([100, 100, 40, 50, 50, 50, 100], [(22, 25)], Outcome.FAIL, 45.0, "samples 10.0 s apart"),
        # the bad sample began before the limit and the good one ended after it: nobody knows
        ([100, 100, 40, 50, 100], [(22, 31)], Outcome.INCONCLUSIVE, 19.0, "too far apart"),
        ([40, 100, 100], [(1, 5)], Outcome.INCONCLUSIVE, None, "no sample before it"),
        ([100, 100, 40], [(22, 25)], Outcome.INCONCLUSIVE, None, "no sample after it"),
        ([100, 100, 40, 100], [(22, None)], Outcome.INCONCLUSIVE, None, "not seen ended"),
        # the first flap heals at once, the second does not
        ([100, 100, 40, 100, 100, *[40] * 4, 100], [(22, 25), (52, 54)], Outcome.FAIL, 46.0, "the worst of 2 times"),
        # a change that nobody notices has nothing to recover from
        ([100, 100, 99, 100, 100], [(22, 25)], Outcome.PASS, 15.0, "no loss seen"),
    ],
)
def test_back_in_time(
    values: list[float | str | None],
    windows: list[tuple[float, float | None]],
    outcome: Outcome,
    value: float | None,
    said: str,
) -> None:
    """Back within 15 s of its end; the reason says what is missing."""
    verdict = judged(flap(values, *windows))
    assert (verdict.outcome, verdict.value) == (outcome, value if value is None else pytest.approx(value))
    assert said in verdict.reason


def test_a_transport_that_gave_up_late_was_not_back_before() -> None:
    """It stood still until its end, so what counts is the end."""
    late = flap([100.0, RETRIES, 100.0], (41.0, 42.0), each_s=40.0)
    assert judged(late, within_s=30.0).outcome is Outcome.FAIL
    assert judged(late, within_s=60.0).outcome is Outcome.INCONCLUSIVE


def test_pairs_that_lost_nothing_do_not_speak_for_those_that_did() -> None:
    """One pair elsewhere keeps all, as long as it is measured; the other is back late."""
    script = flap([100.0, 100.0, 40.0, 40.0, 40.0, 40.0, 100.0], (22.0, 24.0))
    script.phase("flap", [300.0] * 3, pair=("gpu003", "gpu004"))
    verdict = judged(script)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.value == pytest.approx(46.0)


def test_a_loss_that_shows_late_is_seen() -> None:
    """A short flap within a sample that was nearly over: the next one stalls."""
    found = effect(flap([100.0, 100.0, 100.0, 40.0, 100.0], (27.0, 28.0)))
    assert (found.detect_s, found.recover_s) == (pytest.approx(13.0), pytest.approx(22.0))


def test_all_that_lost_must_be_back() -> None:
    """One pair is back at once, the other never: the change is not recovered from."""
    script = flap([100.0, 100.0, 40.0, 100.0, 100.0, 100.0], (22.0, 24.0))
    script.phase("flap", [100.0, 100.0, 40.0, 40.0, 40.0, 40.0], pair=("gpu003", "gpu004"))
    assert effect(script).recover_s is None
    assert judged(script).outcome is Outcome.FAIL


def test_what_follows_the_next_time_is_not_the_first_ones_recovery() -> None:
    """Between the two it was not seen back; after the second it was."""
    first, second = effect(flap([100.0, 100.0, 40.0, 40.0, 100.0], (22.0, 24.0), (32.0, 34.0))).windows
    assert first.recover_s is None
    assert second.recover_s == pytest.approx(16.0)


def test_effect_of_a_change_within_its_phase() -> None:
    """Median during over median before, with the times."""
    found = effect(flap([100.0, 102.0, 50.5, 60.6, 101.0, 100.0], (20.0, 40.0)))
    assert found.retained == pytest.approx(0.55)
    assert found.gbps == (pytest.approx(55.55), pytest.approx(101.0))
    assert (found.reference, found.samples, found.given_up) == ("before it", 2, 0)
    assert (found.detect_s, found.recover_s) == (pytest.approx(10.0), pytest.approx(10.0))
    assert found.spacing_s == pytest.approx(10.0)


def test_a_change_of_the_whole_phase_is_compared_with_a_healthy_one() -> None:
    """Nothing was before it: the phase of the same matrix values without a fault is taken, and named."""
    script = Script()
    on, off = (("ar", "on"),), (("ar", "off"),)
    script.phase("healthy", [100.0, 100.0], where=off)
    script.phase("healthy", [200.0, 200.0], where=on)
    script.change(script.phase("flap", [50.0, 50.0], where=on, starts_s=100.0), (90.0, 130.0))
    found = effect(script)
    assert (found.retained, found.reference) == (pytest.approx(0.25), "healthy")


def test_a_toggle_of_the_whole_phase_is_not_given_the_faults_effect() -> None:
    """Half is lost by the bit errors beside it, not by adaptive routing, which was the same in the healthy phase."""
    script = Script()
    script.phase("healthy", [100.0, 100.0])
    phase = script.phase("flap", [50.0, 50.0], starts_s=100.0)
    script.change(phase, (90.0, 130.0))
    script.change(phase, (90.0, 130.0), kind="adaptive_routing")
    both = windows_report(script.phases, script.probes, script.results, script.changes)
    assert [found.retained for found in both] == [pytest.approx(0.5), None]


def test_bandwidths_of_different_kinds_have_no_common_number() -> None:
    """The share is that of each; a middle of loopbacks and all-reduces would be nobody's."""
    script = flap([100.0, 100.0, 50.0, 100.0], (20.0, 30.0))
    script.phase("flap", [300.0, 300.0, 150.0, 300.0], pair=("gpu003", "gpu004"))
    found = effect(script)
    assert (found.retained, found.gbps) == (pytest.approx(0.5), (pytest.approx(100.0), pytest.approx(200.0)))
    script.probes[:] = [
        replace(probe, kind="pairwise") if "gpu003" in probe.hosts else probe for probe in script.probes
    ]
    found = effect(script)
    assert (found.retained, found.gbps) == (pytest.approx(0.5), None)


def test_given_up_probes_are_counted_not_averaged() -> None:
    """Of what never ended there is no bandwidth."""
    found = effect(flap([100.0, 100.0, RETRIES, 80.0, 100.0], (20.0, 40.0)))
    assert (found.retained, found.samples, found.given_up) == (pytest.approx(0.8), 2, 1)


def test_never_recovered_is_none() -> None:
    """Not seen back is not 0 s."""
    found = effect(flap([100.0, 100.0, 40.0, 40.0], (20.0, 30.0)))
    assert found.detect_s == pytest.approx(10.0)
    assert found.recover_s is None


def test_corrected_errors_are_explained() -> None:
    """Raw 1e-5 on a link with FEC changes counters only, and the report says why."""
    script = Script()
    script.change(script.phase("flap", [100.0] * 6), (20.0, 40.0), exponent=5)
    assert "corrected by RS-FEC" in effect(script).note
    assert not effect(flap([100.0, 100.0, 50.0, 50.0, 100.0], (20.0, 40.0))).note


def test_nothing_measured_is_nothing_said() -> None:
    """A change without samples has no effect to report."""
    assert effect(flap([None, None], (20.0, 40.0))).retained is None


def held(values: list[float | str | None], within_s: float) -> ExpectationVerdict:
    """Of a link that goes down at 22 s and stays so: is bandwidth back since?"""
    script = flap(values, (22.0, 10.0 * len(values)))
    expected = ExpectedRecovery(PhaseRef("flap"), within_s, since="begin")
    return judge_time(expected, script.phases, list(samples(script.probes, script.results)), script.changes)


def test_bandwidth_that_is_back_while_the_change_holds() -> None:
    """Rerouted: lost in 20-30, whole from 30 on, seen 18 s after the link went down."""
    verdict = held([100.0, 100.0, 40.0, 100.0, 100.0], 20.0)
    assert verdict.outcome is Outcome.PASS
    assert verdict.value == pytest.approx(18.0)
    assert "back 18.0 s after its begin" in verdict.reason
    assert verdict.text == "flap: back to 95% of its bandwidth within 20 s of each change's begin"


def test_bandwidth_that_is_lost_again_while_the_change_holds_was_not_back() -> None:
    """One good sample between bad ones."""
    verdict = held([100.0, 100.0, 40.0, 100.0, 40.0, 40.0], 20.0)
    assert verdict.outcome is Outcome.FAIL
    assert "still not back 28.0 s after its begin" in verdict.reason


def test_routing_that_holds_all_the_while_is_no_change_to_recover_from() -> None:
    """What was measured under it is what was before the fault; it has no effect of its own."""
    script = flap([100.0, 100.0, 40.0, 100.0, 100.0], (22.0, 50.0))
    script.change(script.phases[0], (-5.0, 55.0), kind="shield")
    found = list(samples(script.probes, script.results))
    expected = ExpectedRecovery(PhaseRef("flap"), 20.0, since="begin")
    verdict = judge_time(expected, script.phases, found, script.changes)
    assert (verdict.outcome, verdict.value) == (Outcome.PASS, pytest.approx(18.0))
    down, routing = windows_report(script.phases, script.probes, script.results, script.changes)
    assert (down.reference, routing.samples) == ("before it", 0)
