"""The command line of a collective, the reading of its tables, and what contradicts itself."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.tools import nccl
from fabric.tools.nccl.collective import Collective
from fabric.tools.nccl.failures import NcclFailure
from fabric.tools.nccl.rows import FACTOR, NcclPlace, NcclRow, factor
from tests.places import CAPTURES, GOLDEN

FOLDER = GOLDEN / "nccl-tests"

HEADING = (
    "#       size       count    type redop root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    "#        (B)  (elements)                        (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
)
ROW_1G = "  1073741824   268435456   float   sum   -1   4478.8  239.74  449.51      0   4463.7  240.55  451.03      0"
ROW_2G = "  2147483648   536870912   float   sum   -1   8722.7  246.20  461.62      0   8717.9  246.33  461.87      0"
AVERAGE = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 456.008 \n"


def collective(**changed):
    """A command line with one value changed."""
    values = {
        "op": "alltoall",
        "sizes_bytes": tuple(1 << power for power in range(20, 31)),
        "gpus_per_process": 8,
        "iterations": 20,
    }
    return Collective(**(values | changed)).argv()


def golden(name: str) -> nccl.NcclLog:
    """A recorded file, parsed."""
    return nccl.parse((FOLDER / f"{name}.txt").read_text())


def table(*rows: str, foot: str = AVERAGE) -> str:
    """A log of one test."""
    return HEADING + "".join(f"{row}\n" for row in rows) + foot


def test_the_collective_gives_every_size() -> None:
    """The whole command line."""
    assert collective() == (
        *("alltoall_perf", "-b", "1048576", "-e", "1073741824", "-f", "2", "-g", "8", "-n", "20", "-w", "5"),
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"op": "all-reduce"},
        {"op": "-b"},
        {"op": "all_reduce_perf; reboot"},
        {"sizes_bytes": (0, 1)},
        {"sizes_bytes": (2, 1)},
        {"sizes_bytes": (2, 3)},
        {"gpus_per_process": 0},
        {"iterations": 0},
    ],
)
def test_what_nccl_tests_cannot_run_is_refused(changed) -> None:
    """An unknown collective or a value out of range."""
    with pytest.raises(ValueError, match=r"."):
        collective(**changed)


def test_gigabytes_become_gigabits() -> None:
    """449.51 GB/s is 3596.08 Gb/s."""
    (test,) = nccl.parse(table(ROW_1G, ROW_2G)).tests
    assert test.rows[0] == NcclRow(
        1 << 30, NcclPlace(4478.8, 239.74 * 8, 449.51 * 8, 0), NcclPlace(4463.7, 240.55 * 8, 451.03 * 8, 0)
    )
    assert test.avg_busbw_gbps == pytest.approx(456.008 * 8)
    assert (test.op, test.ranks, test.complete, test.problems) == ("all_reduce", 16, True, [])


def test_two_tests_in_one_log_with_noise_between_rows() -> None:
    """Each has its own collective, ranks and hosts."""
    log = golden("unified-two-tests")
    assert [(test.op, test.ranks, len(test.rows), test.complete, test.problems) for test in log.tests] == [
        ("all_reduce", 8, 7, True, []),
        ("alltoall", 8, 7, True, []),
    ]
    assert [test.hosts for test in log.tests] == [("gpu001", "gpu002")] * 2
    assert [row.in_place.wrong for row in log.tests[1].rows] == [None] * 7
    assert log.failures == ()


def test_cells_are_counted_from_the_end() -> None:
    """Until 2022 alltoall announced a redop column and left it blank; its error column counts nothing."""
    (test,) = golden("until-2022-alltoall-blank-redop").tests
    assert (test.op, test.ranks, len(test.rows), test.problems) == ("alltoall", 4, 7, [])
    last = test.rows[-1]
    assert last.out_of_place == NcclPlace(1752.7, 38.29 * 8, 28.72 * 8, None)


def test_copy_bandwidth_columns_are_not_the_wrong_count() -> None:
    """Side work (2024-07 to 2025-09) adds a column to each place."""
    (test,) = golden("side-work-copybw").tests
    assert (test.op, test.ranks, len(test.rows), test.problems) == ("all_gather", 16, 7, [])
    assert test.rows[-1].in_place == NcclPlace(384.5, 174.54 * 8, 163.63 * 8, 0)


def test_per_iteration_columns_and_timestamps() -> None:
    """-I adds four columns to each place, -S two words to the row (2026)."""
    (test,) = golden("per-iteration-timestamps").tests
    assert (test.op, test.ranks, len(test.rows), test.problems) == ("broadcast", 4, 7, [])
    assert test.rows[-1].in_place == NcclPlace(346.05, 193.93 * 8, 193.93 * 8, 0)


def test_tags_of_open_mpi_5_colours_and_a_cut_last_row() -> None:
    """The rows before the cut stay; the cut one is quoted."""
    (test,) = golden("openmpi5-tags-last-row-cut").tests
    assert (test.ranks, len(test.rows), test.complete) == (4, 5, False)
    assert len(test.problems) == 1
    assert test.problems[0].startswith("unreadable or cut row: '33554432 ")


@pytest.mark.parametrize(
    "prefix", ["0: ", " 0: ", "[1,0]<stdout>:", "[1,0]<stdout>: ", "[prterun-h-1@1,0]<stdout>:", "    "]
)
def test_tags_and_indentation_change_nothing(prefix: str) -> None:
    """Every line carries the same prefix."""
    text = table(ROW_1G, ROW_2G)
    tagged = "".join(f"{prefix}{line}\n" for line in text.splitlines())
    assert nccl.parse(tagged) == nccl.parse(text)


def test_two_ranks_that_both_print_a_table_do_not_mix() -> None:
    """As in a job that was started without MPI support: every rank is alone."""
    lines = table(ROW_1G, ROW_2G).splitlines()
    mixed = "".join(f"{rank}: {line}\n" for line in lines for rank in (0, 1))
    log = nccl.parse(mixed)
    assert len(log.tests) == 2
    assert log.tests[0] == log.tests[1] == nccl.parse("\n".join(lines)).tests[0]


def test_a_row_cut_anywhere_is_never_read_wrong() -> None:
    """Cut before its last character, it is dropped; what was cut inside it is said."""
    for length in range(1, len(ROW_2G) - 1):
        (test,) = nccl.parse(HEADING + ROW_1G + "\n" + ROW_2G[:length]).tests
        assert [row.size_bytes for row in test.rows] == [1 << 30]
        assert not test.complete
        assert bool(test.problems) is bool(ROW_2G[:length].strip())


def test_rows_without_a_heading_are_not_guessed() -> None:
    """The head of the log was cut off: the closing lines tell that rows are missing."""
    (test,) = nccl.parse(ROW_1G + "\n" + ROW_2G + "\n" + AVERAGE).tests
    assert test.rows == []
    assert test.problems == ["no rows, printed average is 456.008: rows were lost"]


def test_an_unknown_heading_is_not_guessed() -> None:
    """Its rows are not read."""
    (test,) = nccl.parse(table(ROW_1G).replace("algbw", "rate")).tests
    assert test.rows == []
    assert "unknown columns" in test.problems[0]


@pytest.mark.parametrize("cell", ["nan", "inf", "-1.00", "461.6", "1_0.0", "٤٦١.٦٢", "1e400", "x"])
def test_a_cell_that_is_no_number_makes_no_row(cell: str) -> None:
    """Nor does one that lost a digit. The row is quoted, not read as zero."""
    (test,) = nccl.parse(table(ROW_1G, ROW_2G.replace("461.62", cell))).tests
    assert [row.size_bytes for row in test.rows] == [1 << 30]
    assert "unreadable or cut row" in test.problems[0]


def test_rates_far_below_one_are_printed_with_four_decimals() -> None:
    """As the program of ``fabric lab`` prints them: its ports have 100 Mbit/s."""
    cells = "524288  131072  float  sum  -1  43913.1  0.0119  0.0119  0  43266.2  0.0121  0.0121  0"
    (test,) = nccl.parse(table(cells)).tests
    assert [(row.out_of_place.busbw_gbps, row.in_place.busbw_gbps) for row in test.rows] == [(0.0119 * 8, 0.0121 * 8)]


def test_what_a_test_says_of_itself_is_read() -> None:
    """Its options by name, the collective that starts and ends, the closing lines."""
    options = "step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0"
    text = f"# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 8 minBytes 8 maxBytes 16 {options}\n"
    (test,) = nccl.parse(f"{text}# Out of bounds values : 0 OK\n# Collective test concluded: sendrecv_perf\n").tests
    assert test.settings == {
        "starting": "all_reduce",
        **{"nThread": "1", "nGpus": "8", "minBytes": "8", "maxBytes": "16", "step": "2(factor)"},
        **{"warmup iters": "5", "iters": "20", "agg iters": "1", "validation": "1", "graph": "0"},
        **{"out of bounds": "0 OK", "concluded": "sendrecv"},
    }


def test_every_rank_is_listed_with_its_host_and_device() -> None:
    """With and without a group; a line that was cut is none."""
    (test,) = nccl.parse(
        "#  Rank  0 Group  1 Pid 440010 on cnode2-001 device  7 [0000:1b:00] NVIDIA H100\n"
        "#   Rank  1 Pid 112424 on localhost device  0 [0x00] A100-SXM4-40GB\n"
        "#  Rank  2 Group  0 Pid 440010 on cnode2\n"
    ).tests
    assert test.listed == [(0, 1, "cnode2-001", "7 [0000:1b:00]"), (1, 0, "localhost", "0 [0x00]")]


TWO_TESTS = (FOLDER / "unified-two-tests.txt").read_text()


def problems(text: str) -> list[str]:
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
    assert problems(text) == ["busbw/algbw is not the 1.75 of all_reduce of 8 ranks at 32M, 64M"]


def test_altered_rows_of_an_unknown_collective_are_noticed() -> None:
    """Their ratio differs from the others'."""
    text = (FOLDER / "side-work-copybw.txt").read_text().replace("   none  ", "   what  ").replace("163.63", "153.63")
    assert any("busbw/algbw" in problem for problem in problems(text))


