"""What-if on the simulated network: names, regularity, and shares that agree with what is known of such networks."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.config import load_inventory
from fabric.sim.faults import LinkFault
from fabric.sim.net.links import link_state
from fabric.sim.net.named_clos import NamedClos, net_from_topology
from fabric.sim.what_if import PATTERNS, EngineResult, Question, flows_of, traffic, what_if
from tests.places import INVENTORY


@cache
def pod_64() -> NamedClos:
    """The shipped pod of 64 hosts."""
    return net_from_topology(load_inventory(INVENTORY / "pod-64.yaml").topology)


def ask(
    pattern: str = "pairs",
    *,
    order: str = "random",
    engines: tuple[str, ...] = ("ftree", "ecmp", "ar"),
    faults: tuple[LinkFault, ...] = (),
    link_layer: str = "infiniband",
    qps: int = 1,
) -> dict[str, EngineResult]:
    """The answer by engine, for every host of a network."""
    net = pod_64()
    question = Question(
        inventory="test",
        net=net,
        link_layer=link_layer,
        pattern=pattern,
        order=order,
        hosts=tuple(net.host_ids.values()),
        engines=engines,
        faults=faults,
        qps=qps,
    )
    return {result.engine: result for result in what_if(question).engines}


def slow_trunks(count: int = 16, factor: float = 0.25, *, seed: int = 0) -> LinkFault:
    """Some of the pod's cables between switches, drawn, slow in both directions."""
    drawn = np.random.default_rng(seed).choice(len(pod_64().trunks), size=count, replace=False)
    return LinkFault("some", "slow", factor, tuple(int(link) for link in pod_64().trunks[drawn].ravel()))


def lossy(loss: float = 1e-2) -> LinkFault:
    """One cable that drops packets at full speed."""
    return LinkFault("lossy", "loss", loss, pod_64().cables("su0-leaf3", "spine02")[0])


@given(
    pattern=st.sampled_from(PATTERNS),
    order=st.sampled_from(["sorted", "random"]),
    hosts=st.sets(st.integers(0, 63), min_size=2, max_size=12),
    seed=st.integers(0, 99),
)
def test_traffic_is_what_it_promises(pattern: str, order: str, hosts: set[int], seed: int) -> None:
    """As many flows as counted beforehand, never to oneself, only among the hosts asked for, each RNIC alike."""
    ids = np.array(sorted(hosts))
    src, dst, job = traffic(pattern, pod_64(), hosts=ids, order=order, seed=seed)
    assert len(src) == len(dst) == len(job) == flows_of(pattern, hosts=len(ids), rails=8)
    assert (src != dst).all()
    assert set(src // 8) | set(dst // 8) <= hosts
    assert (np.sort(src) == np.sort(dst)).all()
    if pattern == "pairs":
        assert all(len(set(src[job == number] // 8)) == 2 for number in set(job))


def test_slow_trunks_cost_static_routes_much_and_adaptive_routing_little() -> None:
    """16 of 512 cables at a quarter: ar keeps 0.9 of what it had, with a fraction of the spread (sign of Meta 5.2)."""
    found = ask(faults=(slow_trunks(),))
    kept = {engine: one.shares.mean / one.healthy.mean for engine, one in found.items() if one.healthy}
    assert kept["ar"] >= 0.9
    assert kept["ftree"] <= 0.85
    assert found["ar"].shares.mean > 1.5 * max(found[engine].shares.mean for engine in ("ftree", "ecmp"))
    assert found["ecmp"].shares.cv > 5 * found["ar"].shares.cv


def test_a_lossy_but_fast_link_is_spread_over_everyone() -> None:
    """Adaptive routing does not see it: the mean falls below static routing's, the worst stays above."""
    found = ask(order="sorted", faults=(lossy(),), engines=("ftree", "ar"))
    assert found["ar"].shares.mean < found["ftree"].shares.mean
    assert found["ar"].shares.least > 2 * found["ftree"].shares.least
    assert found["ftree"].shares.least == pytest.approx(0.40, abs=0.01)  # go-back-N at 1e-2, 400 Gb/s, 12 us, 4 KiB


def test_bit_errors_slow_an_infiniband_link_and_make_an_ethernet_link_lossy() -> None:
    """With link-level retry capacity goes, without it packets go; below the FEC's cliff nothing does."""
    links = pod_64().cables("su0-leaf3", "spine02")[0]
    for ber, link_layer, slow, drops in (
        (1.5e-3, "infiniband", True, False),
        (1.5e-3, "ethernet", False, True),
        (1e-5, "infiniband", False, False),
        (1e-5, "ethernet", False, False),
    ):
        state = link_state(pod_64(), (LinkFault("f", "ber", ber, links),), link_layer=link_layer)
        assert bool(state.capacity_gbps[links[0]] < 399) is slow
        assert bool(state.loss[links[0]] > 1e-6) is drops
        assert state.loss.sum() == pytest.approx(2 * state.loss[links[0]])


def test_a_cable_between_switches_that_is_down_is_routed_around() -> None:
    """Nothing stalls, and adaptive routing has 15 of 16 uplinks left at that leaf."""
    down = LinkFault("down", "down", 0.0, pod_64().cables("su0-leaf3", "spine02")[0])
    found = ask(faults=(down,), order="sorted")
    assert all(one.shares.stalled == 0 for one in found.values())
    assert found["ar"].shares.least == pytest.approx(0.95 * 15 / 16)
