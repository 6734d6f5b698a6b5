"""Events of changes come back as one result each; what nobody saw end is open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import StoreError
from fabric.model.change import Change, ChangeResult, Window
from fabric.runs.journal import FINAL, change_results
from tests.changes.asked import ber


def change(name: str) -> Change:
    """A planned change."""
    return Change(name, "degraded", "leaf1--spine1", "port", ber("leaf1--spine1", raw="1e-6"))


def event(state: str, at_s: float, name: str = "a", **fields: Any) -> dict[str, Any]:
    """One event as the engine writes it."""
    return {"seq": 1, "at_s": at_s, "event": "change", "change": name, "state": state, **fields}


def only(*events: dict[str, Any]) -> ChangeResult:
    """The result of the only change."""
    (result,) = change_results(events, [change("a")])
    return result


def test_a_whole_life() -> None:
    """In force from the first in_force to the end, with what the counters grew by."""
    result = only(
        event("intent", 1.0),
        event("armed", 1.5),
        event("in_force", 2.0, counters={"gpu1.symbol": 10, "gpu1.down": 3, "gpu1.gone": 1}),
        event("reverted", 9.0, counters={"gpu1.symbol": 110.5, "gpu1.down": 1}),
    )
    assert (result.state, result.windows) == ("reverted", (Window(2.0, 9.0),))
    assert result.counters == {"gpu1.symbol": 100.5}
    assert result.reason == "counters left out, they went down or vanished: gpu1.down, gpu1.gone"


def test_a_flap_has_many_windows_and_counts_from_the_first() -> None:
    """Counters before are those of the first time; between the times it is not in force."""
    result = only(
        event("intent", 1.0),
        event("in_force", 2.0, counters={"down": 5}),
        event("lifted", 3.0),
        event("in_force", 7.0, counters={"down": 6}),
        event("lifted", 8.0),
        event("reverted", 8.5, counters={"down": 7}),
    )
    assert result.windows == (Window(2.0, 3.0), Window(7.0, 8.0))
    assert result.counters == {"down": 2.0}


@pytest.mark.parametrize("state", ["intent", "armed", "in_force", "lifted"])
def test_what_was_not_seen_taken_back_is_open(state: str) -> None:
    """Also between two times in force: the guard is still there, and nobody looked."""
    result = only(event("intent", 1.0), event("in_force", 2.0), event(state, 3.0))
    assert result.state == "open"
    assert "not seen taken back" in result.reason


def test_what_was_restored_later_is_reverted() -> None:
    """An undo that was seen after all ends it."""
    result = only(event("in_force", 2.0), event("open", 5.0), event("reverted", 50.0))
    assert (result.state, result.windows) == ("reverted", (Window(2.0, 50.0),))


FIRST = (event("intent", 1.0), event("in_force", 2.0, counters={"n": 1}))
AGAIN = (event("intent", 11.0), event("in_force", 12.0, counters={"n": 5}), event("lost", 14.0, counters={"n": 6}))


def test_a_change_begun_anew_counts_from_its_last_beginning() -> None:
    """A first attempt of which nobody saw the end leaves no window behind."""
    result = only(*FIRST, *AGAIN)
    assert (result.state, result.windows, result.counters) == ("lost", (Window(12.0, 14.0),), {"n": 1.0})


def test_the_windows_of_a_change_for_all_of_its_phase_add_up() -> None:
    """What a run had measured in the first before it was interrupted stands."""
    result = only(*FIRST, event("reverted", 3.0), *AGAIN)
    assert (result.windows, result.counters) == ((Window(2.0, 3.0), Window(12.0, 14.0)), {"n": 1.0})


@pytest.mark.parametrize("when", [{"at": 5.0}, {"for_": 5.0}])
def test_of_a_change_on_a_time_line_only_the_last_course_counts(when: dict[str, float]) -> None:
    """Its phase is run again as a whole."""
    events = (*FIRST, event("reverted", 3.0), *AGAIN)
    (result,) = change_results(events, [replace(change("a"), spec=ber("leaf1--spine1", raw="1e-6", **when))])
    assert result.windows == (Window(12.0, 14.0),)


@pytest.mark.parametrize("wrong", [event("in_force", 1.0, "x"), event("melted", 1.0)])
def test_nothing_unknown_is_passed_over(wrong: dict[str, Any]) -> None:
    """A change that is not planned may be live all the same; a state that there is not means another writer."""
    with pytest.raises(StoreError):
        change_results([wrong], [change("a")])


STATES = ["intent", "armed", "in_force", "lifted", *sorted(FINAL)]


@given(st.lists(st.sampled_from(STATES), min_size=1, max_size=12))
def test_any_history_gives_ordered_windows_and_a_final_state(states: list[str]) -> None:
    """Windows never overlap, only the last may be without end, and only of what is open."""
    result = only(*(event(state, float(number)) for number, state in enumerate(states)))
    assert result.state in FINAL
    ends = [window.ended_s for window in result.windows]
    assert None not in ends[:-1]
    if ends and ends[-1] is None:
        assert result.state == "open"
    times = [at_s for window in result.windows for at_s in (window.began_s, window.ended_s) if at_s is not None]
    assert times == sorted(times)
