"""The shortest description of samples: who is bad, who is not, and what cannot be told apart."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from fabric.judge.locate.cells import Cells, Entries, Likelihood, SampleMatrix
from fabric.judge.locate.description import describe, open_parts
from fabric.judge.locate.levels import are_classes, groupings, levels_of, refitted, structures
from fabric.judge.locate.search import CERTAIN
from fabric.judge.locate.structure import HEAVY, LIGHT, Description, Floats, Ints, Normal

HOSTS = 12


def mesh(*, losses: dict[int, float] | None = None, cv: float = 0.004, seed: int = 1) -> tuple[Floats, Ints]:
    """Everybody with everybody once: log Gb/s, and both hosts of each sample; *losses* by host, as shares."""
    random = np.random.default_rng(seed)
    ends = np.array(list(combinations(range(HOSTS), 2)))
    kept = np.array([1 - max((losses or {}).get(a, 0.0), (losses or {}).get(b, 0.0)) for a, b in ends.tolist()])
    return np.log(390 * kept * (1 + cv * random.normal(size=len(ends)))), ends


def cells_of(paths: Ints, family: list[int]) -> Cells:
    """Parts on these paths, none of which is drawn."""
    none, parts = np.zeros(len(family)), np.arange(len(family))
    entries = Entries.of_paths(paths, np.array(family, dtype=np.int64), none, parts, none > 0, none)
    return Cells(entries, np.zeros(len(paths), dtype=np.int64))


def found(y: Floats, ends: Ints, *, family: list[int] | None = None, paths: Ints | None = None) -> Description:
    """The best description beside one level."""
    paths = ends if paths is None else paths
    cells = cells_of(paths, family or [0] * (int(paths.max()) + 1))
    a, b = ends.T
    tried = [describe(y, one, cells) for one in structures(y, a, b, groupings(y, a, b, HOSTS))]
    best = max(tried, key=lambda one: one.score)
    return describe(y, refitted(best.normal, y, best.explained == 0), cells)


def bad(description: Description) -> dict[int, float]:
    return {one.part: round(one.share_lost, 2) for one in description.faults if one.gain >= CERTAIN}


@pytest.mark.parametrize("losses", [{}, {3: 0.1}, {3: 0.1, 7: 0.3}, {1: 0.5, 5: 0.5, 9: 0.2}])
def test_the_hosts_that_lost_something_are_bad_and_nobody_else(losses: dict[int, float]) -> None:
    assert bad(found(*mesh(losses=losses))) == losses


def test_of_two_bad_hosts_the_worse_one_holds_their_pair_down() -> None:
    y, ends = mesh(losses={2: 0.1, 4: 0.4})
    description = found(y, ends)
    both = (ends == 2).any(axis=1) & (ends == 4).any(axis=1)
    assert 1 - np.exp(-description.explained[both]) == pytest.approx(0.4, abs=0.02)


def test_scattered_dips_are_nobodys() -> None:
    y, ends = mesh()
    y[[3, 20, 40, 60]] += np.log(0.4)
    assert bad(found(y, ends)) == {}


def test_dips_are_counted_through_bad_parts_too() -> None:
    """Host 3 is bad; of all 66 samples nine dip, three of them through it."""
    y, ends = mesh(losses={3: 0.3})
    its = (ends == 3).any(axis=1)
    y[[*np.flatnonzero(its)[[1, 4, 8]], *np.flatnonzero(~its)[::10]]] += np.log(0.4)
    known = found(y, ends)
    assert describe(y, known.normal, cells_of(ends, [0] * HOSTS), known=known).background.dips == pytest.approx(9 / 66)


def test_who_passes_a_bad_part_dips_as_often_as_others() -> None:
    """A tenth of all dips, a half to a nat: so is the density of one through a part that loses little, always."""
    one, often, deep = np.ones(1), 0.1, np.array([0.5])
    none = np.zeros(1, dtype=np.int64)
    matrix = SampleMatrix(
        Cells(Entries.of_paths(none[:, None], none, 0 * one, none, one > 1, 0 * one), none),
        y=np.array([-1.5]),
        of_class=none,
        at_s=0 * one,
        normal=Normal.of_noise(0.004 * one, none),
        floor=0.03 * one,
        least=0.02 * one,
        apart=0.02 * one,
        level=0 * one,
        dips=(often, deep),
        faint=True,
    )
    slowed, _ = Likelihood(matrix).slowed(none, 0.3 * one, 0.004)
    assert slowed == pytest.approx(often * deep, rel=0.01)


def test_others_traffic_between_groups_spreads_samples_only_so_far() -> None:
    """All over a nat: no contention, so of classes that may be wide one keeps it to what real clusters show."""
    y, ends = mesh()
    groups = np.arange(HOSTS) // 6
    across = groups[ends[:, 0]] != groups[ends[:, 1]]
    y[across] -= np.random.default_rng(5).uniform(size=across.sum())
    every = structures(y, *ends.T, [(groups, 12.0)])
    assert min(one.noise.max() for one in every if one.groups is not None) == pytest.approx(0.15)


def test_a_host_that_met_none_of_its_group_makes_no_class() -> None:
    """Two groups, 5 % less between them; of the second one host was measured with hosts of the first alone."""
    y, ends = mesh()
    groups = np.arange(HOSTS) // 6
    y[groups[ends[:, 0]] != groups[ends[:, 1]]] += np.log(0.95)
    alone = (ends == HOSTS - 1).any(axis=1) & (ends >= 6).all(axis=1)
    assert are_classes(y, *ends.T, groups)
    assert not are_classes(y[~alone], *ends[~alone].T, groups)


def test_a_slower_class_of_pairs_is_no_fault() -> None:
    """Two groups of hosts; across them pairs are 5 % slower."""
    y, ends = mesh()
    across = (ends[:, 0] < HOSTS // 2) != (ends[:, 1] < HOSTS // 2)
    y[across] += np.log(0.95)
    description = found(y, ends)
    assert bad(description) == {}
    assert description.normal.groups is not None


def test_parts_that_the_same_samples_pass_are_rivals() -> None:
    y, ends = mesh(losses={3: 0.2})
    cable = np.where((ends == 3).any(axis=1), HOSTS, -1)
    description = found(y, ends, paths=np.column_stack([ends, cable]))
    (fault,) = description.faults
    assert {fault.part, *(part for part, _ in fault.rivals)} == {3, HOSTS}


def test_a_part_stands_for_those_whose_samples_all_pass_through_it() -> None:
    """Two rails of each host; both of host 3 are slow: the host, of which there are fewer, is the shorter word."""
    one, ends = mesh(losses={3: 0.2})
    other, _ = mesh(losses={3: 0.2}, seed=2)
    y, both = np.concatenate([one, other]), np.concatenate([ends, ends])
    rail = np.concatenate([ends, ends + HOSTS])
    description = found(y, both, paths=np.column_stack([rail, both + 2 * HOSTS]), family=[0] * 2 * HOSTS + [1] * HOSTS)
    assert list(bad(description)) == [2 * HOSTS + 3]


def test_who_may_be_bad_is_open_and_not_blamed() -> None:
    """One sample of a host that never met anybody else."""
    y, ends = mesh()
    y, ends = np.append(y, np.log(390 * 0.96)), np.vstack([ends, [0, HOSTS]])
    paths = ends
    cells = cells_of(paths, [0] * (HOSTS + 1))
    normal = Normal(0.0, np.zeros(len(y), dtype=np.int64), np.array([[np.log(390)]]), np.ones((1, 1)), np.array([0.01]))
    description = describe(y, normal, cells)
    assert bad(description) == {}
    assert HOSTS in [part for part, _ in open_parts(description, y, cells, 0.02)]


def test_levels_are_the_peaks_that_many_samples_reach_the_highest_first() -> None:
    random = np.random.default_rng(3)
    y = np.concatenate(
        [np.log(400) + 0.002 * random.normal(size=60), np.log(380) + 0.002 * random.normal(size=40), [1.0]]
    )
    assert np.exp(levels_of(y, width=0.004)) == pytest.approx([400, 380], rel=0.005)


@pytest.mark.parametrize("odd", [355.0, 1e7])
@pytest.mark.parametrize("count", [8, 12, 40])
def test_a_single_number_above_all_others_is_no_level(odd: float, count: int) -> None:
    """However far above: a tool may print anything once, and nobody is slow because of it."""
    y = np.log(np.append(np.linspace(272.0, 274.0, count - 1), odd))
    assert np.exp(levels_of(y, width=0.015)) == pytest.approx([273], rel=0.01)


@pytest.mark.parametrize(("draw", "degrees"), [("normal", LIGHT), ("t", HEAVY)])
def test_tails_are_as_the_samples_show_them(draw: str, degrees: float) -> None:
    random = np.random.default_rng(4)
    noise = random.normal(size=600) if draw == "normal" else random.standard_t(4, size=600)
    y = np.log(390) + 0.005 * noise
    none = np.zeros(600, dtype=np.int64)
    start = Normal(0.0, none, np.array([[np.log(390)]]), np.ones((1, 1)), np.array([0.005]))
    assert refitted(start, y, np.ones(600, dtype=np.bool_)).degrees == degrees


@pytest.mark.parametrize("alone", [False, True])
def test_what_was_slow_beside_others_alone_is_no_second_part(alone: bool) -> None:
    """Of 120 pairs every fourth draws a bad spine; of those from pod to pod six share a cable, by twos at the half."""
    random = np.random.default_rng(2)
    between = np.arange(120) % 2 == 1  # pods
    y = np.log(400) + 0.003 * random.standard_normal(120)
    halved = np.array([7, 9, 47, 49, 87, 89])
    y[::4] += np.log(0.58)
    y[halved] += np.log(0.5)
    beside = np.full(120, np.log(400 * 0.58))  # everybody was beside some pair that drew the spine
    beside[halved] = np.inf if alone else y[halved] + 0.001
    beside[[0, 4, 40, 44]] = y[[4, 0, 44, 40]]
    paths = np.column_stack([np.zeros(120, dtype=np.int64), np.where(between, 1, -1)])
    entries = Entries.of_paths(
        paths,
        np.zeros(2, dtype=np.int64),
        np.full(2, 2.0),
        np.arange(2),
        np.ones(2, dtype=np.bool_),
        np.array([0.25, 0.0625]),
    )
    normal = Normal.of_noise(np.array([0.003]), np.zeros(120, dtype=np.int64))
    normal = replace(normal, level=normal.level + np.log(400))
    assert sorted(bad(describe(y, normal, Cells(entries, normal.of_class), beside=beside))) == (
        [0, 1] if alone else [0]
    )
