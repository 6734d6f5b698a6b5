"""Partners of further tests: well, of the same rail and rate, and near where that is possible."""

from __future__ import annotations

from dataclasses import replace

from fabric.judge.course.dips.tests import LEAST_PARTNERS
from fabric.judge.course.dips.tests import tests as asked_for
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from fabric.probes.pairwise import PairwiseSpec
from tests.judge.course.dipping_rack import RACK, ends

BAD = "gpu003/mlx5_1"
EVERYBODY = frozenset(f"{host}/{device}" for host in RACK.hosts for device in ("mlx5_0", "mlx5_1"))


def made(wanted: dict[str, int], well: frozenset[str], topology: Topology = RACK) -> list[Probe]:
    """The tests of these."""
    spec = PairwiseSpec(duration_s=10)
    return asked_for(spec, "soak-r1", wanted, done={}, well=well - wanted.keys(), topology=topology)


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
    whole = asked_for(spec, "soak-r1", {BAD: 12}, done={}, well=well, topology=RACK)
    assert asked_for(spec, "soak-r1", {BAD: 5}, done={BAD: 7}, well=well, topology=RACK) == whole[7:]


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
