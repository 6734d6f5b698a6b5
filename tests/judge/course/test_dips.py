"""Who is worth measuring again after a round, with which partners, and what the further tests say."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.measured_rack import rack_topology
from fabric.judge.course.follow_up import (
    LEAST_PARTNERS,
    MOST_DIPS,
    RoundDips,
    answers_of,
    dips_in_round,
    further_tests,
    unanswered,
)
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.probes.pairwise import PairwiseSpec
from tests.judge.course.dipping_rack import RACK, Share, ends, measured, refused, soak

BAD = "gpu003/mlx5_1"


def planned(topology: Topology = RACK) -> list[Probe]:
    """The pair tests of the second round."""
    return [slot.probe for slot in soak(2, topology).schedule.slots]


def found(
    share: Share,
    *,
    bad: tuple[str, ...] = (),
    more: tuple[Probe, ...] = (),
    topology: Topology = RACK,
) -> RoundDips:
    """What a round says in which every probe reaches this share."""
    probes = [*planned(topology), *more]
    results = {one.probe_id: measured(one, share(one)) for one in probes}
    return dips_in_round(probes, results, topology, known_bad=bad)


def of_part(part: str) -> list[Probe]:
    """Those that it takes part in."""
    return [probe for probe in planned() if part in ends(probe)]


def low_in(*probes: Probe) -> Share:
    """Half of the bandwidth in these."""
    ids = {probe.probe_id for probe in probes}
    return lambda probe: 0.5 if probe.probe_id in ids else 1.0


def test_both_ends_of_a_pair_that_dipped_are_accused_and_are_no_partners() -> None:
    one = of_part(BAD)[0]
    said = found(low_in(one))
    assert said.parts == dict.fromkeys(ends(one), 1)
    assert said.well.isdisjoint(ends(one))
    assert len(said.well) == 30


def test_noise_is_no_dip() -> None:
    one = of_part(BAD)[0]
    assert found(lambda probe: 0.98 if probe.probe_id == one.probe_id else 1.0).parts == {}


def test_who_is_low_most_of_the_time_is_no_dip_and_explains_its_partners() -> None:
    assert found(lambda probe: 0.8 if BAD in ends(probe) else 1.0).parts == {}


def test_who_is_sure_already_explains_its_partners() -> None:
    assert found(low_in(of_part(BAD)[0]), bad=(BAD,)).parts == {}


def test_who_failed_is_not_measured_again() -> None:
    first, second = of_part(BAD)[:2]
    shares = {first.probe_id: 0.5, second.probe_id: None}
    assert found(lambda probe: shares.get(probe.probe_id, 1.0)).parts == {}


def test_a_collective_that_dipped_accuses_every_rnic_of_its_two_hosts() -> None:
    pairs = [("gpu003", "gpu004"), ("gpu004", "gpu005"), ("gpu005", "gpu006"), ("gpu006", "gpu007")]
    params = {"ranks": 4, "name": "ring"}
    rings = tuple(
        Probe(f"soak-r2/{a}+{b}/ring", "tor_all_reduce", "soak-r2", (a, b), (), 60.0, params) for a, b in pairs
    )
    said = found(low_in(rings[0]), more=rings)
    assert set(said.parts) == {f"{host}/mlx5_{n}" for host in ("gpu003", "gpu004") for n in (0, 1)}
    assert found(low_in(rings[0]), more=rings, bad=("gpu004/mlx5_0",)).parts == {}


def test_many_dips_at_once_are_no_single_part() -> None:
    large = rack_topology(64, parts=8)
    probes = [probe for probe in planned(large) if "t5" in probe.probe_id.split(".")[-1]]
    few, many = probes[:MOST_DIPS], probes[: MOST_DIPS + 1]
    assert found(low_in(*few), topology=large).parts
    assert found(low_in(*many), topology=large).parts == {}


EVERYBODY = frozenset(f"{host}/{device}" for host in RACK.hosts for device in ("mlx5_0", "mlx5_1"))


def made(wanted: dict[str, int], well: frozenset[str], topology: Topology = RACK) -> list[Probe]:
    """The tests of these."""
    spec = PairwiseSpec(duration_s=10)
    return further_tests(spec, "soak-r1", wanted, done={}, well=well - wanted.keys(), topology=topology)


def two_leaves(near: int) -> Topology:
    """So many hosts under the leaves of the first, the others elsewhere."""
    hosts = {
        name: host if number < near else replace(host, leaves=("other0", "other1"))
        for number, (name, host) in enumerate(RACK.hosts.items())
    }
    return replace(RACK, hosts=hosts)


def partners(probes: list[Probe]) -> set[str]:
    """Everybody but the part itself."""
    return {end for probe in probes for end in ends(probe)} - {BAD}


def test_only_those_that_are_well_are_asked() -> None:
    well = frozenset({"gpu005/mlx5_1", "gpu006/mlx5_1", "gpu007/mlx5_1", "gpu008/mlx5_0"})
    assert partners(made({BAD: 9}, well)) == well - {"gpu008/mlx5_0"}


def test_nobody_is_asked_where_nobody_is_well() -> None:
    assert made({BAD: 9}, frozenset()) == []


def test_partners_are_under_the_leaf_where_enough_are_there() -> None:
    near = LEAST_PARTNERS + 1
    names = set(list(RACK.hosts)[:near]) - {"gpu003"}
    assert partners(made({BAD: 9}, EVERYBODY, two_leaves(near))) == {f"{name}/mlx5_1" for name in names}


def test_with_too_few_under_the_leaf_all_are_asked() -> None:
    assert len(partners(made({BAD: 20}, EVERYBODY, two_leaves(LEAST_PARTNERS)))) == 15


def test_beyond_the_leaf_all_parts_share_what_one_may_have() -> None:
    """Their tests claim uplinks, and wait for each other."""
    two = {BAD: 9, "gpu002/mlx5_1": 9}
    assert len(made(two, EVERYBODY, two_leaves(LEAST_PARTNERS))) == 9
    assert len(made(two, EVERYBODY)) == 18


def test_two_parts_do_not_begin_with_the_same_partner() -> None:
    first, second = (next(p for p in made({BAD: 1, "gpu002/mlx5_1": 1}, EVERYBODY) if part in ends(p))
                     for part in (BAD, "gpu002/mlx5_1"))  # fmt: skip
    assert set(first.hosts).isdisjoint(second.hosts)


def test_further_tests_are_as_long_as_planned_ones_and_have_a_name_of_their_own() -> None:
    (probe,) = made({BAD: 1}, EVERYBODY)
    assert (probe.params["duration_s"], probe.params["name"]) == (10, "pairwise-again")
    assert probe.probe_id == "soak-r1/gpu003+gpu001/pairwise-again.mlx5_1.gpu003.n1"


def test_it_goes_on_where_it_was() -> None:
    spec = PairwiseSpec(duration_s=10)
    well = EVERYBODY - {BAD}
    whole = further_tests(spec, "soak-r1", {BAD: 12}, done={}, well=well, topology=RACK)
    assert further_tests(spec, "soak-r1", {BAD: 5}, done={BAD: 7}, well=well, topology=RACK) == whole[7:]


def test_a_part_without_a_partner_takes_no_time_from_others() -> None:
    """Beyond the leaf there is time for the tests of one part: nobody else would ever be measured."""
    lonely = "gpu001/mlx5_0"
    asked = made({lonely: 9, BAD: 9}, frozenset(one for one in EVERYBODY if one.endswith("mlx5_1")), two_leaves(3))
    assert len(asked) == 9
    assert all(BAD in ends(probe) for probe in asked)


def test_parts_of_one_leaf_wait_until_their_partners_have_time() -> None:
    """Eight parts and three partners: in the time of ten tests each partner has ten."""
    wanted = {f"gpu{number:03}/mlx5_1": 10 for number in range(1, 9)}
    well = frozenset(f"gpu{number:03}/mlx5_1" for number in (9, 10, 11))
    assert len(made(wanted, well)) == 30
    assert len(made(wanted, EVERYBODY - wanted.keys())) == 80


WELL = [f"gpu{number:03}/mlx5_1" for number in (5, 6, 7)]


def ran(count: int) -> list[Probe]:
    """So many tests of one part."""
    spec = PairwiseSpec(duration_s=10)
    return further_tests(spec, "soak-r1", {BAD: count}, done={}, well=WELL, topology=RACK)


def answers(probes: list[Probe], low: set[int]) -> dict[str, ProbeResult]:
    """Those of these numbers are at half."""
    return {one.probe_id: measured(one, 0.5 if number in low else 1.0) for number, one in enumerate(probes)}


def test_tests_and_dips_of_a_part_are_counted() -> None:
    probes = ran(12)
    assert answers_of(probes, answers(probes, {3, 5}), RACK) == {BAD: (12, 2)}


def test_a_transport_that_gives_up_is_a_dip_and_an_error_of_ours_is_no_test() -> None:
    probes = ran(12)
    given_up = {probes[1].probe_id: measured(probes[1], None)}
    error = {probes[2].probe_id: ProbeResult(probes[2].probe_id, 1, (), Outcome.ERROR, "no such file", 0.0, 1.0)}
    skipped = {probes[4].probe_id: refused(probes[4])}
    assert answers_of(probes, answers(probes, set()) | given_up | error | skipped, RACK) == {BAD: (10, 1)}


def test_who_did_not_answer_is_known() -> None:
    probes = ran(6)
    found = answers(probes, {2}) | {probes[1].probe_id: refused(probes[1])}
    assert unanswered(probes, found) == dict.fromkeys(ends(probes[1]), 1)
