"""The bandwidth of one phase over another's: the whole interval decides, and the reason says what it rests on."""

from __future__ import annotations

import pytest

from fabric.judge.changes.ratio import judge_ratio
from fabric.judge.normal.keys import samples
from fabric.model.outcome import Outcome
from fabric.model.scenario import ExpectedRatio, PhaseRef
from fabric.model.verdict import ExpectationVerdict
from tests.judge.changes.changed import RETRIES, Script

ON, OFF = (("adaptive_routing", "on"),), (("adaptive_routing", "off"),)


def expected(*, at_least: float | None = 0.9, at_most: float | None = None) -> ExpectedRatio:
    """degraded over healthy."""
    return ExpectedRatio(PhaseRef("degraded"), PhaseRef("healthy"), at_least, at_most)


def judged(script: Script, what: ExpectedRatio | None = None) -> ExpectationVerdict:
    """The verdict of *what*, by default at least 0.9."""
    found = list(samples(script.probes, script.results))
    return judge_ratio(what or expected(), script.phases, found, [result.change for result in script.changes])


def two_phases(degraded: list[float | str | None], healthy: list[float | str | None]) -> Script:
    """One round of each."""
    script = Script()
    script.phase("healthy", healthy)
    script.phase("degraded", degraded)
    return script


@pytest.mark.parametrize(
    ("degraded", "outcome"),
    [
        ([97.0, 98.0, 97.5], Outcome.PASS),
        ([60.0, 61.0, 60.5], Outcome.FAIL),
        ([88.0, 92.0, 91.0], Outcome.INCONCLUSIVE),
    ],
)
def test_the_whole_interval_decides(degraded: list[float | str | None], outcome: Outcome) -> None:
    """Within the bound PASS, outside FAIL, across it INCONCLUSIVE."""
    verdict = judged(two_phases(degraded, [100.0, 100.5, 99.5]))
    assert verdict.outcome is outcome
    assert verdict.low is not None
    assert verdict.value is not None
    assert verdict.high is not None
    assert verdict.low <= verdict.value <= verdict.high
    assert verdict.n == 6


@pytest.mark.parametrize(("value", "outcome"), [(50.0, Outcome.PASS), (70.0, Outcome.FAIL), (30.0, Outcome.FAIL)])
def test_both_bounds_count(value: float, outcome: Outcome) -> None:
    """Too much is as unexpected as too little."""
    script = two_phases([value, value * 1.01, value * 0.99], [100.0, 100.5, 99.5])
    assert judged(script, expected(at_least=0.4, at_most=0.6)).outcome is outcome


@pytest.mark.parametrize(("at_least", "at_most"), [(1.0, None), (None, 1.0), (1.0, 1.0)])
def test_equal_sides_are_at_their_bound(at_least: float | None, at_most: float | None) -> None:
    """A fabric simulated without noise: 1 is at least 1, whatever the last digit of its logarithm is."""
    script = Script()
    for number in (1, 2, 3):
        script.phase("healthy", [49.3, 49.3], round=number)
        script.phase("degraded", [49.3], round=number)
    assert judged(script, expected(at_least=at_least, at_most=at_most)).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("degraded", "healthy", "outcome", "words"),
    [
        ([10.0], [100.0], Outcome.INCONCLUSIVE, "repeat at least 2"),  # no spread, however clear it looks
        ([60.0, 61.0], [100.0, RETRIES], Outcome.INCONCLUSIVE, "healthy did not complete"),  # without it no ratio
        ([60.0, 0.0], [100.0, 101.0], Outcome.FAIL, "degraded did not complete"),  # 0.00 is no bandwidth
        ([60.0, "error: host silent"], [100.0, 101.0], Outcome.ERROR, "host silent"),  # ours, not the fabric's
        ([97.0, 97.1, None], [100.0, 100.1, 99.9], Outcome.PASS, "1 samples were not measured"),  # two still judge
        ([97.0, 97.1, 97.2], [100.0, 50.0, 101.0], Outcome.INCONCLUSIVE, "healthy is unsteady, 50 to 101 Gb/s"),
        ([88.0, 92.0, 91.0], [100.0, 100.5, 99.5], Outcome.INCONCLUSIVE, "rounds would settle it"),
    ],
)
def test_what_cannot_be_told_is_said(
    degraded: list[float | str | None], healthy: list[float | str | None], outcome: Outcome, words: str
) -> None:
    """A person knows what to do about it."""
    verdict = judged(two_phases(degraded, healthy))
    assert verdict.outcome is outcome
    assert words in verdict.reason


