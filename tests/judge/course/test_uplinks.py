"""RNICs that are slow beyond their leaf only are not bad: the uplinks are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest

from benchmarks.measured_rack import one_number, rack_topology
from fabric.judge.course.located import over_time
from fabric.model.probe import Probe, ProbeResult
from fabric.model.sampling import Samples
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.probes.pairwise import PairwiseSpec
from tests.judge.course.halls import Told, told

UNIT, UNITS, ROUNDS = 8, 3, 40
MANY, MOST = 6, 12  # units
ROUND_S = 1800.0
UNIT_OF = {name: place // UNIT for place, name in enumerate(rack_topology(UNIT * MOST, parts=2).hosts)}
PairShare = Callable[[str, str, int], float]
"""What is left of a pair of RNICs (the first sends) in a round."""
HostShare = Callable[[str, int], float]
"""What a host leaves of a collective under its leaf in a round."""


def hall(units: int) -> Topology:
    """Of so many units."""
    bare = rack_topology(UNIT * units, parts=2)
    hosts = {
        name: replace(host, rack=None, leaves=tuple(f"su{UNIT_OF[name]}-leaf{rail}" for rail in range(2)))
        for name, host in bare.hosts.items()
    }
    return Topology(hosts=hosts, switches=bare.switches)


def found(
    pair: PairShare,
    host: HostShare = lambda name, number: 1.0,
    *,
    units: int = UNITS,
    rounds: int = ROUNDS,
    rings: bool = True,
) -> list[Told]:
    """Of pairs across leaves, and of rings of neighbours under them."""
    random, topology = Random(1), hall(units)
    names = tuple(topology.hosts)
    probes: list[Probe] = []
    results: dict[str, ProbeResult] = {}
    phases = [Phase(f"soak-r{n}", (PairwiseSpec(),), label="soak", round=n) for n in range(rounds)]

    def add(probe: Probe, share: float, number: int) -> None:
        value = 390.0 * share * random.gauss(1.0, 0.003)
        probes.append(probe)
        results[probe.probe_id] = one_number(probe.probe_id, value, at_s=number * ROUND_S, s=10.0)

    for number, phase in enumerate(phases):
        for device in ("mlx5_0", "mlx5_1"):
            for a, b in _across(random, names):
                params = {"rnic": device, "peer_rnic": device, "name": "pairwise"}
                probe = Probe(f"{phase.name}/{a}+{b}/{device}", "pairwise", phase.name, (a, b), (), 10.0, params)
                add(probe, pair(f"{a}/{device}", f"{b}/{device}", number), number)
        for place, a in enumerate(names if rings else ()):
            b = names[place // UNIT * UNIT + (place + 1) % UNIT]
            ring = Probe(f"{phase.name}/{a}+{b}/ring", "tor_all_reduce", phase.name, (a, b), (), 10.0, {"ranks": 4})
            add(ring, min(host(a, number), host(b, number)), number)
    return told(over_time(probes, results, phases, topology, Samples(300.0, {})))


def _across(random: Random, names: Sequence[str]) -> list[tuple[str, str]]:
    """Every host once, with one of another unit; who sends changes."""
    while True:
        order = random.sample(names, len(names))
        pairs = list(zip(order[::2], order[1::2], strict=True))
        if all(UNIT_OF[a] != UNIT_OF[b] for a, b in pairs):
            return pairs


def below_half_dead_uplink(sender: str, receiver: str, number: int) -> float:
    """The uplink of su0-leaf0 over which gpu001 is sent to from all units, and gpu009 and gpu017 from this one."""
    leaving = UNIT_OF[sender.partition("/")[0]] == 0 and receiver in ("gpu009/mlx5_0", "gpu017/mlx5_0")
    return 0.5 if leaving or receiver == "gpu001/mlx5_0" else 1.0


def test_a_half_dead_uplink_is_named_and_not_the_rnics_behind_it() -> None:
    assert [(one.component, one.part, one.rivals) for one in found(below_half_dead_uplink)] == [
        ("su0-leaf0:uplinks", "uplinks", ())
    ]


def test_rnics_that_are_slow_under_their_leaf_too_are_bad_themselves() -> None:
    named = found(
        lambda sender, receiver, number: 0.5 if receiver == "gpu001/mlx5_0" else 1.0,
        lambda name, number: 0.6 if name == "gpu001" else 1.0,
    )
    assert [one.component for one in named] == ["gpu001/mlx5_0"]


def test_a_loss_that_a_collective_would_not_show_says_nothing_of_uplinks() -> None:
    named = found(lambda sender, receiver, number: 0.95 if "gpu001/mlx5_0" in (sender, receiver) else 1.0)
    assert [one.component for one in named] == ["gpu001/mlx5_0"]


def test_an_rnic_that_fades_is_not_cleared_by_what_shows_later_under_its_leaf() -> None:
    def left(number: int) -> float:
        return 1.0 - 0.3 * number / ROUNDS

    named = found(
        lambda sender, receiver, number: left(number) if "gpu001/mlx5_0" in (sender, receiver) else 1.0,
        lambda name, number: min(1.0, left(number) + 0.1) if name == "gpu001" else 1.0,
    )
    assert [(one.component, one.kind) for one in named] == [("gpu001/mlx5_0", "drift")]


@pytest.mark.slow
def test_a_neighbour_that_is_bad_itself_does_not_hide_the_uplink() -> None:
    named = found(below_half_dead_uplink, lambda name, number: 0.7 if name == "gpu002" and number > 20 else 1.0)
    assert {one.component.partition("/")[0] for one in named} == {"su0-leaf0:uplinks", "gpu002"}


@pytest.mark.slow
def test_what_is_slow_from_one_leaf_only_is_that_leafs_uplink() -> None:
    """Too few of the probes of gpu009 and gpu017 dip for what is under their own leaf to clear them."""

    def below_uplink(sender: str, receiver: str, number: int) -> float:
        leaving = UNIT_OF[sender.partition("/")[0]] == 0
        return 0.5 if leaving and receiver in ("gpu009/mlx5_0", "gpu017/mlx5_0") else 1.0

    named = found(below_uplink, units=MANY, rounds=80, rings=False)
    assert [(one.component, one.part) for one in named] == [("su0-leaf0:uplinks", "uplinks")]
