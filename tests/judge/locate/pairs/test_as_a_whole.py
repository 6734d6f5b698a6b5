"""Nobody stands out, and all of it is below the limit: one suspect."""

from dataclasses import replace

import numpy as np
import pytest

from fabric.judge.locate.pairs.against_limit import below_limit
from fabric.judge.locate.pairs.fitted import fit
from fabric.judge.locate.pairs.judged import judged
from fabric.model.outcome import Outcome
from tests.judge.locate.pairs.test_findings import measured

SAMPLES = measured(lambda a, b, la, lb, s: 0.0)
IDS = tuple(f"p{number}" for number in range(len(SAMPLES.a)))


def plane(limit_gbps, samples=SAMPLES, *, kind="", leaf=None, level=1.0):
    """The samples with a limit."""
    ids = IDS[: len(samples.a)]
    gbps = level * samples.gbps
    return fit(replace(samples, gbps=gbps, kind=kind, limit_gbps=limit_gbps, only_leaf=leaf, probe_ids=ids))


def below(limit_gbps, samples=SAMPLES):
    """The classes of the samples that are below a limit."""
    return below_limit(plane(limit_gbps, samples)).classes


def suspects(*planes):
    """Of several planes that a run has judged."""
    return judged(planes, 0.03, limit_alone=False).suspects


def test_all_pairs_below_the_limit_are_one_suspect_for_all_hosts():
    (suspect,) = suspects(plane(410.0, kind="pairwise, mlx5_0"))
    assert (suspect.component, suspect.kind, suspect.outcome) == ("h[0-15]", "group", Outcome.FAIL)
    assert "120 pairs (pairwise, mlx5_0): median 390" in suspect.evidence[1]
    assert "at least 410 required" in suspect.evidence[1]
    assert len(suspect.probes) == 20


def test_all_planes_of_the_same_hosts_are_one_suspect():
    (suspect,) = suspects(*(plane(410.0, kind=f"mlx5_{rail}") for rail in range(12)))
    assert len(suspect.evidence) == 8


def test_good_pairs_are_none():
    assert below(380.0) == ()


def test_pairs_whose_level_is_the_limit_are_none():
    """It is too near to tell."""
    assert below(390.0) == ()


def test_what_a_bad_part_explains_says_nothing_of_the_others():
    """One leaf is slow and below the limit, the rest is good."""
    assert below(380.0, measured(lambda a, b, la, lb, s: 0.2 * (2 in (la, lb)))) == ()


def test_pairs_without_a_limit_are_below_none():
    assert below(np.nan) == ()


def whole(leaf, level=1.0):
    return plane(410.0, kind=str(leaf), leaf=leaf, level=level)


def test_the_one_leaf_of_a_slow_rail_is_named_where_the_same_hosts_are_good_on_another_rail():
    """Healthy hosts are not blamed for a switch that they share on this rail alone."""
    found = suspects(whole("leaf3"), whole("leaf4"), plane(380.0))
    assert [(one.component, one.kind, one.hosts) for one in found] == [("leaf3", "leaf", ()), ("leaf4", "leaf", ())]
    assert "120 pairs (leaf3)" in found[0].evidence[1]
    assert found[0].confidence == 0.99


@pytest.mark.parametrize("leaves", [("leaf3", "leaf4"), ("leaf3",), (None,)])
def test_hosts_that_are_slow_on_all_their_rails_are_a_group_and_no_leaf(leaves):
    assert [one.kind for one in suspects(*(whole(leaf) for leaf in leaves))] == ["group"]


def test_far_below_under_one_leaf_it_is_the_leaf_or_what_its_hosts_share():
    """Two rails on one switch; places that no file mentions are a few percent apart."""
    (found,) = suspects(whole("leaf3", 0.7), plane(410.0, kind="another", leaf="leaf3", level=0.7))
    assert (found.component, found.kind, found.ambiguous_with) == ("leaf3", "leaf", ("h[0-15]",))
    assert found.confidence == 0.5
    two = suspects(whole("leaf3", 0.7), plane(410.0, kind="another", leaf="leaf4", level=0.7))
    assert [one.kind for one in two] == ["group"]


def test_hosts_of_two_leaves_are_a_group():
    assert [one.kind for one in suspects(whole(None), plane(380.0))] == ["group"]


def test_pairs_with_one_host_in_common_are_that_host_and_no_group():
    """As after a repair, where only the pairs of the repaired host are measured."""
    of_one = [i for i, (a, b) in enumerate(zip(SAMPLES.a, SAMPLES.b, strict=True)) if 3 in (a, b)]
    star = replace(SAMPLES, **{name: getattr(SAMPLES, name)[of_one] for name in ("a", "b", "gbps", "via")})
    assert len(of_one) > 2
    assert below(410.0, star) == ()