@pytest.mark.parametrize(
    ("at_least", "at_most", "outcome"),
    [(0.9, None, Outcome.FAIL), (None, 0.5, Outcome.INCONCLUSIVE), (0.1, 0.5, Outcome.INCONCLUSIVE)],
)
def test_given_up_is_no_bandwidth_and_not_zero_either(
    at_least: float | None, at_most: float | None, outcome: Outcome
) -> None:
    """What should keep some bandwidth failed; of how little it was nothing is known."""
    verdict = judged(two_phases([60.0, RETRIES, 61.0], [100.0, 101.0]), expected(at_least=at_least, at_most=at_most))
    assert verdict.outcome is outcome
    assert "degraded did not complete" in verdict.reason
    assert verdict.value is None


def test_pairs_are_no_samples_of_each_other() -> None:
    """Thirty pairs measured once are one sample a side; measured twice they are two."""
    for repeat, outcome in ((1, Outcome.INCONCLUSIVE), (2, Outcome.FAIL)):
        script = Script()
        for number in range(30):
            pair = (f"gpu{number:03d}", f"gpu{number + 100:03d}")
            script.phase("healthy", [100.0 + number, 100.5 + number][:repeat], pair=pair)
            script.phase("degraded", [50.0 + number / 2, 50.4 + number / 2][:repeat], pair=pair)
        verdict = judged(script)
        assert verdict.outcome is outcome
        if repeat == 2:
            assert verdict.n == 4
            assert "of 30 measurements" in verdict.reason
            assert verdict.value == pytest.approx(0.5, rel=0.01)


def test_a_pair_that_is_missing_once_is_left_out_everywhere() -> None:
    """A fast pair must not make one side faster by being measured there only."""
    script = two_phases([50.0, 50.1], [100.0, 100.1])
    script.phase("healthy", [400.0, 400.1], pair=("gpu003", "gpu004"))
    script.phase("degraded", [400.0, "error: lost"], pair=("gpu003", "gpu004"))
    verdict = judged(script)
    assert verdict.value == pytest.approx(0.5, rel=0.01)
    assert "1 samples were not measured" in verdict.reason


def test_three_rounds_are_paired() -> None:
    """Drift that both sides share does not blur a clear ratio."""
    script = Script()
    for number, drift in enumerate((1.0, 0.7, 1.3), start=1):
        script.phase("healthy", [100.0 * drift, 101.0 * drift], round=number)
        script.phase("degraded", [95.0 * drift, 96.1 * drift], round=number)
    verdict = judged(script)
    assert verdict.outcome is Outcome.PASS
    assert verdict.reason.startswith("3 rounds, paired; ")
    assert verdict.n == 6


def test_rounds_that_differ_widen_the_interval() -> None:
    """Ten repetitions in each of three rounds are three samples: what happens once a change is made counts once."""
    script = Script()
    for number, ratio in enumerate((0.97, 0.86, 0.99), start=1):
        script.phase("healthy", [100.0 + i / 100 for i in range(10)], round=number)
        script.phase("degraded", [100.0 * ratio + i / 100 for i in range(10)], round=number)
    assert judged(script).outcome is Outcome.INCONCLUSIVE


