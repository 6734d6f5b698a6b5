"""Rounds of a repeated phase that were planned and not run are told, once."""

from __future__ import annotations

from fabric.judge.course.rows import rounds_not_run, too_few_rounds
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import FilledTime, Phase
from fabric.probes.loopback import LoopbackSpec


def asked(within_s: float, ran: int, rounds: int = 4) -> tuple[list[Phase], list[Probe], dict[str, ProbeResult]]:
    """A check, then a soak of rounds of 1,000 s, of which so many were run."""
    fills = FilledTime("soak", within_s)
    phases = [
        Phase("check", (LoopbackSpec(),)),
        *(Phase(f"soak-r{n}", (LoopbackSpec(),), label="soak", round=n, fills=fills) for n in range(rounds)),
    ]
    probes = [Probe(f"{phase.name}/x", "loopback", phase.name, ("gpu001",), (), 5.0, {}) for phase in phases]
    results = {
        one.probe_id: ProbeResult(one.probe_id, 1, (), None, "", n * 1000.0, n * 1000.0 + 1000.0)
        for n, one in enumerate(probes[: 1 + ran])
    }
    return phases, probes, results


def test_missing_rounds_are_counted() -> None:
    assert list(rounds_not_run(*asked(3000, ran=3))) == [
        "soak: 3 of 4 planned rounds were run, in 50 min 00 s of the 50 min 00 s it was given: "
        "rounds took longer than planned"
    ]


def test_a_run_that_ended_before_its_time_says_so() -> None:
    (line,) = rounds_not_run(*asked(4000, ran=3))
    assert line.endswith("the run did not get to the others")


def test_a_phase_of_which_nothing_was_run_is_said() -> None:
    (line,) = rounds_not_run(*asked(4000, ran=0))
    assert line.startswith("soak: 0 of 4 planned rounds were run")


def test_a_round_that_was_only_skipped_was_not_run() -> None:
    phases, probes, results = asked(3000, ran=3)
    results[probes[4].probe_id] = ProbeResult(probes[4].probe_id, 0, (), Outcome.SKIPPED, "its time is over", 0.0, 0.0)
    (line,) = rounds_not_run(phases, probes, results)
    assert line.startswith("soak: 3 of 4 planned rounds were run")


def test_where_all_were_run_nothing_is_said() -> None:
    assert not list(rounds_not_run(*asked(8000, ran=8, rounds=8)))


def test_too_few_rounds_for_a_course_are_said_before_and_after() -> None:
    """The plan asks the same function."""
    (line,) = too_few_rounds(asked(4000, ran=4)[0])
    assert line.startswith("soak: 4 of the 8 rounds that it takes to see drift")
    assert not list(too_few_rounds(asked(8000, ran=0, rounds=8)[0]))
