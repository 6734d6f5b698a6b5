"""The worst of limit, record and peers counts, and one slow number alone blames nobody."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from benchmarks.measured_rack import (
    LOW_LIMITS,
    dgx_platform,
    healthy,
    judged,
    measured,
    probes_of,
    rack_topology,
    slow_rnic,
)
from fabric.judge.normal.keys import key_of
from fabric.judge.verdict.probes import Judge
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.recorded import Key, Recorded
from fabric.model.scenario import JudgeSettings
from fabric.model.topology import Host, Topology
from fabric.model.verdict import Baseline, Limit, Recurrence
from tests.builders import suspects


def named(topology: Topology, pairs: list[tuple[Probe, ProbeResult]]) -> list[str]:
    """Which components are blamed."""
    found = suspects([probe for probe, _ in pairs], judged(pairs, topology), topology=topology, outcome=Outcome.FAIL)
    return [suspect.component for suspect in found]


def outcomes(topology: Topology, pairs: list[tuple[Probe, ProbeResult]], **how: object) -> set[Outcome]:
    """Which outcomes there are."""
    return {verdict.outcome for verdict in judged(pairs, topology, **how).values()}  # type: ignore[arg-type]


def one_path(probe: Probe) -> float:
    """A single path that nothing else shares is slow."""
    return 0.9 if probe.params["series"] == "mlx5_3.gpu1" and probe.hosts == ("gpu002",) else 1.0


def test_a_mildly_slow_rnic_is_named_though_every_limit_is_met(rack: Topology) -> None:
    """-8 % on one RNIC, far above the limits: FAIL, and it is that RNIC."""
    pairs = measured(probes_of(rack), cv=0.005, seed=1, factor=slow_rnic("gpu002/mlx5_3", 0.92))
    assert named(rack, pairs) == ["gpu002/mlx5_3"]
    bad = [verdict for verdict in judged(pairs, rack).values() if verdict.outcome is Outcome.FAIL]
    assert all("against the normal of its class" in verdict.with_recurrence().reason for verdict in bad)
    assert {verdict.recurrence for verdict in bad} == {Recurrence.CONFIRMED}


def test_a_loss_of_four_percent_is_told_from_its_healthy_neighbours(rack: Topology) -> None:
    """With the tolerance for large losses (5 %) healthy probes would seem to carry no more, and clear nobody."""
    pairs = measured(probes_of(rack), cv=0.002, seed=1, factor=slow_rnic("gpu002/mlx5_3", 0.952), host_spread=0.0)
    found = suspects([probe for probe, _ in pairs], judged(pairs, rack), topology=rack, outcome=Outcome.FAIL)
    assert [(suspect.component, suspect.ambiguous_with) for suspect in found] == [("gpu002/mlx5_3", ())]
    assert found[0].confidence > 0.8


def test_one_slow_number_is_marginal_and_asks_for_a_retest(rack: Topology) -> None:
    """A single path that nothing else shares: seen once, nobody is blamed."""
    pairs = measured(probes_of(rack), cv=0.005, seed=2, factor=one_path)
    verdicts = judged(pairs, rack)
    worst = [verdict for verdict in verdicts.values() if verdict.outcome is not Outcome.PASS]
    assert [(verdict.probe_id, verdict.outcome) for verdict in worst] == [
        ("intra-host/gpu002/loopback.mlx5_3.gpu1", Outcome.MARGINAL)
    ]
    assert worst[0].with_recurrence().reason.endswith("; seen once: measure it again")
    assert not named(rack, pairs)


def test_a_repetition_confirms(rack: Topology) -> None:
    """The same single path, slow each time it was measured, is FAIL."""
    pairs = measured(probes_of(rack, repeat=3), cv=0.005, seed=3, factor=one_path)
    assert named(rack, pairs) == ["gpu002/mlx5_3->gpu1"]


@pytest.mark.slow
def test_a_rack_that_is_slow_as_a_whole_fails_by_its_limit() -> None:
    """Nobody is an outlier, so only the absolute limit can tell: without exception."""
    limits = (
        *(Limit("loopback", least, "a datasheet", link_class=name) for name, least in LEAST.items()),
        Limit("rnic_to_rnic", 384.0, "a datasheet"),
    )
    rack = rack_topology(2)
    pairs = measured(probes_of(rack), cv=0.003, seed=4, factor=lambda probe: 0.85)
    assert outcomes(rack, pairs, limits=limits) == {Outcome.FAIL}
    pairs = measured(probes_of(rack), cv=0.003, seed=4, factor=healthy)
    assert outcomes(rack, pairs, limits=limits) == {Outcome.PASS}


LEAST = {"pix": 380.0, "node": 340.0, "sys": 230.0, "mem_local": 380.0, "mem_remote": 340.0}


def test_without_limit_and_record_peers_accuse_and_never_acquit(rack: Topology) -> None:
    """Numbers with nothing to hold them against are INCONCLUSIVE, the slow one's FAIL or MARGINAL, none PASS."""
    pairs = measured(probes_of(rack), cv=0.003, seed=5, factor=slow_rnic("gpu002/mlx5_3", 0.92))
    assert outcomes(rack, pairs, limits=(Limit("all_to_all", 1.0, "another kind"),)) == {
        Outcome.INCONCLUSIVE,
        Outcome.FAIL,
    }


