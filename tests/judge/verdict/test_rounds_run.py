"""What a verdict says once: rounds that were not run, tables that were not read, common reasons, old loopbacks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.judge.course.rows import rounds_not_run, too_few_rounds
from fabric.judge.verdict.conclude import (
    common_reasons,
    loopbacks_before_fault,
    read_elsewhere,
    with_passed_loopbacks,
)
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import FilledTime, Phase
from fabric.model.verdict import ProbeVerdict, Suspect
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


def test_reasons_that_differ_in_numbers_are_one_with_its_count() -> None:
    reasons = [f"{380 + number / 10:.1f} Gb/s, just above the 380 required" for number in range(32)]
    assert common_reasons(reasons) == [
        "380.0 Gb/s, just above the 380 required … and 31 more probes for the same reason"
    ]


def test_the_most_frequent_comes_first_and_what_is_beyond_is_counted() -> None:
    assert common_reasons(["a", "b", "b", "c 1", "c 2", "c 3", "d", "e"]) == [
        "c 1 … and 2 more probes for the same reason",
        "b",
        "a",
        "d",
        "and 1 more, in verdict.json",
    ]


@given(st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"])))
def test_no_probe_is_forgotten(found: list[str]) -> None:
    """Of two with the very same words one is enough, so each has a number of its own here."""
    reasons = [f"{text} {place}" for place, text in enumerate(found)]
    said = common_reasons(reasons)
    alone = [text for text in said if "…" not in text and "verdict.json" not in text]
    more = [int(text.rpartition(" and ")[2].split()[0]) for text in said if "…" in text]
    rest = [int(text.split()[1]) for text in said if "verdict.json" in text]
    assert len(alone) + sum(number + 1 for number in more) + sum(rest) == len(reasons)


def test_nothing_is_said_of_nothing() -> None:
    assert common_reasons([]) == []


G, B = Outcome.PASS, Outcome.FAIL


def clears(loopback_s: float, *pairs: tuple[float, str, Outcome]) -> bool:
    """Whether a loopback of that time is left, with pairs that began so, sent by so, and came out so."""
    params = {"rnic": "mlx5_2", "peer_rnic": "mlx5_2"}
    probes = [Probe("lb", "loopback", "self-check", ("gpu003",), (), 1.0, {"rnic": "mlx5_2", "endpoint": "numa0"})]
    results = {"lb": ProbeResult("lb", 1, (), None, "", loopback_s, loopback_s + 1.0)}
    verdicts = {"lb": ProbeVerdict("lb", G, "")}
    for number, (at_s, sender, outcome) in enumerate(pairs):
        name = f"p{number}"
        hosts = (sender, "gpu003" if sender != "gpu003" else "gpu004")
        probes.append(Probe(name, "pairwise", f"soak-r{number}", hosts, (), 1.0, params))
        results[name] = ProbeResult(name, 1, (), None, "", at_s, at_s + 1.0)
        verdicts[name] = ProbeVerdict(name, outcome, "")
    return probes[0].probe_id not in loopbacks_before_fault(probes, verdicts, results)


@pytest.mark.parametrize(
    ("loopback_s", "first", "is_left"),
    [
        pytest.param(0.0, (10.0, "gpu003", G), False, id="an RNIC that changed after its loopback"),
        pytest.param(25.0, (10.0, "gpu003", G), True, id="a loopback since the fault"),
        pytest.param(0.0, (10.0, "gpu003", B), True, id="a fault that was there from the beginning is no change"),
        pytest.param(0.0, (10.0, "gpu004", G), True, id="what is bad in one direction only is no change"),
    ],
)
def test_a_loopback_clears_what_has_not_changed_since(
    loopback_s: float, first: tuple[float, str, Outcome], is_left: bool
) -> None:
    assert clears(loopback_s, first, (20.0, "gpu003", B)) is is_left


def table_asked(host: str, lid: int) -> Probe:
    """A table, table_asked for on a host."""
    params = {"plane": "rail0 400G", "lid": lid, "series": "x"}
    return Probe(f"pairs/{host}/routes.{lid}", "routes", "pairs", (host,), (), 1.0, params)


PROBES = [table_asked("gpu001", 5), table_asked("gpu002", 5), table_asked("gpu001", 6)]
OUTCOMES = (Outcome.INCONCLUSIVE, Outcome.PASS, Outcome.INCONCLUSIVE)
RESULTS = {
    probe.probe_id: ProbeResult(probe.probe_id, 1, (), outcome, "cannot", 0.0, 1.0)
    for probe, outcome in zip(PROBES, OUTCOMES, strict=True)
}


def test_the_same_table_read_by_another_host_makes_up_for_it_and_no_other_table_does() -> None:
    found = read_elsewhere(PROBES, RESULTS)
    assert [found[probe.probe_id].outcome for probe in PROBES] == [Outcome.PASS, Outcome.PASS, Outcome.INCONCLUSIVE]
    assert found[PROBES[0].probe_id].reason == "cannot; read on gpu002 instead"


def test_where_nobody_read_it_it_stays_open() -> None:
    alone = {PROBES[0].probe_id: RESULTS[PROBES[0].probe_id]}
    assert read_elsewhere(PROBES, alone) is alone


def next_after(loopback: Outcome, course: str = "low") -> str:
    """What is to be done next about an RNIC or its port, after its loopback (and a good one) came out so."""
    probes = [
        Probe(name, "loopback", "self-check", ("gpu003",), (), 1.0, {"rnic": "mlx5_2", "endpoint": name})
        for name in ("numa0", "numa1")
    ]
    verdicts = {"numa0": ProbeVerdict("numa0", loopback, ""), "numa1": ProbeVerdict("numa1", G, "")}
    rivals = ("gpu003/mlx5_2:port",)
    suspect = Suspect("gpu003/mlx5_2", "rnic", B, 0.5, (), rivals, "run loopback now", ("gpu003",), course=course)
    (found,) = with_passed_loopbacks([suspect], probes, verdicts, {})
    return found.next_step


def test_a_loopback_that_passed_in_the_run_is_not_asked_for_again() -> None:
    assert next_after(G).startswith("loopback on mlx5_2 passed in this run")
    assert "swap the cable first" in next_after(G)


@pytest.mark.parametrize(
    ("loopback", "course"),
    [
        pytest.param(B, "low", id="one of its loopbacks was bad"),
        pytest.param(Outcome.INCONCLUSIVE, "low", id="nobody knows"),
        pytest.param(G, "dips", id="few good ones say nothing of what dips now and then"),
    ],
)
def test_else_loopback_is_the_next_step(loopback: Outcome, course: str) -> None:
    assert next_after(loopback, course) == "run loopback now"
