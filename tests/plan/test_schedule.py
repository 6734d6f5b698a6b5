"""A schedule never breaks a claim, wastes none, and is near the lower bound where it matters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fabric.model.probe import Probe
from fabric.model.scenario import Phase
from fabric.plan.schedule import Schedule, components, schedule
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from tests.conftest import rack_topology


def probe(number: int, claims: tuple[str, ...], duration_s: float) -> Probe:
    """A probe of no kind."""
    return Probe(f"p{number}", "none", "phase", ("h",), claims, duration_s, {})


PROBES = st.lists(
    st.tuples(st.lists(st.sampled_from("abcdef"), unique=True, max_size=4), st.sampled_from([1.0, 2.0, 5.0])),
    min_size=1,
    max_size=40,
).map(lambda rows: [probe(i, tuple(claims), duration) for i, (claims, duration) in enumerate(rows)])


def intervals(plan: Schedule) -> list[tuple[float, float, Probe]]:
    """Start, end and probe of every slot."""
    return [(s.start_s, s.start_s + s.probe.duration_s, s.probe) for part in plan.components for s in part]


@given(PROBES)
def test_no_two_probes_hold_one_claim(probes: list[Probe]) -> None:
    """Probes that overlap in time share no claim."""
    slots = intervals(schedule(probes))
    for i, (start_a, end_a, a) in enumerate(slots):
        for start_b, end_b, b in slots[i + 1 :]:
            if start_a < end_b and start_b < end_a:
                assert not set(a.claims) & set(b.claims)


@given(PROBES)
def test_every_probe_once(probes: list[Probe]) -> None:
    """Each probe is planned exactly once."""
    assert sorted(p.probe_id for _, _, p in intervals(schedule(probes))) == sorted(p.probe_id for p in probes)


@given(PROBES)
def test_work_conserving(probes: list[Probe]) -> None:
    """At a probe's start minus nothing, it could not have started earlier: one of its claims was just released."""
    slots = intervals(schedule(probes))
    for start, _, p in slots:
        if start > 0:
            assert any(end == start and set(other.claims) & set(p.claims) for _, end, other in slots)


@given(PROBES)
def test_bound_is_a_bound(probes: list[Probe]) -> None:
    """No schedule beats the busiest claim's own work."""
    plan = schedule(probes)
    assert plan.makespan_s >= plan.lower_bound_s - 1e-9


def test_self_check_is_near_the_bound() -> None:
    """The intra-host phase of an 8-RNIC host is within 1.10 of the lower bound, the ToR ring is at it."""
    topology = rack_topology(8)
    hosts = tuple(topology.hosts)
    intra = Phase("intra-host", (LoopbackSpec(), RnicToRnicSpec(), AllToAllSpec()))
    plan = schedule(expand_phase(intra, topology, hosts))
    assert plan.makespan_s / plan.lower_bound_s <= 1.10
    ring = schedule(expand_phase(Phase("tor", (TorAllReduceSpec(),)), topology, hosts))
    assert ring.rounds == 2


def test_empty_phase() -> None:
    """Nothing to run takes no time."""
    assert schedule([]).makespan_s == 0.0


@given(PROBES)
def test_repetitions_are_scheduled_as_if_each_were_looked_at(probes: list[Probe]) -> None:
    """Only the first waiting one of those that are alike is considered; the plan is that of considering all."""
    assert [(slot.probe, slot.start_s) for part in schedule(probes).components for slot in part] == slow(probes)


def slow(probes: list[Probe]) -> list[tuple[Probe, float]]:
    """The same method, looking at every waiting probe every time."""
    found = []
    for members in components(probes):
        left = {claim: sum(p.duration_s for p in members if claim in p.claims) for p in members for claim in p.claims}
        waiting, running, now_s = list(members), [], 0.0
        while waiting:
            held = {claim for _, p in running for claim in p.claims}

            urgency = {p.probe_id: ([left[c] for c in p.claims] or [0.0]) for p in waiting}
            free = [p for p in waiting if held.isdisjoint(p.claims)]
            free.sort(key=lambda p, of=urgency: (max(of[p.probe_id]), sum(of[p.probe_id])), reverse=True)
            for p in free:
                if held.isdisjoint(p.claims):
                    held.update(p.claims)
                    waiting.remove(p)
                    running.append((now_s + p.duration_s, p))
                    found.append((p, now_s))
            now_s = min(end_s for end_s, _ in running)
            for _, p in [one for one in running if one[0] <= now_s]:
                for claim in p.claims:
                    left[claim] -= p.duration_s
            running = [one for one in running if one[0] > now_s]
    return found
