"""Many RNICs of a leaf that dip now and then with partners beyond it: its uplinks are bad, and none of them is."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from benchmarks.measured_rack import one_number
from fabric.judge.course.located import over_time
from fabric.model.probe import Probe, ProbeResult
from fabric.model.sampling import Samples
from fabric.model.scenario import Phase
from fabric.probes.pairwise import PairwiseSpec
from tests.judge.course.halls import Told, told
from tests.judge.course.test_uplinks import MOST, UNIT, UNIT_OF, hall

ROUNDS = 60
HALL = hall(MOST)
NAMES = tuple(HALL.hosts)
NUMBER = {name: place for place, name in enumerate(NAMES)}
Share = Callable[[str, str, int], float]
"""What a sender and a receiver leave of their pair test in a round."""


def found(share: Share) -> list[Told]:
    """Of pairs of all hosts with each other, in each round others; on one rail."""
    random = Random(1)
    phases = [Phase(f"soak-r{n}", (PairwiseSpec(),), label="soak", round=n) for n in range(ROUNDS)]
    probes: list[Probe] = []
    results: dict[str, ProbeResult] = {}
    for number, phase in enumerate(phases):
        order = random.sample(NAMES, len(NAMES))
        for a, b in zip(order[::2], order[1::2], strict=True):
            params = {"rnic": "mlx5_0", "peer_rnic": "mlx5_0", "name": "pairwise"}
            name = f"{phase.name}/{a}+{b}/mlx5_0"
            value = 390.0 * share(a, b, number) * random.gauss(1.0, 0.003)
            probes.append(Probe(name, "pairwise", phase.name, (a, b), (), 10.0, params))
            results[name] = one_number(name, value, at_s=number * 1800.0, s=10.0)
    return told(over_time(probes, results, phases, HALL, Samples(300.0, {})))


@pytest.mark.slow
def test_senders_that_dip_with_one_destination_in_eight_are_behind_an_uplink() -> None:
    """The uplink of su1-leaf0 over which all reach the third host of each other unit: each dips a few times."""

    def half_dead(sender: str, receiver: str, number: int) -> float:
        leaving = UNIT_OF[sender] == 1 != UNIT_OF[receiver]
        return 0.5 if leaving and NUMBER[receiver] % UNIT == 3 else 1.0

    (one,) = found(half_dead)
    assert (one.component, one.part, one.rivals) == ("su1-leaf0:uplinks", "uplinks", ())
    assert "slow on the way up from su1-leaf0 to gpu004/mlx5_0" in one.text


@pytest.mark.slow
def test_two_leaves_with_bad_uplinks_are_both_named() -> None:
    def half_dead(sender: str, receiver: str, number: int) -> float:
        leaving = UNIT_OF[sender] in (1, 4) and UNIT_OF[sender] != UNIT_OF[receiver]
        return 0.5 if leaving and NUMBER[receiver] % UNIT == UNIT_OF[sender] else 1.0

    assert {one.component for one in found(half_dead)} == {"su1-leaf0:uplinks", "su4-leaf0:uplinks"}


@pytest.mark.slow
def test_parts_of_one_leaf_that_dip_under_it_too_are_no_uplinks() -> None:
    """Five RNICs of a leaf that dip with everybody."""
    bad = NAMES[UNIT : UNIT + 5]
    random = Random(2)

    def dipping(sender: str, receiver: str, number: int) -> float:
        return 0.5 if {sender, receiver}.intersection(bad) and random.random() < 0.09 else 1.0

    named = found(dipping)
    assert not [one for one in named if one.kind == "uplinks"]


def test_one_part_that_dips_with_partners_of_many_leaves_is_itself() -> None:
    named = found(lambda sender, receiver, number: 0.5 if "gpu011" in (sender, receiver) and number % 10 == 0 else 1.0)
    assert [(one.component, one.kind) for one in named] == [("gpu011/mlx5_0", "dips")]
