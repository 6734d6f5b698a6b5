"""infiniband-diags: ports, cables, states, counters, routes and the subnet manager, as the real tools print them."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools import infiniband
from fabric.tools.driver import need_success
from fabric.tools.mlxlink import optics_in_band
from tests.tools.samples import calls, sample

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
    assert (up.end.description, up.end.lid, up.end.port, up.state.active, up.speed) == (
        "gpu node 04 mlx5_1", 12, 1, True, "4X 53.125 Gbps"
    )  # fmt: skip
    assert up.peer == infiniband.End(0xE41D2D0300000200, "MF0;tor-2:MQM8700/U1", 4, 4)
    assert (str(down.state), down.peer, down.speed) == ("Down/Disabled", None, "")
    assert (aggregation.speed, str(aggregation.state)) == ("4X ????", "Initialize/LinkUp")
    assert aggregation.peer is not None
    assert aggregation.peer.description.endswith("Aggregation Node")


def test_a_list_that_is_cut_is_no_list():
    """Unless it is cut between two lines, which nobody could tell."""
    for length in range(0, len(LINES) - 1, 7):
        if not LINES[:length].endswith("\n"):
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
        assert (back.guid, back.port, line.state.active) == (line.end.guid, line.end.port, True)
    assert {line.end.description for line in ports if line.end.lid == 4} == {"MF0;tor-2:MQM8700/U1"}


def test_recorded_fabric_with_a_link_that_is_not_answered_for():
    """``Port not available`` and warnings between the lines."""
    ((_, stdout, stderr, status),) = calls("infiniband-diags/ibsim-21-iblinkinfo-after-unlink.txt")
    lost = [line for line in infiniband.read_ports(stdout, stderr, status) if line.state.active and line.peer is None]
    assert [(line.end.lid, line.end.port) for line in lost][:1] == [(5, 1)]


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
    argv = infiniband.port(4, 23, up=False, through=through)
    assert " ".join(argv) == "ibportstate -C mlx5_3 -P 1 -y 0xfab 4 23 disable"
    for wrong in (lambda: infiniband.port(0, 1, up=True), lambda: infiniband.port_info(1, 0)):
        with pytest.raises(ValueError, match=r"LID|port"):
            wrong()


def test_a_closed_port_is_known_and_a_guard_sees_it():
    """Its pattern matches when it is not closed, and only then."""
    for physical, closed in (("Disabled", True), ("Polling", False), ("LinkUp", False)):
        text = said("Down", physical)
        assert infiniband.read_port(text).disabled is closed
        assert any(re.search(infiniband.NOT_DISABLED, line) for line in text.splitlines()) is not closed


def test_a_cut_answer_never_gives_another_state():
    """The same, or an error."""
    for length in range(0, len(said()), 3):
        with suppress(UnreadableOutput):
            assert str(infiniband.read_port(said()[:length])) == "Active/LinkUp"


TORN = 'Errors for 0x200003 "leaf03"\n   GUID 0x200003 port 18: [LinkDownedCounter == 3]\n'


def recorded() -> tuple[str, str]:
    """Standard output and error of the real tool over a fabric with a mute switch and a mute adapter."""
    lines = [
        line for line in sample("infiniband-diags/ibsim-18-ibqueryerrors.txt").splitlines() if line[:1] not in "$["
    ]
    loud = [line for line in lines if line.startswith(("ibwarn", "./lib"))]
    return "".join(f"{line}\n" for line in lines if line not in loud), "\n".join(loud)


def test_a_recorded_sweep_has_counters_by_port_and_says_who_was_mute() -> None:
    """The line of all ports together is none of a port; names are those of the kernel."""
    sweep = infiniband.read_errors(*recorded(), 1)
    assert sweep.mute == {5, 11}
    assert sweep.counters[0xE41D2D0300000100, 21] == {"symbol_error": 1234, "link_downed": 3, "port_rcv_errors": 77}
    assert sweep.counters[0xE41D2D0300000100, 1] == {}  # PortRcvSwitchRelayErrors are nobody's fault
    assert len(sweep.counters) == 4


@pytest.mark.parametrize(
    ("stdout", "status", "error"),
    [
        (TORN, 1, UnreadableOutput),
        ("## Summary: 9 nodes checked, 0 bad nodes found\n##          7 PMA query failures\n", 0, UnreadableOutput),
        ("", 255, ToolError),
        ("", 127, ToolError),
    ],
)
def test_half_a_sweep_is_none(stdout: str, status: int, error: type[Exception]) -> None:
    """Cut before its summary, failed, or with ports left out of which it does not say which."""
    with pytest.raises(error):
        infiniband.read_errors(stdout, "", status)


def test_what_grows_on_a_good_fabric_can_be_left_out() -> None:
    assert infiniband.errors() == ("ibqueryerrors",)
    assert infiniband.errors(without=infiniband.BUSY)[1:] == ("-s", "PortXmitWait,PortRcvSwitchRelayErrors")


@pytest.mark.parametrize(("number", "label"), [(1, "1/1"), (2, "1/2"), (17, "9/1"), (64, "32/2")])
def test_two_ports_of_a_switch_share_a_cage(number: int, label: str) -> None:
    argv = optics_in_band(17, number, "mlx5_3", 1)
    assert argv[1:5] == ("-d", "lid-17,mlx5_3,1", "-p", label)


@pytest.mark.parametrize(
    ("speed", "lanes"), [("4X 106.25 Gbps", (4, 106.25)), ("2X 53.125 Gbps", (2, 53.125)), ("4X ????", (None, None))]
)
def test_the_lanes_of_a_link_are_read_from_its_speed(speed: str, lanes: tuple[int | None, float | None]) -> None:
    end = infiniband.End(1, "leaf", 1, 1)
    assert infiniband.PortLine(end, speed, infiniband.ACTIVE, None).lanes == lanes


HEAD = (
    "Unicast lids [0x0-0x3f] of switch Lid 3 guid 0xe41d2d0300000300 (u0-leaf0):\n"
    "  Lid  Out   Destination\n       Port     Info \n"
)
# As in ibroute(8) of infiniband-diags: with names, and without (-n).
NAMED = (
    f"{HEAD}0x0002 004 : (Switch portguid 0x1: 'spine0')\n0x0012 021 : (Channel Adapter portguid 0x2: 'gpu1 mlx5_0')\n"
)
BARE = f"{HEAD}0x0002 004\n0x0012 021\n"


@pytest.mark.parametrize("text", [NAMED, BARE], ids=["names", "bare"])
@pytest.mark.parametrize("end", ["2 valid lids dumped \n", "2 lids dumped\n"])
def test_a_whole_table_is_read(text: str, end: str) -> None:
    assert infiniband.read_routes(text + end) == {2: 4, 0x12: 21}


@pytest.mark.parametrize(
    "text", [BARE, f"{BARE}3 valid lids dumped \n", f"{BARE}2 valid lids dumped", "", f"{HEAD}0x0002 004\n"]
)
def test_a_table_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(UnreadableOutput, match="ibroute"):
        infiniband.read_routes(text)


@given(st.dictionaries(st.integers(1, infiniband.LIDS_MOST), st.integers(0, 254), max_size=30))
def test_what_is_written_is_read(table: dict[int, int]) -> None:
    rows = "".join(f"0x{lid:04x} {port:03d}\n" for lid, port in table.items())
    assert infiniband.read_routes(f"{HEAD}{rows}{len(table)} valid lids dumped \n") == table


def test_data_counters_of_all_ports_are_read_and_one_that_is_full_says_nothing() -> None:
    said = (
        'Data Counters for 0x200001 "leaf01"\n'
        "   GUID 0x200001 port 1: [PortXmitData == 8496 (33.188KB)] [PortRcvData == 8496 (33.188KB)]\n"
        "   GUID 0x200001 port 2: [PortXmitData == 4294967295 (16.000GB)] [PortRcvData == 6048 (23.625KB)]\n"
        "\n## Summary: 6 nodes checked, 0 bad nodes found\n"
    )
    assert infiniband.read_data(said) == {(0x200001, 1): 8496}
    with pytest.raises(UnreadableOutput):
        infiniband.read_data(said[:120])


@pytest.mark.parametrize(
    ("exit_status", "words"), [(-11, "ended by SIGSEGV"), (137, "ended by SIGKILL"), (1, "exit 1"), (255, "exit 255")]
)
def test_a_tool_that_was_killed_is_told_by_its_signal(exit_status: int, words: str) -> None:
    with pytest.raises(ToolError, match=f"perfquery: {words}: no output"):
        need_success("perfquery", "", "", exit_status)
