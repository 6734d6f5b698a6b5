"""What a topology adds: leaves, uplinks and spines, named or left out."""

import numpy as np

from fabric.analysis.pairs.findings import suspects_of
from fabric.analysis.pairs.fitted import fit
from fabric.analysis.pairs.samples import UNKNOWN, PairSamples


def measured(slow, *, spines=True, seed=0):
    """Four leaves of four, two spines, everybody with everybody; *slow(a, b, leaf_a, leaf_b, spine)* is the loss."""
    random = np.random.default_rng(seed)
    leaf = np.repeat(np.arange(4), 4)
    a, b = np.triu_indices(16, 1)
    crosses = leaf[a] != leaf[b]
    via = np.where(crosses, (a + b) % 2, UNKNOWN)
    loss = np.array([slow(*each) for each in zip(a, b, leaf[a], leaf[b], via, strict=True)])
    gbps = 390 * (1 - loss) * (1 + 0.005 * random.normal(size=len(a)))
    known = via if spines else np.full(len(a), UNKNOWN)
    names = tuple(f"h{n}" for n in range(16))
    leaves = tuple(f"leaf{n}" for n in range(4))
    return PairSamples(names, a, b, gbps, leaves, leaf, ("spine0", "spine1") if spines else (), known)


def named(samples):
    return [(found.component, found.kind, found.ambiguous_with) for found in suspects_of(fit(samples), "")]


def test_a_leaf_is_named_when_all_under_it_are_slow():
    assert named(measured(lambda a, b, la, lb, s: 0.2 * (2 in (la, lb)))) == [("leaf2", "leaf", ())]


def test_an_uplink_is_named_when_its_path_is_known():
    samples = measured(lambda a, b, la, lb, s: 0.2 * (la != lb and 1 in (la, lb) and s == 0))
    assert named(samples) == [("leaf1--spine0", "link", ())]


def test_a_spine_is_named_when_all_that_cross_it_are_slow():
    assert named(measured(lambda a, b, la, lb, s: 0.2 * (s == 1))) == [("spine1", "spine", ())]


def test_of_an_unknown_path_only_all_uplinks_of_the_leaf_are_named():
    samples = measured(lambda a, b, la, lb, s: 0.2 * (la != lb and 1 in (la, lb)), spines=False)
    assert named(samples) == [("leaf1:uplinks", "uplinks", ())]


def test_an_unknown_path_never_names_a_spine_or_an_uplink():
    samples = measured(lambda a, b, la, lb, s: 0.2 * (s == 1), spines=False)
    assert not {kind for _, kind, _ in named(samples)} & {"link", "spine"}


def test_evidence_says_how_many_how_slow_and_with_how_many():
    samples = measured(lambda a, b, la, lb, s: 0.2 * (5 in (a, b)))
    evidence = suspects_of(fit(samples), "")[0].evidence
    assert evidence[1].startswith("15 of 15 samples through it are slow, with 15 different hosts: about 31")
