"""Rounds that were planned and not run are said."""

from __future__ import annotations

from dataclasses import replace

from fabric.model.repetition import FilledTime
from fabric.model.scenario import Phase
from fabric.report.html.page import page
from fabric.report.rounds_run import rounds_not_run
from fabric.report.shown_run import ShownRun


def with_rounds(run: ShownRun, *, within_s: float, planned: int, ran: int) -> ShownRun:
    """The same run, its first probes as rounds of a soak of *within_s* seconds; each round takes 1,000 s."""
    fills = FilledTime("soak", within_s)
    phases = tuple(Phase(f"soak-r{n}", (), label="soak", round=n, fills=fills) for n in range(1, planned + 1))
    rows = list(run.rows)[:ran]
    probes = [replace(row.probe, phase=f"soak-r{n}") for n, row in enumerate(rows, start=1)]
    results = {
        row.probe.probe_id: replace(row.result, started_s=n * 1000.0, ended_s=n * 1000.0 + 1000.0)
        for n, row in enumerate(rows)
        if row.result is not None
    }
    verdict = replace(run.judged.verdict, probes=tuple(row.verdict for row in rows))
    scenario = replace(run.judged.scenario, phases=phases)
    judged = replace(run.judged, verdict=verdict, scenario=scenario)
    return ShownRun(judged, run.inventory, probes, results, run.document)


def test_rounds_that_the_clock_left_out_are_said(bad_run: ShownRun) -> None:
    (line,) = rounds_not_run(with_rounds(bad_run, within_s=3000, planned=8, ran=3))
    assert (
        line
        == "soak: 3 of 8 planned rounds were run, in 50 min 00 s of the 50 min 00 s it was given: its time was over"
    )


def test_a_run_that_ended_before_its_time_says_so(bad_run: ShownRun) -> None:
    (line,) = rounds_not_run(with_rounds(bad_run, within_s=8000, planned=8, ran=3))
    assert line.endswith("the run did not get to the others")


def test_a_phase_of_which_nothing_was_run_is_said(bad_run: ShownRun) -> None:
    (line,) = rounds_not_run(with_rounds(bad_run, within_s=8000, planned=8, ran=0))
    assert line.startswith("soak: 0 of 8 planned rounds were run")


def test_nothing_is_said_where_every_round_was_run(bad_run: ShownRun) -> None:
    assert rounds_not_run(with_rounds(bad_run, within_s=3000, planned=3, ran=3)) == ()
    assert rounds_not_run(bad_run) == ()


def test_the_page_says_it_above_and_in_what_was_run(bad_run: ShownRun) -> None:
    shown = page(with_rounds(bad_run, within_s=3000, planned=8, ran=3))
    above, _, below = shown.partition("<nav>")
    assert "3 of 8 planned rounds" in above
    assert "<th>not run</th><td>soak: 3 of 8 planned rounds" in below
