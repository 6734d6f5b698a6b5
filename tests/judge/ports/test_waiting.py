"""A cable between switches that waits more than its siblings: named only where both its ends do, again and again."""

from __future__ import annotations

import pytest

from fabric.judge.ports.waiting import SENT, WAITED, lagging
from fabric.model.outcome import Outcome
from fabric.model.sampling import CounterCourse

UP = [("leaf0", f"{number}") for number in range(1, 5)]
DOWN = [(f"spine{number}", "1") for number in range(4)]
LOOK_S, LINE_GBPS = 1800.0, 400.0


def counted(shares: list[float], unit_bytes: int) -> CounterCourse:
    """A counter that grew by these shares of what the line carries between two looks."""
    course, whole = CounterCourse([0.0], [0], LOOK_S * len(shares)), LINE_GBPS * 1e9 / 8 * LOOK_S / unit_bytes
    for number, share in enumerate(shares, 1):
        course.at_s.append(number * LOOK_S)
        course.values.append(int(course.values[-1] or 0) + int(share * whole))
    return course


def courses(**odd: tuple[list[float], list[float]]) -> dict[tuple[str, str], dict[str, CounterCourse]]:
    """Every port sends half its line and waits 2 %, but for those whose node or port has another course."""
    sound = [0.5] * 6, [0.02] * 6
    found = {}
    for end in (*UP, *DOWN):
        sent, waited = odd.get(end[0] if end in DOWN else f"port{end[1]}", sound)
        found[end] = {SENT: counted(sent, 4), WAITED: counted(waited, 8)}
    return found


SLOW = ([0.4] * 6, [0.4] * 6)
"""Half of the time that it needs it waits."""


def outcomes(**odd: tuple[list[float], list[float]]) -> dict[int, Outcome]:
    """How bad each cable that stands out is."""
    found = lagging([UP, DOWN], courses(**odd), rate_gbps=LINE_GBPS)
    return {place: outcome for place, (_, outcome, _) in found.items()}


def test_a_cable_whose_ends_both_wait_fails_and_one_end_is_no_proof() -> None:
    """What is congested further on lies in one direction."""
    assert outcomes() == {}
    assert outcomes(port2=SLOW, spine1=SLOW) == {1: Outcome.FAIL}
    assert outcomes(port2=SLOW) == {1: Outcome.INCONCLUSIVE}
    assert outcomes(spine3=SLOW) == {3: Outcome.INCONCLUSIVE}


@pytest.mark.parametrize(
    ("sent", "waited"),
    [
        ([0.6] * 6, [0.4] * 6),  # more goes over it than over others
        ([0.4] * 6, [0.06] * 6),  # it waits, and little
        ([0.4] * 6, [0.4, 0.4, 0.4, 0.02, 0.02, 0.02]),  # only for a while
        ([0.4] * 2, [0.4] * 2),  # seen too seldom
    ],
)
def test_a_port_that_is_only_congested_is_not_named(sent: list[float], waited: list[float]) -> None:
    """At both ends, so that one reason alone decides."""
    assert outcomes(port2=(sent, waited), spine1=(sent, waited)) == {}


def test_where_all_wait_alike_none_is_named() -> None:
    """A trunk that is too narrow for its traffic."""
    busy = ([0.5] * 6, [0.4] * 6)
    everywhere = {f"port{number}": busy for number in range(1, 5)} | {f"spine{number}": busy for number in range(4)}
    assert outcomes(**everywhere) == {}


def test_counters_that_stopped_or_were_cleared_say_nothing() -> None:
    """32 bits of them are full in a second."""
    full = courses(port2=SLOW, spine1=SLOW)
    for end in (UP[1], DOWN[1]):
        full[end][WAITED] = CounterCourse([0.0], [0xFFFFFFFF], 6 * LOOK_S)
    assert lagging([UP, DOWN], full, rate_gbps=LINE_GBPS) == {}
    cleared = courses(port2=SLOW, spine1=SLOW)
    for end in (UP[1], DOWN[1]):
        cleared[end][WAITED].values[::2] = [0] * len(cleared[end][WAITED].values[::2])
    assert lagging([UP, DOWN], cleared, rate_gbps=LINE_GBPS) == {}
