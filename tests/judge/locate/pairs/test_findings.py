"""What a topology adds: leaves, uplinks and spines, named or left out."""

from dataclasses import replace

import numpy as np
import pytest

from fabric.judge.locate.pairs.findings import likelier, suspects_of
from fabric.judge.locate.pairs.fitted import fit
from fabric.judge.locate.pairs.samples import PairSamples
from fabric.judge.locate.structure import UNKNOWN


def measured(slow, *, spines=True, seed=0, one_way=False):
    """
    Four leaves of four, two spines, everybody with everybody; *slow(a, b, leaf_a, leaf_b, spine)* is the loss.

    With *one_way* every sample is one direction, from *a* to *b*, and each pair is there twice.
    """
    random = np.random.default_rng(seed)
    leaf = np.repeat(np.arange(4), 4)
    a, b = np.triu_indices(16, 1)
    if one_way:
        a, b = np.concatenate([a, b]), np.concatenate([b, a])
    crosses = leaf[a] != leaf[b]
    via = np.where(crosses, (a + b) % 2, UNKNOWN)
    loss = np.array([slow(*each) for each in zip(a, b, leaf[a], leaf[b], via, strict=True)])
    gbps = 390 * (1 - loss) * (1 + 0.005 * random.normal(size=len(a)))
    known = via if spines else np.full(len(a), UNKNOWN)
    names = tuple(f"h{n}" for n in range(16))
    leaves = tuple(f"leaf{n}" for n in range(4))
    two = ("spine0", "spine1") if spines else ()
    return PairSamples(names, a, b, gbps, leaves, leaf, two, known, directed=one_way, one_way=one_way)


def named(samples):
    return [(found.component, found.kind, found.ambiguous_with) for found in suspects_of(fit(samples))]


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


@pytest.mark.slow
def test_an_unknown_path_never_names_a_spine_or_an_uplink():
    samples = measured(lambda a, b, la, lb, s: 0.2 * (s == 1), spines=False)
    assert not {kind for _, kind, _ in named(samples)} & {"link", "spine"}


def test_evidence_says_how_many_how_slow_and_with_how_many():
    samples = measured(lambda a, b, la, lb, s: 0.2 * (5 in (a, b)))
    evidence = suspects_of(fit(samples))[0].evidence
    assert evidence[1].startswith("15 of 15 samples through it are slow, with 15 different hosts: about 31")


def test_one_direction_of_an_uplink_is_the_uplink_with_both_directions_in_the_evidence():
    """Up only, then down only, of the same cable."""
    for way, mine in (("leaf1->spine0", lambda la, lb: la == 1), ("spine0->leaf1", lambda la, lb: lb == 1)):
        samples = measured(
            lambda a, b, la, lb, s, mine=mine: 0.2 * (la != lb and s == 0 and mine(la, lb)), one_way=True
        )
        (found,) = suspects_of(fit(samples))
        assert (found.component, found.kind, found.ambiguous_with) == ("leaf1--spine0", "link", ())
        (said,) = (line for line in found.evidence if line.startswith("by direction: "))
        slow = {part.split(" ")[0]: part.split(" ", 1)[1] for part in said.removeprefix("by direction: ").split(", ")}
        assert slow.pop(way) == "24 of 24 slow"
        assert list(slow.values()) == ["0 of 24 slow"]


def test_an_uplink_that_is_slow_both_ways_is_no_direction():
    samples = measured(lambda a, b, la, lb, s: 0.2 * (la != lb and 1 in (la, lb) and s == 0), one_way=True)
    (found,) = suspects_of(fit(samples))
    assert (found.component, found.kind, found.evidence[0]) == ("leaf1--spine0", "link", "one uplink of the leaf")


