"""When further rounds end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fabric.judge.locate.pairs.further_rounds import FurtherRounds
from fabric.judge.locate.pairs.rounds import VERIFY
from fabric.model.probe import Probe
from fabric.model.scenario import LocaliseSettings, Phase
from fabric.plan import PhasePlan, schedule
from fabric.probes.kinds import expand_phase
from fabric.probes.pairwise import PairwiseSpec
from tests.judge.locate.pairs.test_in_run import POD, STATIC, World, ran

UPLINK, LEAF = "u1-leaf1--spine0", "u2-leaf1"


def after_the_last_round(world: World, settings: LocaliseSettings) -> Sequence[Probe]:
    """What is asked for when the planned rounds are done, and some of their tests were made once more already."""
    phase = Phase("p", (PairwiseSpec(),), localise=settings)
    probes = [
        replace(probe, params={**probe.params, "why": VERIFY})
        for probe in expand_phase(phase, world.topology, tuple(world.topology.hosts))
    ]
    results = [world.result(probe, number) for number, probe in enumerate(probes)]
    return FurtherRounds(world.topology).more(PhasePlan(phase, schedule(probes), ()), results, ())


def test_what_the_last_round_leaves_open_is_gone_after_while_rounds_are_left() -> None:
    more = after_the_last_round(World(POD, {LEAF: 0.1}), LocaliseSettings(rounds=10))
    assert more
    assert {str(probe.params["why"]).split(" ")[0] for probe in more} == {"tells"}


def test_no_round_is_begun_beyond_those_that_the_scenario_gives() -> None:
    assert not after_the_last_round(World(POD, {LEAF: 0.1}), LocaliseSettings(rounds=3))


def test_nothing_is_asked_for_when_all_is_settled() -> None:
    assert not after_the_last_round(World(POD), LocaliseSettings(rounds=10))


def test_suspects_are_measured_once_more_only_once() -> None:
    found = ran(World(POD, {UPLINK: 0.4}), localise=STATIC)
    assert len({p.params["round"] for p in found.probes if p.params.get("why") == VERIFY}) == 1
