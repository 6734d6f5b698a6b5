"""A while in which all hosts were slow is told with its time, and accuses nobody; a slow part is no such while."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from benchmarks.measured_rack import judge_of, one_number, rack_topology
from fabric.judge.course.located import Course, over_time
from fabric.judge.locate.candidates import MOMENT
from fabric.judge.verdict.conclude import conclude
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.sampling import Samples
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.verdict import Limit
from fabric.probes.all_to_all import AllToAllSpec

ROUNDS, ROUND_S, RING_S = 8, 1800.0, 600.0
Left = Callable[[tuple[str, ...], int, int], float]
"""What a ring of two hosts keeps in a round, and in which half of it."""

Rings = tuple[list[Probe], dict[str, ProbeResult], list[Phase], Topology]


def rings(hosts: int, left: Left) -> Rings:
    """Each host with one neighbour and then with the other, all at once."""
    rack, random = rack_topology(hosts, parts=2), Random(1)
    names = tuple(rack.hosts)
    phases = [Phase(f"soak-r{n}", (AllToAllSpec(),), label="soak", round=n) for n in range(ROUNDS)]
    probes, results = [], {}
    for number, phase in enumerate(phases):
        for place in range(hosts):
            half, pair = place % 2, (names[place], names[(place + 1) % hosts])
            name, params = f"{phase.name}/{'+'.join(pair)}.{half}", {"name": "tor_all_reduce", "ranks": 2}
            probes.append(Probe(name, "tor_all_reduce", phase.name, pair, (), RING_S, params))
            gbps, at_s = 390.0 * left(pair, number, half) * random.gauss(1.0, 0.003), number * ROUND_S + half * RING_S
            results[name] = one_number(name, gbps, at_s=at_s, s=RING_S)
    return probes, results, phases, rack


def course(hosts: int, left: Left) -> Course:
    """What is found over time."""
    return over_time(*rings(hosts, left), Samples(300.0, {}))


def test_a_while_in_which_all_were_slow_accuses_nobody_and_says_when() -> None:
    found = course(8, lambda pair, number, half: 0.6 if (number, half) == (4, 1) else 1.0)
    ((kind, name, text),) = found.notes
    assert (found.found, kind, name, len(found.open)) == ([], MOMENT, "soak-r4", 4)
    assert text.startswith("4 tests between hosts, whichever these were, kept about 60% from 2.17 h to 2.33 h: ")


def test_so_does_a_round_that_was_slow_as_a_whole() -> None:
    found = course(8, lambda pair, number, half: 0.6 if number == 4 else 1.0)
    assert (found.found, [name for _, name, _ in found.notes], len(found.open)) == ([], ["soak-r4"], 8)


def test_two_whiles_are_two() -> None:
    found = course(8, lambda pair, number, half: 0.6 if (number, half) in ((2, 0), (5, 1)) else 1.0)
    assert (found.found, {name for _, name, _ in found.notes}) == ([], {"soak-r2", "soak-r5"})


@pytest.mark.parametrize("hosts", [4, 8])
def test_a_bad_host_is_named_beside_it(hosts: int) -> None:
    def left(pair: tuple[str, ...], number: int, half: int) -> float:
        return 0.6 if (number, half) == (4, 1) else 0.8 if "gpu002" in pair else 1.0

    found = course(hosts, left)
    assert [one.suspect.hosts for one in found.found] == [("gpu002",)]
    assert [name for _, name, _ in found.notes] == ["soak-r4"]


def test_a_host_that_is_slow_for_rounds_is_no_such_while() -> None:
    found = course(8, lambda pair, number, half: 0.6 if number in (3, 4) and "gpu002" in pair else 1.0)
    assert ([one.suspect.hosts for one in found.found], found.open) == ([("gpu002",)], [])


@pytest.mark.parametrize("hosts", [2, 4, 8])
def test_nor_is_one_that_is_slow_for_a_while(hosts: int) -> None:
    found = course(hosts, lambda pair, number, half: 0.6 if (number, half) == (4, 1) and "gpu002" in pair else 1.0)
    assert (found.open, [kind for kind, *_ in found.notes if kind == MOMENT]) == ([], [])


def test_what_was_below_the_limit_then_is_inconclusive() -> None:
    probes, results, phases, rack = rings(8, lambda pair, number, half: 0.6 if (number, half) == (4, 1) else 1.0)
    judge = judge_of(rack, limits=(Limit("tor_all_reduce", 350.0, "a test"),))
    verdict = conclude(probes, results, topology=rack, judge=judge, phases=phases)
    slow = [one.outcome for one in verdict.probes if one.outcome is not Outcome.PASS]
    assert (verdict.suspects, slow, verdict.outcome) == ((), 4 * [Outcome.INCONCLUSIVE], Outcome.INCONCLUSIVE)
