"""iblinkinfo -l: ports, cables, and what is none."""

from __future__ import annotations

import pytest

from fabric.errors import UnreadableOutput
from fabric.tools import infiniband
from tests.tools.samples import calls

UP = "==( 4X        53.125 Gbps Active/  LinkUp)==>"
LINES = (
    f'0xb8599f0300040201 "            gpu node 04 mlx5_1 "     12    1[  ] {UP}'
    '  0xe41d2d0300000200      4    4[  ] "MF0;tor-2:MQM8700/U1" (Could be 12X )\n'
    '0xe41d2d0300000200 "          MF0;tor-2:MQM8700/U1"      4    5[  ] ==(                Down/Disabled)==>'
    '             [  ] "" ( )\n'
    f'0xe41d2d0300000200 "          MF0;tor-2:MQM8700/U1"      4    4[  ] {UP}'
    '  0xb8599f0300040201     12    1[  ] "gpu node 04 mlx5_1" ( )\n'
    '0xe41d2d0300000200 "          MF0;tor-2:MQM8700/U1"      4   41[  ] ==( 4X           ???? Initialize/  LinkUp)==>'
    '  0xe41d2d0300000201     13    1[  ] "Mellanox Technologies Aggregation Node" ( )\n'
)


def test_blanks_in_names_down_ports_and_odd_speeds():
    """All as they are; the peer of a port that is down is not known."""
    up, down, _, aggregation = infiniband.read_ports(LINES)
    assert (up.end.description, up.end.lid, up.end.port, up.active, up.speed) == (
        "gpu node 04 mlx5_1", 12, 1, True, "4X 53.125 Gbps"
    )  # fmt: skip
    assert up.peer == infiniband.End(0xE41D2D0300000200, "MF0;tor-2:MQM8700/U1", 4, 4)
    assert (down.state, down.physical_state, down.peer, down.speed) == ("Down", "Disabled", None, "")
    assert (aggregation.speed, aggregation.state, aggregation.active) == ("4X ????", "Initialize", False)
    assert aggregation.peer is not None
    assert aggregation.peer.description.endswith("Aggregation Node")


@pytest.mark.parametrize("length", range(0, len(LINES) - 1, 7))
def test_a_list_that_is_cut_is_no_list(length):
    """Unless it is cut between two lines, which nobody could tell."""
    if LINES[:length].endswith("\n"):
        return
    with pytest.raises(UnreadableOutput):
        infiniband.read_ports(LINES[:length])


def test_recorded_fabric():
    """104 ports, 12 of which are hosts' and 8 between switches, each cable from both ends."""
    ((_, stdout, stderr, status),) = calls("infiniband-diags/ibsim-03-iblinkinfo-line-up.txt")
    ports = infiniband.read_ports(stdout, stderr, status)
    by_end = {(line.end.guid, line.end.port): line for line in ports}
    assert len(infiniband.switches(ports)) == 4
    cables = [line for line in ports if line.peer]
    assert len(cables) == 2 * 8 + 2 * 8
    for line in cables:
        assert line.peer is not None
        back = by_end[line.peer.guid, line.peer.port].peer
        assert back is not None
        assert (back.guid, back.port, line.active) == (line.end.guid, line.end.port, True)
    assert {line.end.description for line in ports if line.end.lid == 4} == {"MF0;tor-2:MQM8700/U1"}


def test_recorded_fabric_with_a_link_that_is_not_answered_for():
    """``Port not available`` and warnings between the lines."""
    ((_, stdout, stderr, status),) = calls("infiniband-diags/ibsim-21-iblinkinfo-after-unlink.txt")
    lost = [line for line in infiniband.read_ports(stdout, stderr, status) if line.active and line.peer is None]
    assert [(line.end.lid, line.end.port) for line in lost][:1] == [(5, 1)]
