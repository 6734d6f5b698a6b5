"""ibqueryerrors: what every port has counted, and who did not answer."""

from __future__ import annotations

import pytest

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools import infiniband
from fabric.tools.mlxlink import optics_in_band
from tests.tools.samples import sample

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
    assert infiniband.PortLine(end, speed, "Active", "LinkUp", None).lanes == lanes