def test_wrong_results_are_a_problem_and_a_failure() -> None:
    """Corrupt data points to the fabric."""
    log = nccl.parse((FOLDER / "wrong-results.txt").read_text())
    assert log.tests[0].problems == ["wrong elements at 16M"]
    assert log.failures == (NcclFailure(None, "wrong_result", "wrong elements at 16M"),)
    assert log.failures[0].blames_fabric


def test_out_of_bounds_values_are_wrong_results() -> None:
    """Old releases only say it in the closing lines."""
    text = (FOLDER / "until-2022-alltoall-blank-redop.txt").read_text().replace("0 OK", "3 FAILED")
    log = nccl.parse(text)
    assert log.tests[0].problems == ["out of bounds values: FAILED"]
    assert [failure.kind for failure in log.failures] == ["wrong_result"]


@pytest.mark.parametrize("words", ["0 OKgpu002:1:2 [0] NCCL x", "0 OKbye", "0", "3 OK", "0 FAILED", "x FAILED"])
def test_a_line_that_another_process_printed_into_says_nothing_of_the_results(words: str) -> None:
    """Only the tool's own words accuse the fabric; without them the output is not usable."""
    log = nccl.parse((FOLDER / "until-2022-alltoall-blank-redop.txt").read_text().replace("0 OK", words))
    assert log.tests[0].problems == [f"unreadable count of values out of bounds: {words!r}"]
    assert "out of bounds" not in log.tests[0].settings
    assert [failure for failure in log.failures if failure.blames_fabric] == []


