"""smpquery and ibportstate: states of ports, and how they are changed."""

from __future__ import annotations

import re

import pytest

from fabric.errors import UnreadableOutput
from fabric.tools import infiniband

BLOCK = (
    "# Port info: Lid 4 port 23\nLinkState:.......................{state}\n"
    "PhysLinkState:...................{physical}\nLid:.............................0\n"
    "LinkSpeedActive:.................2.5 Gbps\n"
)


def said(state="Active", physical="LinkUp"):
    """A query of a port."""
    return BLOCK.format(state=state, physical=physical)


def test_what_is_asked():
    """By LID, through the port that is named; ``on`` never takes an open link down."""
    assert infiniband.port_info(4, 23) == ("smpquery", "portinfo", "4", "23")
    through = infiniband.through("mlx5_3", 1, "0xfab")
    argv = infiniband.port(4, 23, "disable", through=through, tool="/usr/sbin/ibportstate")
    assert " ".join(argv) == "/usr/sbin/ibportstate -C mlx5_3 -P 1 -y 0xfab 4 23 disable"
    for wrong in (
        lambda: infiniband.port(0, 1, "on"),
        lambda: infiniband.port_info(1, 0),
    ):
        with pytest.raises(ValueError, match=r"LID|port"):
            wrong()
    with pytest.raises(ValueError, match="explode"):
        infiniband.port(1, 1, "explode")


def test_a_closed_port_is_known_and_a_guard_sees_it():
    """Its pattern matches when it is not closed, and only then."""
    for physical, closed in (("Disabled", True), ("Polling", False), ("LinkUp", False)):
        text = said("Down", physical)
        assert infiniband.read_port(text).disabled is closed
        assert any(re.search(infiniband.NOT_DISABLED, line) for line in text.splitlines()) is not closed


@pytest.mark.parametrize("length", range(0, len(said()), 3))
def test_a_cut_answer_never_gives_another_state(length):
    """The same, or an error."""
    try:
        found = infiniband.read_port(said()[:length])
    except UnreadableOutput:
        return
    assert str(found) == "Active/LinkUp"
