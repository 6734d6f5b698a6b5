"""Rounds of a repeated phase that were planned and not run are told."""

from __future__ import annotations

from fabric.analysis.rounds_run import with_rounds
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.repetition import FilledTime
from fabric.model.scenario import LoopbackSpec, Phase
from fabric.model.verdict import Verdict

PHASES = [
    Phase("check", (LoopbackSpec(),)),
    *(Phase(f"soak-r{n}", (LoopbackSpec(),), label="soak", round=n, fills=FilledTime("soak", 9.0)) for n in range(4)),
]
PROBES = [Probe(f"{phase.name}/x", "loopback", phase.name, ("gpu001",), (), 5.0, {}) for phase in PHASES]
PASSED = Verdict(Outcome.PASS, ("first",), (), (), ())


def ran(rounds: int) -> Verdict:
    """The verdict of a run that came so far."""
    done = {one.probe_id: ProbeResult(one.probe_id, 1, (), None, "", 0.0, 1.0) for one in PROBES[: 1 + rounds]}
    return with_rounds(PASSED, PHASES, PROBES, done)


def test_missing_rounds_are_counted_and_change_no_outcome() -> None:
    found = ran(3)
    assert found.outcome is Outcome.PASS
    assert found.reasons[0] == "first"
    assert found.reasons[1].startswith("note: soak: 3 of 4 planned rounds were run")


def test_where_all_were_run_nothing_is_said() -> None:
    assert ran(4) is PASSED