def test_a_count_of_wrong_elements_that_something_was_printed_into_accuses_nobody() -> None:
    """A count never begins with 0, unless it is 0."""
    first = re.search(r"^ +\d+ +\d+ +float .* 0$", TWO_TESTS, re.MULTILINE)
    assert first is not None
    log = nccl.parse(TWO_TESTS.replace(first[0], f"{first[0]}12", 1))
    assert (log.failures, log.tests[0].problems[0][:21]) == ((), "unreadable or cut row")


def test_a_lost_digit_is_noticed() -> None:
    """Of any bandwidth or count of wrong elements; a time is not judged."""
    first = TWO_TESTS[: TWO_TESTS.index("Avg bus bandwidth") + 40]
    unseen, tried = [], 0
    for row in re.finditer(r"^ +[0-9]{7,} .*$", first, re.MULTILINE):
        cells = [found.span() for found in re.finditer(r"[0-9.]+", row[0])]
        for start, end in cells[4:7] + cells[8:]:
            for place in range(row.start() + start, row.start() + end):
                tried += first[place] != "."
                if first[place] != "." and not problems(first[:place] + first[place + 1 :]):
                    unseen.append(row[0][start:end])
    assert (tried > 100, unseen) == (True, [])


def test_lines_that_lost_their_indentation_are_no_shorter() -> None:
    """Sizes of 7 and 8 digits, as somebody pasted them."""
    text = "\n".join(line.lstrip() if line.lstrip()[:1].isdigit() else line for line in TWO_TESTS.splitlines())
    assert problems(text) == problems(TWO_TESTS) == []


