"""One low sample is measured again, and what could not be measured once; nothing else is."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measured_rack import LOW_LIMITS, judge_of, one_number_a_host, phase_of, rack_topology, result_of
from fabric.judge.verdict.conclude import conclude
from fabric.judge.verdict.during_run import MoreSamples
from fabric.judge.verdict.probes import Judge
from fabric.model.outcome import Outcome
from fabric.model.probe import AGAIN, Probe, ProbeResult
from fabric.model.scenario import JudgeSettings, LocaliseSettings, Phase
from fabric.model.topology import Topology
from fabric.model.verdict import Baseline, Limit
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from tests.builders import asked, on_mock
from tests.places import INVENTORY

HOSTS = 32


@pytest.fixture(scope="module")
def wide() -> Topology:
    """Enough hosts to be peers."""
    return rack_topology(HOSTS)


def low(probes: list[Probe], values: dict[str, float]) -> list[ProbeResult]:
    """Everybody reaches 400 Gb/s but the hosts of *values*."""
    return [result_of(probe, values.get(probe.hosts[0], 400.0)) for probe in probes]


@pytest.mark.parametrize(("second", "outcome"), [(380.0, Outcome.FAIL), (400.0, Outcome.PASS)])
def test_one_low_sample_is_measured_again(wide: Topology, second: float, outcome: Outcome) -> None:
    """Nobody else is. The repetition is named and made as the plan makes it, and both together tell."""
    probes, judge = one_number_a_host(wide), judge_of(wide)
    assert MoreSamples(judge).more(phase_of(probes), low(probes, {}), []) == []
    follow_up = MoreSamples(judge)
    results, added = low(probes, {"gpu003": 380.0}), list[Probe]()
    while more := list(follow_up.more(phase_of(probes), results, added)):
        number = len(added) + 2
        assert more == [replace(probes[2], probe_id=f"{probes[2].probe_id}.r{number}")]
        results, added = [*results, *low(more, {"gpu003": second})], [*added, *more]
    assert 1 <= len(added) <= 2
    verdicts, _ = judge.confirmed([*probes, *added], {one.probe_id: one for one in results})
    assert {verdicts[one.probe_id].outcome for one in (probes[2], *added)} == {outcome}


def test_further_tests_of_a_part_that_dipped_ask_for_no_repetition(wide: Topology) -> None:
    """What had enough samples before them has enough after them; other new results are looked at."""
    probes = one_number_a_host(wide)
    follow_up, others = MoreSamples(judge_of(wide)), [one for one in probes if one.hosts != ("gpu003",)]
    assert not follow_up.more(phase_of(probes), low(others, {}), [])
    again = [replace(others[0], probe_id="again/1", params={**others[0].params, AGAIN: "gpu001"})]
    assert not follow_up.more(phase_of(probes), low([*others, *again], {"gpu001": 380.0}), again)
    assert follow_up.more(phase_of(probes), low([*probes, *again], {"gpu003": 380.0}), again)


@pytest.mark.parametrize(("second", "named"), [(0.08, ["gpu003"]), (400.0, [])])
def test_a_number_near_nothing_blames_nobody_before_it_is_measured_again(
    wide: Topology, second: float, named: list[str]
) -> None:
    """A tool may print anything once; of a way that carries nothing, the repetitions are low, too."""
    probes, judge = one_number_a_host(wide), judge_of(wide)
    results = low(probes, {"gpu003": 0.08})
    assert not judge.confirmed(probes, {one.probe_id: one for one in results})[1].suspects
    more = list(MoreSamples(judge).more(phase_of(probes), results, []))
    assert [one.probe_id for one in more] == [f"{probes[2].probe_id}.r2"]
    again = [replace(result_of(one, second), started_s=10.0, ended_s=11.0) for one in more]
    whole = {one.probe_id: one for one in (*results, *again)}
    found = judge.confirmed([*probes, *more], whole)[1].suspects
    assert [one.component for one in found] == named


@pytest.mark.parametrize("other", [Outcome.ERROR, Outcome.SKIPPED])
def test_two_samples_either_side_of_the_limit_get_a_third_where_the_host_is_well(
    wide: Topology, other: Outcome
) -> None:
    """A probe that was measured when it was run again, or was skipped, says nothing against the host."""
    twice = one_number_a_host(wide, repeat=2)
    judge = judge_of(wide, limits=(Limit("rnic_to_rnic", 384.0, "a limit", min_size_bytes=1), LOW_LIMITS[0]))
    spec = expand_phase(Phase("x", (LoopbackSpec(),)), wide, ("gpu003",))[0]
    again = replace(spec, probe_id=f"{spec.probe_id}.r2")
    probes = [*twice, spec, *([again] if other is Outcome.ERROR else [])]
    mine = [probe.probe_id for probe in twice if probe.hosts == ("gpu003",)]
    results = [result_of(probe, 50.0 if probe.probe_id == mine[0] else 400.0) for probe in twice]
    results.append(ProbeResult(spec.probe_id, 1, (), other, "lost", 0.0, 1.0))
    results += [replace(result_of(one, 390.0), started_s=10.0, ended_s=11.0) for one in probes[len(twice) + 1 :]]
    more = MoreSamples(judge).more(phase_of(probes), results, [])
    assert [one.probe_id for one in more] == [f"{mine[0].removesuffix('.r1')}.r3"]


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


def test_what_could_not_be_measured_once_is_run_again(wide: Topology) -> None:
    """Of a host on which all else was measured; a host on which much fails is in trouble, and is left as it is."""
    probes = expand_phase(Phase("x", (LoopbackSpec(),)), wide, tuple(wide.hosts))
    plain = Judge({"h100-ndr": Baseline("h100-ndr", "f", LOW_LIMITS)}, JudgeSettings(marginal=0.005), wide)
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
        named = conclude([*probes, *more], whole, topology=wide, judge=plain).suspects
        assert [one.component for one in named] == ([] if wanted else ["gpu002"])


def test_one_error_of_many_probes_is_hardly_a_bad_host(wide: Topology) -> None:
    """It was never measured, so that its host stays a suspect: with the odds of a bad host against a stray error."""
    probes = expand_phase(Phase("x", (LoopbackSpec(),)), wide, tuple(wide.hosts))
    lost = next(probe for probe in probes if probe.hosts == ("gpu002",))
    error = ProbeResult(lost.probe_id, 1, (), Outcome.ERROR, "lost", 0.0, 1.0)
    results = {probe.probe_id: result_of(probe, 390.0) for probe in probes} | {lost.probe_id: error}
    (one,) = conclude(probes, results, topology=wide, judge=judge_of(wide)).suspects
    assert (one.component, one.outcome) == ("gpu002", Outcome.ERROR)
    assert one.confidence <= 0.05


LOST = "gpu002: ib_write_bw on mlx5_0: Couldn't connect"


@pytest.mark.parametrize(("second", "suspects"), [(Outcome.MARGINAL, 0), (Outcome.ERROR, 1)])
def test_a_pair_without_a_number_is_measured_once_more(wide: Topology, second: Outcome, suspects: int) -> None:
    """The second answer counts; two without a number are evidence, and ask for no third."""
    probes = expand_phase(Phase("x", (PairwiseSpec(),)), wide, tuple(wide.hosts))
    judge = judge_of(wide, limits=(Limit("pairwise", 384.0, "a limit", min_size_bytes=1),))
    follow_up, (lost, *others) = MoreSamples(judge), probes
    error = ProbeResult(lost.probe_id, 1, (), Outcome.ERROR, LOST, 0.0, 1.0)
    results = [error, *(result_of(probe, 397.0) for probe in others)]
    (again,) = follow_up.more(phase_of(probes), results, ())
    assert again == replace(lost, probe_id=f"{lost.probe_id}.r2")
    answer = error if second is Outcome.ERROR else result_of(again, 397.0)
    results.append(replace(answer, probe_id=again.probe_id, started_s=10.0, ended_s=11.0))
    assert follow_up.more(phase_of(probes), results, [again]) == []
    verdict = conclude([*probes, again], {one.probe_id: one for one in results}, topology=wide, judge=judge)
    assert verdict.outcome is second
    assert len(verdict.suspects) == suspects


def test_a_pair_is_left_to_those_who_asked_for_it_after_a_dip(wide: Topology) -> None:
    """They ask for another test, with another partner."""
    probes = expand_phase(Phase("x", (PairwiseSpec(),)), wide, tuple(wide.hosts))
    added = replace(probes[0], probe_id="x/again", params={**probes[0].params, AGAIN: "gpu001/mlx5_0"})
    results = [result_of(probe, 397.0) for probe in probes]
    results.append(ProbeResult(added.probe_id, 1, (), Outcome.ERROR, LOST, 0.0, 1.0))
    assert MoreSamples(judge_of(wide)).more(phase_of(probes), results, [added]) == []


def test_each_round_of_localisation_may_have_lost_a_pair(wide: Topology) -> None:
    plan = phase_of(expand_phase(Phase("x", (PairwiseSpec(),)), wide, tuple(wide.hosts)))
    localising = replace(plan, phase=replace(plan.phase, localise=LocaliseSettings(rounds=10)))
    plain, more = (MoreSamples(judge_of(wide)).limits(one) for one in (plan, localising))
    assert plain is not None
    assert more is not None
    assert more.rounds == plain.rounds + 10


@pytest.mark.slow
def test_a_connection_that_was_lost_once_is_no_error_of_a_run_that_localises(tmp_path: Path) -> None:
    """With the noise of real clusters a planned pair is lost here, and one of a further round."""
    shutil.copytree(INVENTORY / "baselines", tmp_path / "baselines")
    (tmp_path / "pod.yaml").write_text(
        (INVENTORY / "pod-64.yaml").read_text().replace("noise_cv: 0.003", "noise: real")
    )
    phase = "{name: pairs, localise: {rounds: 6}, probes: [pairwise]}"
    (tmp_path / "pairs.yaml").write_text(f"name: pairs\ninventory: pod.yaml\nhosts: all\nphases:\n  - {phase}\n")
    found = on_mock(asked(tmp_path / "pairs.yaml", hosts="gpu[001-008]"), tmp_path / "results", seed=2).verdict
    lost = [one for one in found.probes if "Couldn't connect" in one.reason]
    assert [one.probe_id.rpartition(".")[2] for one in lost] == ["t2", "t5"]
    assert {one.outcome for one in lost} == {Outcome.MARGINAL}
    assert found.outcome is Outcome.INCONCLUSIVE  # for the dips of this noise
