"""ibportstate: states of ports, before and after."""

from __future__ import annotations

import re

import pytest

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools import infiniband
from tests.tools.samples import calls

BLOCK = (
    "# Port info: Lid 4 port 23\nLinkState:.......................{state}\n"
    "PhysLinkState:...................{physical}\nLid:.............................0\n"
    "# MLNX ext Port info: Lid 4 port 23\nLinkSpeedActive:.................0x00\n"
)


def said(state="Active", physical="LinkUp", *, peer=True):
    """A query of a switch port."""
    text = "Switch PortInfo:\n" + BLOCK.format(state=state, physical=physical)
    there = BLOCK.format(state="Active", physical="LinkUp").replace(
        "Lid 4 port 23", "Lid 4 DR path slid 4; dlid 65535; 0,23 port 1"
    )
    return text + ("Peer PortInfo:\n" + there if peer else "")


def test_what_is_asked():
    """By LID; ``on`` never takes an open link down."""
    assert infiniband.port(4, 23) == ("ibportstate", "4", "23", "query")
    assert infiniband.port(4, 23, "disable", tool="/usr/sbin/ibportstate")[0] == "/usr/sbin/ibportstate"
    for wrong in (
        lambda: infiniband.port(0, 1),
        lambda: infiniband.port(1, 0),
    ):
        with pytest.raises(ValueError, match=r"LID|port"):
            wrong()
    with pytest.raises(ValueError, match="explode"):
        infiniband.port(1, 1, "explode")


def test_a_query_is_of_the_port_that_was_asked_for():
    """And not of its peer."""
    found = infiniband.read_port(said())
    assert (str(found), found.active, found.disabled) == ("Active/LinkUp", True, False)


def test_a_closed_port_is_known_and_a_guard_sees_it():
    """Its pattern matches when it is not closed, and only then."""
    for physical, closed in (("Disabled", True), ("Polling", False), ("LinkUp", False)):
        text = said("Down", physical, peer=False)
        assert infiniband.read_port(text).disabled is closed
        assert any(re.search(infiniband.NOT_DISABLED, line) for line in text.splitlines()) is not closed


@pytest.mark.parametrize("text", ["", "Switch PortInfo:\n", said("Up"), said(physical="Dead"), said()[:60]])
def test_states_that_are_unknown_or_missing_are_unreadable(text):
    """Never a port without state."""
    with pytest.raises(UnreadableOutput):
        infiniband.read_port(text)


@pytest.mark.parametrize("length", range(0, len(said()), 3))
def test_a_cut_answer_never_gives_another_state(length):
    """The same, or an error."""
    try:
        found = infiniband.read_port(said()[:length])
    except UnreadableOutput:
        return
    assert str(found) == "Active/LinkUp"


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("ibsim-08-ibportstate-dr-disable", "Active/LinkUp"),
        ("ibsim-10-ibportstate-dr-enable", "Active/Disabled"),
        ("ibsim-13-ibportstate-ca-reset", "Active/LinkUp"),
    ],
)
def test_recorded_changes(name, before):
    """Of a switch by directed route, of an adapter by LID: the state before."""
    ((_, stdout, stderr, status),) = calls(f"infiniband-diags/{name}.txt")
    found = infiniband.read_port(stdout, stderr, status)
    assert str(found) == before


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ibsim-11-ibportstate-bad-lid", "smp query nodeinfo failed"),
        ("ibsim-12-ibportstate-bad-op", "invalid operation: flap"),
    ],
)
def test_recorded_failures(name, reason):
    """Exit 255 and the tool's own words."""
    ((_, stdout, stderr, status),) = calls(f"infiniband-diags/{name}.txt")
    with pytest.raises(ToolError, match=f"exit 255: .*{reason}"):
        infiniband.read_port("", stdout + stderr, status)