def test_a_direction_that_was_not_measured_is_said():
    """Hosts of leaf 1 only send; then nothing tells the direction from the whole, and the whole is named."""
    samples = measured(lambda a, b, la, lb, s: 0.2 * (la == 1 and lb != 1 and s == 0), one_way=True)
    keep = (samples.leaf[samples.b] != 1) | (samples.leaf[samples.a] == 1)
    fewer = replace(samples, a=samples.a[keep], b=samples.b[keep], gbps=samples.gbps[keep], via=samples.via[keep])
    (found,) = suspects_of(fit(fewer))
    assert (found.component, found.evidence[0]) == ("leaf1--spine0", "one uplink of the leaf")
    assert (found.ambiguous_with, found.confidence) == ((), 0.99)
    assert "by direction: leaf1->spine0 24 of 24 slow, spine0->leaf1 not measured" in found.evidence


def test_a_rival_is_named_once_whatever_its_directions():
    """Two uplinks that are only ever crossed together, one way: one is named, the other beside it, each by half."""
    samples = measured(lambda a, b, la, lb, s: 0.2 * ({la, lb} == {1, 2} and s == 0), one_way=True)
    of_a, of_b, over = samples.leaf[samples.a], samples.leaf[samples.b], samples.via == 0
    two = (np.isin(of_a, (1, 2))).astype(int) + np.isin(of_b, (1, 2))
    keep = ~over | (two == 0) | ((of_a == 1) & (of_b == 2))
    fewer = replace(samples, a=samples.a[keep], b=samples.b[keep], gbps=samples.gbps[keep], via=samples.via[keep])
    (found,) = suspects_of(fit(fewer))
    assert sorted((found.component, *found.ambiguous_with)) == ["leaf1--spine0", "leaf2--spine0"]
    assert 0.45 < found.confidence <= 0.5


def test_a_direction_does_not_count_what_another_suspect_makes_slow():
    """Leaf 1 sends slowly over spine 0; host 9 is slow to everybody, and some of its samples cross the same uplink."""

    def slow(a, b, la, lb, s):
        return 0.3 if 9 in (a, b) or (la == 1 and lb != 1 and s == 0) else 0.0

    samples = measured(slow, one_way=True)
    of_it = (samples.via == 0) & ((samples.leaf[samples.a] == 1) | (samples.leaf[samples.b] == 1))
    with_9 = (samples.a == 9) | (samples.b == 9)
    both = {found.component: found for found in suspects_of(fit(samples))}
    assert set(both) == {"h9", "leaf1--spine0"}
    link = both["leaf1--spine0"]
    up = of_it & (samples.leaf[samples.a] == 1)
    assert int((up & with_9).sum()) == 2
    assert "by direction: leaf1->spine0 22 of 22 slow, spine0->leaf1 0 of 22 slow" in link.evidence
    assert any(line.startswith("22 of 22 samples through it") for line in link.evidence)
    assert "2 more samples through it are as slow because of other suspects" in link.evidence


def test_what_another_suspect_takes_less_of_still_counts():
    """Every sample of host 9 crosses a part that is slower than good, and host 9 is slower still."""
    samples = measured(lambda a, b, la, lb, s: 0.5 if 9 in (a, b) else 0.1 * (2 in (la, lb)))
    both = {found.component: found for found in suspects_of(fit(samples))}
    assert set(both) == {"h9", "leaf2"}
    assert any(line.startswith("15 of 15 samples through it") for line in both["h9"].evidence)


@pytest.mark.parametrize(
    ("margin", "said"),
    [
        (7.0, "about 1,100 times likelier than the next explanation (margin 7.0 nats)"),
        (1.0, "about 3 times likelier than the next explanation (margin 1.0 nats)"),
        (0.1, "hardly likelier than the next explanation (margin 0.1 nats)"),
        (250.0, "more than 1,000,000 times likelier than the next explanation (margin 250.0 nats)"),
        (-0.2, "hardly likelier than the next explanation (margin -0.2 nats)"),
    ],
)
def test_a_lead_is_said_as_odds(margin, said):
    assert likelier(margin) == said
