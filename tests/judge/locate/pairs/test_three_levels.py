"""Three levels: a way leads over a spine, a core and another spine, and each of them and their cables can be bad."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fabric.judge.locate.pairs.fitted import Fitted, fit
from fabric.judge.locate.pairs.rounds import PairState, next_round
from fabric.judge.locate.pairs.run_planes import routes_of
from fabric.judge.locate.pairs.samples import OVER
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.probes import routes
from tests.probes.test_pairwise import pod

HOSTS = {f"h{n:02d}": f"p{n // 12}-leaf{n // 4 % 3}" for n in range(36)}
LEAVES = {leaf: tuple(h for h in HOSTS if HOSTS[h] == leaf) for leaf in dict.fromkeys(HOSTS.values())}


def way(leaf: str, host: str) -> str:
    """Static routes by destination: two spines a pod, two cores above each spine."""
    spine, core = int(host[1:]) % 2, int(host[1:]) // 2 % 2
    up = f"{leaf[:2]}-spine{spine}"
    there = HOSTS[host][:2]
    return up if leaf.startswith(there) else OVER.join((up, f"core{spine}{core}", f"{there}-spine{spine}"))


ROUTES = {(leaf, host): way(leaf, host) for leaf in LEAVES for host in HOSTS if HOSTS[host] != leaf}


def crossed(a: str, b: str) -> list[str]:
    """Everything on the way."""
    if HOSTS[a] == HOSTS[b]:
        return [a, b, HOSTS[a]]
    steps = [HOSTS[a], *way(HOSTS[a], b).split(OVER), HOSTS[b]]
    middle = len(steps) // 2
    cables = [
        f"{one}--{other}" if place < middle else f"{other}--{one}" for place, (one, other) in enumerate(pairwise(steps))
    ]
    return [a, b, *steps, *cables]


def settled(bad: str) -> Fitted:
    """After every round that is asked for."""
    state = PairState(LEAVES, tuple(sorted(set(ROUTES.values()))), routes=ROUTES, directed=True)
    random = np.random.default_rng(3)
    for _ in range(40):
        tests = next_round(state)
        if not tests:
            return fit(state.samples())
        told = [replace(test, via=ROUTES.get((HOSTS[test.a], test.b))) for test in tests]
        state = state.with_results(
            (test, (250.0 if bad in crossed(test.a, test.b) else 395.0) * float(random.normal(1, 0.003)))
            for test in told
        )
    raise AssertionError("it never ends")


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
    fitted = settled(bad)
    found = [(fitted.components.names[b.component], fitted.components.kinds[b.component]) for b in fitted.blamed]
    assert found == [(bad, kind)]
    assert fitted.blamed[0].certain


def test_only_cables_that_are_on_a_way_are_in_the_model() -> None:
    fitted = settled("h00")
    names = {
        name for name, kind in zip(fitted.components.names, fitted.components.kinds, strict=True) if kind == "link"
    }
    assert names == {part for a in HOSTS for b in HOSTS if a != b for part in crossed(a, b) if "--" in part}


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
