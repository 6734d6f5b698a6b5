"""A single pair below the limit, or all of them: then they are one suspect."""

from dataclasses import replace

import numpy as np
import pytest

from fabric.judge.locate.pairs.against_limit import below_limit
from fabric.judge.locate.pairs.diagnose import diagnose
from fabric.judge.locate.pairs.fitted import fit
from fabric.judge.locate.pairs.judged import judged
from fabric.model.outcome import Outcome
from tests.judge.locate.pairs.made import all_pairs, hosts, row
from tests.judge.locate.pairs.test_findings import measured

LIMIT = 384.0


def one_slow(gbps, *, again=()):
    rows = all_pairs(hosts(16), cv=0.003)
    changed = [row(x.a, x.b, gbps) if (x.a, x.b) == ("gpu003", "gpu007") else x for x in rows]
    return changed + [row("gpu003", "gpu007", more) for more in again]


@pytest.mark.parametrize("gbps", [0.0, 250.0, 370.0])
def test_one_sample_below_the_limit_fails_at_once_and_names_the_pair_alone(gbps):
    found = diagnose(one_slow(gbps), limit_gbps=LIMIT)
    assert (found.outcome, [s.component for s in found.suspects]) == (Outcome.FAIL, ["gpu003--gpu007"])
    assert not any("transient" in reason for reason in found.reasons)
    assert [{test.a, test.b} for test in found.next_tests] == [{"gpu003", "gpu007"}]


def test_one_slow_sample_above_the_limit_is_marginal():
    assert diagnose(one_slow(370.0), limit_gbps=300.0).outcome is Outcome.MARGINAL


def test_a_pair_that_was_good_when_measured_again_is_marginal():
    assert diagnose(one_slow(250.0, again=(391.0,)), limit_gbps=LIMIT).outcome is Outcome.MARGINAL


def test_a_pair_that_is_below_in_most_of_its_samples_fails():
    found = diagnose(one_slow(250.0, again=(391.0, 260.0)), limit_gbps=LIMIT)
    assert found.outcome is Outcome.FAIL
    assert "median 260.0 of 3 samples" in found.suspects[0].evidence[0]


