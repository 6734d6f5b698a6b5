"""Outcomes fold to the worst, and nothing is never a pass."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fabric.model.outcome import Outcome


def test_nothing_measured_is_inconclusive() -> None:
    """No outcome at all is not a pass."""
    assert Outcome.worst([]) is Outcome.INCONCLUSIVE


def test_only_skipped_is_inconclusive() -> None:
    """A run in which everything was skipped measured nothing."""
    assert Outcome.worst([Outcome.SKIPPED, Outcome.SKIPPED]) is Outcome.INCONCLUSIVE


def test_fail_beats_error() -> None:
    """A bad fabric is not hidden behind our own trouble."""
    assert Outcome.worst([Outcome.ERROR, Outcome.FAIL, Outcome.PASS]) is Outcome.FAIL


@given(st.lists(st.sampled_from(list(Outcome)), min_size=1))
def test_pass_only_when_all_pass(outcomes: list[Outcome]) -> None:
    """The whole passes if and only if every part does."""
    assert (Outcome.worst(outcomes) is Outcome.PASS) == (set(outcomes) == {Outcome.PASS})
