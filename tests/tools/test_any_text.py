"""The readers take any text: they answer quickly with what is in it, or raise an error of their own."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import ToolError
from fabric.report.diagnosis import parsed_document
from fabric.tools import (
    host_parts,
    infiniband,
    interfaces,
    management,
    mlxlink,
    mlxreg,
    nccl,
    nvue,
    perftest,
    sysfs,
)
from tests.places import CAPTURES, GOLDEN
from tests.tools import test_fabric_tools, test_infiniband, test_mlxlink
from tests.tools.samples import sample

NCCL = [path.read_text() for path in sorted((GOLDEN / "nccl-tests").iterdir())]
PERFTEST = [path.read_text() for path in sorted((GOLDEN / "perftest").iterdir())]
TOOLS = [
    test_mlxlink.TABLE,
    test_mlxlink.document(**{"Physical Counters and BER Info": test_mlxlink.COUNTERS}),
    "Operational Info\n----------------\nState : Active \nPhysical state : LinkUp \n",
    test_infiniband.said(),
    test_infiniband.LINES,
    test_infiniband.NAMED + "2 valid lids dumped \n",
    "# Port counters: Lid 2 port 21 (CapMask: 0x1300)\nLinkDownedCounter:...............3\nPortRcvErrors:.....77\n",
    "sminfo: sm lid 1 sm guid 0xb8599f0300010101, activity count 382 priority 0 state 3 SMINFO_MASTER\n",
    test_fabric_tools.LINK.format(flags="UP,LOWER_UP", state="UP", end="\n"),
    "4: ACTIVE\n5: LinkUp\n",
    "b859:9f03:0000:1000\n",
    "routing_engine updn\n",
    *(test_fabric_tools.LSPCI, test_fabric_tools.GREP, test_fabric_tools.SMI),
    sample("lldp/two-neighbours.txt"),
    sample("ethtool/02-json-m-mfs1s00.txt"),
    *(path.read_text() for path in (CAPTURES / "nvidia-smi-topo").glob("*.txt")),
    sample("infiniband-diags/29-real-ibnetdiscover-p-test.txt")[:4000],
    sample("ufm/links-docs-6.20.json"),
]
Read = Callable[[str, str, int], Any]
READERS: tuple[Read, ...] = (
    *(infiniband.read_port, infiniband.read_ports, infiniband.read_counters, infiniband.read_links),
    infiniband.read_ufm,
    *(infiniband.read_subnet_manager, infiniband.read_routes, infiniband.read_errors),
    *(mlxreg.read, mlxlink.read, mlxlink.read_module, mlxlink.read_optics, interfaces.read),
    *(sysfs.read_port_state, sysfs.read_states, sysfs.read_node_guid, sysfs.read_netdev),
    *(sysfs.read_counters, sysfs.read_identity, sysfs.read_places, host_parts.read_rnics, host_parts.read_gpus),
    *(management.read_unhealthy, interfaces.read_neighbours, host_parts.read_topology, interfaces.read_module),
    *(nvue.read, nvue.read_commands, nvue.read_pending, nvue.read_ports, nvue.read_neighbours),
)
PIECES = [
    *("#", "# ", "Rank", "#bytes", "Test\n", "Device   : ", "0: ", "[1,0]<stdout>:", "\n", " ", "-----", "N/A", "-1"),
    *("float", "nan", "1e999", "9" * 5000, "٣", "\x00", "\x1b[31m", "status=12", "Got completion from peer", "0.00"),
    *("|", "0x", "====\n", "-E- ", '"', "[  ]", "\r", "{", "\t", "]", "'", "' - '", "X", "NV", "GPU9"),
]
NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", re.ASCII)
HEXADECIMAL = re.compile(r"(?<![0-9a-fA-Fx])(?:0x)?([0-9a-fA-F]{1,20})")
MIB = 8 * (1 << 20) / 1e9


@st.composite
def mutated(draw: st.DrawFn, texts: list[str]) -> str:
    """A good text with stretches removed, doubled, moved, or replaced by odd pieces, and cut."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 200)))
        piece = draw(st.sampled_from(["", text[start:end] * 2, *PIECES]) | st.text(max_size=20))
        text = text[:start] + piece + text[end:]
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


def any_text(texts: list[str]) -> st.SearchStrategy[str]:
    """Mutations, heaps of pieces, and noise."""
    return mutated(texts) | st.lists(st.sampled_from(PIECES) | st.text(max_size=8)).map(" ".join) | st.text()


