"""Ways through the fabric that each connection draws anew, as measured in the box of six hosts (docs/lab.md)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.measured_rack import dgx_platform, one_number
from benchmarks.pair_fabric import PairState, next_round
from fabric.judge.locate.candidates import CORES, SPINES
from fabric.judge.locate.pairs.components import BUNDLES
from fabric.judge.locate.pairs.findings import suspects_of
from fabric.judge.locate.pairs.fitted import TWICE, Fitted, fit
from fabric.judge.locate.pairs.further_rounds import draws_of
from fabric.judge.locate.pairs.rounds import further_round, to_settle
from fabric.judge.locate.pairs.samples import PairSamples, pods_of, shares_above
from fabric.judge.locate.structure import UNKNOWN
from fabric.judge.verdict.conclude import conclude
from fabric.judge.verdict.probes import Judge
from fabric.model.diagnosis import PairTest
from fabric.model.outcome import Outcome
from fabric.model.probe import FailureKind, ProbeResult
from fabric.model.scenario import JudgeSettings
from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.model.verdict import Baseline, Limit, Verdict
from fabric.probes.pairwise import PairwiseSpec, planes_of

GOOD_GBPS, DEAD = 0.0956, 0.0
LIMITS = (Limit("pairwise", 0.085, "the box shapes every port"),)


def box(hosts: int = 6) -> Topology:
    """Half of the hosts under each of two leaves, two spines, RoCE."""
    platform = dgx_platform(parts=2, line_rate_gbps=0.1)
    platform = replace(platform, rnics=platform.rnics[:1])
    leaf_of = {f"h{n}": "l1" if n <= hosts // 2 else "l2" for n in range(1, hosts + 1)}
    made = {name: Host(name, platform, name, None, (leaf,)) for name, leaf in leaf_of.items()}
    switches = {name: Switch(name, "leaf") for name in ("l1", "l2")}
    switches |= {name: Switch(name, "spine") for name in ("s1", "s2")}
    return Topology(made, switches, (Uplinks(("l1", "l2"), ("s1", "s2"), 1, 0.1),))


def concluded(pairs: str, topology: Topology | None = None, *, queue_pairs: int = 2) -> Verdict:
    """The verdict on pairs such as ``h1>h2``, in their order, each ``=`` what it measured (Gb/s; 0: status 12)."""
    topology = topology or box()
    (plane,) = planes_of(topology.hosts, topology)
    probes, results = [], {}
    for number, text in enumerate(pairs.split()):
        pair, _, gbps = text.partition("=")
        a, b = pair.split(">")
        test = PairTest(a, b)
        (probe,) = PairwiseSpec(queue_pairs=queue_pairs).probes_of(
            test, plane, phase="pairs", topology=topology, number=number // 3, reverse=False
        )
        value = float(gbps or GOOD_GBPS) * (1 + 0.001 * (number % 3 - 1))
        name = probe.probe_id
        results[name] = one_number(name, value, at_s=float(number))
        if value == DEAD:
            reason = "status 12: retries exceeded"
            results[name] = ProbeResult(
                name, 1, (), Outcome.FAIL, reason, number, number + 1.0, failure=FailureKind.RETRIES_EXCEEDED
            )
        probes.append(probe)
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "box", LIMITS)}, JudgeSettings(marginal=0.0), topology)
    return conclude(probes, results, topology=topology, judge=judge)


GREY_TWO_QUEUE_PAIRS = "h1>h2 h4>h5 h3>h6=0 h5>h1=0 h6>h2 h4>h3=0 h1>h6 h2>h4 h3>h5=0 h5>h1"
GREY_ONE_QUEUE_PAIR = "h1>h2 h4>h5 h3>h6 h5>h1=0 h6>h2=0 h4>h3 h1>h6 h2>h4 h3>h5=0 h5>h1 h6>h4"
SLOW_UPLINK = (
    "h1>h2 h4>h5 h3>h6 h5>h1=0.0191 h6>h2=0.0191 h4>h3 h1>h6 h2>h4=0.0191 h3>h5=0.0191 h1>h4 h1>h3 h5>h6 h2>h3 h4>h6"
)
LOSSY_HOST = "h1>h2=0.0169 h4>h5 h3>h6 h5>h1 h6>h2 h4>h3 h1>h6=0.0084 h2>h4 h3>h5 h1>h3=0.0143 h2>h3 h4>h6 h3>h1"
TWO_SLOW_HOSTS = "h1>h2=0.0287 h4>h5 h3>h6 h5>h1 h6>h2 h4>h3=0.0383 h1>h6=0.0287 h2>h4 h3>h5 h2>h3=0.0382 h4>h6"
EVERY_DRAW_LOST = "h3>h2 h5>h6 h5>h1=0 h2>h6=0 h3>h4=0 h4>h2=0 h6>h5 h1>h3 h2>h1 h1>h2 h3>h2 h3>h5=0 h4>h3=0 h5>h2=0"


@pytest.mark.slow
@pytest.mark.parametrize(
    "pairs",
    [GREY_TWO_QUEUE_PAIRS, GREY_ONE_QUEUE_PAIR, SLOW_UPLINK, EVERY_DRAW_LOST],
    ids=["2qp", "1qp", "slow", "all"],
)
def test_what_some_pairs_across_leaves_draw_is_above_the_leaves(pairs: str) -> None:
    """With two leaves the uplinks of either explain as much as a spine; no host and no leaf is blamed."""
    (suspect,) = concluded(pairs).suspects
    assert (suspect.component, suspect.outcome) == ("spines", Outcome.FAIL)
    assert {"l1:uplinks", "l2:uplinks"} <= set(suspect.ambiguous_with)


def test_a_host_that_is_slow_under_its_leaf_too_is_named() -> None:
    (suspect,) = concluded(LOSSY_HOST).suspects
    assert (suspect.component, suspect.outcome) == ("h1/mlx5_0:tx", Outcome.FAIL)


def test_two_hosts_that_were_slow_twice_each_are_tested_again() -> None:
    verdict = concluded(TWO_SLOW_HOSTS)
    assert sorted(suspect.component for suspect in verdict.suspects) == ["h1/mlx5_0:tx", "h3/mlx5_0:rx"]
    assert {suspect.outcome for suspect in verdict.suspects} == {Outcome.INCONCLUSIVE}
    assert all(any(TWICE in text for text in suspect.evidence) for suspect in verdict.suspects)


@pytest.mark.parametrize("lost", ["0", "0.0191"])
def test_a_host_that_only_drew_badly_is_no_fault_yet(lost: str) -> None:
    """All its pairs across leaves are bad, and under its leaf it is not measured."""
    pairs = "h1>h3 h6>h5 h4>h2=X h5>h4 h2>h6=X h2>h4=X h1>h6 h6>h3 h5>h6 h3>h1".replace("X", lost)
    verdict = concluded(pairs)
    assert not [suspect for suspect in verdict.suspects if suspect.outcome is Outcome.FAIL and suspect.hosts]
    assert verdict.outcome is not Outcome.PASS


def one_of_eight(elsewhere: int, *, known: bool) -> Fitted:
    """
    Of 54 samples across four leaves with eight ways six are slow, one in nine, *elsewhere* those that pass leaf 0 by.

    *known*: the inventory says how many ways there are.
    """
    random, leaf = np.random.default_rng(5), np.arange(16) // 4
    a, b = np.concatenate([random.permutation(16).reshape(-1, 2) for _ in range(8)]).T
    at = (leaf[a] == 0) | (leaf[b] == 0)
    gbps = 395 * np.exp(0.003 * random.standard_normal(len(a)))
    for of, count in ((at, 6 - elsewhere), (~at, elsewhere)):
        mine = np.flatnonzero((leaf[a] != leaf[b]) & of)
        gbps[mine[np.linspace(0, len(mine) - 1, count).round().astype(np.int64)]] *= 0.5
    leaves, hosts = tuple(f"leaf{n}" for n in range(4)), tuple(f"h{n}" for n in range(16))
    shares = dict.fromkeys((*leaves, SPINES), 1 / 8) if known else {}
    via = np.full(len(a), UNKNOWN)
    return fit(PairSamples(hosts, a, b, gbps, leaves, leaf, (), via, directed=True, placed=True, shares=shares))


@pytest.mark.parametrize(("known", "most"), [(False, 0.985), (True, 0.93)], ids=["any share", "one of eight"])
def test_a_spine_that_by_chance_only_pairs_of_one_leaf_drew_is_not_ruled_out(most: float, *, known: bool) -> None:
    """One in nine samples shows it: that is no less likely of one of eight spines than of one of eight uplinks."""
    fitted = one_of_eight(0, known=known)
    (found,) = fitted.blamed
    assert {fitted.components.names[one] for one in (found.component, *found.rivals)} == {"leaf0:uplinks", "spines"}
    assert found.confidence < most


@pytest.mark.parametrize("known", [False, True], ids=["any share", "one of eight"])
def test_one_pair_elsewhere_says_that_it_is_a_spine(*, known: bool) -> None:
    fitted = one_of_eight(1, known=known)
    (found,) = fitted.blamed
    assert fitted.components.names[found.component] == "spines"
    assert found.confidence > 0.98


def test_how_many_ways_there_are_says_in_which_share_of_the_samples_one_shows() -> None:
    """Two cables to each of four spines; a single way is not drawn, and of a leaf without uplinks nothing is known."""
    topology = replace(box(), uplinks=(Uplinks(("l1", "l2"), ("s1", "s2", "s3", "s4"), 2, 0.1),))
    assert shares_above(("l1", "l2"), topology) == {"l1": 1 / 8, "l2": 1 / 8, SPINES: 1 / 4}
    single = replace(topology, uplinks=(Uplinks(("l1", "l2"), ("s1",), 1, 0.1),))
    assert shares_above(("l1", "l2"), single) == shares_above(("l3",), topology) == {}


ONE_WAY = (
    "h1>h2=0.0956 h4>h5=0.0956 h3>h6=0.0952 h5>h1=0.0192 h6>h2=0.0193 h4>h3=0.0948 h1>h6=0.0953 h2>h4=0.0957 "
    "h3>h5=0.0900 h5>h6=0.0909 h3>h1=0.0919 h4>h2=0.0917 h6>h4=0.0884 h5>h1=0.0193 h2>h5=0.0918 h4>h1=0.0905 "
    "h6>h3=0.0900 h6>h3=0.0938 h2>h4=0.0918 h5>h2=0.0934 h4>h1=0.0924 h6>h3=0.0186 h5>h3=0.0189 h2>h4=0.0956 "
    "h1>h6=0.0664"
)
"""Measured in the box: one direction of a cable from l2 to one of two spines at a fifth of its rate."""


FEW_DRAWS = (
    "h1>h2=0.0950 h4>h5=0.0953 h3>h6=0.0956 h5>h1=0.0955 h6>h2=0.0957 h4>h3=0.0953 h1>h6=0.0955 h2>h4=0.0955 "
    "h3>h5=0.0972 h4>h1=0.0192 h5>h2=0.0959 h3>h1=0.0935 h2>h4=0.0953 h3>h4=0.0944 h2>h5=0.0945 h1>h6=0.0925 "
    "h4>h3=0.0943 h5>h2=0.0194 h6>h1=0.0914 h3>h4=0.0956 h2>h5=0.0948 h4>h3=0.0958 h5>h2=0.0953 h6>h5=0.0953 "
    "h3>h4=0.0970 h4>h3=0.0190 h5>h2=0.0954 h3>h4=0.0954 h2>h5=0.0942"
)
"""The same, and by chance only three of eleven that l2 sent drew that cable."""


@pytest.mark.parametrize("pairs", [ONE_WAY, FEW_DRAWS], ids=["half", "few"])
def test_a_cable_that_is_bad_in_one_direction_shows_in_what_one_leaf_sends(pairs: str) -> None:
    """Of two leaves what one sends up is what the other receives: which of the two cables is not known."""
    (suspect,) = concluded(pairs, queue_pairs=1).suspects
    assert (suspect.component, suspect.outcome) == ("spines", Outcome.FAIL)
    assert {"l1:uplinks", "l2:uplinks"} == set(suspect.ambiguous_with)


LUCKY = (
    "h1>h2 h3>h4 h5>h6 h7>h8 h9>h10 h11>h12 h10>h5 h11>h6 h12>h7 h9>h8=X h1>h11=X h2>h12=X h3>h9 h4>h10 h5>h4 h6>h3 "
    "h9>h7 h10>h8 h2>h11 h5>h3 h6>h4 h10>h7 h11>h8=X"
)
"""A slow spine over three leaves of four hosts; by chance all four pairs of the first two leaves drew the other one."""


def state_of(pairs: str, *, draws: int = 0) -> PairState:
    """What is known after these pairs."""
    leaves = {f"l{n + 1}": tuple(f"h{4 * n + at}" for at in range(1, 5)) for n in range(3)}
    tests = [text.partition("=") for text in pairs.replace("X", "0.0198").split()]
    results = tuple((PairTest(*pair.split(">")), float(gbps or GOOD_GBPS)) for pair, _, gbps in tests)
    return PairState(leaves, rounds=5, results=results, directed=True, most_rounds=16, draws=draws)


def test_a_spine_is_told_from_the_uplinks_of_a_leaf_by_pairs_that_leave_those_out() -> None:
    """All that is slow is on l3 as well: only pairs of l1 and l2 tell the two apart."""
    tests = next_round(state_of(LUCKY))
    first, second = ({f"h{n}" for n in range(least, least + 4)} for least in (1, 5))
    assert any({test.a, test.b} & first and {test.a, test.b} & second for test in tests), tests


@pytest.mark.parametrize(("dip", "further"), [(0.98, False), (0.94, True)], ids=["2 %", "6 %"])
def test_a_dip_that_nobody_would_be_blamed_for_is_no_reason_to_measure_on(dip: float, *, further: bool) -> None:
    """Of a way that was drawn, and less than the floor: whatever it drew is as good as others."""
    pairs = LUCKY.replace("=X", "").replace("h10>h5", f"h10>h5={GOOD_GBPS * dip:.5f}")
    fitted = fit(state_of(pairs).samples())
    assert any(fitted.components.kinds[one] in BUNDLES for one in to_settle(fitted)) is further


@pytest.mark.parametrize("draws", [0, 7])
def test_each_leaf_draws_until_all_of_its_uplinks_are_likely_crossed(draws: int) -> None:
    """Both ways; where switches do not draw (0) a good fleet needs no more than that each host sends and receives."""
    state, tests = state_of(LUCKY.replace("=X", ""), draws=draws), None
    for _ in range(9):
        tests = next_round(state)
        state = state.with_results((test, GOOD_GBPS) for test in tests)
    ways = [[(int(host[1:]) - 1) // 4 for host in (test.a, test.b)] for test, _ in state.results]
    least = min(sum(way[end] == leaf and way[0] != way[1] for way in ways) for end in (0, 1) for leaf in range(3))
    assert (least >= 7) is (draws == 7), ways
    assert tests == ()


@pytest.mark.parametrize(("cables", "draws"), [(1, 7), (2, 11), (6, 35)])
def test_the_more_uplinks_a_leaf_has_the_more_ways_are_drawn(cables: int, draws: int) -> None:
    """To two spines; (1 - 1/12) ** 35 < 0.05."""
    topology = replace(box(), uplinks=(Uplinks(("l1", "l2"), ("s1", "s2"), cables, 100.0),))
    (plane,) = planes_of(tuple(topology.hosts), topology)
    assert draws_of(plane, topology) == draws


TWO_OF_SEVEN = (
    "h1>h2=0.0954 h3>h4=0.0951 h5>h6=0.0989 h7>h8=0.0953 h9>h10=0.0983 h11>h12=0.0954 h10>h5=0.0958 h2>h1=0.0961 "
    "h4>h3=0.0953 h6>h7=0.0960 h9>h8=0.0965 h11>h6=0.0953 h12>h7=0.0963 h1>h11=0.0189 h2>h12=0.0955 h3>h9=0.0950 "
    "h4>h10=0.0958 h10>h11=0.0960 h1>h3=0.0955 h5>h4=0.0950 h6>h2=0.0962 h9>h7=0.0961 h12>h8=0.0953 h9>h11=0.0954 "
    "h5>h3=0.0958 h6>h4=0.0955 h8>h10=0.0956 h7>h12=0.0962 h2>h5=0.0949 h3>h6=0.0190 h10>h7=0.0952 h11>h8=0.0955"
)
"""One way of a cable of l1 and s1, which two of the seven pairs that l1 sent drew; one went to l2 and one to l3."""


def test_of_all_that_slow_pairs_may_have_drawn_the_likeliest_is_tested_first() -> None:
    """Both left l1: before the spines, and before the uplinks of l2 and l3, which one of them came down each."""
    fitted = fit(state_of(TWO_OF_SEVEN).samples())
    parts = fitted.components
    drawn = [one for one in to_settle(fitted) if parts.kinds[one] in BUNDLES]
    assert [parts.names[one] for one in drawn[:2]] == ["l1:uplinks", "l1:uplinks"]
    assert parts.kinds[drawn[0]] == "uplinks_up"


@pytest.mark.parametrize(("times", "expected"), [(2, Outcome.INCONCLUSIVE), (4, Outcome.FAIL)])
def test_two_that_were_slow_with_each_other_twice_are_measured_again(times: int, expected: Outcome) -> None:
    """As two hosts of the box were, while its machine was busy: 4 % low with each other, and good with others."""
    others = f"{LUCKY.replace('=X', '')} h1>h9 h1>h4 h2>h3 h2>h10 h9>h2 h3>h2 h4>h1 h12>h1".split()[1:]
    well = (f"{pair}={GOOD_GBPS * (1 + 0.001 * ((7 * n) % 5 - 2)):.5f}" for n, pair in enumerate(others))
    low = (f"h1>h2={GOOD_GBPS * (0.96 + 0.001 * n):.5f}" for n in range(times))
    (found,) = suspects_of(fit(state_of(" ".join((*well, *low))).samples()))
    assert (found.component, found.outcome) == ("h1--h2", expected)


@pytest.mark.parametrize("sends", [True, False])
def test_a_host_that_is_slow_across_its_leaf_is_tried_under_it_the_way_it_is_slow(sends: bool) -> None:
    """Its only neighbour sent to it before, which says nothing of what it sends."""
    leaves = {"l1": ("h1", "h2"), "l2": ("h3", "h4")}
    pairs = ["h1>h2", "h3>h4", "h2>h3=X", "h2>h4=X", "h2>h3=X", "h4>h1", "h3>h1", "h1>h4", "h4>h3"]
    rows = [text.replace("X", "0.0198").partition("=") for text in pairs]
    ways = [(pair.split(">")[:: 1 if sends else -1], float(gbps or GOOD_GBPS)) for pair, _, gbps in rows]
    results = tuple((PairTest(*ends), gbps) for ends, gbps in ways)
    tests = next_round(PairState(leaves, rounds=5, results=results, directed=True))
    assert (("h2", "h1") if sends else ("h1", "h2")) in {(test.a, test.b) for test in tests}


def above_four_leaves(slow: str, pods: dict[str, str]) -> list[str]:
    """
    What is named where 128 pairs of two pods of two leaves draw one of eight ways, and one of eight is slow.

    It is on the way of pairs from pod to pod (``cores``), or of all that leave a leaf of the first pod (``p0``).
    """
    random, leaf = np.random.default_rng(8), np.arange(16) // 4
    a, b = np.concatenate([random.permutation(16).reshape(-1, 2) for _ in range(16)]).T
    first = (leaf[a] < 2) | (leaf[b] < 2)
    mine = leaf[a] // 2 != leaf[b] // 2 if slow == CORES else (leaf[a] != leaf[b]) & first
    bad = np.flatnonzero(mine)[::8]
    gbps = 395 * np.exp(0.003 * random.standard_normal(len(a)))
    gbps[bad] *= 0.6
    leaves, hosts = ("l0", "l1", "l2", "l3"), tuple(f"h{n:02}" for n in range(16))
    via, shares = np.full(len(a), UNKNOWN), dict.fromkeys((*leaves, SPINES, CORES), 1 / 8)
    samples = PairSamples(
        hosts, a, b, gbps, leaves, leaf, (), via, directed=True, placed=True, shares=shares, pods=pods
    )
    return [one.component for one in suspects_of(fit(samples))]


PODS = {"l0": "p0", "l1": "p0", "l2": "p1", "l3": "p1"}


@pytest.mark.parametrize("slow", [CORES, "p0"])
def test_cores_are_told_from_the_spines_of_a_pod_by_pairs_that_stay_in_it(slow: str) -> None:
    assert above_four_leaves(slow, PODS) == [slow]


def test_where_pods_are_not_known_a_core_is_above_the_leaves() -> None:
    assert above_four_leaves(CORES, {}) == [SPINES]


def test_pods_are_those_of_leaves_with_cores_above_them() -> None:
    switches = {name: Switch(name, tier) for name, tier in (*((one, "leaf") for one in PODS), ("c0", "core"))}
    switches |= {name: Switch(name, "spine") for name in ("p0", "p1")}
    uplinks = [Uplinks((leaf,), (pod,), 1, 400.0) for leaf, pod in PODS.items()]
    hosts = {leaf: Host(leaf, dgx_platform(), leaf, None, (leaf,)) for leaf in PODS}
    two = Topology(hosts, switches, (*uplinks,))
    three = Topology(hosts, switches, (*uplinks, Uplinks(("p0", "p1"), ("c0",), 1, 400.0)))
    assert pods_of(tuple(PODS), three) == PODS  # each with one spine of that name
    assert pods_of(tuple(PODS), two) == pods_of(("l0", "elsewhere"), three) == {}


def over_ways(*more: tuple[int, int, int, float], static: bool) -> Fitted:
    """
    Of three rounds of 16 hosts one way, h0 to h4 with flow label 2, was slow; *static*: over a spine that is known.

    *more* samples: sender, receiver, flow label, and what share of the level was measured.
    """
    leaf, random = np.arange(16) // 4, np.random.default_rng(8)
    rows = [(a, (a + 4 * turn) % 16, turn + 1, 1.0) for turn in (1, 2, 3) for a in range(16)]
    rows = [(a, b, label, 0.5 if (a, b, label) == (0, 4, 2) else 1.0) for a, b, label, _ in rows] + list(more)
    a, b, label = (np.array([row[place] for row in rows]) for place in (0, 1, 2))
    gbps = 395 * np.array([row[3] for row in rows]) * np.exp(0.002 * random.standard_normal(len(rows)))
    leaves, hosts = tuple(f"leaf{n}" for n in range(4)), tuple(f"h{n}" for n in range(16))
    drawn = PairSamples(hosts, a, b, gbps, leaves, leaf, (), np.full(len(a), UNKNOWN), directed=True, placed=True)
    return fit(replace(drawn, spines=("s0", "s1"), via=b % 2) if static else replace(drawn, label=label))


@pytest.mark.parametrize("static", [False, True], ids=["drawn", "static"])
@pytest.mark.parametrize(
    ("more", "again"),
    [((), True), (((0, 4, 2, 0.5),), True), (((0, 4, 2, 1.0),), False), (2 * ((0, 4, 2, 0.5),), False)],
    ids=["once", "twice", "good again", "often enough"],
)
def test_a_slow_way_is_taken_again(more: tuple[tuple[int, int, int, float], ...], *, again: bool, static: bool) -> None:
    """Until it was good once, or slow so often that others' traffic is no reason; a drawn one by its label."""
    tests = further_round(over_ways(*more, static=static), left=6, draws=0)
    found = [test for test in tests if test.why == "tells about the way it took"]
    same = PairTest("h0", "h4", "s0" if static else None, "tells about the way it took", None if static else 2)
    assert found == ([same] if again else [])


