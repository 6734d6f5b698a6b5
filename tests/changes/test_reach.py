"""Which end of a cable is closed: one that can be opened again from where we are."""

from __future__ import annotations

import pytest

from fabric.changes.ports import SwitchEnd, cable_of, distances, end_to_close
from fabric.errors import Refused
from tests.changes.played import VIA, Played, topology
from tests.changes.test_ports import said

VIA_GUID = 0xB8599F0300004000
"""gpu004/mlx5_0 of the simulated rack, whose sysfs answers."""

# via - leaf0 - spine0 - leaf1, spine0 - leaf2, leaf1 - leaf2: a ring behind a single cable.
LEAF0, SPINE0, LEAF1, LEAF2 = (
    (0xA0, "leaf0", 1), (0xB0, "spine0", 9), (0xA1, "leaf1", 2), (0xA2, "leaf2", 3)
)  # fmt: skip
RING = (
    (VIA_GUID, "gpu004 mlx5_0", 20, 1, *LEAF0, 1),
    (*LEAF0, 5, *SPINE0, 1),
    (*LEAF1, 5, *SPINE0, 2),
    (*LEAF2, 5, *SPINE0, 3),
    (*LEAF1, 6, *LEAF2, 6),
)


def closing(component, *cables):
    """The end that would be closed."""
    played = Played(VIA, world=topology(cables=1))
    played.answers["gpu004 iblinkinfo"] = (said(*cables), "", 0)
    cable = played.run(cable_of(component, played.context))
    return played.run(end_to_close(cable, played.context))


def test_the_nearer_end_is_closed():
    """The farther one might be out of reach afterwards."""
    assert closing("leaf1--spine0", *RING) == SwitchEnd("spine0", 9, 2)
    assert closing("leaf0--spine0", *RING) == SwitchEnd("leaf0", 1, 5)


def test_a_switch_behind_the_cable_itself_is_never_closed_there():
    """Without the ring leaf2 hangs on this cable alone."""
    assert closing("leaf2--spine0", *RING[:4]) == SwitchEnd("spine0", 9, 3)


def test_where_neither_end_can_be_reached_nothing_is_closed():
    """via's own port is not in the fabric that it sees."""
    with pytest.raises(Refused, match="gpu004/mlx5_0 is not active in the fabric"):
        closing("leaf1--spine0", *RING[1:])


def test_distances_do_not_go_through_the_cable_nor_through_one_that_is_not_active():
    """Packets by LID pass only where the subnet manager has been."""
    text = said(*RING)
    assert far(text) == {VIA_GUID: 0, 0xA0: 1, 0xB0: 2, 0xA2: 3, 0xA1: 4}
    lines = text.splitlines(keepends=True)
    asleep = [
        line.replace("Active/", "Initialize/") if "leaf2" in line and "spine0" in line else line for line in lines
    ]
    assert far("".join(asleep)) == {VIA_GUID: 0, 0xA0: 1, 0xB0: 2}


def far(text):
    """From via, without leaf1--spine0."""
    played = Played(VIA, world=topology(cables=1))
    played.answers["gpu004 iblinkinfo"] = (text, "", 0)
    cable = played.run(cable_of("leaf1--spine0", played.context))
    return distances(cable.fabric, VIA_GUID, without=cable)
