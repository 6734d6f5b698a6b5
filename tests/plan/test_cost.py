"""What a plan costs: GPU-hours of every host of the run, and work by host and by leaf."""

from __future__ import annotations

import pytest

from fabric.model.scenario import JudgeSettings, Phase, ProbeSpec, Scenario
from fabric.plan.cost import Cost, cost
from fabric.plan.plan import PhasePlan, Plan
from fabric.plan.schedule import schedule
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from tests.conftest import rack_topology

RACK = rack_topology(4)


def costs(*specs: ProbeSpec) -> Cost:
    """Of one phase with these probes on four hosts."""
    hosts = tuple(RACK.hosts)
    phase = Phase("p", specs)
    plan = Plan((PhasePlan(phase, schedule(expand_phase(phase, RACK, hosts)), ()),))
    return cost(plan, Scenario("s", "", "s.yaml", "i.yaml", hosts, (phase,), JudgeSettings()), RACK)


def test_gpu_hours_count_every_gpu_of_the_run_from_begin_to_end() -> None:
    found = costs(LoopbackSpec())
    assert found.gpus == 32
    assert found.gpu_hours == pytest.approx(32 * found.duration_s / 3600)
    assert found.duration_s > 0


def test_what_stays_inside_hosts_loads_no_leaf() -> None:
    found = costs(LoopbackSpec())
    assert found.leaves == ()
    assert {(load.probes, load.work_s) for load in found.hosts} == {(80, 80 * 7.0)}