def written(text: str, factors: tuple[float, ...]) -> set[float]:
    """Every number in a text, in each unit that it may have."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    return {float(number) * factor for number in NUMBER.findall(plain) for factor in factors}


@settings(max_examples=60, deadline=None)
@given(any_text(NCCL))
def test_nccl_tests_of_any_text(text: str) -> None:
    """No exception, a document, and no bandwidth or time that is not in the text."""
    log = nccl.parse(text)
    json.dumps(parsed_document("nccl-tests", text), allow_nan=False)
    known = written(text, (1.0, 8.0))
    for test in log.tests:
        for place in [place for row in test.rows for place in (row.out_of_place, row.in_place) if place]:
            assert {place.time_us, place.algbw_gbps, place.busbw_gbps} <= known
            assert place.wrong is None or 0 <= place.wrong < 1 << 63
        assert all(0 <= row.size_bytes < 1 << 63 for row in test.rows)
        assert len(test.problems) < 30
    assert all(failure.text in text or failure.kind == "wrong_result" or "\x1b" in text for failure in log.failures)


@settings(max_examples=60, deadline=None)
@given(any_text(PERFTEST))
def test_perftest_of_any_text(text: str) -> None:
    """No exception, a document, and no bandwidth that is not in the text."""
    log = perftest.parse(text)
    json.dumps(parsed_document("perftest", text), allow_nan=False)
    known = written(text, (1.0, MIB)) | {None}
    for test in log.tests:
        for row in test.rows:
            assert {row.bw_peak_gbps, row.bw_average_gbps} <= known
            assert row.bw_average_gbps is None or (row.bw_average_gbps > 0 and row.iterations > 0)
        assert len(test.problems) < 30


@pytest.mark.slow
@pytest.mark.parametrize("text", NCCL + PERFTEST)
def test_a_log_cut_anywhere_is_read(text: str) -> None:
    """Its tests are those of the whole log, the last of them with fewer rows, and never other bandwidths."""
    parse = nccl.parse if text in NCCL else perftest.parse

    def rows(part: str) -> set[object]:
        # Of a count of wrong elements, the row's last cell, only that it is not zero survives a cut.
        return {
            (row, None)
            if isinstance(row, perftest.PerftestRow)
            else (row._replace(in_place=row.in_place._replace(wrong=None)), bool(row.in_place.wrong))
            for test in parse(part).tests
            for row in test.rows
        }

    whole = rows(text)
    for length in range(0, len(text), 3):
        assert rows(text[:length]) <= whole, length


@settings(max_examples=60, deadline=None)
@given(text=any_text(TOOLS), stderr=st.text(max_size=40), status=st.sampled_from([0, 0, 0, 1, 127, 255]))
def test_a_reader_answers_or_raises_its_own_error(text: str, stderr: str, status: int) -> None:
    """Nothing else comes out, and of numbers only those that stand in the text."""
    numbers = {int(found, 16) for found in HEXADECIMAL.findall(text)} | {
        int(found) for found in re.findall(r"[0-9]+", text, re.ASCII) if len(found) < 4000
    }
    for read in READERS:
        try:
            found = read(text, stderr, status)
        except ToolError as exc:
            assert str(exc)  # noqa: PT017 - either is right, anything else is not
            continue
        if read in (mlxreg.read, infiniband.read_routes):
            assert set(found.values()) <= numbers
        if read is host_parts.read_topology:
            assert set(found.numa.values()) <= numbers
    management.parse_conf(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        *("9", "a:1:1 [", "#bytes\n", "   RDMA_Write BW Test\n", "# Using devices\n", "# size count type\n", "0: 0: "),
        *(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n", "status-"),
        *("#  Rank  0 Group  0 Pid 1 on a device 0\n", "1 1 float\n", "0x", "a | 0x00000001\n", "{", "[", '"" '),
        *("1: a: <", "LinkState:.", "# Port info: "),
    ],
)
def test_a_quarter_of_a_megabyte_of_one_thing_is_read(piece: str) -> None:
    """By every reader: time grows with the length, not with its square, which the suite's own deadline would end."""
    text = piece * ((1 << 18) // len(piece))
    for read in (lambda text, *_: nccl.parse(text), lambda text, *_: perftest.parse(text), *READERS):
        with suppress(ToolError):
            read("=\n" + text, "", 0)
