"""What ibstat prints of a host's own devices: recorded answers, and any text made of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools import ibstat
from fabric.tools.sysfs import RdmaDevice, RdmaPort
from tests.places import CAPTURES

POLLING = (CAPTURES / "ibstat" / "01-cx4-polling.txt").read_text()
ACTIVE = (CAPTURES / "ibstat" / "03-cx4-active.txt").read_text()
SIMULATED = (CAPTURES / "infiniband-diags" / "ibsim-01-ibstat-active.txt").read_text()
SIMULATED = SIMULATED.partition("$ ibstat\n")[2].partition("[exit")[0]
SOFT = "CA" + (CAPTURES / "rxe" / "ibv_devinfo_ibstat_rdma.txt").read_text().partition("\nCA")[2].partition("link ")[0]
CX4 = RdmaDevice("ec0d:9a03:0044:c34c", "12.28.2040", None, None)


@pytest.mark.parametrize(
    ("text", "device", "port"),
    [
        (POLLING, CX4, RdmaPort(False, 10.0, "infiniband", 0xEC0D9A030044C34C, None)),
        (ACTIVE, CX4, RdmaPort(True, 56.0, "infiniband", 0xEC0D9A030044C34C, None)),
        (
            SIMULATED,
            RdmaDevice("b859:9f03:0001:0100", "1", None, None),
            RdmaPort(True, 104.0, "infiniband", 0xB8599F0300010101, None),
        ),
        (
            SOFT,
            RdmaDevice("5054:00ff:fe12:3456", None, None, None),
            RdmaPort(True, 2.5, "ethernet", 0x505400FFFE123456, None),
        ),
    ],
    ids=["polling", "active", "ibsim", "soft-roce"],
)
def test_recorded_devices(text: str, device: RdmaDevice, port: RdmaPort) -> None:
    """With blanks or tabs, a link that is down, the simulator's short link layer, soft-RoCE without firmware."""
    devices, ports = ibstat.read(text)
    assert list(devices.values()) == [device]
    assert ports == {(next(iter(devices)), 1): port}


def test_two_devices_and_none() -> None:
    """All that are there; of a host without any ibstat prints nothing and exits 0."""
    devices, ports = ibstat.read(ACTIVE + POLLING.replace("ibp4s0", "ibp5s0"))
    assert (list(devices), [port.active for port in ports.values()]) == (["ibp4s0", "ibp5s0"], [True, False])
    assert ibstat.read("") == ({}, {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ACTIVE + ACTIVE, "ibp4s0 is there twice"),
        (ACTIVE.replace("State: Active", "State: Fine"), "not a port's state"),
        (ACTIVE.replace("Rate: 56", "Rate: fast"), "not a port's state, rate"),
        (ACTIVE.replace("ports: 1", "ports: 2"), "has '2' ports, of which 1 are told"),
        (ACTIVE[:-20], "cut at"),
        (ACTIVE.partition("        Port 1")[0], "has '1' ports, of which 0 are told"),
        ("ibpanic: [4242] main: stat of IB device 'mlx5_9' failed\n", "not a line of a device"),
    ],
)
def test_damaged_output_is_refused(text: str, words: str) -> None:
    """A value that is none, half of a port, a device twice, another text."""
    with pytest.raises(UnreadableOutput, match=words):
        ibstat.read(text)


def test_the_tools_own_words() -> None:
    """Exit 127 and 255."""
    with pytest.raises(ToolError, match="ibstat is not there"):
        ibstat.read("", "sh: ibstat: not found\n", 127)
    with pytest.raises(ToolError, match="can't list"):
        ibstat.read("", "ibstat: iberror: failed: can't list IB device names\n", 255)
    assert ibstat.ask() == ("ibstat",)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([POLLING, ACTIVE, SOFT]),
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 60), st.sampled_from(["", "\n", "0x", "9", "\tX: y\n"]))),
)
def test_any_text_is_read_right_or_refused(text: str, cuts: list[tuple[int, int, str]]) -> None:
    """Whatever was lost or added: every GUID that is read stands there, and every device has all its ports."""
    for start, length, piece in cuts:
        text = text[:start] + piece + text[start + length :]
    try:
        devices, ports = ibstat.read(text)
    except UnreadableOutput:
        return
    assert {device for device, _ in ports} <= set(devices)
    assert all(f"0x{port.guid or 0:016x}" in text for port in ports.values())
