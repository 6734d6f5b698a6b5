"""Who needs more samples gets them, nobody else does, and the judge counts all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.measured_rack import LOW_LIMITS, judge_of, noisy, one_number_a_host, phase_of, result_of, sampled
from fabric.judge.verdict.further_tests import MoreSamples
from fabric.judge.verdict.probes import Judge
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.recorded import Recorded
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.verdict import Baseline, Limit
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from tests.conftest import rack_topology

HOSTS = 32


@pytest.fixture(scope="module")
def wide() -> Topology:
    """Enough hosts to be peers."""
    return rack_topology(HOSTS)


def outcomes(found: object, host: str) -> set[Outcome]:
    """Of a host's only series."""
    return {v.outcome for name, v in found.verdicts.items() if name.startswith(f"x/{host}/")}  # type: ignore[attr-defined]


def test_three_percent_is_found_by_repetition_alone(wide: Topology) -> None:
    """One number a host, every limit met, no other probe to confirm it: FAIL, and only where it is so."""
    for seed in range(5):
        draw = noisy(cv=0.01, seed=seed, factors={"gpu005": 0.97}, spread=0.002)
        found = sampled(one_number_a_host(wide), draw, judge_of(wide))
        assert outcomes(found, "gpu005") == {Outcome.FAIL}
        assert {v.outcome for name, v in found.verdicts.items() if "gpu005" not in name} <= {
            Outcome.PASS,
            Outcome.MARGINAL,
        }
        reason = next(v.reason for name, v in found.verdicts.items() if "gpu005" in name)
        assert "and again in" in reason


def test_most_probes_get_no_further_sample(wide: Topology) -> None:
    found = sampled(one_number_a_host(wide), noisy(cv=0.005, seed=1), judge_of(wide))
    assert found.mean < 3.5


def test_nobody_gets_more_than_thirty(wide: Topology) -> None:
    """Noise that no budget can beat: INCONCLUSIVE, not PASS and not FAIL, and an end to it."""
    found = sampled(one_number_a_host(wide), noisy(cv=0.2, seed=2), judge_of(wide))
    assert max(found.samples.values()) == 30
    assert Outcome.FAIL not in {verdict.outcome for verdict in found.verdicts.values()}
    open_ones = [verdict for verdict in found.verdicts.values() if verdict.outcome is Outcome.INCONCLUSIVE]
    assert open_ones
    assert "30 samples cannot tell the median of 32 peers" in open_ones[0].reason


def test_two_samples_never_pass(wide: Topology) -> None:
    """The run ended before the third: nobody knows."""
    found = sampled(one_number_a_host(wide, repeat=2), noisy(cv=0.002, seed=3), judge_of(wide), most_rounds=0)
    assert {verdict.outcome for verdict in found.verdicts.values()} == {Outcome.INCONCLUSIVE}


def test_a_probe_that_is_slow_once_is_measured_again_before_it_counts(wide: Topology) -> None:
    """Its first three samples are disturbed, the later ones are not."""
    probes = one_number_a_host(wide)
    healthy = noisy(cv=0.005, seed=4, spread=0.001)
    disturbed = {f"x/gpu007/rnic_to_rnic.mlx5_0.mlx5_1.r{number}" for number in (1, 2, 3)}

    def draw(probe: Probe) -> float:
        return healthy(probe) * (0.9 if probe.probe_id in disturbed else 1.0)

    first = sampled(probes, draw, judge_of(wide), most_rounds=0)
    assert {(v.outcome, "measure it again" in v.reason) for n, v in first.verdicts.items() if "gpu007" in n} == {
        (Outcome.MARGINAL, True)
    }
    after = sampled(probes, draw, judge_of(wide))
    assert after.samples["('gpu007',)rnic_to_rnicmlx5_0.mlx5_1"] >= 6
    assert Outcome.FAIL not in outcomes(after, "gpu007")


def test_a_rack_slow_as_a_whole_fails_by_its_limit_at_once(wide: Topology) -> None:
    """Nobody is an outlier; and no sample is spent on what the limit has settled."""
    limits = (Limit("rnic_to_rnic", 384.0, "a datasheet"),)
    draw = noisy(cv=0.003, seed=5, factors=dict.fromkeys(wide.hosts, 0.85))
    found = sampled(one_number_a_host(wide), draw, judge_of(wide, limits=limits))
    assert {verdict.outcome for verdict in found.verdicts.values()} == {Outcome.FAIL}
    assert found.mean == 3.0


