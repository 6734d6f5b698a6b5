"""The readers of fabric tools take any text: a value that is in it, or an error of their own."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import ToolError
from fabric.tools import infiniband, ip_link, management, mlxlink, mlxreg, sysfs
from tests.tools import test_fabric_tools, test_infiniband, test_mlxlink, test_mlxreg

TEXTS = [
    test_mlxreg.TABLE,
    test_mlxlink.document(**{"Physical Counters and BER Info": test_mlxlink.COUNTERS}),
    "Operational Info\n----------------\nState : Active \nPhysical state : LinkUp \n",
    test_infiniband.said(),
    test_infiniband.LINES,
    "# Port counters: Lid 2 port 21 (CapMask: 0x1300)\nLinkDownedCounter:...............3\nPortRcvErrors:.....77\n",
    "sminfo: sm lid 1 sm guid 0xb8599f0300010101, activity count 382 priority 0 state 3 SMINFO_MASTER\n",
    test_fabric_tools.LINK.format(flags="UP,LOWER_UP", state="UP", end="\n"),
    "4: ACTIVE\n5: LinkUp\n",
    "b859:9f03:0000:1000\n",
    "routing_engine updn\n",
]
READERS = [
    mlxreg.read, mlxlink.read, infiniband.read_port, infiniband.read_ports, infiniband.read_counters,
    infiniband.read_subnet_manager, infiniband.read_routes,
    ip_link.read, sysfs.read_port_state, sysfs.read_states, sysfs.read_node_guid, sysfs.read_netdev,
    sysfs.read_counters, management.read_unhealthy,
]  # fmt: skip
PIECES = ["\n", "|", "0x", "====\n", "-E- ", '"', "[  ]", "N/A", "٣", "9" * 5000, "\x00", "\x1b[31m", "\r", "{", "nan"]


@st.composite
def mutated(draw):
    """A good text with stretches removed, doubled or replaced, and cut."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 60)))
        piece = draw(st.sampled_from(["", text[start:end] * 2, *PIECES]) | st.text(max_size=12))
        text = text[:start] + piece + text[end:]
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@settings(max_examples=40, deadline=None)
@given(text=mutated() | st.text(), status=st.sampled_from([0, 0, 0, 1, 127, 255]))
def test_a_reader_answers_or_raises_its_own_error(text, status):
    """Nothing else comes out, and of numbers only those that stand in the text."""
    numbers = {int(found, 16) for found in re.findall(r"(?<![0-9a-fA-Fx])(?:0x)?([0-9a-fA-F]{1,20})", text)}
    for read in READERS:
        try:
            found = read(text, "", status)
        except ToolError:
            continue
        if read is mlxreg.read:
            assert set(found.values()) <= numbers
    management.parse_conf(text)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "piece", [" ", "0x", "a | 0x00000001\n", "{", "[", '"" ', "1: a: <", "LinkState:.", "# Port info: "]
)
def test_a_megabyte_of_one_thing_is_read(read, piece):
    """Time grows with the length, not with its square: the suite's own deadline would end this one."""
    text = piece * ((1 << 20) // len(piece))
    with suppress(ToolError):
        read("=\n" + text)
