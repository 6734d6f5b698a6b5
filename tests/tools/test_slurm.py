"""What Slurm prints of nodes, read; and what may stand in its command lines."""

from __future__ import annotations

import pytest

from fabric.errors import ToolError
from fabric.tools import slurm
from tests.places import CAPTURES

_PRINTED = (CAPTURES / "slurm/drain-resume-undrain-22.05.txt").read_text()
_LINE = (
    "NodeName={name} Arch=x86_64 CoresPerSocket=1 State={state} ThreadsPerCore=1 Owner=N/A Partitions=p "
    "ExtSensorsTemp=n/s{rest}\n"
)


def test_a_captured_node_is_read() -> None:
    """State with its flags, the reason without its author, the author."""
    line = next(line for line in _PRINTED.splitlines() if line.startswith("NodeName=n1 ") and "Reason" in line)
    found = slurm.node("n1", line, "", 0)
    assert found == slurm.SlurmNode("n1", frozenset({"DOWN", "DRAIN", "NOT_RESPONDING"}), "fabric: down", "root")
    assert found.is_drained


def test_a_node_without_reason_is_not_drained() -> None:
    """``IDLE`` and ``IDLE*`` alike."""
    for state in ("IDLE", "IDLE*"):
        found = slurm.node("n1", _LINE.format(name="n1", state=state, rest=""), "", 0)
        assert found == slurm.SlurmNode("n1", frozenset({"IDLE"}))


def test_a_comment_is_no_state_and_no_reason() -> None:
    """Anybody who may write comments could else say that a node is drained by us."""
    rest = (
        " Reason=bad cable [ops@2026-11-23T18:31:25] Comment=a State=IDLE Reason=fabric: x [root@2026-11-23T18:31:25]"
    )
    found = slurm.node("n1", _LINE.format(name="n1", state="IDLE+DRAIN", rest=rest), "", 0)
    assert found is not None
    assert (found.is_drained, found.reason, found.by) == (True, "bad cable", "ops")


def test_no_such_node_is_none_and_no_answer_is_an_error() -> None:
    """Nothing is guessed of a controller that is away, or of another node's line."""
    assert slurm.node("n9", "Node n9 not found\n", "", 1) is None
    away = "slurm_load_node error: Unable to contact slurm controller (connect failure)"
    with pytest.raises(ToolError, match="Unable to contact"):
        slurm.node("n1", "", away, 1)
    with pytest.raises(ToolError, match="no state of n1"):
        slurm.node("n1", _LINE.format(name="n2", state="IDLE", rest=""), "", 0)


@pytest.mark.parametrize("name", ["n[1-3]", "n1,n2", "-n1", "n1 state=down", "ALL x", ""])
def test_one_node_at_a_time(name: str) -> None:
    """A folded name would drain many."""
    for argv in (slurm.show_node, slurm.undrain, lambda host: slurm.drain(host, "fabric: x")):
        with pytest.raises(ValueError, match="misread"):
            argv(name)


@pytest.mark.parametrize("reason", ["a\nb", "a=b", "", "x" * 201])
def test_a_reason_is_one_line(reason: str) -> None:
    """Tools that read reasons split them at ``=`` and at line ends."""
    with pytest.raises(ValueError, match="one printable line"):
        slurm.drain("n1", reason)


def test_the_nodes_of_a_reservation() -> None:
    """As Slurm folds them."""
    text = "ReservationName=r1 StartTime=2026-11-23T18:32:23 Nodes={} NodeCnt=1 Features=(null) PartitionName=(null)\n"
    assert slurm.reserved("r1", text.format("gpu[001-004]"), "", 0) == "gpu[001-004]"
    assert slurm.reserved("r1", "Reservation r1 not found\n", "", 1) is None
    for name, nodes in (("r1", "(null)"), ("r2", "gpu[001-004]")):
        with pytest.raises(ToolError, match="no nodes"):
            slurm.reserved(name, text.format(nodes), "", 0)
    with pytest.raises(ToolError, match="Unable to contact"):
        slurm.reserved("r1", "", "Unable to contact slurm controller (connect failure)", 1)
    assert slurm.unfolded("gpu[001-002],n7") == ("gpu001", "gpu002", "n7")
    for listed in ("gpu[1-2] state=down", "gpu[1-2", "gpu[2-1]"):
        with pytest.raises(ToolError, match="no list of nodes"):
            slurm.unfolded(listed)
    with pytest.raises(ValueError, match="a job is a number"):
        slurm.job_nodes("7;8")


@pytest.mark.parametrize(("nodes", "user", "minutes"), [("n1 flags=maint", "u", 1), ("n1", "u,v", 1), ("n1", "u", 0)])
def test_a_reservation_is_of_these_nodes_for_a_time(nodes: str, user: str, minutes: int) -> None:
    """No further words, and never 0 minutes, which Slurm takes for ever."""
    with pytest.raises(ValueError, match=r"list of nodes|misread|minutes is 0"):
        slurm.reserve("r1", nodes, user, minutes)