def test_near_its_limit_a_probe_is_measured_more_often(wide: Topology) -> None:
    """A median that noise may have lifted over the limit is MARGINAL, with thirty samples as with three."""
    limits = (Limit("rnic_to_rnic", 396.5, "a datasheet"),)
    probes = [probe for probe in one_number_a_host(wide) if probe.hosts == ("gpu001",)]
    judge = judge_of(wide, limits=limits)
    near = [(probe, result_of(probe, value)) for probe, value in zip(probes, (396.0, 399.0, 401.0), strict=True)]
    far = [(probe, result_of(probe, value)) for probe, value in zip(probes, (438.0, 440.0, 441.0), strict=True)]
    assert [probe.probe_id for probe in judge.unsettled(near)] == [probes[0].probe_id]
    assert judge.unsettled(far) == []


def test_nothing_is_repeated_where_there_is_nothing_to_compare_with(rack: Topology) -> None:
    """Four hosts are no peers, and there is neither limit nor record."""
    probes = one_number_a_host(rack)
    found = sampled(probes, noisy(cv=0.01, seed=6), judge_of(rack, limits=(Limit("all_to_all", 1.0, "another"),)))
    assert found.rounds == 0
    assert {verdict.outcome for verdict in found.verdicts.values()} == {Outcome.INCONCLUSIVE}


@pytest.mark.parametrize(("factor", "outcome"), [(1.0, Outcome.PASS), (0.96, Outcome.FAIL)])
def test_a_record_settles_it_without_peers_and_limit(rack: Topology, factor: float, outcome: Outcome) -> None:
    """One host of four, its noise known from nine samples of its own."""
    from fabric.judge.normal.keys import key_of

    probes = one_number_a_host(rack)
    recorded = Recorded(key_of(probes[0], 64 << 10, rack), 400.0, 1.0, 500, 0.004, ("self-check/1",))
    judge = judge_of(rack, limits=(Limit("all_to_all", 1.0, "another"),), recorded=(recorded,))
    found = sampled(probes, noisy(cv=0.004, seed=7, factors=dict.fromkeys(rack.hosts, factor), spread=0.0), judge)
    assert {verdict.outcome for verdict in found.verdicts.values()} == {outcome}


def test_repetitions_are_named_and_made_as_the_plan_makes_them(wide: Topology) -> None:
    """The next number, and everything else as it was."""
    probes = one_number_a_host(wide)
    results = [result_of(probe, 380.0 if probe.hosts == ("gpu003",) else 400.0) for probe in probes]
    (more,) = MoreSamples(judge_of(wide)).more(phase_of(probes), results, [])
    third = next(probe for probe in probes if probe.hosts == ("gpu003",) and probe.probe_id.endswith(".r3"))
    assert more.probe_id == third.probe_id.replace(".r3", ".r4")
    assert replace(more, probe_id=third.probe_id, params={**more.params, "port": third.params["port"]}) == third


def test_the_number_goes_on_from_what_was_added(wide: Topology) -> None:
    probes = one_number_a_host(wide)
    values = {"gpu003": 380.0}
    results = [result_of(probe, values.get(probe.hosts[0], 400.0)) for probe in probes]
    follow_up = MoreSamples(judge_of(wide))
    first = follow_up.more(phase_of(probes), results, [])
    second = follow_up.more(phase_of(probes), [*results, *(result_of(p, 380.0) for p in first)], first)
    assert [probe.probe_id.rpartition(".")[2] for probe in (*first, *second)] == ["r4", "r5"]


def test_a_collective_of_two_hosts_is_repeated_under_its_own_name(rack: Topology) -> None:
    spec = TorAllReduceSpec(repeat=3)
    probes = expand_phase(Phase("tor", (spec,)), rack, tuple(rack.hosts))
    judge = judge_of(rack, limits=(Limit("tor_all_reduce", 361.8, "a datasheet"),))
    results = [result_of(probe, 362.0) for probe in probes]
    more = MoreSamples(judge).more(phase_of(probes), results, [])
    assert [probe.probe_id for probe in more] == [
        probe.probe_id.replace(".r1", ".r4") for probe in probes if probe.probe_id.endswith(".r1")
    ]