def test_a_slow_number_without_a_limit_is_not_better_for_being_slow(rack: Topology) -> None:
    """Seen once and nothing to judge by: INCONCLUSIVE as before, and not the milder MARGINAL."""
    pairs = measured(probes_of(rack), cv=0.005, seed=2, factor=one_path)
    assert outcomes(rack, pairs, limits=(Limit("all_to_all", 1.0, "another kind"),)) == {Outcome.INCONCLUSIVE}


def test_link_classes_are_no_peers_of_each_other(rack: Topology) -> None:
    """248 Gb/s across the sockets beside 397 on one switch is how hosts are built."""
    assert outcomes(rack, measured(probes_of(rack), cv=0.003, seed=6)) == {Outcome.PASS}


def test_one_lucky_fast_pair_does_not_make_all_others_bad(rack: Topology) -> None:
    """Half as fast again as its peers: what is normal is their median, not the best of them."""
    probes = probes_of(rack, repeat=1)

    def lucky(probe: Probe) -> float:
        return 1.5 if probe.params["series"] == "mlx5_0.mlx5_1" and probe.hosts == ("gpu001",) else 1.0

    pairs = measured(probes, cv=0.003, seed=9, factor=lucky)
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", LOW_LIMITS)}, JudgeSettings(marginal=0.005), rack)
    assert Outcome.FAIL not in {verdict.outcome for verdict in judge.judge(pairs)}


@pytest.mark.slow
def test_two_line_rates_in_one_run_are_two_classes() -> None:
    """Hosts of 200 Gb/s beside hosts of 400: nobody is slow, and a slow one among the slower is found."""
    fast, slow = dgx_platform(), dgx_platform("dgx-200", line_rate_gbps=200.0)
    names = [f"gpu{number:03d}" for number in range(1, 17)]
    topology = Topology(
        {name: Host(name, fast if at < 8 else slow, name, "r1", ()) for at, name in enumerate(names)}, {}
    )
    probes = [p for p in probes_of(topology, repeat=2) if p.kind == "rnic_to_rnic"]

    def factor(probe: Probe) -> float:
        bad = probe.hosts == ("gpu012",)
        return (0.5 if names.index(probe.hosts[0]) >= 8 else 1.0) * (0.9 if bad else 1.0)

    pairs = measured(probes, cv=0.003, seed=10, factor=factor)
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "f", LOW_LIMITS)}, JudgeSettings(marginal=0.005), topology)
    verdicts, _ = judge.confirmed(probes, {result.probe_id: result for _, result in pairs})
    hosts = {p.hosts[0] for p in probes if verdicts[p.probe_id].outcome is Outcome.FAIL}
    assert hosts == {"gpu012"}


@pytest.mark.parametrize(
    ("factor", "repeat", "outcome", "beside_a_limit"),
    [
        (1.0, 3, Outcome.PASS, Outcome.PASS),
        (1.0, 1, Outcome.INCONCLUSIVE, Outcome.PASS),  # one sample cannot be compared, so the limit's word stands
        (0.9, 3, Outcome.FAIL, Outcome.FAIL),
        (0.97, 3, Outcome.INCONCLUSIVE, Outcome.MARGINAL),  # at the margin nobody knows
        (0.97, 1, Outcome.INCONCLUSIVE, Outcome.PASS),
    ],
)
def test_what_a_record_says_alone_and_beside_a_limit_that_is_met(
    rack: Topology, factor: float, repeat: int, outcome: Outcome, beside_a_limit: Outcome
) -> None:
    """On a single host, with no peers."""
    probes = [
        p for p in probes_of(rack, repeat=repeat) if p.params["series"] == "mlx5_0.mlx5_1" and p.hosts[0] == "gpu001"
    ]
    pairs = measured(probes, cv=0.002, seed=7, factor=lambda probe: factor, host_spread=0.0)
    key = key_of(probes[0], 64 << 10, rack)
    recorded = Recorded(**asdict(key), median_gbps=397.0, mad_gbps=1.0, n=500, cv=0.004, runs=("self-check/1",))
    assert recorded.key == Key(
        "rnic_to_rnic", "perftest", "cross_leaf", 64 << 10, direction="one_way", line_rate_gbps=400.0
    )
    for limits, expected in (((Limit("all_to_all", 1.0, "another"),), outcome), (LOW_LIMITS, beside_a_limit)):
        assert outcomes(rack, pairs, limits=limits, recorded=(recorded,)) == {expected}


def test_nothing_measured_judges_to_nothing(rack: Topology) -> None:
    """An empty phase has no verdicts."""
    assert Judge({}, JudgeSettings(marginal=0.01), rack).judge([]) == []
