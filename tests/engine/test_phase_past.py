"""What of a phase stands when its run goes on, and what is still to be run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.engine.phase import past_of
from fabric.model.change import Change
from fabric.model.probe import ProbeResult
from fabric.model.scenario import Phase
from fabric.plan.plan import PhasePlan, schedule
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.runs.events import Progress
from tests.changes.asked import ber

TOPOLOGY = rack_topology(2, parts=4)
PHASE = Phase("a", (LoopbackSpec(),))
PLAN = PhasePlan(PHASE, schedule(expand_phase(PHASE, TOPOLOGY, tuple(TOPOLOGY.hosts))), ())
CHANGE = Change("a/ber.x", "a", "gpu001/mlx5_0", "port", ber("gpu001/mlx5_0", raw="1e-6"))
FIRST, SECOND, *_ = PLAN.planned
EXTRA = replace(FIRST, probe_id="a/gpu001/extra")
ELSEWHERE = replace(FIRST, probe_id="b/gpu001/extra", phase="b")


def result(probe_id: str) -> ProbeResult:
    """Measured."""
    return ProbeResult(probe_id, 1, (), None, "", 0.0, 1.0)


def done(*names: str, added: bool = False, ended: bool = False) -> Progress:
    """These have results."""
    return Progress(
        results={name: result(name) for name in names},
        attempts=dict.fromkeys(names, 1),
        added=(EXTRA, ELSEWHERE) if added else (),
        instead=((FIRST.probe_id, EXTRA),) if added else (),
        ended=frozenset({"a"} if ended else ()),
    )


def test_what_has_a_result_does_not_wait() -> None:
    past = past_of(PLAN, done(FIRST.probe_id, "b/other"))
    waiting = [probe.probe_id for probe in past.waiting(PLAN)]
    assert set(past.results) == {FIRST.probe_id}
    assert len(waiting) == PLAN.schedule.probes - 1
    assert FIRST.probe_id not in waiting


def test_what_was_added_and_is_done_does_not_wait() -> None:
    past = past_of(PLAN, done(EXTRA.probe_id, added=True))
    assert past.waiting(PLAN) == list(PLAN.planned)
    assert EXTRA.probe_id in past.results


@pytest.mark.parametrize("when", [{"at": 5.0}, {"for_": 5.0}])
def test_of_a_phase_with_a_time_line_nothing_stands_unless_it_ended(when: dict[str, float]) -> None:
    plan = replace(PLAN, changes=(replace(CHANGE, spec=ber("gpu001/mlx5_0", raw="1e-6", **when)),))
    past = past_of(plan, done(FIRST.probe_id))
    assert (dict(past.results), past.attempts) == ({}, {FIRST.probe_id: 1})
    assert set(past_of(plan, done(FIRST.probe_id, ended=True)).results) == {FIRST.probe_id}