def test_adaptive_routing_on_over_off() -> None:
    """The same phase with two values of the matrix, said in words."""
    script = Script()
    script.phase("degraded", [60.0, 60.5, 60.2], where=OFF)
    script.phase("degraded", [97.0, 97.5, 97.2], where=ON)
    verdict = judged(script, ExpectedRatio(PhaseRef("degraded", ON), PhaseRef("degraded", OFF), at_least=1.2))
    assert verdict.outcome is Outcome.PASS
    assert verdict.value == pytest.approx(97.2 / 60.2, rel=0.01)
    assert verdict.text == "degraded: adaptive_routing=on / adaptive_routing=off at least 1.2"


def test_values_that_nobody_names_are_compared_with_themselves() -> None:
    """Off with off and on with on: 0.5 in both, though off is ten times slower."""
    script = Script()
    for where, scale in ((ON, 10.0), (OFF, 1.0)):
        script.phase("healthy", [100.0 * scale, 100.1 * scale], where=where)
        script.phase("degraded", [50.0 * scale, 50.1 * scale], where=where)
    verdict = judged(script)
    assert verdict.value == pytest.approx(0.5, rel=0.01)
    assert verdict.outcome is Outcome.FAIL


def test_a_good_value_of_the_matrix_does_not_hide_a_bad_one() -> None:
    """Each is judged, the worst is said; of several that hold, the one nearest to its bound."""
    for off, outcome in ((80.0, Outcome.FAIL), (95.0, Outcome.PASS)):
        script = Script()
        for where, value in ((ON, 100.0), (OFF, off)):
            script.phase("healthy", [100.0, 100.1], where=where)
            script.phase("degraded", [value, value + 0.1], where=where)
        verdict = judged(script)
        assert verdict.outcome is outcome
        assert verdict.value == pytest.approx(off / 100.0, rel=0.01)
        assert (
            verdict.reason
            == "the worst of 2, adaptive_routing=off: 2 samples each in 1 round (rounds may differ by 1 %)"
        )
        assert verdict.text == "degraded / healthy at least 0.9"


def test_a_side_that_pools_a_value_counts_all_its_samples() -> None:
    """Only one side names the value: the other's phases are all its samples, none overwrites another."""
    script = Script()
    for where in (ON, OFF):
        script.phase("healthy", [100.0, 100.1], where=where)
        script.phase("degraded", [95.0, 95.1], where=where)
    verdict = judged(script, ExpectedRatio(PhaseRef("degraded", ON), PhaseRef("healthy"), at_least=0.9))
    assert verdict.n == 6


def test_other_probes_and_sizes_do_not_count() -> None:
    """Only the size and the name that are asked for."""
    script = two_phases([97.0, 97.1], [100.0, 100.1])
    ratio = ExpectedRatio(PhaseRef("degraded"), PhaseRef("healthy"), at_least=0.9, size_bytes=1 << 20)
    assert "no probe in common" in judged(script, ratio).reason
    named = ExpectedRatio(PhaseRef("degraded"), PhaseRef("healthy"), at_least=0.9, probe="rings")
    assert judged(script, named).outcome is Outcome.PASS


@pytest.mark.parametrize(("degraded", "exponent", "said"), [(99.9, 5, True), (99.9, 3, False), (60.0, 5, False)])
def test_corrected_bit_errors_are_explained(degraded: float, exponent: int, said: bool) -> None:
    """Raw errors below the cliff that changed nothing; not above it, and not where they did change something."""
    script = two_phases([degraded, degraded + 0.1], [100.0, 100.1])
    script.change(script.phases[1], (0.0, 20.0), exponent=exponent)
    reason = judged(script).reason
    assert ("raw BER 1e-5 is corrected by RS-FEC (cliff at about 7e-4 to 2e-3)" in reason) is said
    assert ("corrected" in reason) is said


def rings(levels: list[float], *, rounds: int = 3, label: str = "rings", script: Script | None = None) -> Script:
    """So many rings at these levels, two samples each a round; no two rounds are quite equal."""
    script = script or Script()
    for number in range(1, rounds + 1):
        for member, level in enumerate(levels):
            drift = level * (1 + 0.001 * ((number * 7 + member * 3) % 5 - 2))
            pair = (f"gpu{member:03d}", f"gpu{member + 100:03d}")
            script.phase(label, [drift, drift * 1.001], round=number, pair=pair)
    return script