def with_slow_hosts(*slow: int) -> Fitted:
    """Four rounds of 16 hosts under four leaves; the *slow* ones reach 85 % of the level, whoever they meet."""
    leaf, random = np.arange(16) // 4, np.random.default_rng(9)
    ends = np.array([(host, (host + 4 * turn) % 16) for turn in (1, 2, 3) for host in range(16)])
    ends = np.concatenate([ends, [(host, host ^ 1) for host in range(0, 16, 2)]])
    loss = np.where(np.isin(ends, slow).any(axis=1), 0.85, 1.0)
    gbps, (a, b) = 395 * loss * np.exp(0.002 * random.standard_normal(len(ends))), ends.T
    leaves, hosts = tuple(f"leaf{n}" for n in range(4)), tuple(f"h{n}" for n in range(16))
    return fit(PairSamples(hosts, a, b, gbps, leaves, leaf, (), np.full(len(a), UNKNOWN), directed=True, placed=True))


@pytest.mark.parametrize(("slow", "met"), [((1, 6), False), ((1, 6, 11), True)], ids=["two", "three"])
def test_three_blamed_hosts_are_measured_with_each_other(slow: tuple[int, ...], *, met: bool) -> None:
    """They may be a class: then they reach among themselves what is usual there."""
    tests = further_round(with_slow_hosts(*slow), left=6, draws=0)
    names = {f"h{number}" for number in slow}
    assert any({test.a, test.b} <= names for test in tests) == met
