"""A table that was altered contradicts itself."""

from __future__ import annotations

import re

from fabric.tools import nccl
from fabric.tools.nccl.failures import NcclFailure, blames_fabric
from tests.places import CAPTURES, GOLDEN

FOLDER = GOLDEN / "nccl-tests"
TWO_TESTS = (FOLDER / "unified-two-tests.txt").read_text()


def problems(text: str) -> tuple[str, ...]:
    """What is wrong with the first test of a log."""
    return nccl.parse(text).tests[0].problems


def test_a_lost_row_changes_the_mean() -> None:
    """The printed average is a checksum of the rows."""
    lines = [line for line in TWO_TESTS.splitlines() if not line.startswith("     8388608")]
    (problem,) = problems("\n".join(lines))
    assert problem == "mean of 6 rows is 293.0317, printed average is 297.693: rows were lost or altered"


def test_an_altered_bus_bandwidth_breaks_the_ratio() -> None:
    """Even where the mean is kept by altering two rows."""
    text = TWO_TESTS.replace("420.45", "410.45", 1).replace("403.20", "413.20", 1)
    assert problems(text) == ("busbw/algbw is not the 1.75 of all_reduce of 8 ranks at 32M, 64M",)


def test_an_altered_time_breaks_size_over_time() -> None:
    """Algorithm bandwidth is size/time."""
    assert problems(TWO_TESTS.replace("279.32", "379.32", 1)) == ("algbw is not size/time at 64M",)


def test_altered_rows_of_an_unknown_collective_are_noticed() -> None:
    """Their ratio differs from the others'."""
    text = (FOLDER / "side-work-copybw.txt").read_text().replace("   none  ", "   what  ").replace("163.63", "153.63")
    assert any("busbw/algbw" in problem for problem in problems(text))


def test_wrong_results_are_a_problem_and_a_failure() -> None:
    """Corrupt data points to the fabric."""
    log = nccl.parse((FOLDER / "wrong-results.txt").read_text())
    assert log.tests[0].problems == ("wrong elements at 16M",)
    assert log.failures == (NcclFailure(None, "wrong_result", "wrong elements at 16M"),)
    assert blames_fabric("wrong_result", log.failures[0].text)


def test_out_of_bounds_values_are_wrong_results() -> None:
    """Old releases only say it in the closing lines."""
    text = (FOLDER / "until-2022-alltoall-blank-redop.txt").read_text().replace("0 OK", "3 FAILED")
    log = nccl.parse(text)
    assert log.tests[0].problems == ("out of bounds values: FAILED",)
    assert [failure.kind for failure in log.failures] == ["wrong_result"]


def test_a_lost_digit_is_noticed() -> None:
    """Of any time or bandwidth: its row is narrower than the others, whatever else still adds up."""
    first = TWO_TESTS[: TWO_TESTS.index("Avg bus bandwidth") + 40]
    unseen, tried = [], 0
    for row in re.finditer(r"^ +[0-9]{7,} .*$", first, re.MULTILINE):
        cells = [found.span() for found in re.finditer(r"[0-9.]+", row[0])][3:]
        for start, end in cells:
            for place in range(row.start() + start, row.start() + end):
                tried += first[place] != "."
                if first[place] != "." and not problems(first[:place] + first[place + 1 :]):
                    unseen.append(row[0][start:end])
    assert (tried > 100, unseen) == (True, [])


def test_lines_that_lost_their_indentation_are_no_shorter() -> None:
    """Sizes of 7 and 8 digits, as somebody pasted them."""
    text = "\n".join(line.lstrip() if line.lstrip()[:1].isdigit() else line for line in TWO_TESTS.splitlines())
    assert problems(text) == problems(TWO_TESTS) == ()


def test_rccl_prints_three_columns_more() -> None:
    """Algorithm, protocol and channels behind both places; rccl-tests calls itself otherwise."""
    more = CAPTURES / "more"
    (test,) = nccl.parse((more / "rccl-2.27-algo-proto-nchannels-columns.txt").read_text()).tests
    assert [(row.size_bytes, row.in_place.busbw_gbps) for row in test.rows][-1] == (268435456, 365.76 * 8)
    assert test.problems == ("mean of 3 rows is 145.5367, printed average is 249.115: rows were lost or altered",)
    (test,) = nccl.parse((more / "rccl-2.17.9-mi350-2node-alltoall-NAwrong-excerpt.txt").read_text()).tests
    assert (test.op, test.told["version"].split("-")[0], test.rows[-1].in_place.wrong) == ("alltoall", "2.17.9", None)
