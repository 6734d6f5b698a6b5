"""A transport that gave up, told from other trouble."""

from __future__ import annotations

import pytest

from fabric.judge.normal.keys import gave_up
from fabric.model.outcome import Outcome
from fabric.model.probe import FailureKind, ProbeResult


@pytest.mark.parametrize(
    ("outcome", "failure", "expected"),
    [
        (Outcome.FAIL, FailureKind.RETRIES_EXCEEDED, True),
        (Outcome.FAIL, FailureKind.PORT_DOWN, True),
        (Outcome.ERROR, FailureKind.REMOTE_ERROR, True),
        (Outcome.FAIL, None, False),
        (Outcome.ERROR, FailureKind.RETRIES_EXCEEDED, False),
        (Outcome.ERROR, FailureKind.TOO_FEW_GPUS, False),
        (None, None, False),
    ],
)
def test_gave_up(outcome: Outcome | None, failure: FailureKind | None, expected: bool) -> None:
    """Only what the tool itself calls so counts, whatever the words are."""
    result = ProbeResult("p", 1, (), outcome, "status=12", 0.0, 1.0, failure=failure)
    assert gave_up(result) is expected
