"""Nobody stands out, and all of it is below the limit: one suspect."""

from dataclasses import replace

import numpy as np

from fabric.judge.locate.pairs.against_limit import below_limit, only_leaf, whole_suspects
from fabric.judge.locate.pairs.fitted import fit
from fabric.model.outcome import Outcome
from tests.conftest import rack_topology
from tests.judge.locate.pairs.test_findings import measured

SAMPLES = measured(lambda a, b, la, lb, s: 0.0)
IDS = tuple(f"p{number}" for number in range(len(SAMPLES.a)))


def below(limit_gbps, samples=SAMPLES, *, where="", leaf=None):
    """The classes of the samples that are below a limit."""
    limits = np.full(len(samples.a), limit_gbps)
    return below_limit(fit(samples), limits, where, leaf=leaf, probe_ids=IDS[: len(samples.a)]).classes


def test_all_pairs_below_the_limit_are_one_suspect_for_all_hosts():
    found = below(410.0, where=" (pairwise, mlx5_0)")
    assert len(found.samples) == len(IDS)
    (suspect,) = whole_suspects([found])
    assert (suspect.component, suspect.kind, suspect.outcome) == ("h[0-15]", "group", Outcome.FAIL)
    assert "120 pairs (pairwise, mlx5_0): median 390" in suspect.evidence[1]
    assert "at least 410 required" in suspect.evidence[1]
    assert len(suspect.probes) == 20


def test_all_planes_of_the_same_hosts_are_one_suspect():
    (suspect,) = whole_suspects([below(410.0, where=f" (mlx5_{rail})") for rail in range(12)])
    assert len(suspect.evidence) == 10
    assert suspect.evidence[-1] == "and 4 more"


def test_good_pairs_are_none():
    assert below(380.0) is None


def test_pairs_whose_level_is_the_limit_are_none():
    """It is too near to tell."""
    assert below(390.0) is None


def test_what_a_bad_part_explains_says_nothing_of_the_others():
    """One leaf is slow and below the limit, the rest is good."""
    assert below(380.0, measured(lambda a, b, la, lb, s: 0.2 * (2 in (la, lb)))) is None


def test_pairs_without_a_limit_are_below_none():
    assert below(np.nan) is None


def whole(leaf):
    return below(410.0, where=f" ({leaf})", leaf=leaf)


def test_the_one_leaf_of_a_slow_rail_is_named_where_the_same_hosts_are_good_on_another_rail():
    """Healthy hosts are not blamed for a switch that they share on this rail alone."""
    found = whole_suspects([whole("leaf3"), whole("leaf4")], [SAMPLES.hosts])
    assert [(one.component, one.kind, one.hosts) for one in found] == [("leaf3", "leaf", ()), ("leaf4", "leaf", ())]
    assert "120 pairs (leaf3)" in found[0].evidence[1]
    assert found[0].confidence == 0.99


def test_hosts_that_are_slow_on_all_their_rails_are_a_group_and_no_leaf():
    assert [one.kind for one in whole_suspects([whole("leaf3"), whole("leaf4")])] == ["group"]
    assert [one.kind for one in whole_suspects([whole("leaf3")], [("somebody", "else")])] == ["group"]


def test_hosts_of_two_leaves_are_a_group():
    assert [one.kind for one in whole_suspects([whole(None)], [SAMPLES.hosts])] == ["group"]


def test_the_leaf_of_hosts_is_known_only_when_all_have_the_same():
    rack = rack_topology(2)
    assert only_leaf(("gpu001", "gpu002"), 3, rack) == "leaf3"
    object.__setattr__(rack.hosts["gpu002"], "leaves", ("other",) * 8)
    assert only_leaf(("gpu001", "gpu002"), 3, rack) is None
    object.__setattr__(rack.hosts["gpu002"], "leaves", ())
    assert only_leaf(("gpu002",), 3, rack) is None


def test_pairs_with_one_host_in_common_are_that_host_and_no_group():
    """As after a repair, where only the pairs of the repaired host are measured."""
    of_one = [i for i, (a, b) in enumerate(zip(SAMPLES.a, SAMPLES.b, strict=True)) if 3 in (a, b)]
    star = replace(SAMPLES, **{name: getattr(SAMPLES, name)[of_one] for name in ("a", "b", "gbps", "via")})
    assert len(of_one) > 2
    assert below(410.0, star) is None
