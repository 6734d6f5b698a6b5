"""Sharing: no capacity carries more than it can, no byte is lost, and what is alone is not disturbed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.sim.hosts.hosts import Hosts
from fabric.sim.hosts.site import Flow
from fabric.sim.hosts.timeline import Timeline

RESOURCES = 12

resource_sets = st.lists(st.integers(0, RESOURCES - 1), min_size=1, max_size=4, unique=True).map(tuple)
plans = st.lists(
    st.tuples(
        st.integers(0, 40),  # begins at, tenths of a second
        resource_sets,
        st.one_of(
            st.tuples(st.just("seconds"), st.integers(1, 50)), st.tuples(st.just("need_gb"), st.integers(1, 4000))
        ),
        st.floats(10.0, 1000.0),  # ceiling
    ),
    min_size=1,
    max_size=8,
)


class Recorded(Flow):
    """A flow that remembers when it ended."""

    ended_s = None

    def finish(self, at_s):
        """Note it."""
        self.ended_s = at_s


def begun(site, timeline, plan):
    """Schedule every flow of the plan on one host."""
    flows = []
    for begins, resources, (kind, amount), ceiling in plan:
        limit = min(ceiling, *(site.capacities[index] for index in resources))
        flow = Recorded(((site, resources, 1.0),), limit)
        flows.append(flow)
        length = {kind: amount / 10 if kind == "seconds" else float(amount)}
        timeline.at(begins / 10, lambda at_s, flow=flow, length=length: timeline.sharing.begin(flow, at_s, **length))
    return site, flows


@settings(max_examples=30, deadline=None)
@given(plan=plans)
def test_capacities_hold_and_bytes_are_conserved(kit, plan):
    """At every moment each capacity carries at most itself; each average times its time is the sum of what ran."""
    hosts, timeline = Hosts(kit.topology_of(1, kit.platform_like()), (), seed=1), Timeline()
    site, flows = begun(hosts.site("gpu001"), timeline, plan)
    carried = dict.fromkeys(flows, 0.0)
    before_s, rates = 0.0, {}
    for _ in range(1000):
        at_s = timeline.next_s()
        for flow, rate in rates.items():
            carried[flow] += rate * ((at_s if at_s is not None else before_s) - before_s)
        if at_s is None:
            break
        timeline.run(at_s)
        timeline.next_s()  # settles the shares of this instant
        before_s, rates = at_s, {flow: flow.rate_gbps for flow in site.flows}
        for index in range(RESOURCES):
            load = sum(rate for flow, rate in rates.items() if index in flow.shares[0][1])
            assert load <= site.capacities[index] * (1 + 1e-9)
        assert all(0 < rate <= flow.ceiling_gbps for flow, rate in rates.items())
    assert site.flows == []
    assert set(site.users) == {0}
    for flow in flows:
        assert flow.ended_s is not None
        lasted = flow.ended_s - flow.began_s
        assert flow.average_gbps() * lasted == pytest.approx(carried[flow], rel=1e-6, abs=1e-6)
        if flow.need_gb is not None:
            assert carried[flow] == pytest.approx(flow.need_gb, rel=1e-6)


@settings(max_examples=20, deadline=None)
@given(starts=st.lists(st.floats(0.0, 1e6), min_size=8, max_size=8), seed=st.integers(0, 2**64 - 1))
def test_an_unshared_path_gives_the_same_text_whenever_it_runs(kit, starts, seed):
    """Eight RNICs on eight hosts, in any order and at any time: byte for byte what each says alone."""
    pairs = [
        kit.pair(at_s, f"gpu{number + 1:03d}", f"mlx5_{number}", port=100 + number)
        for number, at_s in enumerate(starts)
    ]
    together = kit.world(hosts=8, seed=seed, noise_cv=0.01)
    lines = sorted((line for lines in pairs for line in lines), key=lambda line: line[0])
    said = dict(zip(lines, kit.played(together, lines), strict=True))
    for pair in pairs:
        alone = kit.played(
            kit.world(hosts=8, seed=seed, noise_cv=0.01), [(line[0] - pair[0][0], *line[1:]) for line in pair]
        )
        assert [(said[line].stdout, said[line].stderr) for line in pair] == [(e.stdout, e.stderr) for e in alone]
