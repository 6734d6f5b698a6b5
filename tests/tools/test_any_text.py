"""The parsers take any text: they return, quickly, and say only what is in it."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.report.parsed import parsed_document
from fabric.tools import nccl, perftest
from tests.places import GOLDEN

NCCL = [path.read_text() for path in sorted((GOLDEN / "nccl-tests").iterdir())]
PERFTEST = [path.read_text() for path in sorted((GOLDEN / "perftest").iterdir())]
PIECES = [
    *("#", "# ", "Rank", "#bytes", "Test\n", "Device   : ", "0: ", "[1,0]<stdout>:", "\n", " ", "-----", "N/A"),
    *("-1"),
]
PIECES += [
    "float",
    "nan",
    "1e999",
    "9" * 5000,
    "٣",
    "\x00",
    "\x1b[31m",
    "status=12",
    "Got completion from peer",
    "0.00",
]
NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", re.ASCII)
MIB = 8 * (1 << 20) / 1e9


@st.composite
def mutated(draw: st.DrawFn, texts: list[str]) -> str:
    """A good text with stretches removed, doubled, moved, or replaced by odd pieces."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 6))):
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
            assert row.bw_average_gbps is None or row.bw_average_gbps > 0
            assert row.bw_average_gbps is None or row.iterations > 0
        assert len(test.problems) < 30


@pytest.mark.parametrize("text", NCCL + PERFTEST)
def test_a_log_cut_anywhere_is_read(text: str) -> None:
    """Its tests are those of the whole log, the last of them with fewer rows, and never other bandwidths."""
    parse = nccl.parse if text in NCCL else perftest.parse

    def rows(part: str) -> set[object]:
        # Of a count of wrong elements, the row's last cell, only that it is not zero survives a cut.
        return {
            (row, None)
            if isinstance(row, perftest.PerftestRow)
            else (replace(row, in_place=replace(row.in_place, wrong=None)), bool(row.in_place.wrong))
            for test in parse(part).tests
            for row in test.rows
        }

    whole = rows(text)
    for length in range(0, len(text), 3):
        assert rows(text[:length]) <= whole, length


@pytest.mark.parametrize("parse", [nccl.parse, perftest.parse])
@pytest.mark.parametrize(
    "piece",
    [
        *("9", "a:1:1 [", "#bytes\n"),
        *(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"),
        *("   RDMA_Write BW Test\n", "# Using devices\n", "# size count type\n"),
        *("#  Rank  0 Group  0 Pid 1 on a device 0\n", "1 1 float\n", "0: 0: ", "status-"),
    ],
)
def test_a_quarter_of_a_megabyte_of_one_thing_is_read(parse, piece: str) -> None:
    """Time grows with the length, not with its square: the suite's own deadline would end this one."""
    parse(piece * ((1 << 18) // len(piece)))
