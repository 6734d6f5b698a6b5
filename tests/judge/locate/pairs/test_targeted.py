"""Tests that tell suspects apart, on two levels and on three, and what is not cleared yet."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.pair_fabric import PairState, next_round
from fabric.judge.locate.pairs.fitted import Fitted, fit
from fabric.judge.locate.pairs.rounds import not_crossed, to_settle
from fabric.judge.locate.pairs.run_planes import routes_of
from fabric.judge.locate.pairs.samples import OVER
from fabric.judge.locate.structure import UNKNOWN
from fabric.model.diagnosis import PairTest
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.probes import routes
from tests.judge.locate.pairs.test_findings import measured
from tests.probes.test_pairwise import pod

HOSTS = {f"h{n:02d}": f"leaf{n // 16}" for n in range(64)}
LEAVES = {leaf: tuple(h for h in HOSTS if HOSTS[h] == leaf) for leaf in dict.fromkeys(HOSTS.values())}
# One host under each leaf is reached over each spine, as a leaf with as many uplinks as hosts has it.
ROUTES = {(leaf, host): f"spine{int(host[1:]) % 16:02d}" for leaf in LEAVES for host in HOSTS if HOSTS[host] != leaf}
SPINES = tuple(sorted(set(ROUTES.values())))


def way_of(test: PairTest) -> set[str]:
    over = ROUTES.get((HOSTS[test.a], test.b))
    return {f"{HOSTS[test.a]}->{over}", f"{over}->{HOSTS[test.b]}"} if over else set()


def settled(slow: set[str], rounds: int = 10) -> PairState:
    """After every round that is asked for."""
    state = PairState(LEAVES, SPINES, routes=ROUTES, directed=True, most_rounds=rounds)
    for number in range(40):
        tests = next_round(state)
        if not tests:
            return state
        told = [replace(test, via=ROUTES.get((HOSTS[test.a], test.b))) for test in tests]
        jitter = (0.2 * ((7 * number + 3 * n) % 5) for n in range(len(told)))
        state = state.with_results(
            (test, (240.0 if way_of(test) & slow else 396.0) + more) for test, more in zip(told, jitter, strict=True)
        )
    raise AssertionError("it never ends")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("leaf", "other", "spine"), [("leaf1", "leaf2", "spine08"), ("leaf0", "leaf3", "spine03")], ids=["8", "3"]
)
def test_two_uplinks_of_a_spine_that_are_slow_in_one_direction_each_are_both_named_or_the_spine(
    leaf: str, other: str, spine: str
) -> None:
    """
    Each is the other uplink of the only tests that told: in the direction that is not slow it clears the other.

    While every test over the spine crosses one of them, the spine is by far the shorter description.
    """
    state = settled({f"{leaf}->{spine}", f"{spine}->{other}"})
    fitted = fit(state.samples())
    named = {(fitted.components.kinds[b.component], fitted.components.names[b.component]) for b in fitted.blamed}
    assert named in ({("link_up", f"{leaf}--{spine}"), ("link_down", f"{other}--{spine}")}, {("spine", spine)})
    assert to_settle(fitted) == []


def test_rounds_end_where_they_must_however_much_is_open() -> None:
    assert settled({f"leaf{n}->spine03" for n in range(4)} | {"spine03->leaf1"}, rounds=5).rounds <= 5


WAYS = {(f"leaf{leaf}", f"h{host}"): f"spine{host % 2}" for leaf in range(4) for host in range(16) if host // 4 != leaf}


def without(samples, drop):
    """Fewer samples."""
    keep = ~drop
    return replace(samples, a=samples.a[keep], b=samples.b[keep], gbps=samples.gbps[keep], via=samples.via[keep])


def good(**slow):
    return measured(lambda a, b, la, lb, s: 0.3 * (a == slow.get("sender") or b == slow.get("receiver")), one_way=True)


def kinds(samples, routes):
    fitted = fit(replace(samples, routes=routes))
    return [(fitted.components.kinds[c], fitted.components.names[c]) for c in not_crossed(fitted)]


def test_all_pairs_both_ways_clear_everything():
    assert kinds(good(), WAYS) == []


def test_an_uplink_that_nobody_sent_over_is_not_cleared_in_that_direction():
    samples = good()
    drop = (samples.leaf[samples.a] == 2) & (samples.via == 1)
    assert kinds(without(samples, drop), WAYS) == [("link_up", "leaf2--spine1")]


def test_an_uplink_that_no_route_leads_over_is_not_asked_for():
    samples = good()
    drop = (samples.leaf[samples.a] == 2) & (samples.via == 1)
    other = {key: ("spine0" if key[0] == "leaf2" else spine) for key, spine in WAYS.items()}
    assert kinds(without(samples, drop), other) == []
    assert kinds(without(samples, drop), {}) == []


def test_a_host_that_never_sent_is_not_cleared_in_that_direction():
    samples = good()
    assert kinds(without(samples, samples.a == 5), WAYS) == [("host_tx", "h5:tx")]


def test_what_a_bad_part_hides_is_not_asked_for():
    """Nothing that is sent by h5 is good, whichever uplink it takes; h5 is bad, and that is all."""
    assert kinds(good(sender=5), WAYS) == []


def test_uplinks_to_a_bad_spine_are_not_asked_for():
    samples = measured(lambda a, b, la, lb, s: 0.3 * (s == 1), one_way=True)
    assert kinds(samples, WAYS) == []


def test_an_uplink_to_a_bad_host_alone_is_not_asked_for():
    """The spine sends down that cable to nobody else, and what it sends is slow for the host's sake."""
    samples = measured(lambda a, b, la, lb, s: 0.3 * (5 in (a, b)), one_way=True)
    into = (samples.leaf[samples.b] == 1) & (samples.via == 1) & (samples.b != 5)
    routes = {key: ("spine1" if key[1] == "h5" else "spine0") for key in WAYS}
    assert kinds(without(samples, into), routes) == []
    assert ("link_down", "leaf1--spine1") in kinds(without(samples, into), WAYS)


