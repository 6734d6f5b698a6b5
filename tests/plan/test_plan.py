"""A schedule breaks no claim and wastes none; changes fit into their phase."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.measured_rack import rack_topology
from fabric.changes.kinds import expand_changes
from fabric.model.change import ChangeSettings, ChangeSpec, Lease
from fabric.model.probe import Probe
from fabric.model.scenario import Phase
from fabric.plan.plan import PhasePlan, Schedule, hold_problems, schedule
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from tests.changes.asked import link_down, port_flap
from tests.changes.played import topology


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
    return [(s.start_s, s.start_s + s.probe.duration_s, s.probe) for s in plan.slots]


@given(PROBES)
def test_no_two_probes_hold_one_claim(probes: list[Probe]) -> None:
    """Probes that overlap in time share no claim."""
    slots = intervals(schedule(probes))
    for i, (start_a, end_a, a) in enumerate(slots):
        for start_b, end_b, b in slots[i + 1 :]:
            if start_a < end_b and start_b < end_a:
                assert not set(a.claims) & set(b.claims)


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


@given(PROBES)
def test_each_probe_starts_as_early_as_those_before_it_leave_it(probes: list[Probe]) -> None:
    """No moment before its start would do: at each some probe before it in the list holds one of its claims."""
    slots = {slot.probe.probe_id: slot for slot in schedule(probes).slots}
    for number, late in enumerate(probes):
        before = [slots[one.probe_id] for one in probes[:number] if not set(one.claims).isdisjoint(late.claims)]
        moments = {0.0, *(slot.start_s + slot.probe.duration_s for slot in before)}
        for at_s in (one for one in moments if one < slots[late.probe_id].start_s):
            assert any(
                slot.start_s < at_s + late.duration_s and at_s < slot.start_s + slot.probe.duration_s for slot in before
            )


MIN_S = 60.0
LINK = ("gpu001/mlx5_0",)


def problems(spec: ChangeSpec, takes_s: float) -> list[str]:
    """Of one change in a phase that takes so long; a change is held 10 minutes at most."""
    phase = Phase("hurt", (), changes=(spec,))
    changes = expand_changes(phase, topology(), ChangeSettings(), ())
    return hold_problems(PhasePlan(phase, Schedule((), takes_s, takes_s, "", 1), (), changes), Lease(60.0, 600.0))


@pytest.mark.parametrize(
    ("spec", "takes_s"),
    [
        (port_flap(*LINK, down=1.0, at=5.0), 18 * MIN_S),
        (port_flap(*LINK, down=5.0, count=10, period=20.0), 18 * MIN_S),
        (port_flap(*LINK, down=5.0, count=1000, period=60.0), 9 * MIN_S),
        (link_down(*LINK, at=5.0, for_=60.0), 18 * MIN_S),
        (link_down(*LINK), 9 * MIN_S),
        (link_down(*LINK, at=10 * MIN_S), 18 * MIN_S),
        (link_down(*LINK, at=0.0), 0.0),
    ],
)
def test_what_ends_in_time_is_no_problem(spec: ChangeSpec, takes_s: float) -> None:
    assert problems(spec, takes_s) == []


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            link_down(*LINK),
            "hurt takes about 18 min 00 s, and a change is held 10 min .*at most .* give the change a 'for'",
        ),
        (port_flap(*LINK, down=900.0), "port_flap of hurt takes 15 min .* held 10 min .*at most .*'count' or 'period'"),
        (port_flap(*LINK, down=5.0, count=100, period=20.0), "port_flap of hurt takes 33 min"),
    ],
)
def test_what_is_held_too_long_is_told_with_what_would_help(spec: ChangeSpec, text: str) -> None:
    (said,) = problems(spec, 18 * MIN_S)
    assert re.search(text, said), said


def test_what_begins_after_its_phase_is_told() -> None:
    (said,) = problems(link_down(*LINK, at=23 * 60 * MIN_S, for_=1.0), 5 * MIN_S)
    assert said.startswith("hurt takes about 5 min 00 s, and link_down is to begin after 23 h")
