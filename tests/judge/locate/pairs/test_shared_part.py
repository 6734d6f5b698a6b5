"""Slow samples that share a part are not transient; dips that fall anywhere are."""

import numpy as np
import pytest

from fabric.judge.locate.pairs.diagnose import diagnose
from fabric.judge.locate.pairs.fitted import fit
from fabric.judge.locate.pairs.judged import shared_parts
from fabric.model.outcome import Outcome
from tests.judge.locate.pairs.made import GOOD_GBPS, all_pairs, hosts, row
from tests.judge.locate.pairs.test_findings import measured


def dipped(rows, which):
    return [row(x.a, x.b, 0.6 * x.gbps) if n in which else x for n, x in enumerate(rows)]


def test_slow_samples_that_share_an_uplink_name_it():
    samples = measured(lambda a, b, la, lb, s: 0.0)
    through = np.flatnonzero((samples.via == 1) & (samples.leaf[samples.a] == 2))[:4]
    samples.gbps[through] *= 0.6
    fitted = fit(samples)
    (found,) = shared_parts(fitted, fitted.ratio < 0.8)
    assert found.name == "leaf2--spine1"
    assert found.samples.tolist() == through.tolist()
    assert found.through > 4


def test_slow_samples_of_one_host_are_inconclusive_and_tested_again():
    rows = all_pairs(hosts(32))
    mine = [n for n, x in enumerate(rows) if "gpu009" in (x.a, x.b)][::8]
    found = diagnose(dipped(rows, mine))
    assert (found.outcome, found.suspects) == (Outcome.INCONCLUSIVE, ())
    assert any("share gpu009" in reason for reason in found.reasons)
    assert not any("transient, test" in reason for reason in found.reasons)
    assert any("gpu009" in test.why for test in found.next_tests)


def test_slow_samples_of_hosts_that_have_nothing_in_common_are_transient():
    rows = all_pairs(hosts(32))
    ends = [{"gpu001", "gpu002"}, {"gpu011", "gpu020"}, {"gpu008", "gpu031"}]
    found = diagnose(dipped(rows, [n for n, x in enumerate(rows) if {x.a, x.b} in ends]))
    assert found.outcome is Outcome.MARGINAL


@pytest.mark.slow
@pytest.mark.parametrize("dips", [2, 4])
def test_dips_that_fall_anywhere_are_seldom_taken_for_a_part(dips):
    """At most 5 % by construction: of 24 seeds one is expected, and 5 or more once in a hundred."""
    alarms = 0
    rows = all_pairs(hosts(24))
    for seed in range(24):
        which = np.random.default_rng(seed).choice(len(rows), dips, replace=False)
        alarms += diagnose(dipped(rows, set(which.tolist()))).outcome is Outcome.INCONCLUSIVE
    assert alarms < 5


def test_a_pair_that_is_slow_every_time_is_not_called_transient_as_well():
    rows = all_pairs(hosts(16), both_ways=True)
    slow = [row(x.a, x.b, 0.6 * GOOD_GBPS) if {x.a, x.b} == {"gpu003", "gpu007"} else x for x in rows]
    found = diagnose([type(x)(x.a, x.b, x.gbps, x.line, directed=True) for x in slow])
    assert [suspect.component for suspect in found.suspects] == ["gpu003--gpu007"]
    assert not any("slow once" in text for text in (*found.reasons, *(test.why for test in found.next_tests)))


def dipping_rails(seed, dips, *, mine=()):
    """Eight rails of 24 hosts with *dips* that fall anywhere on each; on rail 0 those pairs that are in *mine* too."""
    random, rows = np.random.default_rng(seed), []
    for rail in range(8):
        made = all_pairs(hosts(24), seed=8 * seed + rail, rail=f"rail{rail}")
        which = set(random.choice(len(made), dips, replace=False).tolist()) if dips else set()
        which |= {n for n, x in enumerate(made) if rail == 0 and (x.a, x.b) in mine}
        rows += [x._replace(gbps=0.6 * x.gbps) if n in which else x for n, x in enumerate(made)]
    return rows


def shares(rows):
    return [reason for reason in diagnose(rows).reasons if "share" in reason]


@pytest.mark.slow
def test_dips_on_many_planes_are_seldom_taken_for_a_part():
    """5 % for all planes together: of 12 seeds one is expected at the most; without the planes one in five."""
    assert sum(bool(shares(dipping_rails(seed, 4))) for seed in range(12)) <= 2


def test_a_host_that_dips_on_one_of_many_planes_is_still_seen():
    mine = {("gpu003", "gpu009"), ("gpu009", "gpu012"), ("gpu009", "gpu017"), ("gpu009", "gpu023")}
    found = diagnose(dipping_rails(0, 0, mine=mine))
    assert found.outcome is Outcome.INCONCLUSIVE
    assert any("gpu009/rail0" in text for text in found.reasons)


def test_the_more_planes_the_less_likely_a_part_must_be():
    samples = measured(lambda a, b, la, lb, s: 0.0)
    through = np.flatnonzero((samples.via == 1) & (samples.leaf[samples.a] == 2))[:4]
    samples.gbps[through] *= 0.6
    fitted = fit(samples)
    slow = fitted.ratio < 0.8
    assert shared_parts(fitted, slow)
    assert not shared_parts(fitted, slow, 1000)
