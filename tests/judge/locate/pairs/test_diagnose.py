"""What pair results say, from rows to the verdict; those of two real clusters, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.real_pairs import healthy, judged, planted, read
from fabric.judge.locate.pairs.diagnose import diagnose
from fabric.model.diagnosis import Diagnosis, PairRow
from fabric.model.outcome import Outcome
from fabric.model.probe import NamedPart
from tests.judge.locate.pairs.made import GOOD_GBPS, all_pairs, hosts, row
from tests.judge.locate.pairs.test_in_run import POD, Ran, World, ran


def named(found):
    return [suspect.component for suspect in found.suspects]


def test_a_slow_host_is_named_and_nobody_else():
    found = diagnose(all_pairs(hosts(8), {"gpu003": 0.1}))
    assert (found.outcome, named(found)) == (Outcome.FAIL, ["gpu003"])
    assert found.suspects[0].confidence > 0.95
    assert found.suspects[0].ambiguous_with == ()


def test_a_clean_fleet_passes():
    found = diagnose(all_pairs(hosts(16)))
    assert (found.outcome, found.suspects, found.next_tests) == (Outcome.PASS, (), ())


def test_a_host_that_only_sends_slowly_is_told_from_one_that_is_slow_both_ways():
    found = diagnose(all_pairs(hosts(8), {"gpu003:tx": 0.2, "gpu006": 0.2, "gpu007:rx": 0.3}, both_ways=True))
    assert sorted(named(found)) == ["gpu003:tx", "gpu006", "gpu007:rx"]


def test_one_fast_pair_makes_nobody_bad_and_is_measured_again():
    """Six of eight hosts at three quarters look like this, too: two good ones met each other once."""
    rows = all_pairs(hosts(8))
    usual = rows[5]
    rows[5] = row(usual.a, usual.b, 1.3 * GOOD_GBPS)
    found = diagnose(rows)
    assert (found.outcome, found.suspects) == (Outcome.INCONCLUSIVE, ())
    assert [(test.a, test.b) for test in found.next_tests] == [(usual.a, usual.b)]
    assert diagnose([*rows, usual]).outcome is Outcome.PASS
    assert diagnose([*rows, rows[5]]).outcome is Outcome.INCONCLUSIVE
    assert diagnose(rows, limit_gbps=380).outcome is Outcome.PASS


def test_two_hosts_that_only_met_each_other_are_never_both_blamed():
    rows = [each for each in all_pairs(hosts(8)) if {each.a, each.b}.isdisjoint({"gpu007", "gpu008"})]
    rows += [row("gpu007", "gpu008", 0.5 * GOOD_GBPS)] * 3
    found = diagnose(rows)
    assert found.outcome is Outcome.FAIL
    assert len(found.suspects) == 1
    assert {found.suspects[0].component, *found.suspects[0].ambiguous_with} >= {"gpu007", "gpu008"}
    assert found.suspects[0].confidence <= 0.5
    tested = {host for test in found.next_tests for host in (test.a, test.b)}
    assert tested >= {"gpu007", "gpu008"}
    assert not any({test.a, test.b} == {"gpu007", "gpu008"} for test in found.next_tests)


def slow_between_two(rounds):
    """Everybody with everybody, both ways, and two hosts that are slow with each other alone."""
    rows = all_pairs(hosts(8), both_ways=True) * rounds
    slow = {"gpu002", "gpu005"}
    return diagnose([row(each.a, each.b, 0.6 * each.gbps) if {each.a, each.b} == slow else each for each in rows])


def test_a_path_that_is_slow_between_two_good_hosts_is_no_host():
    found = slow_between_two(rounds=2)
    assert [(one.component, one.kind) for one in found.suspects] == [("gpu002--gpu005", "path")]
    assert found.suspects[0].evidence[1].startswith("4 of 4 samples through it are slow: about")
    assert "detected, not localised" in found.reasons[0]


def test_two_slow_samples_of_a_pair_may_be_chance_and_are_measured_again():
    found = slow_between_two(rounds=1)
    assert [(one.component, one.outcome) for one in found.suspects] == [("gpu002--gpu005", Outcome.INCONCLUSIVE)]
    assert found.reasons == ("gpu002--gpu005 may be bad: more samples are needed",)
    assert [(test.a, test.b) for test in found.next_tests] == [("gpu002", "gpu005")]


def test_a_single_slow_sample_blames_nobody_and_is_tested_again():
    rows = all_pairs(hosts(12))
    rows[7] = row(rows[7].a, rows[7].b, 0.7 * GOOD_GBPS)
    found = diagnose(rows)
    assert (found.outcome, found.suspects) == (Outcome.MARGINAL, ())
    assert [{test.a, test.b} for test in found.next_tests] == [{rows[7].a, rows[7].b}]


def test_samples_that_are_slow_once_on_several_rails_are_one_line():
    rows = [each._replace(rail=rail) for rail in ("mlx5_0", "mlx5_1", "mlx5_2") for each in all_pairs(hosts(12))]
    for at in (7, len(rows) // 3 + 20):  # of the first rail and of the second
        rows[at] = rows[at]._replace(gbps=0.7 * GOOD_GBPS)
    of_two = 2 * len(rows) // 3
    assert diagnose(rows).reasons == (f"2 of {of_two} samples are slow once (mlx5_[0-1]): transient, test again",)


@pytest.mark.parametrize(("count", "kept"), [(8, 0.5), (6, 0.9), (6, 0.93)])
def test_a_host_none_of_whose_samples_reaches_the_usual_is_not_cleared(count: int, kept: float):
    last = hosts(count)[-1]
    rows = [each for each in all_pairs(hosts(count), cv=0.004) if last not in (each.a, each.b)]
    found = diagnose([*rows, row("gpu001", last, kept * GOOD_GBPS)])
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.reasons[0] == f"not cleared, no sample reaches what is usual: {last}"
    assert any(last in (test.a, test.b) for test in found.next_tests)


@pytest.mark.parametrize("limit", [None, 350.0])
def test_a_pair_that_dipped_and_is_good_again_is_not_to_be_measured_forever(limit: float | None):
    rows = [*all_pairs(hosts(8)), row("gpu002", "gpu001", 0.5 * GOOD_GBPS)]
    found = diagnose(rows, limit_gbps=limit)
    assert (found.outcome, found.suspects, found.next_tests) == (Outcome.MARGINAL, (), ())


@pytest.mark.parametrize("count", [4, 6, 10])
def test_zeros_never_say_what_is_normal_however_many_they_are(count: int):
    good = {"gpu001", "gpu002"}
    rows = [each if {each.a, each.b} == good else row(each.a, each.b, 0.0) for each in all_pairs(hosts(count))]
    found = diagnose(rows)
    assert found.outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE)
    assert good.isdisjoint(named(found))
    assert found.classes[0].gbps > 0.9 * GOOD_GBPS


@pytest.mark.parametrize("share", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("seed", range(3))
def test_tests_that_failed_by_chance_are_nobodys_however_many_they_are(share: float, seed: int):
    """All zeros are alike, and that says nothing: no part is bad in all of its samples."""
    rows, failed = all_pairs(hosts(10), seed=seed), np.random.default_rng(seed).random(45) < share
    found = diagnose([each._replace(gbps=0.0) if zero else each for each, zero in zip(rows, failed, strict=True)])
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.next_tests


@pytest.mark.parametrize(("count", "dead"), [(5, ["gpu002"]), (8, ["gpu003", "gpu006"]), (16, hosts(16)[:4])])
def test_hosts_with_whom_every_test_failed_are_bad(count: int, dead: list[str]):
    found = diagnose(all_pairs(hosts(count), dict.fromkeys(dead, 1.0)))
    assert (found.outcome, sorted(named(found))) == (Outcome.FAIL, dead)


@pytest.mark.parametrize(("limit", "outcome"), [(None, Outcome.INCONCLUSIVE), (300.0, Outcome.PASS)])
def test_two_link_classes_far_apart_are_no_bad_hosts_and_only_a_limit_clears_them(limit, outcome):
    names = hosts(16)
    unit = {name: number // 4 for number, name in enumerate(names)}
    rows = all_pairs(names, level=lambda a, b: 1.0 if unit[a] == unit[b] else 0.8)
    found = diagnose(rows, limit_gbps=limit)
    assert (found.outcome, found.suspects) == (outcome, ())
    assert limit or found.reasons[0].startswith("between groups: pairs reach 31")
    assert [(one.name, round(one.gbps / GOOD_GBPS, 1)) for one in found.classes] == [
        ("within a group", 1.0),
        ("between groups", 0.8),
    ]
    assert [set(group) for group in found.classes[0].groups] == [set(names[at : at + 4]) for at in range(0, 16, 4)]


def test_where_most_hosts_are_slow_pairs_far_above_the_normal_are_no_pass():
    names = hosts(8)
    rows = all_pairs(names, dict.fromkeys(names[3:], 0.6))
    assert diagnose(rows).outcome is Outcome.INCONCLUSIVE
    assert "far above the normal" in diagnose(rows).reasons[0]
    assert diagnose(rows, limit_gbps=350).outcome is Outcome.FAIL


def test_a_slow_leaf_that_no_inventory_mentions_is_no_pass():
    names = hosts(16)
    found = diagnose(all_pairs(names, level=lambda a, b: 0.6 if (a in names[:4]) != (b in names[:4]) else 1.0))
    assert (found.outcome, found.suspects) == (Outcome.INCONCLUSIVE, ())
    assert found.reasons[0].endswith("is it slower by design, give a limit or an inventory")


def test_a_bad_host_is_found_inside_link_classes():
    names = hosts(16)
    unit = {name: number // 4 for number, name in enumerate(names)}
    found = diagnose(all_pairs(names, {"gpu006": 0.4}, level=lambda a, b: 1.0 if unit[a] == unit[b] else 0.8))
    assert "gpu006" in named(found)
    assert len(found.suspects) == 1


def test_all_rails_of_a_host_bad_is_the_host():
    rows = []
    for rail in range(4):
        bad = {"gpu003": 0.1, **({"gpu005": 0.2} if rail == 2 else {})}
        rows += all_pairs(hosts(8), bad, rail=str(rail), seed=rail)
    found = diagnose(rows)
    assert [(s.component, s.kind) for s in found.suspects] == [("gpu003", "host"), ("gpu005/rail2", "rnic")]


def test_what_is_uniformly_slow_fails_against_the_limit_and_passes_without():
    rows = all_pairs(hosts(16), level=lambda a, b: 0.8)
    assert diagnose(rows).outcome is Outcome.PASS
    found = diagnose(rows, limit_gbps=0.96 * 400)
    assert found.outcome is Outcome.FAIL
    assert found.suspects[0].kind == "group"
    assert set(found.suspects[0].hosts) == set(hosts(16))


def test_a_host_within_the_floor_of_its_peers_but_below_the_limit_fails():
    found = diagnose(all_pairs(hosts(16), {"gpu004": 0.015}, cv=0.002), limit_gbps=389.0)
    assert (found.outcome, named(found)) == (Outcome.FAIL, ["gpu004"])


def test_two_hosts_below_the_limit_are_a_pair():
    found = diagnose([row("a", "b", 300.0)] * 5, limit_gbps=384.0)
    assert (found.outcome, found.suspects[0].component, found.suspects[0].kind) == (Outcome.FAIL, "a+b", "pair")


@pytest.mark.parametrize("rows", [[], [row("a", "b", 390.0)], [row("a", "b", 0.0), row("c", "d", 0.0)]])
def test_nothing_to_compare_with_is_inconclusive(rows):
    assert diagnose(rows).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("seed", range(10))
def test_too_noisy_samples_never_pass(seed):
    names = hosts(32)
    rows = [each for each in all_pairs(names, cv=0.08, seed=seed) if abs(int(each.a[3:]) - int(each.b[3:])) == 1]
    assert diagnose(rows).outcome not in (Outcome.PASS, Outcome.MARGINAL)


def test_slow_samples_that_no_part_explains_are_detected_not_localised():
    rows = all_pairs(hosts(16))
    random = np.random.default_rng(3)
    for position in random.choice(len(rows), 14, replace=False):
        rows[position] = row(rows[position].a, rows[position].b, 0.6 * GOOD_GBPS)
    found = diagnose(rows)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert any("detected, not localised" in reason for reason in found.reasons)


def test_many_bad_hosts_do_not_become_what_is_normal():
    bad = {name: 0.2 for name in hosts(32)[:12]}
    assert sorted(named(diagnose(all_pairs(hosts(32), bad)))) == sorted(bad)


def test_only_the_largest_size_of_a_test_counts():
    rows = all_pairs(hosts(8))
    small = [type(each)(each.a, each.b, 3.0, 1, size_bytes=8) for each in all_pairs(hosts(3))]
    large = [type(each)(each.a, each.b, each.gbps, 1, size_bytes=1 << 23) for each in rows]
    found = diagnose([*small, *large])
    assert found.outcome is Outcome.PASS
    assert sum(one.samples for one in found.classes) == len(large)


def test_a_slow_spine_is_named_where_only_the_file_says_what_was_crossed():
    """Without an inventory: a column ``via`` is enough for spines, and the note says so."""
    rows = [
        each._replace(via=f"spine{number % 4}", gbps=each.gbps * (0.6 if number % 4 == 2 else 1.0))
        for number, each in enumerate(all_pairs(hosts(12)))
    ]
    found = diagnose(rows)
    assert (found.outcome, named(found)) == (Outcome.FAIL, ["spine2"])
    assert "hosts, pairs and spines can be named" in found.notes[0]


def test_a_single_spine_under_everything_is_never_named():
    rows = [each._replace(via="spine0") for each in all_pairs(hosts(8), {"gpu003": 0.3})]
    assert named(diagnose(rows)) == ["gpu003"]


def test_a_host_that_is_bad_is_not_called_uncertain_as_well():
    """In two classes of links it is slower than its one loss says; that is no second trouble."""
    near = hosts(16)[:8]

    def level(a, b):
        return 1.0 if (a in near) == (b in near) else 0.7

    found = diagnose(all_pairs(hosts(16), {"gpu012": 0.4}, level=level))
    assert named(found) == ["gpu012"]
    assert not [reason for reason in found.reasons[1:] if "gpu" in reason]
    assert found.next_tests == ()


def test_a_host_in_two_classes_of_links_is_compared_with_its_own_class_in_each():
    """It is slow with everybody, so the groups do not show it at once; but with its neighbours it is faster."""
    near = hosts(16)[:8]

    def level(a, b):
        return 1.0 if (a in near) == (b in near) else 0.8

    found = diagnose(all_pairs(hosts(16), {"gpu012": 0.3}, level=level))
    assert named(found) == ["gpu012"]
    (said,) = (text for text in found.suspects[0].evidence if "of 15 samples" in text)
    assert said.startswith("15 of 15 samples through it are slow")
    assert "about 275 of 392 Gb/s (-30.0%) within a group, 221 of 314 Gb/s (-29.7%) between groups" in said


def test_a_host_of_one_of_two_groups_is_compared_with_each_of_them():
    """Its neighbours are fast with it or slow, as with all others."""
    near = hosts(16)[:8]

    def level(a, b):
        if "gpu012" in (a, b):
            return 0.6
        return 1.0 if (a in near) == (b in near) else 0.8

    found = diagnose(all_pairs(hosts(16), level=level))
    assert named(found) == ["gpu012"]


def dipping(count, share, seed=3):
    """Everybody with everybody, both ways; *share* of all samples dip, and one pair in both directions."""
    random = np.random.default_rng(seed)
    rows = all_pairs(hosts(count), cv=0.003, both_ways=True)
    pair = {"gpu004", "gpu031"}
    return [
        each._replace(gbps=each.gbps * 0.8) if {each.a, each.b} == pair or random.random() < share else each
        for each in rows
    ]


@pytest.mark.parametrize("limit", [None, 380.0])
def test_a_pair_that_dips_both_ways_among_many_dips_is_to_be_measured_again(limit):
    """Of 2,016 pairs at one dip in fifty chance alone makes one such pair."""
    found = diagnose(dipping(64, 0.02), limit_gbps=limit)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert ("gpu004--gpu031", Outcome.INCONCLUSIVE) in [(one.component, one.outcome) for one in found.suspects]
    assert [one.component for one in found.suspects if one.outcome is Outcome.FAIL] == []
    assert ("gpu004", "gpu031") in {tuple(sorted((test.a, test.b))) for test in found.next_tests}


@pytest.mark.parametrize("limit", [None, 380.0])
def test_a_pair_is_bad_by_three_slow_samples_where_nothing_dips(limit):
    rows = dipping(64, 0.0)
    found = diagnose(rows, limit_gbps=limit)
    assert (found.outcome, named(found)) == (Outcome.INCONCLUSIVE, ["gpu004--gpu031"])
    again = next(each for each in rows if {each.a, each.b} == {"gpu004", "gpu031"})
    found = diagnose([*rows, again], limit_gbps=limit)
    assert (found.outcome, named(found)) == (Outcome.FAIL, ["gpu004--gpu031"])


def few_samples(seed: int, *, cv: float, spread: float) -> list[PairRow]:
    """Four samples of each of 16 healthy hosts on 8 rails, which differ by *spread*."""
    random = np.random.default_rng(seed)
    names = hosts(16)
    level = {(name, rail): 1 + spread * random.normal() for name in names for rail in range(8)}
    rows = []
    for _ in range(4):
        for rail in range(8):
            order = [names[i] for i in random.permutation(16)]
            for a, b in zip(order[::2], order[1::2], strict=True):
                gbps = 390 * min(level[a, rail], level[b, rail]) * (1 + cv * random.normal())
                rows.append(PairRow(a, b, gbps, 1, rail=str(rail)))
    return rows


@pytest.mark.parametrize("seed", [131, 142, 147])
def test_the_lowest_of_many_healthy_rnics_is_not_failed_by_four_samples(seed: int) -> None:
    """They differ by half a percent: one looks 2.5 % low in four samples of one percent each."""
    found = diagnose(few_samples(seed, cv=0.01, spread=0.005), limit_gbps=370.0)
    assert Outcome.FAIL not in (found.outcome, *(one.outcome for one in found.suspects))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 5, 6, 10, 12, 26, 33, 45, 49, 77])
def test_few_samples_that_lie_close_together_by_chance_fail_nobody(seed: int) -> None:
    """A rail has 32 samples here: it takes its noise and its level from all eight."""
    found = diagnose(few_samples(seed, cv=0.02, spread=0.003), limit_gbps=370.0)
    assert [one.component for one in found.suspects if one.outcome is Outcome.FAIL] == []


def notes(slow: dict[str, float]) -> list[str]:
    """Those that ask for the unit, of eight hosts."""
    return [note for note in diagnose(all_pairs(hosts(8), slow)).notes if "GB/s" in note]


def test_a_host_whose_results_are_an_eighth_is_asked_for_its_unit() -> None:
    assert notes({"gpu003": 7 / 8}) == [
        "7 results are about an eighth of what good pairs reach: are they in GB/s, and the others in Gb/s?"
    ]


@pytest.mark.parametrize("loss", [0.0, 0.4, 0.75, 0.95])
def test_other_losses_are_not(loss: float) -> None:
    assert notes({"gpu003": loss}) == []


def test_a_single_result_is_not() -> None:
    rows = all_pairs(hosts(8))
    rows[5] = rows[5]._replace(gbps=rows[5].gbps / 8)
    assert not [note for note in diagnose(rows).notes if "GB/s" in note]


SETS = {
    path.stem: read(path)
    for path in sorted((Path(__file__).parents[3] / "golden" / "verdicts" / "pairs").glob("*.csv"))
}


def test_there_are_four_of_them() -> None:
    assert [len(pairs) for pairs in SETS.values()] == [134, 131, 45, 45]


@pytest.mark.slow
def test_healthy_parts_of_them_fail_nobody() -> None:
    """A seed with which nothing was chosen; median and MAD rules fail 7 to 15 in 100."""
    assert healthy(SETS, np.random.default_rng(201), 4) == 0


@pytest.mark.slow
def test_bad_hosts_are_found_in_them_and_nobody_else() -> None:
    rows = planted(dict(list(SETS.items())[::4]), np.random.default_rng(202), 1)
    total = sum(rows.values(), Counter[str]())
    assert total["wrong"] == 0
    assert total["exact"] >= 0.95 * total["cases"]


def slowed(bad: Sequence[str], missing: float = 0.0, seed: int = 0) -> Diagnosis:
    """One set, some pairs of which are missing, with bad hosts at nine tenths."""
    random = np.random.default_rng(seed)
    rows = [row for row in SETS["cluster01-sendrecv-g1"] if random.random() >= missing]
    return judged([(a, b, 0.9 * gbps if {a, b}.intersection(bad) else gbps) for a, b, gbps in rows])


@pytest.mark.parametrize("seed", [3, 6, 9])
def test_two_slow_hosts_of_ten_are_no_second_level_of_pairs(seed: int) -> None:
    """A level that nobody stands behind explains a third of all pairs, too; that hosts are slow says more."""
    found = slowed(["cnode3-003", "cnode3-006"], 0.3, seed)
    assert {one.component for one in found.suspects if one.outcome is Outcome.FAIL} == {"cnode3-003", "cnode3-006"}


@pytest.mark.parametrize("bad", [("006", "008", "011"), ("002", "004", "011"), ("005", "007", "011")])
def test_what_hosts_and_levels_explain_alike_is_no_pass(bad: tuple[str, ...]) -> None:
    """Three of ten hosts may be bad, or stand elsewhere: nobody FAILs, all three are to be measured again."""
    found = slowed([f"cnode3-{number}" for number in bad])
    assert found.outcome is Outcome.INCONCLUSIVE
    assert {one.component for one in found.suspects} == {f"cnode3-{number}" for number in bad}


def with_down_ports(*hosts: str) -> Ran:
    """Loopbacks of the second RNIC of these hosts say that its port is down; their pairs are not measured."""
    found = ran(World(POD, skipped=frozenset()), loopback=True)
    for probe in found.probes:
        result = found.results[probe.probe_id]
        if probe.kind == "loopback" and probe.hosts[0] in hosts and probe.params["rnic"] == "mlx5_1":
            named = NamedPart(f"{probe.hosts[0]}/mlx5_1", "down")
            found.results[probe.probe_id] = replace(
                result, measurements=(), outcome=Outcome.FAIL, reason="Port number 1 state is Down", named=named
            )
        elif probe.kind == "pairwise" and not set(hosts).isdisjoint(probe.hosts):
            found.results[probe.probe_id] = replace(result, measurements=(), outcome=Outcome.SKIPPED, reason="gate")
    return found


def test_a_leaf_that_other_hosts_passed_through_is_not_taken_for_a_port_that_is_down() -> None:
    (suspect,) = with_down_ports("gpu007").verdict.suspects
    assert (suspect.component, suspect.ambiguous_with) == ("gpu007/mlx5_1:port", ())
    assert suspect.confidence > 0.8


def test_two_ports_that_are_down_are_two_and_not_their_leaf() -> None:
    assert with_down_ports("gpu007", "gpu009").named == ["gpu007/mlx5_1:port", "gpu009/mlx5_1:port"]
