"""
What others do with pair tests, in their simplest fair form: each is given the true level of a good pair.

Flag both ends of a slow pair; swap partners; best of n (ncclscout, oci-hpc@b5285a68); the median of a host's results
under a threshold; all pairs and "slow in most of its tests"; all pairs and SuperBench's rule (mean more than 5 % under
the baseline).
"""

from collections.abc import Callable
from itertools import combinations

import numpy as np
from pair_fabric import GOOD_GBPS, Fabric, Found

from fabric.model.diagnosis import PairTest
from fabric.probes.pairwise import across_leaves, under_leaves

THRESHOLD = 0.95  # the practice of ncclscout's table and of SuperBench; 0.985 for faults of 3 %


def _cut(fabric: Fabric) -> float:
    """Each may set its threshold to half of the fault it looks for."""
    return 1 - fabric.scene.loss / 2 if fabric.scene.loss < 0.1 else THRESHOLD


def _measured(fabric: Fabric, tests: list[PairTest]) -> list[tuple[PairTest, float]]:
    """The median of the repeats of each test, as a share of a good pair."""
    repeats = fabric.scene.repeats
    return [(test, float(np.median([fabric.measure(test) for _ in range(repeats)])) / GOOD_GBPS) for test in tests]


def flag_both(fabric: Fabric) -> Found:
    """Neighbours once; both ends of every slow pair."""
    tests = under_leaves(fabric.leaves)
    slow = [test for test, ratio in _measured(fabric, tests) if ratio < _cut(fabric)]
    return Found(frozenset(host for test in slow for host in (test.a, test.b)), 1, len(tests))


def swap(fabric: Fabric) -> Found:
    """Neighbours once; each host of a slow pair again with one of a good pair, and bad if that is slow too."""
    return _retested(fabric, best_of_all=False)


def best_of_n(fabric: Fabric) -> Found:
    """The same, but a host is good when the best of its results is (one lucky result clears it)."""
    return _retested(fabric, best_of_all=True)


def _retested(fabric: Fabric, *, best_of_all: bool) -> Found:
    tests = under_leaves(fabric.leaves)
    measured = _measured(fabric, tests)
    slow = {host: ratio for test, ratio in measured if ratio < _cut(fabric) for host in (test.a, test.b)}
    good = [host for test, ratio in measured if ratio >= _cut(fabric) for host in (test.a, test.b)]
    pairs = [PairTest(host, other) for host, other in zip(slow, good, strict=False)]
    named = set()
    for test, ratio in _measured(fabric, pairs):
        worst = max(ratio, slow[test.a]) if best_of_all else ratio
        named |= {test.a} if worst < _cut(fabric) else set()
    return Found(frozenset(named), 2, len(tests) + len(pairs))


def median_threshold(fabric: Fabric) -> Found:
    """Five rounds; a host whose median is under the threshold."""
    results: dict[str, list[float]] = {}
    count = 0
    for number in range(5):
        tests = across_leaves(fabric.leaves, fabric.spines, number - 1) if number else under_leaves(fabric.leaves)
        count += len(tests)
        for test, ratio in _measured(fabric, tests):
            results.setdefault(test.a, []).append(ratio)
            results.setdefault(test.b, []).append(ratio)
    named = [host for host, found in results.items() if np.median(found) < _cut(fabric)]
    return Found(frozenset(named), 5, count)


def all_pairs(fabric: Fabric) -> Found:
    """Everybody with everybody; a host that is slow in most of its tests."""
    return _everybody(fabric, lambda ratios, cut: (ratios < cut).mean() > 0.5)


def superbench(fabric: Fabric) -> Found:
    """Everybody with everybody; a host whose mean is more than 5 % under the baseline."""
    return _everybody(fabric, lambda ratios, cut: ratios.mean() < cut)


def _everybody(fabric: Fabric, bad: Callable[[np.ndarray, float], bool]) -> Found:
    tests = [PairTest(a, b) for a, b in combinations(fabric.hosts, 2)]
    results: dict[str, list[float]] = {host: [] for host in fabric.hosts}
    for test in tests:
        ratio = fabric.measure(test) / GOOD_GBPS
        results[test.a].append(ratio)
        results[test.b].append(ratio)
    named = [host for host, found in results.items() if bad(np.array(found), _cut(fabric))]
    return Found(frozenset(named), len(fabric.hosts) - 1, len(tests))


PEERS: dict[str, Callable[[Fabric], Found]] = {
    "flag both": flag_both,
    "swap": swap,
    "best of n": best_of_n,
    "median < threshold": median_threshold,
    "all pairs, most slow": all_pairs,
    "all pairs, mean -5 %": superbench,
}
SLOW_PEERS = ("all pairs, most slow", "all pairs, mean -5 %")