def asked(statistic: str, **bounds: float) -> ExpectedRatio:
    """Of the rings alone."""
    return ExpectedRatio(PhaseRef("rings"), None, statistic=statistic, **bounds)


ALIKE, COLLIDED = [100.0, 101.0, 99.5, 100.5] * 3, [100.0, 50.0, 99.5, 33.0] * 3


@pytest.mark.parametrize(
    ("what", "alike", "collided"),
    [
        (asked("cv", at_most=0.03), Outcome.PASS, Outcome.FAIL),
        (asked("slowest/median", at_least=0.9), Outcome.PASS, Outcome.FAIL),
        (asked("p5", at_least=95.0), Outcome.PASS, Outcome.FAIL),
        (asked("mean", at_least=95.0), Outcome.PASS, Outcome.FAIL),
        (asked("cv", at_most=0.007), Outcome.INCONCLUSIVE, Outcome.FAIL),
    ],
)
def test_rings_that_are_alike_and_rings_that_are_not(what: ExpectedRatio, alike: Outcome, collided: Outcome) -> None:
    """A statistic of one phase against a number."""
    assert (judged(rings(ALIKE), what).outcome, judged(rings(COLLIDED), what).outcome) == (alike, collided)


@pytest.mark.parametrize(("statistic", "bounds", "value"), [
    ("cv", {"at_most": 0.5}, 0.015), ("slowest/median", {"at_least": 1.5}, 2.26), ("p5", {"at_least": 2.0}, 3.0),
])  # fmt: skip
def test_rings_become_alike(statistic: str, bounds: dict[str, float], value: float) -> None:
    """A statistic of one phase over another's, both ways."""
    script = rings(COLLIDED, label="off", script=rings(ALIKE, label="on"))
    there = ExpectedRatio(PhaseRef("on"), PhaseRef("off"), statistic=statistic, **bounds)
    found = judged(script, there)
    assert found.outcome is Outcome.PASS
    assert found.value == pytest.approx(value, rel=0.25)
    assert (
        judged(script, ExpectedRatio(PhaseRef("off"), PhaseRef("on"), statistic=statistic, **bounds)).outcome
        is Outcome.FAIL
    )


@pytest.mark.parametrize("statistic", ["cv", "p5", "slowest/median"])
def test_a_spread_needs_three_rounds_and_two_members(statistic: str) -> None:
    """Else nothing tells it from what was bad luck in that round; the reason says what is needed."""
    verdict = judged(rings(ALIKE, rounds=2), asked(statistic, at_least=0.0))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.reason == "2 rounds only: 'rounds: 3' is needed to tell"
    verdict = judged(rings([100.0]), asked(statistic, at_least=0.0))
    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, f"one measurement alone has no {statistic}")


def test_a_ring_that_gave_up_is_not_like_the_others() -> None:
    """FAIL where they should be alike or not slow; nothing is known of how unlike it is."""
    script = rings(ALIKE)
    script.phase("rings", [RETRIES], round=4)
    for what, outcome in (
        (asked("cv", at_most=0.03), Outcome.FAIL),
        (asked("slowest/median", at_least=0.9), Outcome.FAIL),
        (asked("cv", at_least=0.03), Outcome.INCONCLUSIVE),
    ):
        assert judged(script, what).outcome is outcome


def test_a_statistic_in_words() -> None:
    """With its unit where it has one."""
    assert judged(rings(ALIKE), asked("p5", at_least=95.0)).text == "p5 of rings at least 95 Gb/s"
    found = judged(rings(ALIKE), asked("cv", at_most=0.03))
    assert (found.text, found.reason, found.n) == ("cv of rings at most 0.03", "3 rounds of 12 measurements", 3)
