"""What decides about a repaired host, one thing at a time; whole validations are in tests/scenario."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.judge.ports.health import BerVerdict, PortHealth
from fabric.judge.repair.accept import WatchedPorts, accept, alone, together
from fabric.judge.repair.identity import Repair, Repaired
from fabric.judge.repair.needs import Measured
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.repair import Acceptance, Because, Decision, Evidence, Need
from fabric.model.sampling import CounterCourse
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.verdict import ComponentVerdict, LinkCoverage, ProbeVerdict, Suspect, Verdict
from fabric.probes.again import AgainSpec
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.report.decision import acceptance_text

RIGHT = Repaired(Repair.RIGHT_PART, ("the named part was replaced: gpu001/mlx5_0",))
SEEN = LinkCoverage(cables=8, whole=8, looks=126, ends=16, lit=16)
SURE = BerVerdict(Outcome.PASS, "0 symbol errors in 7600 s")
SHORT = BerVerdict(Outcome.INCONCLUSIVE, "7500 s are needed", 900.0)


def ports(ber: BerVerdict | None = SURE, outcome: Outcome = Outcome.PASS) -> WatchedPorts:
    """All ports of gpu001; *ber* and *outcome* are those of the first."""
    found = [PortHealth("gpu001", f"mlx5_{number}", ber=SURE) for number in range(8)]
    found[0] = replace(found[0], ber=ber, found=(("link_downed", outcome, "3 times down"),))
    return WatchedPorts(tuple(found), 7600.0)


class Case:
    """One loopback of gpu001 that failed with 200 Gb/s, and was measured again three times."""

    def __init__(self, rack: Topology, *, past: tuple[float, ...] = (), quick: bool = False) -> None:
        probe = expand_phase(Phase("intra", (LoopbackSpec(),)), rack, ["gpu001"])[0]
        evidence = Evidence(probe, Outcome.FAIL, "slow", 200.0, 380.0, past)
        self.because = Because("check/1", "/x", ("gpu001",), quick, (), (evidence,))
        self.probes = expand_phase(Phase("evidence", (AgainSpec(repeat=3, because=self.because),)), rack, ["gpu001"])
        self.rack = rack

    def decided(
        self,
        *values: float,
        outcome: Outcome = Outcome.PASS,
        watched: WatchedPorts | None = None,
        repaired: Repaired = RIGHT,
        suspects: tuple[Suspect, ...] = (),
        complete: bool = True,
    ) -> Acceptance:
        """With these numbers now."""
        results = {probe.probe_id: _result(probe, value) for probe, value in zip(self.probes, values, strict=False)}
        verdicts = tuple(ProbeVerdict(probe.probe_id, outcome, "", limit_gbps=380.0) for probe in self.probes)
        watched = ports() if watched is None else watched
        bad = [one for one in watched.ports if one.outcome is not Outcome.PASS]
        components = tuple(ComponentVerdict(one.component, one.outcome, "; ".join(one.words)) for one in bad)
        verdict = Verdict(outcome, (), suspects, components, verdicts, links=SEEN)
        again, hosts = frozenset({"evidence"}), frozenset(self.because.hosts)
        run = Measured(self.probes, results, verdict, self.rack, complete, again, hosts)
        return accept(self.because, run, watched, repaired)


def _result(probe: Probe, value: float) -> ProbeResult:
    measured = (Measurement(probe.probe_id, "bw_avg", value, "Gb/s", 8 << 20),)
    return ProbeResult(probe.probe_id, 1, measured, None, "", 0.0, 5.0)


GOOD = (397.0, 397.5, 396.8)


def test_good_numbers_clean_ports_and_the_right_part_are_accepted(rack: Topology) -> None:
    found = Case(rack).decided(*GOOD)
    assert found.decision is Decision.ACCEPT
    assert found.watched_s == 7600.0


@pytest.mark.parametrize(
    ("watched", "decision", "words"),
    [
        (ports(SHORT), Decision.INCONCLUSIVE, "1 of 8 ports were not watched long enough: 15 min 00 s more"),
        (ports(None), Decision.INCONCLUSIVE, "1 of 8 ports could not be watched"),
        (WatchedPorts(), Decision.INCONCLUSIVE, "8 of 8 ports could not be watched"),
        (ports(SURE, Outcome.FAIL), Decision.REJECT, "gpu001/mlx5_0:port: 3 times down"),
    ],
)
def test_without_a_clean_window_it_is_not_accepted(
    rack: Topology, watched: WatchedPorts, decision: Decision, words: str
) -> None:
    found = Case(rack).decided(*GOOD, watched=watched)
    assert found.decision is decision
    assert any(words in text for text in found.reasons), found.reasons


def test_a_quick_validation_does_not_wait_but_a_bad_port_still_rejects(rack: Topology) -> None:
    assert Case(rack, quick=True).decided(*GOOD, watched=ports(SHORT)).decision is Decision.ACCEPT
    assert Case(rack, quick=True).decided(*GOOD, watched=ports(SURE, Outcome.FAIL)).decision is Decision.REJECT


def test_slower_than_its_own_past_rejects_it_above_the_limit(rack: Topology) -> None:
    past = (397.0, 396.0, 398.0) * 4
    assert Case(rack, past=past).decided(*GOOD).decision is Decision.ACCEPT
    found = Case(rack, past=past).decided(381.0, 381.5, 380.8)
    assert found.decision is Decision.REJECT
    assert "now: slower than its own past: -4.0%" in found.reasons[0]


def test_a_loss_that_may_be_chance_is_not_told(rack: Topology) -> None:
    found = Case(rack, past=(397.0, 396.0, 398.0)).decided(381.0, 381.5, 380.8)
    assert found.decision is Decision.INCONCLUSIVE
    assert "perhaps slower than its own past" in found.reasons[0]


def test_two_samples_are_too_few(rack: Topology) -> None:
    found = Case(rack).decided(*GOOD[:2])
    assert found.decision is Decision.INCONCLUSIVE
    assert "2 of 3 samples that are needed" in found.reasons[0]


def test_what_failed_again_rejects_it(rack: Topology) -> None:
    assert Case(rack).decided(200.0, 201.0, 200.0, outcome=Outcome.FAIL).decision is Decision.REJECT


def test_a_suspect_on_it_rejects_and_one_elsewhere_does_not(rack: Topology) -> None:
    own = Suspect("gpu001/mlx5_4", "rnic", Outcome.FAIL, 0.9, ("slow",), hosts=("gpu001",))
    assert Case(rack).decided(*GOOD, suspects=(own,)).decision is Decision.REJECT
    other = replace(own, component="gpu002/mlx5_4", hosts=("gpu002",))
    found = Case(rack).decided(*GOOD, suspects=(other,))
    assert found.decision is Decision.ACCEPT
    assert "gpu002/mlx5_4 was found bad, and is not gpu001" in found.notes


def test_good_numbers_do_not_outweigh_the_wrong_part(rack: Topology) -> None:
    wrong = Repaired(Repair.WRONG_PART, ("the wrong part was replaced: ...",))
    assert Case(rack).decided(*GOOD, repaired=wrong).decision is Decision.INCONCLUSIVE
    assert Case(rack).decided(200.0, 200.0, 200.0, outcome=Outcome.FAIL, repaired=wrong).reasons[0] == wrong.lines[0]


def test_an_interrupted_run_decides_nothing(rack: Topology) -> None:
    assert Case(rack).decided(*GOOD, complete=False).decision is Decision.INCONCLUSIVE


def test_a_reason_with_brackets_stands_in_no_others(rack: Topology) -> None:
    found = Case(rack).decided(200.0, 201.0, 200.0, outcome=Outcome.FAIL)
    assert " Gb/s now: " in found.reasons[0]
    assert "now (" not in found.reasons[0]


def test_a_dip_that_the_median_hides_rejects_it(rack: Topology) -> None:
    found = Case(rack).decided(397.0, 240.0, 398.0)
    assert found.decision is Decision.REJECT
    assert "1 of 3 below 380.0 Gb/s, the least 240.0" in found.reasons[0]


def test_too_few_good_tests_leave_it_open_and_say_the_time(rack: Topology) -> None:
    case = Case(rack)
    case.because = replace(case.because, needs=(Need("gpu001/mlx5_0", 1, 24, 683),))
    found = case.decided(*GOOD)
    assert found.decision is Decision.INCONCLUSIVE
    assert found.reasons == (
        "gpu001/mlx5_0 was bad in 1 of 24 tests: 683 good ones would tell that it is not so any more, 3 were measured: "
        "1 h 19 min more",
    )


@pytest.mark.parametrize(
    ("need", "words"),
    [
        (Need("gpu001/mlx5_0", 20, 40, 3, 7200.0), "it had become worse gradually: that takes 2 h 00 min"),
        (Need("gpu001/mlx5_0", 20, 40, 3, 7200.0, 60.0), "its module was at 60 C, which was 45 C at most now"),
    ],
)
def test_what_failed_late_or_warm_is_not_accepted_early_or_cold(rack: Topology, need: Need, words: str) -> None:
    case = Case(rack)
    case.because = replace(case.because, needs=(need,))
    modules = {("gpu001", "mlx5_0"): CounterCourse([0.0], [45.0], 100.0)}
    found = case.decided(*GOOD, watched=replace(ports(), modules=modules))
    assert found.decision is Decision.INCONCLUSIVE
    assert words in found.reasons[0]


def test_each_host_gets_its_own_decision(rack: Topology) -> None:
    because = replace(Case(rack).because, hosts=("gpu001", "gpu002"), needs=(Need("gpu002/mlx5_0", 1, 24, 683),))
    own = {name: alone(because, name, rack) for name in because.hosts}
    assert [len(one.evidence) for one in own.values()] == [1, 0]
    assert [len(one.needs) for one in own.values()] == [0, 1]
    good, bad = Case(rack).decided(*GOOD), Case(rack).decided(200.0, 201.0, 200.0, outcome=Outcome.FAIL)
    bad = replace(bad, hosts=("gpu002",), each=(replace(bad.each[0], name="gpu002"),))
    found = together([good, bad])
    assert found.decision is Decision.REJECT
    assert [(one.name, one.decision) for one in found.each] == [
        ("gpu002", Decision.REJECT),
        ("gpu001", Decision.ACCEPT),
    ]
    assert found.reasons[0].startswith("gpu002: still bad")
    assert acceptance_text(found).splitlines()[:2] == ["REJECT gpu002", "ACCEPT gpu001"]
