"""What a repaired part has to show, from how it failed, and what decides about its host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log, log1p

import numpy as np
import pytest
from scipy.special import bdtrc

from fabric.config.inventory import load_inventory
from fabric.judge.ports.health import BerVerdict, PortHealth
from fabric.judge.repair.accept import accept, narrowed_to, together
from fabric.judge.repair.identity import Repair, Repaired
from fabric.judge.repair.needs import Measured, needs_of, passes_through, wanted_tests
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, NamedPart, Probe, ProbeResult
from fabric.model.repair import Acceptance, Because, Decision, Evidence, Need
from fabric.model.sampling import CounterCourse, CounterReading, Samples
from fabric.model.scenario import Phase, ProbeSpec
from fabric.model.topology import Topology
from fabric.model.verdict import DRIFT, HEAT, ComponentVerdict, LinkCoverage, ProbeVerdict, Suspect, Verdict
from fabric.probes.again import AgainSpec
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.report.decision import acceptance_text
from tests.places import INVENTORY

NOTHING = Samples(60.0, {})
RIGHT = Repaired(Repair.RIGHT_PART, ("the named part was replaced: gpu001/mlx5_0",))
SEEN = LinkCoverage(cables=8, whole=8, looks=126, ends=16, lit=16)
SURE = BerVerdict(Outcome.PASS, "0 symbol errors in 7600 s", watched_s=7600.0)
SHORT = BerVerdict(Outcome.INCONCLUSIVE, "7500 s are needed", 900.0)


def ports(ber: BerVerdict | None = SURE, outcome: Outcome = Outcome.PASS) -> list[PortHealth]:
    """All ports of gpu001; *ber* and *outcome* are those of the first."""
    found = [PortHealth("gpu001", f"mlx5_{number}", ber=SURE) for number in range(8)]
    found[0] = replace(found[0], ber=ber, found=(("link_downed", outcome, "3 times down"),))
    return found


class Case:
    """One loopback of gpu001 that failed with 200 Gb/s, and was measured again three times."""

    def __init__(
        self,
        rack: Topology,
        *,
        past: tuple[float, ...] = (),
        quick: bool = False,
        spec: ProbeSpec | None = None,
        hosts: tuple[str, ...] = ("gpu001", "gpu002"),
    ) -> None:
        probe = expand_phase(Phase("intra", (spec or LoopbackSpec(),)), rack, list(hosts))[0]
        evidence = Evidence(probe, Outcome.FAIL, "slow", 200.0, 380.0, past)
        self.because = Because("check/1", "/x", ("gpu001",), quick, (), (evidence,))
        self.probes = expand_phase(Phase("evidence", (AgainSpec(repeat=3, because=self.because),)), rack, list(hosts))
        self.rack = rack

    def decided(
        self,
        *values: float,
        outcome: Outcome = Outcome.PASS,
        watched: Sequence[PortHealth] | None = None,
        samples: Samples = NOTHING,
        repaired: Repaired = RIGHT,
        suspects: tuple[Suspect, ...] = (),
        complete: bool = True,
        skipped: Probe | None = None,
        added: frozenset[str] = frozenset(),
    ) -> Acceptance:
        """With these numbers now."""
        results = {probe.probe_id: _result(probe, value) for probe, value in zip(self.probes, values, strict=False)}
        for probe in self.probes if outcome is Outcome.ERROR else ():
            results[probe.probe_id] = ProbeResult(probe.probe_id, 1, (), Outcome.ERROR, "no answer", 0.0, 15.0)
        outcomes = {probe.probe_id: Outcome.SKIPPED if probe is skipped else outcome for probe in self.probes}
        verdicts = tuple(
            ProbeVerdict(name, one, "", limit_gbps=380.0, ran=one is not Outcome.SKIPPED)
            for name, one in outcomes.items()
        )
        watched = ports() if watched is None else watched
        bad = [one for one in watched if one.outcome is not Outcome.PASS]
        components = tuple(ComponentVerdict(one.component, one.outcome, "; ".join(one.words)) for one in bad)
        verdict = Verdict(outcome, (), suspects, components, verdicts, links=SEEN)
        again, hosts = frozenset({"evidence"}), frozenset(self.because.hosts)
        run = Measured(self.probes, results, verdict, self.rack, samples, complete, again, hosts, added)
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
        ([], Decision.INCONCLUSIVE, "8 of 8 ports could not be watched"),
        (ports(SURE, Outcome.FAIL), Decision.REJECT, "gpu001/mlx5_0:port: 3 times down"),
    ],
)
def test_without_a_clean_window_it_is_not_accepted(
    rack: Topology, watched: list[PortHealth], decision: Decision, words: str
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


@pytest.mark.parametrize(
    ("component", "kind"), [("gpu001+gpu002", "pair"), ("leaf0", "leaf"), ("gpu001/mlx5_0:above", "uplinks")]
)
def test_what_it_shares_with_others_leaves_it_open_and_says_what_is_next(
    rack: Topology, component: str, kind: str
) -> None:
    shared = Suspect(component, kind, Outcome.FAIL, 0.9, ("slow",), next_step="look there", hosts=("gpu001", "gpu002"))
    found = Case(rack).decided(*GOOD, suspects=(shared,))
    assert found.decision is Decision.INCONCLUSIVE
    assert found.reasons == (f"not told while it is so: {component} ({kind}) was found bad: slow; look there",)


def test_a_leaf_that_may_as_well_be_its_own_port_rejects_it(rack: Topology) -> None:
    own = ("leaf1", "gpu001/mlx5_0:port")
    leaf = Suspect("leaf0", "leaf", Outcome.FAIL, 0.2, ("slow",), own, hosts=("gpu001", "gpu002"))
    found = Case(rack).decided(*GOOD, suspects=(leaf,))
    assert found.decision is Decision.REJECT
    assert found.reasons[0] == "named: leaf0 (leaf) or gpu001/mlx5_0:port: slow"


def test_evidence_over_a_leaf_that_is_bad_now_tells_nothing_of_the_host(rack: Topology) -> None:
    case = Case(rack, spec=RnicToRnicSpec())
    leaf = Suspect("leaf0", "leaf", Outcome.FAIL, 0.9, ("slow",), hosts=("gpu001", "gpu002"))
    found = case.decided(200.0, 201.0, 200.0, outcome=Outcome.FAIL, suspects=(leaf,))
    assert found.decision is Decision.INCONCLUSIVE
    assert "not counted: leaf0 is bad" in found.reasons[0]


@pytest.mark.parametrize("spec", [RnicToRnicSpec(), PairwiseSpec(rounds=2)])
def test_evidence_over_spines_that_are_bad_now_tells_nothing_of_the_host(spec: ProbeSpec) -> None:
    case = Case(load_inventory(INVENTORY / "pod-64.yaml").topology, spec=spec, hosts=("gpu001", "gpu064"))
    above = Suspect("spines", "spines", Outcome.FAIL, 0.9, ("slow",))
    found = case.decided(200.0, 201.0, 200.0, outcome=Outcome.FAIL, suspects=(above,))
    assert found.decision is Decision.INCONCLUSIVE


@pytest.mark.parametrize(
    ("outcome", "other", "decision"),
    [
        (Outcome.FAIL, (), Decision.INCONCLUSIVE),
        (Outcome.INCONCLUSIVE, ("gpu064/mlx5_0", "gpu001--gpu064"), Decision.INCONCLUSIVE),
        (Outcome.FAIL, ("su0-leaf0",), Decision.REJECT),
    ],
)
def test_an_rnic_that_is_bad_now_is_not_held_against_a_link(
    outcome: Outcome, other: tuple[str, ...], decision: Decision
) -> None:
    topology, link = load_inventory(INVENTORY / "pod-64.yaml").topology, "su0-leaf0--spine00"
    case = Case(topology, spec=PairwiseSpec(), hosts=("gpu001", "gpu064"))
    case.because = replace(case.because, hosts=(), links=(link,), needs=(Need(link, 3, 3, 3),))
    rnic = Suspect("gpu001/mlx5_0", "rnic", outcome, 0.9, ("slow",), other, hosts=("gpu001",))
    found = case.decided(200.0, 201.0, 200.0, outcome=Outcome.FAIL, suspects=(rnic,))
    assert found.decision is decision
    if decision is Decision.INCONCLUSIVE:
        words = "is bad" if outcome is Outcome.FAIL else "may be bad (or gpu064/mlx5_0, gpu001--gpu064)"
        assert f"not counted: gpu001/mlx5_0 {words}; validate again when it is well" in found.reasons[0]


def test_a_neighbour_that_kept_its_suite_from_running_is_named(rack: Topology) -> None:
    case = Case(rack)
    probe = expand_phase(Phase("tor", (PairwiseSpec(),)), rack, ["gpu001", "gpu002"])[0]
    case.probes = [*case.probes, probe]
    hung = Suspect("gpu002", "host", Outcome.ERROR, 0.9, ("no answer",), hosts=("gpu002",))
    found = case.decided(*GOOD, suspects=(hung,), skipped=probe)
    assert found.decision is Decision.INCONCLUSIVE
    assert found.reasons[1] == "gpu002 beside it is bad or does not answer: validate again when it is well"


@pytest.mark.parametrize(("beside", "decision"), [("gpu003", Decision.ACCEPT), (None, Decision.INCONCLUSIVE)])
def test_what_was_measured_with_another_neighbour_is_not_missed(
    rack: Topology, beside: str | None, decision: Decision
) -> None:
    case = Case(rack)
    phase = Phase("tor", (PairwiseSpec(),))
    lost = expand_phase(phase, rack, ["gpu001", "gpu002"])[0]
    instead = [] if beside is None else [expand_phase(phase, rack, ["gpu001", beside])[0]]
    case.probes = [*case.probes, lost, *instead]
    hung = Suspect("gpu002", "host", Outcome.ERROR, 0.9, ("no answer",), hosts=("gpu002",))
    added = frozenset(one.probe_id for one in instead)
    found = case.decided(*GOOD, suspects=(hung,), skipped=lost, added=added)
    assert found.decision is decision
    assert (f"measured with another neighbour instead: {lost.probe_id}" in found.notes) is bool(instead)


def test_good_evidence_with_a_bad_neighbour_is_good(rack: Topology) -> None:
    case = Case(rack, spec=PairwiseSpec())
    other = Suspect("gpu002/mlx5_0", "rnic", Outcome.FAIL, 0.9, ("slow",), hosts=("gpu002",))
    assert case.decided(*GOOD, suspects=(other,)).decision is Decision.ACCEPT
    found = case.decided(200.0, 201.0, 200.0, outcome=Outcome.FAIL, suspects=(other,))
    assert found.decision is Decision.INCONCLUSIVE
    assert "not counted: gpu002/mlx5_0 is bad; validate again when it is well" in found.reasons[0]


def test_no_answer_is_not_told_and_no_rejection(rack: Topology) -> None:
    case = Case(rack)
    case.because = replace(case.because, needs=(Need(RNIC, 24, 24, 3),))
    found = case.decided(outcome=Outcome.ERROR)
    assert found.decision is Decision.INCONCLUSIVE
    assert found.reasons[0].startswith("not told: 1 of 1 probes")
    assert not any("gradually" in text for text in found.reasons)


def test_a_host_that_does_not_answer_is_left_open_with_what_to_do(rack: Topology) -> None:
    silent = Suspect("gpu001", "host", Outcome.ERROR, 0.9, ("no answer",), next_step="look at it", hosts=("gpu001",))
    found = Case(rack).decided(outcome=Outcome.ERROR, suspects=(silent,))
    assert found.decision is Decision.INCONCLUSIVE
    assert "not measured: gpu001 (host): no answer; look at it" in found.reasons


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


@pytest.mark.parametrize(
    ("lost", "decision"), [(0.1, Decision.REJECT), (0.0, Decision.ACCEPT), (0.05, Decision.ACCEPT)]
)
def test_a_dip_as_deep_as_then_rejects_it_though_the_limit_is_far_below(
    rack: Topology, lost: float, decision: Decision
) -> None:
    """No less than the margin is a dip, whatever it lost then."""
    case = Case(rack)
    case.because = replace(case.because, needs=(Need(RNIC, 2, 28, 3, lost=lost),))
    found = case.decided(480.0, 450.0 if lost else 430.0, 481.0)
    assert found.decision is decision
    assert decision is Decision.ACCEPT or found.reasons[0].startswith(f"{RNIC}: bad in 1 of 3 tests")


def test_what_it_lost_then_is_beside_its_best(rack: Topology) -> None:
    probes = checked(rack)
    low = [one for one in probes if one.params.get("peer_rnic") == "mlx5_0"][:2]
    run = run_of(rack, lambda probe: 312.0 if probe in low else 390.0, probes)
    (need,) = (one for one in needs_of(run, low, [], ["gpu001"]) if one.part == RNIC)
    assert need.lost == pytest.approx(0.2)


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
    module = {CounterReading("gpu001", "mlx5_0", "module_c"): CounterCourse([0.0], [45.0], 100.0)}
    found = case.decided(*GOOD, samples=Samples(60.0, module))
    assert found.decision is Decision.INCONCLUSIVE
    assert words in found.reasons[0]


def test_each_host_gets_its_own_decision(rack: Topology) -> None:
    because = replace(Case(rack).because, hosts=("gpu001", "gpu002"), needs=(Need("gpu002/mlx5_0", 1, 24, 683),))
    own = {name: narrowed_to(because, name, rack) for name in because.hosts}
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
    unsure = ("nothing was replaced",)
    assert together([replace(good, notes=(*good.notes, *unsure)), bad]).notes[-1] == "gpu001: nothing was replaced"
    assert acceptance_text(found).splitlines()[:2] == ["REJECT gpu002", "ACCEPT gpu001"]


RNIC = "gpu001/mlx5_0"


def run_of(
    rack: Topology,
    gbps: Callable[[Probe], float],
    probes: Sequence[Probe],
    step_s: float = 10.0,
    samples: Samples = NOTHING,
) -> Measured:
    """A run of *probes*, one after the other, with a limit of 300 Gb/s."""
    results, verdicts = {}, []
    for number, probe in enumerate(probes):
        value, at_s = gbps(probe), number * step_s
        measured = (Measurement(probe.probe_id, "bw_avg", value, "Gb/s", 8 << 20),)
        results[probe.probe_id] = ProbeResult(probe.probe_id, 1, measured, None, "", at_s, at_s + 5.0)
        outcome = Outcome.FAIL if value < 300.0 else Outcome.PASS
        verdicts.append(ProbeVerdict(probe.probe_id, outcome, "", value, 300.0))
    return Measured(probes, results, Verdict(Outcome.FAIL, (), (), (), tuple(verdicts)), rack, samples)


def checked(rack: Topology) -> list[Probe]:
    """A self-check of one host: each RNIC has ten loopbacks and fourteen tests with others."""
    return expand_phase(Phase("intra", (LoopbackSpec(), RnicToRnicSpec())), rack, ["gpu001"])


def suspect(component: str, probes: Sequence[Probe] = (), course: str = "") -> Suspect:
    """One that FAILs."""
    ids = tuple(probe.probe_id for probe in probes)
    return Suspect(component, "rnic", Outcome.FAIL, 0.9, ("slow",), hosts=("gpu001",), probes=ids, course=course)


def needs(run: Measured, named: Suspect) -> dict[str, Need]:
    """By part, of gpu001."""
    bad = {one.probe_id for one in run.verdict.probes if one.outcome is Outcome.FAIL}
    evidence = [probe for probe in run.probes if probe.probe_id in bad]
    return {one.part: one for one in needs_of(run, evidence, [named], ["gpu001"])}


@pytest.mark.parametrize(("bad", "of", "tests"), [(24, 24, 3), (1, 24, 683), (3, 24, 63), (1, 1, 29)])
def test_the_rarer_it_was_bad_the_more_good_tests_tell(bad: int, of: int, tests: int) -> None:
    assert wanted_tests(bad, of) == tests


@pytest.mark.parametrize("of", [1, 3, 24, 100])
def test_hardly_any_part_fails_and_passes_unrepaired_whatever_its_rate(of: int) -> None:
    rates = np.linspace(1e-5, 0.9999, 20_000)
    for bad in range(1, of + 1):
        assert wanted_tests(bad, of) >= log(0.05) / log1p(-min(bad / of, 0.999))  # the rate itself is ruled out, too
        both = bdtrc(bad - 1, of, rates) * (1.0 - rates) ** wanted_tests(bad, of)
        assert both.max() < 0.025


def test_a_part_that_is_always_bad_needs_a_few(rack: Topology) -> None:
    passes = passes_through(RNIC, rack)
    found = needs(run_of(rack, lambda probe: 200.0 if passes(probe) else 390.0, checked(rack)), suspect(RNIC))
    assert list(found) == [RNIC]
    assert (found[RNIC].bad, found[RNIC].of, found[RNIC].tests) == (24, 24, 3)


def test_a_path_that_was_low_in_its_only_test_may_be_an_rnic_that_dips(rack: Topology) -> None:
    probes = checked(rack)
    low = next(one for one in probes if passes_through(f"{RNIC}->gpu1", rack)(one))
    found = needs(run_of(rack, lambda probe: 200.0 if probe is low else 390.0, probes), suspect(f"{RNIC}->gpu1", [low]))
    assert sorted(found) == ["gpu001/gpu1", RNIC]
    assert (found[RNIC].bad, found[RNIC].of, found[RNIC].tests) == (1, 24, 683)


def test_a_path_that_was_good_too_may_be_an_rnic_that_dipped_twice_on_it(rack: Topology) -> None:
    probes = expand_phase(Phase("intra", (RnicToRnicSpec(repeat=3),)), rack, ["gpu001"])
    low = [one for one in probes if one.params["series"] == "mlx5_0.mlx5_1"][:2]
    path = f"{RNIC}->mlx5_1"
    found = needs(run_of(rack, lambda probe: 200.0 if probe in low else 390.0, probes), suspect(path, low))
    assert (found[path].bad, found[path].of) == (2, 3)
    assert found[RNIC].tests > 10 * found[path].tests


def test_evidence_that_no_suspect_explains_has_to_be_shown_by_each_part_on_its_way(rack: Topology) -> None:
    probes = checked(rack)
    low = next(one for one in probes if one.params.get("peer_rnic") == "mlx5_0")
    run = run_of(rack, lambda probe: 200.0 if probe is low else 390.0, probes)
    found = needs_of(run, [low], [], ["gpu001"])
    assert RNIC in {one.part for one in found}
    assert f"{RNIC}:port" in {one.part for one in found}


@pytest.mark.parametrize("beside", [0, 1])
def test_a_named_port_that_was_good_at_times_does_not_explain_what_its_rnic_may_as_well(
    rack: Topology, beside: int
) -> None:
    probes = checked(rack)
    over_port = passes_through(f"{RNIC}:port", rack)
    of_rnic = [one for one in probes if passes_through(RNIC, rack)(one)]
    low = [one for one in of_rnic if over_port(one)][:2] + [one for one in of_rnic if not over_port(one)][:beside]
    run = run_of(rack, lambda probe: 200.0 if probe in low else 390.0, probes)
    found = needs_of(run, low[:2], [suspect(f"{RNIC}:port", low[:2])], ["gpu001"])
    assert {(f"{RNIC}:port", 2), (RNIC, 2 + beside)} <= {(one.part, one.bad) for one in found}


def test_what_a_missing_gpu_explains_is_asked_of_no_part_on_its_way(rack: Topology) -> None:
    probes = checked(rack)
    low = next(one for one in probes if passes_through(f"{RNIC}->gpu1", rack)(one))
    run = run_of(rack, lambda probe: 200.0 if probe is low else 390.0, probes)
    gpus = NamedPart("gpu001/gpus", "absent")
    verdicts = (replace(one, named=gpus if one.probe_id == low.probe_id else None) for one in run.verdict.probes)
    run = replace(run, verdict=replace(run.verdict, probes=tuple(verdicts)))
    assert needs(run, suspect("gpu001/gpus", [low])) == {}


def test_a_partner_is_not_asked_for_what_the_part_that_was_bad_more_often_explains(rack: Topology) -> None:
    probes = checked(rack)
    low = [one for one in probes if one.params.get("peer_rnic") == "mlx5_0"][:2]
    run = run_of(rack, lambda probe: 200.0 if probe in low else 390.0, probes)
    found = {one.part: one for one in needs_of(run, low, [], ["gpu001"])}
    assert sorted(found) == [RNIC, f"{RNIC}:port"]
    assert found[RNIC].tests == wanted_tests(2, 24)


def hourly(rack: Topology) -> list[Probe]:
    """Forty tests of one RNIC, ten minutes apart."""
    one = checked(rack)[0]
    return [replace(one, probe_id=f"soak/{number}") for number in range(40)]


@pytest.mark.slow
def test_what_came_by_and_by_is_measured_as_late(rack: Topology) -> None:
    probes = hourly(rack)
    fades = {probe.probe_id: 390.0 - 3.0 * number for number, probe in enumerate(probes)}
    run = run_of(rack, lambda probe: fades[probe.probe_id], probes, 600.0)
    found = needs(run, suspect(RNIC, probes[20:], DRIFT))[RNIC]
    assert found.after_s == pytest.approx(2300.0, rel=0.1)  # 3 % of it were lost in so many seconds
    assert found.warm_c is None


def test_what_follows_warmth_is_measured_as_warm(rack: Topology) -> None:
    probes = hourly(rack)
    celsius = [45.0 + 15.0 * (number % 10 > 5) for number in range(40)]
    module = CounterCourse([600.0 * number for number in range(40)], list(celsius), 24_000.0)
    samples = Samples(60.0, {CounterReading("gpu001", "mlx5_0", "module_c"): module})
    values = {probe.probe_id: 390.0 - 100.0 * (warm > 50.0) for probe, warm in zip(probes, celsius, strict=True)}
    found = needs(run_of(rack, lambda probe: values[probe.probe_id], probes, 600.0, samples), suspect(RNIC, (), HEAT))[
        RNIC
    ]
    assert found.warm_c == 60.0
    assert found.after_s == pytest.approx(3600.0, abs=10.0)


def test_a_cable_between_switches_is_passed_by_what_leaves_its_leaf() -> None:
    fabric = load_inventory(INVENTORY / "pod-64.yaml").topology
    pairs = expand_phase(Phase("pairs", (PairwiseSpec(),)), fabric, list(fabric.hosts))
    over, under = passes_through("su0-leaf3--spine02", fabric), passes_through("su0-leaf3", fabric)
    leaves = {one.probe_id: {fabric.hosts[name].leaves[3] for name in one.hosts} for one in pairs}
    of_rail = [one for one in pairs if one.params["rail"] == 3]
    assert [over(one) for one in of_rail] == [
        "su0-leaf3" in leaves[one.probe_id] and len(leaves[one.probe_id]) == 2 for one in of_rail
    ]
    assert [under(one) for one in of_rail] == ["su0-leaf3" in leaves[one.probe_id] for one in of_rail]
    assert not any(over(one) or under(one) for one in pairs if one.params["rail"] != 3)
