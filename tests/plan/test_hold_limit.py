"""A change is held no longer than its lease allows, and begins before its phase is over."""

from __future__ import annotations

import re

import pytest

from fabric.changes.kinds import expand_changes
from fabric.model.change import ChangeSettings, ChangeSpec, Lease
from fabric.model.scenario import Phase
from fabric.plan.hold_limit import hold_problems
from fabric.plan.plan import PhasePlan
from fabric.plan.schedule import Schedule
from tests.changes.asked import link_down, port_flap
from tests.changes.played import topology

MIN_S = 60.0
LINK = ("gpu001/mlx5_0",)


def problems(spec: ChangeSpec, takes_s: float) -> list[str]:
    """Of one change in a phase that takes so long; a change is held 10 minutes at most."""
    phase = Phase("hurt", (), changes=(spec,))
    changes = expand_changes(phase, topology(), ChangeSettings(), ())
    return hold_problems(PhasePlan(phase, Schedule((), takes_s, takes_s, "", 1), (), changes), Lease(60.0, 600.0))


@pytest.mark.parametrize(
    ("spec", "takes_s"),
    [
        (port_flap(*LINK, down=1.0, at=5.0), 18 * MIN_S),
        (port_flap(*LINK, down=5.0, count=10, period=20.0), 18 * MIN_S),
        (port_flap(*LINK, down=5.0, count=1000, period=60.0), 9 * MIN_S),
        (link_down(*LINK, at=5.0, for_=60.0), 18 * MIN_S),
        (link_down(*LINK), 9 * MIN_S),
        (link_down(*LINK, at=10 * MIN_S), 18 * MIN_S),
        (link_down(*LINK, at=0.0), 0.0),
    ],
)
def test_what_ends_in_time_is_no_problem(spec: ChangeSpec, takes_s: float) -> None:
    assert problems(spec, takes_s) == []


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            link_down(*LINK),
            "hurt takes about 18 min 00 s, and a change is held 10 min .*at most .* give the change a 'for'",
        ),
        (
            port_flap(*LINK, down=900.0),
            "port_flap of hurt takes 15 min .* held 10 min .*at most .*'count' or 'period'",
        ),
        (port_flap(*LINK, down=5.0, count=100, period=20.0), "port_flap of hurt takes 33 min"),
    ],
)
def test_what_is_held_too_long_is_told_with_what_would_help(spec: ChangeSpec, text: str) -> None:
    (said,) = problems(spec, 18 * MIN_S)
    assert re.search(text, said), said


def test_what_begins_after_its_phase_is_told() -> None:
    (said,) = problems(link_down(*LINK, at=23 * 60 * MIN_S, for_=1.0), 5 * MIN_S)
    assert said.startswith("hurt takes about 5 min 00 s, and link_down is to begin after 23 h")