def test_the_pairs_of_a_host_that_is_bad_are_not_listed_again():
    found = diagnose(all_pairs(hosts(16), {"gpu003": 0.4}), limit_gbps=LIMIT)
    assert [s.component for s in found.suspects] == ["gpu003"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_noise_about_a_level_above_the_limit_fails_nobody(seed):
    found = diagnose(all_pairs(hosts(16), cv=0.01, seed=seed), limit_gbps=380.0)
    assert found.outcome is Outcome.PASS


def test_of_three_hosts_a_pair_below_the_limit_fails_too():
    rows = [row("a", "b", 390.0), row("a", "c", 390.0), row("b", "c", 600.0)]
    found = diagnose(rows, limit_gbps=500.0)
    assert found.outcome is Outcome.FAIL
    assert {s.component for s in found.suspects} == {"a--b", "a--c"}


@pytest.mark.parametrize("host", ["gpu001", "gpu008", "gpu016"])
def test_the_pairs_of_a_host_that_is_below_the_limit_are_not_listed_again(host):
    found = diagnose(all_pairs(hosts(16), {host: 0.018}, cv=0.0005), limit_gbps=390.0)
    assert [s.component for s in found.suspects] == [host]


def both_ways(low, *, gbps=250.0):
    """24 hosts both ways; *low* are (sender, receiver) whose sample is below the limit."""
    rows = all_pairs(hosts(24), cv=0.003, both_ways=True)
    return [x._replace(gbps=gbps) if (x.a, x.b) in low else x for x in rows]


def test_a_direction_that_was_low_once_is_marginal_while_the_other_is_good_and_is_measured_again():
    dips = {("gpu003", "gpu007"), ("gpu011", "gpu002"), ("gpu020", "gpu015")}
    found = diagnose(both_ways(dips), limit_gbps=LIMIT)
    assert (found.outcome, found.suspects) == (Outcome.MARGINAL, ())
    assert any("3 samples are below the limit of 384 Gb/s once" in reason for reason in found.reasons)
    assert any("measure again: gpu003->gpu007 250.0" in reason for reason in found.reasons)
    assert {(test.a, test.b) for test in found.next_tests} == dips


def test_dips_below_the_limit_in_a_file_of_thousands_do_not_fail_it():
    rows = all_pairs(hosts(64), cv=0.003, both_ways=True)
    dips = set(np.random.default_rng(3).choice(len(rows), 20, replace=False).tolist())
    changed = [x._replace(gbps=0.7 * x.gbps) if n in dips else x for n, x in enumerate(rows)]
    found = diagnose(changed, limit_gbps=LIMIT)
    assert (found.outcome, found.suspects) == (Outcome.MARGINAL, ())
    assert any(f"{len(dips)} samples are below the limit" in reason for reason in found.reasons)


def test_a_pair_that_is_low_once_each_way_is_measured_again():
    found = diagnose(both_ways({("gpu003", "gpu007"), ("gpu007", "gpu003")}), limit_gbps=LIMIT)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert ("gpu003--gpu007", Outcome.INCONCLUSIVE) in {(s.component, s.outcome) for s in found.suspects}
    assert ("gpu003", "gpu007") in {tuple(sorted((test.a, test.b))) for test in found.next_tests}


def test_a_direction_that_is_low_every_time_fails_although_the_other_is_good():
    rows = both_ways({("gpu003", "gpu007")})
    again = [x for x in rows if (x.a, x.b) == ("gpu003", "gpu007")]
    found = diagnose(rows + again, limit_gbps=LIMIT)
    assert (found.outcome, [s.component for s in found.suspects]) == (Outcome.FAIL, ["gpu003--gpu007"])


def test_a_sample_that_is_below_the_limit_by_noise_is_not_said():
    """The limit is within noise of what good pairs reach: then a sample below it is no dip."""
    rows = [x._replace(gbps=379.5) if (x.a, x.b) == ("gpu003", "gpu007") else x for x in both_ways(())]
    found = diagnose(rows, limit_gbps=380.0, floor=0.1)
    assert found.outcome is Outcome.PASS


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
    return judged(planes, limit_alone=False).suspects


def test_all_pairs_below_the_limit_are_one_suspect_for_all_hosts():
    (suspect,) = suspects(plane(410.0, kind="pairwise, mlx5_0"))
    assert (suspect.component, suspect.kind, suspect.outcome) == ("h[0-15]", "group", Outcome.FAIL)
    assert "120 pairs (pairwise, mlx5_0): median 390" in suspect.evidence[1]
    assert "at least 410 required" in suspect.evidence[1]
    assert len(suspect.probes) == 20


@pytest.mark.slow
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


def test_rails_that_were_all_slow_in_one_round_are_the_hosts_and_not_a_leaf_each():
    """That the same hosts are good in another round says nothing of the rails in this one."""
    planes = [whole("l0"), whole("l1"), plane(380.0, kind="l0"), plane(380.0, kind="l1")]
    (suspect,) = judged(planes, limit_alone=False, phases=["r5", "r5", "r6", "r6"]).suspects
    assert (suspect.component, suspect.kind) == ("h[0-15]", "group")


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


def test_a_leaf_under_which_a_pair_reaches_the_limit_is_not_named():
    """Hosts stand otherwise, or others disturb them: a slow switch holds every pair down."""
    gbps = SAMPLES.gbps.copy()
    gbps[7] = 411.0
    one_good = plane(410.0, replace(SAMPLES, gbps=gbps), kind="leaf3", leaf="leaf3")
    assert [one.kind for one in suspects(one_good, plane(380.0))] == ["group"]


def test_hosts_of_two_leaves_are_a_group():
    assert [one.kind for one in suspects(whole(None), plane(380.0))] == ["group"]


def test_pairs_with_one_host_in_common_are_that_host_and_no_group():
    """As after a repair, where only the pairs of the repaired host are measured."""
    of_one = [i for i, (a, b) in enumerate(zip(SAMPLES.a, SAMPLES.b, strict=True)) if 3 in (a, b)]
    star = replace(SAMPLES, **{name: getattr(SAMPLES, name)[of_one] for name in ("a", "b", "gbps", "via")})
    assert len(of_one) > 2
    assert below(410.0, star) == ()
