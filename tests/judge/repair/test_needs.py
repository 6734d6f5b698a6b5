"""What a repaired part has to show, from how it failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log, log1p

import numpy as np
import pytest
from scipy.stats import binom

from fabric.config import load_inventory
from fabric.judge.repair.needs import Measured, needs_of, through, wanted_tests
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.repair import Need
from fabric.model.sampling import CounterCourse, CounterReading, Samples
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect, Verdict
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from tests.places import INVENTORY

NOTHING = Samples(60.0, {})
RNIC = "gpu001/mlx5_0"


def run_of(rack: Topology, gbps: Callable[[Probe], float], probes: Sequence[Probe], step_s: float = 10.0) -> Measured:
    """A run of *probes*, one after the other, with a limit of 300 Gb/s."""
    results, verdicts = {}, []
    for number, probe in enumerate(probes):
        value, at_s = gbps(probe), number * step_s
        measured = (Measurement(probe.probe_id, "bw_avg", value, "Gb/s", 8 << 20),)
        results[probe.probe_id] = ProbeResult(probe.probe_id, 1, measured, None, "", at_s, at_s + 5.0)
        outcome = Outcome.FAIL if value < 300.0 else Outcome.PASS
        verdicts.append(ProbeVerdict(probe.probe_id, outcome, "", value, 300.0))
    return Measured(probes, results, Verdict(Outcome.FAIL, (), (), (), tuple(verdicts)), rack)


def checked(rack: Topology) -> list[Probe]:
    """A self-check of one host: each RNIC has ten loopbacks and fourteen tests with others."""
    return expand_phase(Phase("intra", (LoopbackSpec(), RnicToRnicSpec())), rack, ["gpu001"])


def suspect(component: str, probes: Sequence[Probe] = ()) -> Suspect:
    """One that FAILs."""
    ids = tuple(probe.probe_id for probe in probes)
    return Suspect(component, "rnic", Outcome.FAIL, 0.9, ("slow",), hosts=("gpu001",), probes=ids)


def needs(run: Measured, named: Suspect, samples: Samples = NOTHING) -> dict[str, Need]:
    """By part, of gpu001."""
    bad = {one.probe_id for one in run.verdict.probes if one.outcome is Outcome.FAIL}
    evidence = [probe for probe in run.probes if probe.probe_id in bad]
    return {one.part: one for one in needs_of(run, evidence, [named], ["gpu001"], samples)}


@pytest.mark.parametrize(("bad", "of", "tests"), [(24, 24, 3), (1, 24, 683), (3, 24, 63), (1, 1, 29)])
def test_the_rarer_it_was_bad_the_more_good_tests_tell(bad: int, of: int, tests: int) -> None:
    assert wanted_tests(bad, of) == tests


@pytest.mark.parametrize("of", [1, 3, 24, 100])
def test_hardly_any_part_fails_and_passes_unrepaired_whatever_its_rate(of: int) -> None:
    rates = np.linspace(1e-5, 0.9999, 20_000)
    for bad in range(1, of + 1):
        assert wanted_tests(bad, of) >= log(0.05) / log1p(-min(bad / of, 0.999))  # the rate itself is ruled out, too
        both = binom.sf(bad - 1, of, rates) * (1.0 - rates) ** wanted_tests(bad, of)
        assert both.max() < 0.025


def test_a_part_that_is_always_bad_needs_a_few(rack: Topology) -> None:
    passes = through(RNIC, rack)
    found = needs(run_of(rack, lambda probe: 200.0 if passes(probe) else 390.0, checked(rack)), suspect(RNIC))
    assert list(found) == [RNIC]
    assert (found[RNIC].bad, found[RNIC].of, found[RNIC].tests) == (24, 24, 3)


def test_a_path_that_was_low_in_its_only_test_may_be_an_rnic_that_dips(rack: Topology) -> None:
    probes = checked(rack)
    low = next(one for one in probes if through(f"{RNIC}->gpu1", rack)(one))
    found = needs(run_of(rack, lambda probe: 200.0 if probe is low else 390.0, probes), suspect(f"{RNIC}->gpu1", [low]))
    assert sorted(found) == ["gpu001/gpu1", RNIC]
    assert (found[RNIC].bad, found[RNIC].of, found[RNIC].tests) == (1, 24, 683)


def test_evidence_that_no_suspect_explains_has_to_be_shown_by_each_part_on_its_way(rack: Topology) -> None:
    probes = checked(rack)
    low = next(one for one in probes if one.params.get("peer_rnic") == "mlx5_0")
    run = run_of(rack, lambda probe: 200.0 if probe is low else 390.0, probes)
    found = needs_of(run, [low], [], ["gpu001"], NOTHING)
    assert RNIC in {one.part for one in found}
    assert f"{RNIC}:port" in {one.part for one in found}


def test_a_partner_is_not_asked_for_what_the_part_that_was_bad_more_often_explains(rack: Topology) -> None:
    probes = checked(rack)
    low = [one for one in probes if one.params.get("peer_rnic") == "mlx5_0"][:2]
    run = run_of(rack, lambda probe: 200.0 if probe in low else 390.0, probes)
    found = {one.part: one for one in needs_of(run, low, [], ["gpu001"], NOTHING)}
    assert sorted(found) == [RNIC, f"{RNIC}:port"]
    assert found[RNIC].tests == wanted_tests(2, 24)


def hourly(rack: Topology) -> list[Probe]:
    """Forty tests of one RNIC, ten minutes apart."""
    one = checked(rack)[0]
    return [replace(one, probe_id=f"soak/{number}") for number in range(40)]


def test_what_came_by_and_by_is_measured_as_late(rack: Topology) -> None:
    probes = hourly(rack)
    fades = {probe.probe_id: 390.0 - 3.0 * number for number, probe in enumerate(probes)}
    run = run_of(rack, lambda probe: fades[probe.probe_id], probes, 600.0)
    found = needs(run, suspect(RNIC, probes[20:]))[RNIC]
    assert found.after_s == pytest.approx(2300.0, rel=0.1)  # 3 % of it were lost in so many seconds
    assert found.warm_c is None


def test_what_follows_warmth_is_measured_as_warm(rack: Topology) -> None:
    probes = hourly(rack)
    celsius = [45.0 + 15.0 * (number % 10 > 5) for number in range(40)]
    module = CounterCourse([600.0 * number for number in range(40)], list(celsius), 24_000.0)
    samples = Samples(60.0, {CounterReading("gpu001", "mlx5_0", "module_c"): module})
    values = {probe.probe_id: 390.0 - 100.0 * (warm > 50.0) for probe, warm in zip(probes, celsius, strict=True)}
    found = needs(run_of(rack, lambda probe: values[probe.probe_id], probes, 600.0), suspect(RNIC), samples)[RNIC]
    assert found.warm_c == 60.0
    assert found.after_s == pytest.approx(3600.0, abs=10.0)


def test_a_cable_between_switches_is_passed_by_what_leaves_its_leaf() -> None:
    fabric = load_inventory(INVENTORY / "pod-64.yaml").topology
    pairs = expand_phase(Phase("pairs", (PairwiseSpec(),)), fabric, list(fabric.hosts))
    over, under = through("su0-leaf3--spine02", fabric), through("su0-leaf3", fabric)
    leaves = {one.probe_id: {fabric.hosts[name].leaves[3] for name in one.hosts} for one in pairs}
    of_rail = [one for one in pairs if one.params["rail"] == 3]
    assert [over(one) for one in of_rail] == [
        "su0-leaf3" in leaves[one.probe_id] and len(leaves[one.probe_id]) == 2 for one in of_rail
    ]
    assert [under(one) for one in of_rail] == ["su0-leaf3" in leaves[one.probe_id] for one in of_rail]
    assert not any(over(one) or under(one) for one in pairs if one.params["rail"] != 3)
