"""Rounds of a plan that are alike are shown as one."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.measured_rack import rack_topology
from fabric.model.scenario import Phase
from fabric.plan.plan import PhasePlan, schedule
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.report.plan import folded_rounds

RACK = rack_topology(1)


def planned(name: str, label: str = "", number: int = 1, duration_s: int = 5) -> PhasePlan:
    """A phase on one host."""
    phase = Phase(name, (LoopbackSpec(duration_s=duration_s),), label=label, round=number)
    return PhasePlan(phase, schedule(expand_phase(phase, RACK, tuple(RACK.hosts))), ())


def soak(number: int, duration_s: int = 5) -> PhasePlan:
    """A round."""
    return planned(f"soak-r{number}", "soak", number, duration_s)


def titles(*phases: PhasePlan) -> list[str]:
    """What is shown, in order."""
    return [rounds.title for rounds in folded_rounds(phases)]


def test_equal_rounds_are_one_line_that_says_how_many_and_how_long() -> None:
    found = titles(planned("self-check"), *(soak(number) for number in range(1, 97)), planned("after"))
    assert found[0] == "self-check"
    assert found[1].startswith("soak-r1 to soak-r96: 96 rounds, each ")
    assert found[2] == "after"
    assert len(found) == 3


def test_rounds_that_take_longer_with_other_partners_are_folded_and_the_range_is_said() -> None:
    (title,) = titles(soak(1), soak(2, duration_s=60), soak(3))
    assert title == "soak-r1 to soak-r3: 3 rounds, each 3 min 30 s to 31 min 00 s, 38 min 00 s in all"


def test_rounds_that_differ_are_not_folded() -> None:
    other = planned("soak-r2", "soak", 2)
    other = replace(other, schedule=schedule([other.planned[0]]))
    assert len(titles(soak(1), other, soak(3))) == 3
    noted = replace(soak(2), notes=("x",))
    assert len(titles(soak(1), noted)) == 2


def test_stages_that_are_repeated_together_are_folded_each_by_itself() -> None:
    rounds = [
        planned(f"burn-s{stage}-r{number}", "burn", number, 5 * stage) for number in (1, 2, 3) for stage in (1, 2)
    ]
    assert [title.split(":")[0] for title in titles(*rounds)] == [
        "burn-s1-r1 to burn-s1-r3",
        "burn-s2-r1 to burn-s2-r3",
    ]


def test_phases_that_only_happen_to_be_called_like_rounds_are_shown_one_by_one() -> None:
    assert titles(planned("x-r1"), planned("x-r2")) == ["x-r1", "x-r2"]


def test_nothing_is_lost() -> None:
    phases = [planned("a"), soak(1), soak(2), planned("b"), soak(3)]
    shown = [one for rounds in folded_rounds(phases) for one in rounds.members]
    assert sorted(one.phase.name for one in shown) == sorted(one.phase.name for one in phases)
