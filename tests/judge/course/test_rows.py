"""What counts as normal for the probes of a round."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from benchmarks.measured_rack import one_number, rack_topology
from fabric.judge.course.rows import CourseRow, rows_of
from fabric.model.probe import Probe
from fabric.model.scenario import Phase
from fabric.probes.all_to_all import AllToAllSpec

ROUNDS, ROUND_S, RING_S = 8, 1800.0, 600.0


def rings(hosts: int, left: Callable[[tuple[str, ...], int, int], float]) -> list[CourseRow]:
    """Each host with one neighbour and then with the other, all at once; *left* of a ring in a round and half of it."""
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
    return list(rows_of(probes, results, {phase.name: "soak" for phase in phases}, rack).rows)


def test_what_all_probes_of_a_moment_have_in_common_is_no_loss_of_any() -> None:
    """A job of others while one half of a round runs."""
    rows = rings(8, lambda pair, number, half: 0.6 if (number, half) == (4, 1) else 1.0)
    assert [row for row in rows if row.low] == []


@pytest.mark.parametrize("hosts", [2, 8])
def test_a_host_that_is_slow_for_a_moment_is_no_such_thing(hosts: int) -> None:
    """Of two hosts both are in every ring."""
    rows = rings(hosts, lambda pair, number, half: 0.6 if (number, half) == (4, 1) and "gpu002" in pair else 1.0)
    assert {row.probe.hosts for row in rows if row.low} == {("gpu002", "gpu003" if hosts > 2 else "gpu001")}


def test_hosts_of_one_half_of_the_rack_that_are_slow_for_a_moment_are_no_such_thing() -> None:
    slow = {"gpu002", "gpu003", "gpu004", "gpu005"}
    rows = rings(8, lambda pair, number, half: 0.6 if (number, half) == (4, 1) and slow.issuperset(pair) else 1.0)
    assert {host for row in rows if row.low for host in row.probe.hosts} == slow