def test_what_was_not_measured_is_not_repeated(wide: Topology) -> None:
    """An ERROR among its repetitions is another trouble."""
    probes = one_number_a_host(wide)
    results = [result_of(probe, 380.0 if probe.hosts == ("gpu003",) else 400.0) for probe in probes]
    at = next(number for number, probe in enumerate(probes) if probe.hosts == ("gpu003",))
    results[at] = replace(results[at], outcome=Outcome.ERROR, measurements=())
    assert MoreSamples(judge_of(wide)).more(phase_of(probes), results, []) == []


def test_rings_that_run_at_once_are_never_repeated_alone(rack: Topology) -> None:
    probes = expand_phase(Phase("x", (ConcurrentRingsSpec(repeat=3),)), rack, tuple(rack.hosts))
    follow_up = MoreSamples(judge_of(rack))
    assert follow_up.limits(phase_of(probes)) is None
    assert follow_up.more(phase_of(probes), [result_of(probe, 300.0) for probe in probes], []) == []


def test_a_phase_with_changes_is_left_alone(rack: Topology) -> None:
    probes = expand_phase(Phase("x", (LoopbackSpec(repeat=3),)), rack, tuple(rack.hosts))
    plan = phase_of(probes)
    assert MoreSamples(judge_of(rack)).limits(plan) is not None
    assert MoreSamples(judge_of(rack)).limits(replace(plan, changes=("a change",))) is None  # type: ignore[arg-type]


def test_a_judge_that_takes_samples_as_written_asks_for_none(wide: Topology) -> None:
    """But for what is low and was measured once: that is measured again."""
    plain = Judge({"h100-ndr": Baseline("h100-ndr", "f", LOW_LIMITS)}, topology=wide, marginal=0.005)
    probes = one_number_a_host(wide, repeat=1)
    results = [result_of(probe, 390.0) for probe in probes]
    assert MoreSamples(plain).more(phase_of(probes), results, []) == []
    results[3] = result_of(probes[3], 300.0)
    (more,) = MoreSamples(plain).more(phase_of(probes), results, [])
    assert more.hosts == probes[3].hosts


def test_what_is_normal_is_not_moved_by_who_was_measured_again(wide: Topology) -> None:
    """Those that were low at first have more samples now and are back at 400; who was lucky has its first three."""
    probes = one_number_a_host(wide)
    added = [
        replace(probe, probe_id=probe.probe_id.replace(".r3", f".r{number}"))
        for probe in probes
        if probe.probe_id.endswith(".r3") and int(probe.hosts[0][3:]) % 2
        for number in (4, 5, 6)
    ]
    first = {0: 408.0, 1: 392.0}  # a CV of 2 % makes a mean of three differ by so much
    pairs = [(probe, result_of(probe, first[int(probe.hosts[0][3:]) % 2])) for probe in probes]
    pairs += [(probe, result_of(probe, 400.0)) for probe in added]
    low = [
        (probe, result_of(probe, 380.0)) if probe.hosts == ("gpu001",) else (probe, result) for probe, result in pairs
    ]
    verdict = judge_of(wide).judge(low)[0]
    assert verdict.outcome is Outcome.FAIL
    assert verdict.expected_gbps == pytest.approx(400.0, abs=0.1)


def test_what_could_not_be_measured_once_is_run_again(wide: Topology) -> None:
    """Of a host on which all else was measured; a host on which much fails is in trouble, and is left as it is."""
    probes = expand_phase(Phase("x", (LoopbackSpec(),)), wide, tuple(wide.hosts))
    plain = Judge({"h100-ndr": Baseline("h100-ndr", "f", LOW_LIMITS)}, topology=wide, marginal=0.005)
    lost = [probe for probe in probes if probe.hosts == ("gpu002",)]
    for number, wanted in ((1, lost[:1]), (len(lost), [])):
        failed = {probe.probe_id for probe in lost[:number]}
        results = [
            ProbeResult(probe.probe_id, 1, (), Outcome.ERROR, "lost", 0.0, 1.0)
            if probe.probe_id in failed
            else result_of(probe, 390.0)
            for probe in probes
        ]
        more = MoreSamples(plain).more(phase_of(probes), results, ())
        assert [one.probe_id for one in more] == [f"{probe.probe_id}.r2" for probe in wanted]
        again = [replace(result_of(one, 390.0), started_s=10.0, ended_s=11.0) for one in more]
        whole = {one.probe_id: one for one in (*results, *again)}
        verdicts, _ = plain.confirmed([*probes, *more], whole)
        found = {verdicts[name].outcome for name in failed}
        assert found == ({Outcome.MARGINAL} if wanted else {Outcome.ERROR})
