"""Slow, or lost, beside others on the same cable alone: no part is accused; what is bad alone, too, is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import pytest

from benchmarks.measured_rack import dgx_platform, judge_of, one_number
from fabric.judge.locate.concurrency import LOSSY, slowest_beside
from fabric.judge.verdict.conclude import conclude
from fabric.model.outcome import Outcome
from fabric.model.probe import FailureKind, Probe, ProbeResult
from fabric.model.topology import Host, Topology
from fabric.model.verdict import Limit, Verdict
from tests.probes.test_pairwise import expanded, pod

HOSTS = tuple(f"gpu{number:03}" for number in range(1, 13))
PAIRS = tuple(zip(HOSTS[::2], HOSTS[1::2], strict=True))
"""Who talks with whom when all do at once."""
ALONE = tuple(zip(HOSTS, (*HOSTS[1:], HOSTS[0]), strict=True))
"""Who did before, one after the other."""
HALL = pod(units=4, hosts=6, parts=2)
LIMITS = (Limit("pairwise", 384.0, "test"),)


def said(
    lost: Sequence[tuple[str, str]],
    *,
    link_layer: str = "ethernet",
    failure: FailureKind = FailureKind.RETRIES_EXCEEDED,
    bad_alone: Sequence[str] = (),
    at_once: bool = True,
) -> Verdict:
    """The verdict of a run in which these pairs *lost* their packets, where all were measured alone first."""
    platform = replace(dgx_platform("site"), link_layer=link_layer, traffic_class=0)
    topology = Topology({name: Host(name, platform, name, None, ()) for name in HOSTS}, {}, ())
    probes, results = [], {}
    for number, hosts in enumerate((*ALONE, *PAIRS)):
        load = number >= len(ALONE)
        name = f"{'load' if load else 'alone'}/{'+'.join(hosts)}/rings"
        bad = hosts in lost if load else not set(bad_alone).isdisjoint(hosts)
        began_s = 1000.0 + (0 if at_once else 10 * number) if load else 10.0 * number
        probes.append(Probe(name, "concurrent_rings", "load" if load else "alone", hosts, (), 5.0, {"series": "x"}))
        reason = "Got completion with status=12"
        gone = ProbeResult(name, 1, (), Outcome.FAIL, reason, began_s, began_s + 5, failure=failure)
        results[name] = gone if bad else one_number(name, 300.0, at_s=began_s, s=5.0)
    return conclude(probes, results, topology=topology, judge=judge_of(topology))


def test_pairs_that_are_lost_under_load_are_one_setting() -> None:
    """The class with its DSCP, all of their hosts, what to look at, and how many of those at the time."""
    (found,) = said(PAIRS[:4]).suspects
    assert (found.kind, found.outcome, found.component) == (LOSSY, Outcome.FAIL, "gpu[001-008]")
    assert "traffic class 0 (DSCP 0)" in found.evidence[0]
    assert "4 of 6 probes at the same time" in found.evidence[1]
    assert "fabric check" in found.next_step
    assert len(found.probes) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "told",
    [
        {"lost": PAIRS[:1]},
        {"lost": PAIRS[:4], "link_layer": "infiniband"},
        {"lost": PAIRS[:4], "failure": FailureKind.PORT_DOWN},
        {"lost": PAIRS[:4], "bad_alone": HOSTS[:8]},
        {"lost": PAIRS[:4], "at_once": False},
    ],
    ids=["one", "infiniband", "another failure", "bad alone, too", "one after the other"],
)
def test_what_may_be_the_hosts_stays_theirs(told: dict[str, object]) -> None:
    """One of them, no RoCE, not for lost packets, hosts that did badly before, or with nobody to wait for."""
    found = said(**told).suspects  # type: ignore[arg-type]
    assert found
    assert LOSSY not in {one.kind for one in found}


def run(slow: dict[str, float], *, colliding: bool = False, in_turn: bool = False) -> Verdict:
    """
    Six rounds of pairs; each host in *slow* keeps so much of its bandwidth.

    *colliding*: in each round across leaves the first two pairs share a cable. *in_turn*: one pair after the other.
    """
    probes = [p for p in expanded(HALL, rounds=6) if p.params["rail"] == 0]
    results: dict[str, ProbeResult] = {}
    for number, probe in enumerate(probes):
        round_ = int(str(probe.params["round"]))
        mine = [p for p in probes if p.params["round"] == round_ and _crosses(p)]
        kept = min(slow.get(host, 1.0) for host in probe.hosts)
        kept = 0.5 * kept if colliding and probe in mine[:2] else kept
        at_s = 10.0 * (number if in_turn else round_)
        noise = 0.002 * ((number * 7919) % 11 - 5) / 5
        results[probe.probe_id] = one_number(probe.probe_id, 392.0 * kept * (1 + noise), at_s=at_s, s=9.0)
    return conclude(probes, results, topology=HALL, judge=judge_of(HALL, limits=LIMITS))


def bad_uplink(kept: float) -> Verdict:
    """
    Six rounds of pairs; one or two of those of the first leaf draw a cable of it that keeps so much of its bandwidth.

    Two at once have half of it each.
    """
    probes = [p for p in expanded(HALL, rounds=6) if p.params["rail"] == 0]
    leaf = HALL.hosts[probes[0].hosts[0]].leaves[0]
    results: dict[str, ProbeResult] = {}
    for number, probe in enumerate(probes):
        round_ = int(str(probe.params["round"]))
        mine = [p for p in probes if p.params["round"] == round_ and _crosses(p)]
        mine = [p for p in mine if any(HALL.hosts[host].leaves[0] == leaf for host in p.hosts)]
        drew = mine[round_ % 3 :][: 1 + (round_ in (2, 4))]
        gbps = 392.0 * (kept / len(drew) if probe in drew else 1.0)
        noise = 0.002 * ((number * 7919) % 11 - 5) / 5
        results[probe.probe_id] = one_number(probe.probe_id, gbps * (1 + noise), at_s=10.0 * round_, s=9.0)
    return conclude(probes, results, topology=HALL, judge=judge_of(HALL, limits=LIMITS))


def _crosses(probe: Probe) -> bool:
    one, other = (HALL.hosts[host].leaves for host in probe.hosts)
    return one != other


def test_two_that_share_a_cable_are_congestion() -> None:
    """Half each, in every round, and no part is named; the verdict says what to do about it."""
    found = run({}, colliding=True)
    assert (found.outcome, found.suspects) == (Outcome.MARGINAL, ())
    (line,) = [text for text in map(str, found.reasons) if "congestion: " in text and "no part to swap" in text]
    assert "Adaptive routing or more queue pairs" in line


@pytest.mark.slow
def test_two_that_share_a_bad_cable_are_no_second_fault() -> None:
    """The cable is as bad as it is for those that had it alone."""
    (found,) = bad_uplink(0.42).suspects
    assert (found.component, found.outcome) == ("u0-leaf0:uplinks", Outcome.FAIL)
    assert "(-58.1%)" in found.evidence[1]


def test_those_that_were_alone_are_not_congested() -> None:
    """The same numbers one after the other are no congestion."""
    found = run({}, colliding=True, in_turn=True)
    assert not any("congestion: " in str(text) for text in found.reasons)


def test_a_bad_host_is_found_beside_collisions() -> None:
    """It is slow with everybody, beside slow ones or not."""
    found = run({"gpu009": 0.7}, colliding=True)
    assert [one.hosts for one in found.suspects if one.outcome is Outcome.FAIL] == [("gpu009",)]


def test_who_ran_meanwhile_on_ways_that_may_be_shared() -> None:
    """Only what leaves the same leaf, or comes down to it, at the same time."""
    probes = [p for p in expanded(HALL, rounds=2) if _crosses(p)]
    one = probes[0]
    other = next(p for p in probes[1:] if HALL.hosts[p.hosts[0]].leaves == HALL.hosts[one.hosts[0]].leaves)
    within = next(p for p in expanded(HALL, rounds=2) if not _crosses(p))
    at_s = {one.probe_id: 0.0, other.probe_id: 5.0, within.probe_id: 0.0}
    speed = {one.probe_id: 200.0, other.probe_id: 190.0, within.probe_id: 100.0}
    results = {name: one_number(name, speed[name], at_s=at, s=9.0) for name, at in at_s.items()}
    assert slowest_beside([one, other, within], results, HALL).tolist() == [190.0, 200.0, inf]
    later = {**results, other.probe_id: one_number(other.probe_id, 190.0, at_s=9.0)}
    assert slowest_beside([one, other, within], later, HALL).tolist() == [inf, inf, inf]


def test_whose_ways_tables_say_share_those_cables_alone() -> None:
    """Two up from one leaf at the same time over two spines are not in each other's way; over one they are."""
    one, other = [p for p in expanded(HALL, rounds=2) if _crosses(p)][:2]
    results = {p.probe_id: one_number(p.probe_id, 200.0, at_s=0.0, s=9.0) for p in (one, other)}
    apart = {one.probe_id: ("leaf0", "spine0", "leaf1"), other.probe_id: ("leaf0", "spine1", "leaf1")}
    assert slowest_beside([one, other], results, HALL, apart).tolist() == [inf, inf]
    same = {**apart, other.probe_id: ("leaf0", "spine0", "leaf2")}
    assert slowest_beside([one, other], results, HALL, same).tolist() == [200.0, 200.0]
    static = replace(HALL, routing="lft_random")
    assert slowest_beside([one, other], results, static, same).tolist() == [200.0, 200.0]
