"""What the course of each part over a long run says, and that healthy parts are left alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import cos, pi
from random import Random

import pytest

from benchmarks.measured_rack import one_number, rack_topology
from fabric.judge.course.located import Course, over_time
from fabric.judge.locate.candidates import MOMENT
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.sampling import CounterCourse, CounterReading, Samples
from fabric.model.scenario import Phase
from fabric.probes.pairwise import PairwiseSpec
from tests.builders import failure_in
from tests.judge.course.halls import Told, told

HOSTS = 16
RACK = rack_topology(HOSTS, parts=2)
NAMES = tuple(RACK.hosts)
ROUNDS = 96
HALF_HOUR_S = 1800.0
NOTHING = Samples(300.0, {})
Share = Callable[[str, int], float | None]
"""What a part leaves in a round; None: the transport gives up."""


def measured(seed: int, share: Share, rounds: int = ROUNDS, noise: float = 0.01) -> list[Told]:
    """Pairs with other partners each round, both ends limiting; what is found over time."""
    return told(over_time(*_run(seed, share, rounds, noise), RACK, NOTHING))


def _run(
    seed: int, share: Share, rounds: int, noise: float = 0.01, hosts: Sequence[str] = NAMES
) -> tuple[list[Probe], dict[str, ProbeResult], list[Phase]]:
    random = Random(seed)
    probes, results = [], {}
    phases = [Phase(f"soak-r{n}", (PairwiseSpec(),), label="soak", round=n) for n in range(rounds)]
    for number, phase in enumerate(phases):
        for device in ("mlx5_0", "mlx5_1"):
            order = random.sample(hosts, len(hosts))
            for a, b in zip(order[::2], order[1::2], strict=True):
                params = {"rnic": device, "peer_rnic": device, "name": "pairwise", "link_class": "same_leaf"}
                probe = Probe(f"{phase.name}/{a}+{b}/{device}", "pairwise", phase.name, (a, b), (), 10.0, params)
                left = [share(f"{end}/{device}", number) for end in (a, b)]
                probes.append(probe)
                results[probe.probe_id] = _result(probe.probe_id, number, left, random.gauss(1.0, noise))
    return probes, results, phases


def _result(name: str, number: int, left: list[float | None], noise: float) -> ProbeResult:
    began_s = number * HALF_HOUR_S
    if None in left:
        reason = "Completion with error: status 12: transport retry counter exceeded"
        return ProbeResult(name, 1, (), Outcome.FAIL, reason, began_s, began_s + 10.0, failure=failure_in(reason))
    value = 390.0 * min(one for one in left if one is not None) * noise
    return one_number(name, value, at_s=began_s, s=10.0)


def well(part: str, number: int) -> float:
    """A healthy part."""
    return 1.0


def bad(name: str, course: Callable[[int], float | None]) -> Share:
    """One part with a course, all others healthy."""
    return lambda part, number: course(number) if part == name else 1.0


@pytest.mark.parametrize("first", [0, *(pytest.param(one, marks=pytest.mark.slow) for one in range(20, 100, 20))])
def test_a_clean_fleet_names_nobody(first: int) -> None:
    assert [measured(seed, well, rounds=32) for seed in range(first, first + 20)] == [[]] * 20


@pytest.mark.parametrize(
    ("kind", "course"),
    [
        ("drift", lambda number: 1.0 - 0.15 * number / ROUNDS),
        ("step", lambda number: 1.0 if number < 40 else 0.9),
        ("dips", lambda number: 0.5 if number % 16 == 3 else 1.0),
        ("came_back", lambda number: None if number in (20, 21) else 1.0),
    ],
)
def test_a_fault_is_named_as_what_it_is_and_nobody_else(kind: str, course: Callable[[int], float | None]) -> None:
    found = measured(1, bad("gpu003/mlx5_1", course))
    assert [(one.component, one.kind) for one in found] == [("gpu003/mlx5_1", kind)]


def test_a_loss_that_nobody_would_act_upon_is_none() -> None:
    assert measured(2, bad("gpu003/mlx5_1", lambda number: 0.99 if number > 40 else 1.0)) == []


@pytest.mark.slow
def test_partners_of_slow_parts_are_not_blamed() -> None:
    hosts = ("gpu001/", "gpu002/", "gpu003/")
    found = measured(9, lambda part, number: 0.85 if part.startswith(hosts) and number > 40 else 1.0)
    assert {one.component.partition("/")[0] for one in found} == {"gpu001", "gpu002", "gpu003"}


@pytest.mark.slow
def test_healthy_hosts_are_not_blamed_when_most_pairs_have_a_slow_end() -> None:
    slow = tuple(f"{name}/" for name in NAMES[-6:])  # six of 16: 62 % of all pairs
    found = measured(10, lambda part, number: 0.85 if part.startswith(slow) and number > 40 else 1.0)
    assert {one.component.partition("/")[0] for one in found} <= {*NAMES[-6:], "rack r1"}
    assert found


@pytest.mark.slow
def test_what_a_fade_loses_before_it_is_seen_belongs_to_it() -> None:
    found = measured(1, bad("gpu004/mlx5_1", lambda number: 1.0 - 0.15 * number / 700), rounds=700, noise=0.004)
    assert [(one.component, one.kind) for one in found] == [("gpu004/mlx5_1", "drift")]


@pytest.mark.parametrize("seed", range(4))
def test_an_rnic_that_fades_to_half_does_not_accuse_its_host(seed: int) -> None:
    """Its bandwidth falls along a line: the logarithm of it does not, by several percent."""
    found = measured(seed, bad("gpu003/mlx5_1", lambda number: 1.0 - 0.5 * number / 96), 96, 0.003)
    assert [(one.component, one.kind) for one in found] == [("gpu003/mlx5_1", "drift")]


@pytest.mark.slow
def test_one_that_fades_is_seen_beside_many_slow_ones() -> None:
    slow = tuple(f"{name}/" for name in NAMES[-5:])

    def share(part: str, number: int) -> float:
        if part.startswith(slow):
            return 0.85 if number > 40 else 1.0
        return 1.0 - 0.15 * number / ROUNDS if part == "gpu003/mlx5_1" else 1.0

    assert ("gpu003/mlx5_1", "drift") in {(one.component, one.kind) for one in measured(11, share)}


def test_one_dip_is_no_proof() -> None:
    assert measured(3, bad("gpu003/mlx5_1", lambda number: 0.5 if number == 7 else 1.0)) == []


def test_what_a_whole_round_has_in_common_names_nobody() -> None:
    assert measured(4, lambda part, number: 0.9 if number % 5 == 0 else 1.0) == []
    found = measured(4, lambda part, number: 0.7 if number % 5 == 0 else 1.0)
    assert {(one.component, one.kind) for one in found} == {(f"soak-r{n}", MOMENT) for n in range(0, ROUNDS, 5)}


def test_slow_parts_do_not_hide_one_that_dips() -> None:
    def share(part: str, number: int) -> float:
        if part.startswith(("gpu001/", "gpu002/")):
            return 0.85
        return 0.5 if part == "gpu009/mlx5_0" and number % 16 == 3 else 1.0

    assert "gpu009/mlx5_0" in {one.component for one in measured(5, share)}


@pytest.mark.slow
def test_what_cannot_bear_warmth_is_named_with_its_temperatures() -> None:
    def celsius(number: int) -> float:
        return 45.0 + (number * 7 % 12)

    probes, results, phases = _run(6, bad("gpu003/mlx5_1", lambda n: 1.0 - 0.02 * (celsius(n) - 45.0)), ROUNDS)
    at_s = [number * HALF_HOUR_S for number in range(ROUNDS)]
    course = CounterCourse(at_s, [celsius(number) for number in range(ROUNDS)], at_s[-1])
    samples = Samples(300.0, {CounterReading("gpu003", "mlx5_1", "module_c"): course})
    (found,) = told(over_time(probes, results, phases, RACK, samples))
    assert (found.component, found.kind) == ("gpu003/mlx5_1", "heat")
    assert found.text == "loses 22% of its bandwidth when its module warms from 45 to 56 C (96 probes)"


@pytest.mark.slow
def test_a_thermometer_that_is_written_down_now_and_then_accuses_no_leaf() -> None:
    swing, random, kept = 288, Random(4), -1.0
    warmed = [7.5 * (1.0 - cos(2.0 * pi * number / swing)) for number in range(2 * swing)]
    course = CounterCourse(until_s=2 * swing * HALF_HOUR_S)
    for number, more in enumerate(warmed):
        value = float(round(45.0 + more + random.uniform(-1.0, 1.0)))
        if abs(value - kept) > 2.0:
            kept = value
            course.at_s.append(number * HALF_HOUR_S)
            course.values.append(value)
    rack = rack_topology(4)
    sick = bad("gpu003/mlx5_1", lambda number: 1.0 - 0.02 * warmed[number])
    run = _run(4, sick, len(warmed), 0.004, tuple(rack.hosts))
    samples = Samples(300.0, {CounterReading("gpu003", "mlx5_1", "module_c"): course})
    found = told(over_time(*run, rack, samples))
    assert [(one.component, one.kind) for one in found] == [("gpu003/mlx5_1", "heat")]


def test_most_rnics_of_a_host_alike_are_the_host() -> None:
    topology = rack_topology(HOSTS, parts=2)
    probes, results, phases = _run(
        7, lambda part, number: 0.8 if part.startswith("gpu003/") and number > 50 else 1.0, ROUNDS
    )
    found = told(over_time(probes, results, phases, topology, NOTHING))
    assert {one.component.partition("/")[0] for one in found} == {"gpu003"}


def test_a_phase_of_few_rounds_has_no_course() -> None:
    assert measured(8, bad("gpu003/mlx5_1", lambda number: 0.5 if number > 3 else 1.0), rounds=7) == []


@pytest.mark.parametrize("rounds", [18, 22, 26])
def test_a_loss_that_comes_and_stays_is_a_step_however_few_rounds_show_it(rounds: int) -> None:
    """Too few for a test of the trend: but that all low ones are the last ones has one chance in 40,000."""
    (found,) = measured(1, bad("gpu003/mlx5_1", lambda number: 0.85 if number >= rounds // 2 else 1.0), rounds=rounds)
    assert (found.component, found.kind) == ("gpu003/mlx5_1", "step")
    assert "of its bandwidth at once" in found.text


def test_a_long_test_during_which_a_part_became_slow_is_told_by_that_part() -> None:
    """It lost some of what those after it lose. One with a good test after it is not: something else slowed it."""
    share = bad("gpu003/mlx5_1", lambda number: 1.0 if number < 40 else 0.85)
    probes, results, phases = _run(1, share, 64, noise=0.002)
    for number in (30, 39):
        short = next(
            one
            for one in probes
            if one.phase == f"soak-r{number}" and "gpu003" in one.hosts and one.params["rnic"] == "mlx5_1"
        )
        lasting = {f"long{number}": (0.96, HALF_HOUR_S), **{f"short{number}.{n}": (1.0, 10.0) for n in range(6)}}
        for n, (name, (left, lasted_s)) in enumerate(lasting.items()):  # the long one begins first
            probes.append(replace(short, probe_id=name))
            began_s = number * HALF_HOUR_S - 20.0 + 100.0 * n
            results[name] = one_number(name, 390.0 * left, at_s=began_s, s=lasted_s)
    course = over_time(probes, results, phases, RACK, NOTHING)
    assert "long39" in course.told
    assert "long30" not in course.told


def test_two_that_dipped_only_together_are_either() -> None:
    """Nothing tells them apart: both dipped in the same probes, and in no other."""
    name = "gpu003/mlx5_1"
    probes, _, _ = _run(1, well, ROUNDS)
    ends = [{f"{host}/{one.params['rnic']}" for host in one.hosts} for one in probes]
    met = Counter(other for pair in ends if name in pair for other in pair - {name})
    other = max(met, key=lambda one: met[one])
    rounds = [place // HOSTS for place, pair in enumerate(ends) if pair == {name, other}]
    assert len(rounds) > 2
    (found,) = measured(1, bad(name, lambda number: 0.5 if number in rounds else 1.0))
    assert found.kind == "dips"
    assert {found.component, *found.rivals} == {name, other, f"{name}:port", f"{other}:port"}


def test_latencies_have_no_course() -> None:
    """They are no bandwidth; a soak may measure them all the same."""
    probes, results, phases = _run(1, lambda part, number: 1.0, 10)
    for name, one in results.items():
        latencies = (Measurement(name, "typical", 2.0, "us"), Measurement(name, "p99", 3.0, "us"))
        results[name] = replace(one, measurements=latencies)
    assert over_time([replace(one, kind="latency") for one in probes], results, phases, RACK, NOTHING) == Course()