def test_rccl_prints_three_columns_more() -> None:
    """Algorithm, protocol and channels behind both places; rccl-tests calls itself otherwise."""
    more = CAPTURES / "more"
    (test,) = nccl.parse((more / "rccl-2.27-algo-proto-nchannels-columns.txt").read_text()).tests
    assert [(row.size_bytes, row.in_place.busbw_gbps) for row in test.rows][-1] == (268435456, 365.76 * 8)
    assert test.problems == ["mean of 3 rows is 145.5367, printed average is 249.115: rows were lost or altered"]
    (test,) = nccl.parse((more / "rccl-2.17.9-mi350-2node-alltoall-NAwrong-excerpt.txt").read_text()).tests
    assert (test.op, test.settings["version"].split("-")[0], test.rows[-1].in_place.wrong) == (
        "alltoall",
        "2.17.9",
        None,
    )


UNIFIED = {
    "all_reduce": ("sum", "-1", "0"),
    "reduce_scatter": ("sum", "-1", "0"),
    "sendrecv": ("sum", "-1", "N/A"),
    "all_gather": ("none", "-1", "0"),
    "alltoall": ("none", "-1", "N/A"),
    "broadcast": ("none", "0", "0"),
    "reduce": ("sum", "0", "0"),
}
ONE_LINE_HEADING = "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"


def log(op: str, ranks: int, *, wrong: str = "0", sizes=(28, 30, 32)) -> str:
    """A table of one collective as it is printed, without saying which."""
    redop, root, in_place = UNIFIED[op]
    lines = []
    for power in sizes:
        size = 1 << power
        cells = f"{size} {size // 4} float {redop} {root}"
        for checked in (wrong, in_place if wrong == "0" else wrong):
            time = size / (150e3 + power)
            busbw = size / time / 1e3 * factor(op, ranks)
            cells += f" {time:.1f} {size / time / 1e3:.2f} {busbw:.2f} {checked}"
        lines.append(cells + "\n")
    return ONE_LINE_HEADING + "".join(lines)


@pytest.mark.parametrize("op", sorted(UNIFIED))
@given(ranks=st.integers(3, 40))
def test_what_was_run_is_inferred(op: str, ranks: int) -> None:
    """From the columns and the ratio; ranks only where the ratio depends on them."""
    (test,) = nccl.parse(log(op, ranks)).tests
    assert test.op == op
    assert test.ranks == (None if FACTOR[op] == "1" else ranks)
    assert test.problems == []


def test_all_reduce_of_two_ranks_has_a_ratio_of_one() -> None:
    """So it is told from sendrecv by its checked in-place results."""
    (test,) = nccl.parse(log("all_reduce", 2)).tests
    assert (test.op, test.ranks) == ("all_reduce", 2)
    (test,) = nccl.parse(log("all_reduce", 2, wrong="N/A")).tests
    assert (test.op, test.ranks) == (None, None)


def test_many_ranks_are_not_guessed_from_rounded_numbers() -> None:
    """1440 and 1441 ranks differ in the fifth digit only."""
    (test,) = nccl.parse(log("all_reduce", 1440)).tests
    assert (test.op, test.ranks) == ("all_reduce", None)
