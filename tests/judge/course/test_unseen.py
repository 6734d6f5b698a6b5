"""Cables between switches that nobody looked at are said to be so."""

from __future__ import annotations

from dataclasses import replace

from fabric.judge.course.ports import unseen_uplinks
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import FilledTime, Phase
from fabric.model.topology import Uplinks
from fabric.probes.pairwise import PairwiseSpec
from tests.judge.course.halls import hall

UPLINKS = Uplinks(("su0-leaf0",), ("spine0", "spine1"), 2, 400.0)
SOAK = FilledTime("soak", 10800.0)


def said(
    *,
    uplinks: bool = True,
    rounds: int = 3,
    read: tuple[int, ...] = (),
    units: int = 1,
    kind: str = "pairwise",
    fills: FilledTime | None = SOAK,
) -> list[str]:
    """Of a run with so many rounds of an hour, with switch tables read in some, gpu001 with gpu008 in each."""
    topology = replace(hall(units), uplinks=(UPLINKS,) if uplinks else ())
    phases = [Phase(f"soak-r{n}", (PairwiseSpec(),), label="soak", round=n, fills=fills) for n in range(rounds)]
    probes, results = [], {}
    for number, phase in enumerate(phases):
        params = {"rnic": "mlx5_0", "peer_rnic": "mlx5_0"} if kind == "pairwise" else {}
        mine = [Probe(f"{phase.name}/pair", kind, phase.name, ("gpu001", "gpu008"), (), 1.0, params)]
        if number in read:
            mine.append(Probe(f"{phase.name}/routes", "routes", phase.name, ("gpu001",), (), 1.0, {}))
        probes += mine
        for one in mine:
            results[one.probe_id] = ProbeResult(one.probe_id, 1, (), None, "", 3600.0 * number, 3600.0 * (number + 1))
    return unseen_uplinks(probes, results, phases, topology)


def test_a_run_of_rounds_says_that_no_cable_between_switches_was_looked_at() -> None:
    (line,) = said()
    assert line.startswith("note: whether the 4 cables between switches (to spine[0-1]) are up was never looked at")
    assert "in the 3.0 h of the run, and nothing was sent across them" in line


def test_pairs_across_leaves_are_told_and_do_not_count_as_a_look() -> None:
    (line,) = said(units=2)
    assert "the last that crossed them ended at 3.0 h" in line


def test_a_ring_over_several_leaves_crosses_them_too() -> None:
    """Any probe of hosts under different leaves does."""
    (line,) = said(units=2, kind="group_all_reduce")
    assert "the last that crossed them ended at 3.0 h" in line


def test_what_was_read_only_in_the_first_round_is_said_with_the_hour() -> None:
    (line,) = said(read=(0,))
    assert "was not looked at between 1.0 h and 3.0 h of the run" in line


def test_what_was_read_to_the_last_round_is_not_noted() -> None:
    assert said(read=(0, 1, 2)) == []


def test_a_run_without_rounds_or_without_such_cables_has_no_note() -> None:
    assert said(rounds=1) == []
    assert said(uplinks=False) == []


def test_rounds_that_compare_something_and_fill_no_time_have_no_note() -> None:
    assert said(fills=None) == []
