"""A transport that gave up, in the words of each tool, told from other trouble."""

from __future__ import annotations

import pytest

from fabric.judge.normal.samples import gave_up
from fabric.model.outcome import Outcome
from fabric.model.probe import ProbeResult


@pytest.mark.parametrize(
    ("outcome", "reason", "expected"),
    [
        (Outcome.FAIL, "Completion with error at client: Failed status 12: wr_id 0 syndrom 0x81", True),
        (Outcome.FAIL, "NET/IB : Got completion from peer 10.0.0.2<53908> with status=12 opcode=129", True),
        (Outcome.FAIL, "NET/IB : Got completion with status=IBV_WC_RETRY_EXC_ERR(12) opcode=0", True),
        (Outcome.FAIL, "NET/IB : Got completion with error 12, opcode 1", True),
        (Outcome.FAIL, "NET/IB : mlx5_0:1 Got async event : port error", True),
        (Outcome.FAIL, "ib_write_bw on mlx5_0: Port number 1 state is Down", True),
        (Outcome.ERROR, "Test NCCL failure 'remote process exited or there was a network error / '", True),
        (Outcome.FAIL, "2 wrong results of size 8G", False),
        (Outcome.FAIL, "uncorrectable ECC error encountered", False),
        (Outcome.ERROR, "Got completion with status=12", False),
        (Outcome.ERROR, "gpu012: host silent", False),
        (None, "status=12", False),
    ],
)
def test_gave_up(outcome: Outcome | None, reason: str, expected: bool) -> None:
    """Only what the tool itself calls so counts."""
    assert gave_up(ProbeResult("p", 1, (), outcome, reason, 0.0, 1.0)) is expected
