"""Who is bad and how much good pairs vary, found together from few samples, on one rail and on several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fabric.judge.locate.pairs.findings import suspects_of
from fabric.judge.locate.pairs.fitted import ELSEWHERE, Fitted, fit, fit_together
from fabric.judge.locate.pairs.in_verdict import class_lines
from fabric.judge.locate.pairs.samples import PairSamples
from fabric.judge.locate.structure import UNKNOWN
from tests.judge.locate.pairs.test_findings import measured
from tests.judge.locate.pairs.test_in_run import World, ran
from tests.probes.test_pairwise import pod


def rounds(seed: int, *, cv: float, count: int = 4, hosts: int = 8, loss: float = 0.0) -> Fitted:
    """*count* samples of each host with partners drawn by lot; host 3 has lost *loss*."""
    random = np.random.default_rng(seed)
    order = np.concatenate([random.permutation(hosts).reshape(-1, 2) for _ in range(count)])
    a, b = order[:, 0], order[:, 1]
    lost = np.where((a == 3) | (b == 3), loss, 0.0)
    gbps = 392 * (1 - lost) * (1 + cv * random.normal(size=len(a)))
    names, none = tuple(f"h{number}" for number in range(hosts)), np.full(hosts, UNKNOWN)
    return fit(PairSamples(names, a, b, gbps, (), none, (), np.full(len(a), UNKNOWN), rail="mlx5_0"))


def certain(fitted: Fitted) -> list[str]:
    return [fitted.components.names[one.component] for one in fitted.blamed if one.certain]


@pytest.mark.slow
@pytest.mark.parametrize(("cv", "most"), [(0.02, 1), (0.03, 3)])
def test_few_samples_that_vary_call_hardly_anybody_bad_for_certain(cv: float, most: int) -> None:
    """What is slow could be called bad, and the rest be steady: or nobody is, and all of them vary."""
    assert sum(bool(certain(rounds(seed, cv=cv))) for seed in range(40)) <= most


def test_a_host_that_lost_a_tenth_is_bad_for_certain_after_as_few() -> None:
    assert [certain(rounds(seed, cv=0.01, loss=0.1)) for seed in range(4)] == [["h3/mlx5_0"]] * 4


def test_a_host_that_is_as_slow_as_healthy_ones_are_apart_is_not_called_bad() -> None:
    """Where good hosts differ by 1 %, one that loses 2.5 % may be one of them; where they do not differ, it is bad."""

    def gain(spread: float) -> float:
        random = np.random.default_rng(4)
        own = 1 + spread * random.normal(size=24)
        own[5] = 0.975
        a, b = np.triu_indices(24, 1)
        gbps = 390 * np.minimum(own[a], own[b]) * (1 + 0.004 * random.normal(size=len(a)))
        hosts, none = tuple(f"h{n}" for n in range(24)), np.full(24, UNKNOWN)
        samples = PairSamples(hosts, a, b, gbps, (), none, (), np.full(len(a), UNKNOWN), placed=True)
        found = fit(samples).blamed
        return max((one.gain for one in found if one.component == 5), default=0.0)

    assert gain(0.0) > 20
    assert gain(0.01) < gain(0.0) / 2


def test_noise_of_four_percent_is_found_to_be_so() -> None:
    """A first window of 3 % around the level must not make it look smaller."""
    random = np.random.default_rng(2)
    a, b = np.triu_indices(40, 1)
    gbps = 390 * (1 + 0.04 * random.normal(size=len(a)))
    none = np.full(40, UNKNOWN)
    samples = PairSamples(tuple(f"h{n}" for n in range(40)), a, b, gbps, (), none, (), np.full(len(a), UNKNOWN))
    assert 0.036 < fit(samples).noise < 0.044


FLOOR = 0.03
Loss = Callable[[int, int], float]


def rail(loss: Loss, *, seed: int) -> Fitted:
    """Two leaves of eight, everybody with everybody; *loss* of a pair by the leaves of both."""
    random = np.random.default_rng(seed)
    leaf = np.repeat(np.arange(2), 8)
    a, b = np.triu_indices(16, 1)
    lost = np.array([loss(*each) for each in zip(leaf[a], leaf[b], strict=True)])
    hosts = tuple(f"h{number}" for number in range(16))
    gbps = 392 * (1 - lost) * (1 + 0.005 * random.normal(size=len(a)))
    via = np.full(len(a), UNKNOWN)
    leaves = (f"r{seed}-leaf0", f"r{seed}-leaf1")
    return fit(PairSamples(hosts, a, b, gbps, leaves, leaf, (), via, rail=f"mlx5_{seed}"), floor=FLOOR)


def good(a: int, b: int) -> float:
    return 0.0


def over_leaf0(a: int, b: int) -> float:
    return 0.03 if 0 in (a, b) else 0.0


def named(planes: list[Fitted]) -> list[list[str]]:
    return [[one.components.names[blamed.component] for blamed in one.blamed] for one in planes]


def together(planes: list[Fitted]) -> list[Fitted]:
    return fit_together([one.samples for one in planes], floor=FLOOR)


@pytest.mark.slow
def test_one_of_two_leaves_that_is_a_little_slow_is_named() -> None:
    """Three pairs in four cross it: only the other rails show that those are the slow ones."""
    planes = [rail(over_leaf0, seed=0), *(rail(good, seed=seed) for seed in range(1, 3))]
    (alone,) = planes[0].blamed
    assert not alone.certain
    assert alone.doubt == f"{ELSEWHERE}: measure other rails"
    assert [[blamed.certain for blamed in one.blamed] for one in together(planes)] == [[True], [], []]
    assert named(together(planes)) == [["r0-leaf0"], [], []]


@pytest.mark.slow
def test_a_rail_without_any_pair_that_reaches_the_usual_level_names_nobody() -> None:
    """It may be slower by design."""
    planes = [rail(lambda a, b: 0.03, seed=0), *(rail(good, seed=seed) for seed in range(1, 3))]
    assert named(together(planes)) == [[], [], []]


def test_healthy_rails_name_nobody_and_keep_their_level() -> None:
    planes = [rail(good, seed=seed) for seed in range(4)]
    found = together(planes)
    assert named(found) == [[]] * 4
    assert [one.classes[0].gbps for one in found] == pytest.approx([392] * 4, rel=0.002)


@pytest.mark.slow
def test_in_a_run_such_a_leaf_is_named_by_its_other_rails() -> None:
    """Above its limit, so that nothing else speaks of it."""
    verdict = ran(World(pod(2, 6, parts=4), {"u0-leaf2": 0.03})).verdict
    assert [(one.component, one.kind) for one in verdict.suspects] == [("u0-leaf2", "leaf")]


def plane(kind, samples):
    return fit(replace(samples, kind=kind))


def level(kind, factor=1.0):
    samples = measured(lambda a, b, la, lb, s: 0.0)
    return plane(kind, replace(samples, gbps=factor * samples.gbps))


def test_one_class_is_not_worth_a_line():
    assert class_lines([level("pairwise"), level("pairwise")]) == ()


def test_two_line_rates_are_two_classes_over_all_rails():
    planes = [level("pairwise 400G"), level("pairwise 200G", 0.5)]
    (said,) = class_lines(planes + planes)
    assert said.startswith("2 classes, each compared with itself alone: pairwise 400G 390.")
    assert "(240 samples); pairwise 200G 195." in said or "(240 samples); pairwise 200G 194." in said


@pytest.mark.slow
def test_same_leaf_and_across_leaves_are_two_classes():
    (said,) = class_lines([plane("pairwise", measured(lambda a, b, la, lb, s: 0.3 * (la != lb)))])
    assert "pairwise, same leaf 390" in said
    assert "pairwise, across leaves 27" in said
    assert "(24 samples)" in said


@pytest.mark.slow
def test_many_classes_are_cut():
    (said,) = class_lines([level(f"test{number}") for number in range(11)])
    assert said.startswith("11 classes")
    assert said.endswith("; and 3 more")


HOSTS, RAILS, ROUNDS = 12, 4, 5
Losses = dict[str, float]


def rails(
    seed: int, *, losses: Losses | None = None, spine: float = 0.0, crowd: float = 0.12, spines: tuple[str, ...] = ()
) -> list[Fitted]:
    """
    Two leaves of six on each rail; five hosts are 5 % slower, up to *crowd* more to others; one test in seven dips.

    *losses* by host side (``h3/mlx5_1``); *spine*: what one spine of four loses, on every rail, paths unknown; with
    *spines* it is the first of these, and paths are known, and so is who was in the way: nobody.
    """
    random = np.random.default_rng(seed)
    lower = np.roll(np.arange(HOSTS) < 5, int(random.integers(HOSTS)))
    found = []
    for rail in range(RAILS):
        order = np.concatenate([random.permutation(HOSTS).reshape(-1, 2) for _ in range(ROUNDS)])
        a, b = order.T
        leaf = np.arange(HOSTS) // 6
        kept = np.where(lower[a] | lower[b], 0.95, 1.0)
        kept *= np.where(lower[a] != lower[b], 1 - crowd * random.uniform(size=len(a)), 1.0)
        kept *= np.where(random.uniform(size=len(a)) < 1 / 7, random.uniform(0.25, 0.6, len(a)), 1.0)
        over = np.where(leaf[a] != leaf[b], random.integers(len(spines) or 4, size=len(a)), UNKNOWN)
        kept *= np.where(over == 0, 1 - spine, 1.0)
        for name, loss in (losses or {}).items():
            host, device = name.split("/")
            if device == f"mlx5_{rail}":
                kept *= np.where((a == int(host[1:])) | (b == int(host[1:])), 1 - loss, 1.0)
        gbps = 395 * kept * np.exp(0.003 * random.standard_t(4, size=len(a)))
        names, leaves = tuple(f"h{n}" for n in range(HOSTS)), (f"r{rail}-leaf0", f"r{rail}-leaf1")
        via = over if spines else np.full(len(a), UNKNOWN)
        one = PairSamples(names, a, b, gbps, leaves, leaf, spines, via, rail=f"mlx5_{rail}", placed=True)
        found.append(replace(one, slowest_beside_gbps=np.full(len(a), np.inf)) if spines else one)
    return fit_together(found)


def certain_in(planes: list[Fitted]) -> set[str]:
    return {one.components.names[b.component] for one in planes for b in one.blamed if b.certain}


def named_in(planes: list[Fitted]) -> set[str]:
    return {one.components.names[b.component] for one in planes for b in one.blamed}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [101, 102, 103, 104])
def test_hosts_that_stand_elsewhere_are_a_group_also_where_leaves_are_known(seed: int) -> None:
    planes = rails(seed)
    assert certain_in(planes) == set()
    assert any(kind.groups for kind in planes[0].classes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "crowd", "spine"),
    [(201, 0.2, 0.0), (202, 0.2, 0.0), (201, 0.2, 0.4), (202, 0.2, 0.4), (212, 0.06, 0.4), (335, 0.17, 0.26)],
)
def test_contention_between_groups_is_nobodys_fault_beside_a_bad_spine_too(
    seed: int, crowd: float, spine: float
) -> None:
    """
    It may take a fifth of what is between them; and a spine that is far behind does not hide who stands where.

    In the last case the hosts of a leaf seem to be a group, and one of them to be bad: it stands with the others.
    """
    found = certain_in(rails(seed, spine=spine, crowd=crowd, spines=("s0", "s1")))
    assert found == ({"s0"} if spine else set())


@pytest.mark.slow
def test_a_bad_host_side_is_named_beside_them_and_nobody_else() -> None:
    assert certain_in(rails(101, losses={"h3/mlx5_1": 0.3})) == {"h3/mlx5_1"}


@pytest.mark.slow  # pods with drawn ways say it of fewer samples: test_drawn_ways
def test_one_spine_of_four_is_offered_where_paths_are_not_known() -> None:
    """Few samples show it: it may be bad, and is not called so."""
    planes = rails(102, spine=0.4)
    assert "spines" in named_in(planes)
    assert certain_in(planes) <= {"spines"}


@pytest.mark.parametrize(("crowd", "doubted"), [(0.2, True), (0.0, False)], ids=["varies", "the same"])
def test_a_host_that_varies_on_all_rails_may_stand_elsewhere(crowd: float, *, doubted: bool) -> None:
    """Of six hosts the first loses 15 % everywhere; on real clusters the only one of its place loses so, now and so."""
    random, planes = np.random.default_rng(1), []
    for rail in range(2):
        a, b = np.concatenate([random.permutation(6).reshape(-1, 2) for _ in range(6)]).T
        lost = np.where((a == 0) | (b == 0), 0.15 + crowd * (random.uniform(size=len(a)) - 0.5), 0.0)
        gbps = 395 * (1 - lost) * np.exp(0.003 * random.standard_normal(len(a)))
        names, via = tuple(f"h{n}" for n in range(6)), np.full(len(a), UNKNOWN)
        leaf = np.zeros(6, dtype=np.int64)
        planes.append(PairSamples(names, a, b, gbps, (f"r{rail}",), leaf, (), via, rail=f"mlx5_{rail}", placed=True))
    for one in fit_together(planes):
        assert [(blamed.component, blamed.doubt) for blamed in one.blamed] == [(0, ELSEWHERE if doubted else "")]


def test_two_rails_on_the_same_leaves_have_the_same_spines_above() -> None:
    """One rail draws the slow uplink of a leaf, the other does well above all leaves: it is not the spines."""
    random, planes = np.random.default_rng(1), []
    leaf = np.arange(16) // 4
    for rail in range(2):
        a, b = np.concatenate([random.permutation(16).reshape(-1, 2) for _ in range(6)]).T
        slow = (rail == 0) & (leaf[a] != leaf[b]) & ((leaf[a] == 2) | (leaf[b] == 2)) & (random.random(len(a)) < 0.5)
        gbps = np.where(slow, 160.0, 395.0) * np.exp(0.003 * random.standard_normal(len(a)))
        names, leaves, via = tuple(f"h{n}" for n in range(16)), tuple(f"leaf{n}" for n in range(4)), np.full(len(a), -1)
        planes.append(PairSamples(names, a, b, gbps, leaves, leaf, (), via, rail=f"mlx5_{rail}", placed=True))
    first = fit_together(planes)[0]
    (found,) = first.blamed
    assert first.components.names[found.component] == "leaf2:uplinks"
    assert len(set(found.rivals)) == len(found.rivals)


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_all_uplinks_of_a_leaf_are_one_part_where_ways_are_known(share: float) -> None:
    """Four uplinks were four parts: to say which hosts stand apart cost less, and nobody was blamed."""
    leaf, random = np.repeat([0, 1, 2], 4), np.random.default_rng(5)
    a, b = (order.ravel() for order in np.meshgrid(np.arange(12), np.arange(12)))
    a, b = a[a != b], b[a != b]
    across = leaf[a] != leaf[b]
    gbps = np.where(across & ((leaf[a] == 0) | (leaf[b] == 0)), share, 1.0) * 390 * random.normal(1, 0.005, len(a))
    samples = PairSamples(
        tuple(f"h{number}" for number in range(12)),
        a,
        b,
        gbps,
        ("tor0", "tor1", "tor2"),
        leaf,
        tuple(f"spine{number}" for number in range(4)),
        np.where(across, b % 4, UNKNOWN),
        directed=True,
        one_way=True,
        placed=True,
    )
    (found,) = suspects_of(fit(samples))
    assert (found.component, found.kind) == ("tor0:uplinks", "uplinks")


def test_samples_that_parts_explain_all_of_them_are_described_too() -> None:
    """All were slow for a while in which four of eight rails were measured, and half of the pairs of the others."""
    random, planes = np.random.default_rng(1), []
    first, then = [(0, 7), (1, 6), (2, 5), (3, 4)], [(7, 1), (2, 0), (6, 3), (5, 4)]
    late = [(7, 1), (6, 3), (0, 7), (1, 6), (2, 5), (3, 4), (2, 0), (5, 4)]
    for rail in range(8):
        a, b = np.array(late if rail % 2 else [*first, *then]).T
        slow = np.arange(8) < (4 if rail % 2 else 8)
        gbps = np.where(slow, 238.0, 395.0) * np.exp(0.003 * random.standard_normal(8))
        names, leaf, via = tuple(f"h{n}" for n in range(8)), np.zeros(8, dtype=np.int64), np.full(8, UNKNOWN)
        planes.append(PairSamples(names, a, b, gbps, (f"r{rail}",), leaf, (), via, rail=f"mlx5_{rail}", placed=True))
    assert len(fit_together(planes)) == 8
