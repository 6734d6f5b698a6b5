"""Changes that come to one state in a row are one line, and nothing is held back for good."""

from __future__ import annotations

from dataclasses import replace

from fabric.model.change import Change
from fabric.report.progress import FoldedStates
from tests.changes.asked import ber

BER = Change("p/ber.l0", "p", "l0", "port", ber("l0", raw="1e-5"))
FOUR = [replace(BER, change_id=f"p/ber.l{number}", component=f"l{number}") for number in range(4)]


def folded() -> tuple[FoldedStates, list[str]]:
    """Of a phase with four links."""
    said: list[str] = []
    states = FoldedStates(said.append)
    states.planned(FOUR)
    return states, said


def test_all_of_one_sort_are_one_line_at_once() -> None:
    states, said = folded()
    for change in FOUR:
        assert said == []
        states.take(change, "is in force")
    assert said == ["p: 4 links (l0, l1, ...): ber raw 1e-5 is in force"]


def test_one_that_went_otherwise_has_its_own_line_and_comes_in_order() -> None:
    states, said = folded()
    states.take(FOUR[0], "is in force")
    states.take(FOUR[1], "is in force")
    states.take(FOUR[2], "FAILED: no answer")
    states.take(FOUR[3], "is in force")
    states.flush()
    assert said == [
        "p: 2 links (l0, l1): ber raw 1e-5 is in force",
        "p: l2: ber raw 1e-5 FAILED: no answer",
        "p: l3: ber raw 1e-5 is in force",
    ]


def test_the_next_phase_says_what_was_held_back() -> None:
    states, said = folded()
    states.take(FOUR[0], "is taken back")
    states.planned(())
    states.planned(())
    assert said == ["p: l0: ber raw 1e-5 is taken back"]