def test_samples_that_do_not_say_who_sent_have_no_directions():
    samples = measured(lambda a, b, la, lb, s: 0.0)
    assert kinds(without(samples, samples.via == 1), WAYS) == []
    assert UNKNOWN not in samples.via[samples.crosses]


PODS = {f"h{n:02d}": f"p{n // 12}-leaf{n // 4 % 3}" for n in range(36)}
POD_LEAVES = {leaf: tuple(h for h in PODS if PODS[h] == leaf) for leaf in dict.fromkeys(PODS.values())}


def way(leaf: str, host: str) -> str:
    """Static routes by destination: two spines a pod, two cores above each spine."""
    spine, core = int(host[1:]) % 2, int(host[1:]) // 2 % 2
    up = f"{leaf[:2]}-spine{spine}"
    there = PODS[host][:2]
    return up if leaf.startswith(there) else OVER.join((up, f"core{spine}{core}", f"{there}-spine{spine}"))


POD_ROUTES = {(leaf, host): way(leaf, host) for leaf in POD_LEAVES for host in PODS if PODS[host] != leaf}


def crossed(a: str, b: str) -> list[str]:
    """Everything on the way."""
    if PODS[a] == PODS[b]:
        return [a, b, PODS[a]]
    steps = [PODS[a], *way(PODS[a], b).split(OVER), PODS[b]]
    middle = len(steps) // 2
    cables = [
        f"{one}--{other}" if place < middle else f"{other}--{one}" for place, (one, other) in enumerate(pairwise(steps))
    ]
    return [a, b, *steps, *cables]


def settled_on_three(bad: str) -> Fitted:
    """After every round that is asked for."""
    state = PairState(POD_LEAVES, tuple(sorted(set(POD_ROUTES.values()))), routes=POD_ROUTES, directed=True)
    random = np.random.default_rng(3)
    for _ in range(40):
        tests = next_round(state)
        if not tests:
            return fit(state.samples())
        told = [replace(test, via=POD_ROUTES.get((PODS[test.a], test.b))) for test in tests]
        state = state.with_results(
            (test, (250.0 if bad in crossed(test.a, test.b) else 395.0) * float(random.normal(1, 0.003)))
            for test in told
        )
    raise AssertionError("it never ends")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        ("p1-spine0", "spine"),
        ("core01", "core"),
        ("p0-leaf1--p0-spine1", "link"),
        ("p2-spine1--core10", "link"),
        ("p1-leaf2", "leaf"),
        ("h07", "host"),
    ],
)
def test_each_part_is_named_alone(bad: str, kind: str) -> None:
    fitted = settled_on_three(bad)
    found = [(fitted.components.names[b.component], fitted.components.kinds[b.component]) for b in fitted.blamed]
    assert found == [(bad, kind)]
    assert fitted.blamed[0].certain


def test_only_cables_that_are_on_a_way_are_in_the_model() -> None:
    fitted = settled_on_three("h00")
    names = {
        name for name, kind in zip(fitted.components.names, fitted.components.kinds, strict=True) if kind == "link"
    }
    assert names == {part for a in PODS for b in PODS if a != b for part in crossed(a, b) if "--" in part}


def _read(plane: str, lid: int, leaf: str, rows: dict[str, int]) -> tuple[Probe, ProbeResult]:
    """What one table, or who is where, was read as."""
    name = f"p/x/routes.{plane}.{leaf}"
    probe = Probe(name, routes.KIND, "p", ("gpu001",), (), 1.0, {"plane": plane, "lid": lid, "leaf": leaf})
    found = tuple(Measurement(name, metric, float(value), "number") for metric, value in rows.items())
    return probe, ProbeResult(name, 1, found, Outcome.PASS, "", 0.0, 1.0)


def _tables(topology: Topology, *, core_joins: str) -> list[tuple[Probe, ProbeResult]]:
    host = topology.hosts["gpu001"]
    leaf, there = host.leaves[0], next(h.leaves[0] for h in topology.hosts.values() if h.leaves[0] != host.leaves[0])
    far = next(name for name, h in topology.hosts.items() if h.leaves[0] == there)
    who = {
        "lid gpu001/mlx5_0": 8,
        f"lid {far}/mlx5_0": 9,
        f"peer {leaf}:5 s0": 5,
        f"peer {there}:5 s1": 5,
        "peer s0:7 c0": 7,
    }
    who[f"peer {core_joins}:7 c0"] = 7
    plane = "rail0 400G"
    return [_read(plane, 0, "", who), _read(plane, 1, leaf, {"route 9": 5}), _read(plane, 2, "s0", {"route 9": 7})]


def test_a_way_is_put_together_from_the_tables_of_the_switches_going_up() -> None:
    topology = pod(2, 2)
    (found,) = routes_of(_tables(topology, core_joins="s1"), topology).values()
    assert list(found.values()) == ["s0>c0>s1"]


def test_a_way_that_is_not_known_to_its_end_is_not_guessed() -> None:
    """Where no switch joins the core with the other leaf, no cable is made up."""
    topology = pod(2, 2)
    (found,) = routes_of(_tables(topology, core_joins="s2"), topology).values()
    assert found == {}
