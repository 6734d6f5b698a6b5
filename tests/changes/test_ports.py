"""From the name of a cable to its ends: by names that repeat, GUIDs, and what other tools call a switch."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.changes.ports import AdapterEnd, SwitchEnd, cable_of, end_named
from fabric.errors import Refused, ToolError
from fabric.model.topology import Switch, Uplinks
from tests.changes.played import VIA, Played, topology

SWITCHES_BELOW = 0x1000
"""In these texts the GUIDs of switches are small."""


def said(*cables):
    """
    What iblinkinfo -l prints for cables ``(guid, name, lid, port, guid, name, lid, port)``, from both ends.

    Every switch has one more port, without a cable.
    """
    lines = []
    for one in cables:
        for guid, name, lid, port, far_guid, far_name, far_lid, far_port in (one, one[4:] + one[:4]):
            lines.append(
                f'0x{guid:016x} "{name:>30}" {lid:6d} {port:4d}[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>  '
                f'0x{far_guid:016x} {far_lid:6d} {far_port:4d}[  ] "{far_name}" ( )\n'
            )
    switches = {end[:3] for one in cables for end in (one[:4], one[4:]) if end[0] < SWITCHES_BELOW}
    for guid, name, lid in sorted(switches):
        near = f'0x{guid:016x} "{name:>30}" {lid:6d}   40[  ]'
        lines.append(f'{near} ==(                Down/ Polling)==>             [  ] "" ( )\n')
    return "".join(lines)


def trunk(*names):
    """An inventory in which *names* are a leaf and a spine with two cables."""
    leaf, spine = names
    bare = replace(topology(), uplinks=(Uplinks((leaf,), (spine,), 2, 400.0),))
    return replace(bare, switches=dict(bare.switches) | {leaf: Switch(leaf, "leaf"), spine: Switch(spine, "spine")})


def found(component, text, world):
    """The cable in a fabric that looks like this."""
    played = Played(VIA, world=world)
    played.answers["gpu004 iblinkinfo"] = (text, "", 0)
    return played.run(cable_of(component, played.context))


TWO = (
    (0xA, "MF0;tor-2:MQM8700/U1", 4, 21, 0xB, "spine 1", 3, 7),
    (0xA, "MF0;tor-2:MQM8700/U1", 4, 22, 0xB, "spine 1", 3, 5),
)


def test_parallel_cables_count_by_the_port_of_the_first_switch():
    """Not by the order in which they are printed, nor by the port of the other one."""
    world = trunk("tor-2", "spine 1")
    second = found("tor-2--spine 1#1", said(*reversed(TWO)), world)
    assert (second.lower, second.upper) == (SwitchEnd("tor-2", 4, 22), SwitchEnd("spine 1", 3, 5))
    assert found("tor-2--spine 1", said(*TWO), world).lower == SwitchEnd("tor-2", 4, 21)


def test_a_name_that_two_switches_have_is_refused():
    """Their GUIDs are said; by its GUID a switch is known."""
    twins = (*TWO, (0xC, "MF0;tor-2:MQM8700/U1", 5, 21, 0xB, "spine 1", 3, 9))
    with pytest.raises(Refused, match=r"2 switches are called tor-2 \(0x000000000000000a, 0x000000000000000c\)"):
        found("tor-2--spine 1", said(*twins), trunk("tor-2", "spine 1"))
    by_guid = found("0x000000000000000a--spine 1", said(*twins), trunk("0x000000000000000a", "spine 1"))
    assert by_guid.lower == SwitchEnd("0x000000000000000a", 4, 21)


def test_a_fabric_that_cannot_be_read_is_a_tools_error():
    """Not a cable that is missing."""
    played = Played(VIA)
    played.answers["gpu004 iblinkinfo"] = ("", "Failed to open (null) port 0\n", 1)
    with pytest.raises(ToolError, match="Failed to open"):
        played.run(cable_of("gpu001/mlx5_0", played.context))


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9 ._;-]{0,30}[A-Za-z0-9]", fullmatch=True)


@given(name=NAMES, lid=st.integers(1, 0xBFFF), port=st.integers(1, 254))
def test_an_end_is_read_back_as_it_was_written(name, lid, port):
    """The journal keeps ends as text."""
    for end in (SwitchEnd(name, lid, port), AdapterEnd(name.replace(" ", "-"), "mlx5_0", port)):
        assert end_named(str(end)) == end
