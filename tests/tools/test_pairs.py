"""Pair results as any tool writes them: numbers, units, who is meant, and what is refused with its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.tools.pairs import FORMATS, detect, parse_nccl, parse_perftest, read
from fabric.tools.pairs.csv import parse
from tests.places import CAPTURES


def test_rows_with_the_unit_in_the_heading():
    table = parse("a,b,value_gbps,kind,size,rail\n# a comment\ngpu1,gpu2,391.5,ib_write_bw,8M,3\n")
    assert table.problems == ()
    (row,) = table.rows
    assert (row.a, row.b, row.gbps, row.line) == ("gpu1", "gpu2", 391.5, 3)
    assert (row.kind, row.size_bytes, row.rail) == ("ib_write_bw", 8 << 20, "3")


@pytest.mark.parametrize(
    ("heading", "cell", "gbps"),
    [
        ("a,b,value (GB/s)", "48.5", 388.0),
        ("a,b,Value[Gb/s]", "388", 388.0),
        ("a,b,value (MiB/s)", "1000", 8.388608),
        ("a,b,value_gbps", "3.88e2", 388.0),
        ("A,B,Value_Gbps", "388", 388.0),
    ],
)
def test_bits_and_bytes_are_told_apart(heading, cell, gbps):
    assert parse(f"{heading}\nx,y,{cell}\n").rows[0].gbps == pytest.approx(gbps)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a,b,value\nx,y,391\n", 1, "expected a unit"),
        ("a,b,value (furlongs)\nx,y,391\n", 1, "expected a unit (Gb/s"),
        ("a,b,value_GBps\nx,y,48.9\n", 1, "expected a unit (Gb/s"),  # bytes, by its large B
        ("a,b,value_gbs\nx,y,48.9\n", 1, "expected a unit (Gb/s"),  # not nearly 'value_gbps': another unit
        ("a,b,value_mbps\nx,y,391000\n", 1, "expected a unit (Gb/s"),
        ("a,b,value_gbps\nx,y,failed\n", 2, "leave out the line of a pair that was not measured"),
        ("a;b;value (MB/s)\nx;y;48,923.10\n", 2, "write it without thousands separators"),
        ("a,b,value_gbps\nx,x,391\n", 2, "two different hosts"),
        ("a,b,value_gbps\nfe80::1,fe80::2,391\n", 2, "expected a host name (no blank, comma, slash or colon)"),
        ("a,b,value_gbps\n\nx,y,nan\n", 3, "expected a bandwidth"),
        ("a,b,value_gbps\nx,y,-1\n", 2, "expected a bandwidth"),
        ("a,b,value_gbps\nx,y\n", 2, "expected 3 cells"),
        ("a,b,valeu\nx,y,1\n", 1, "did you mean 'value'"),
        ("a,b,value_gbps,size\nx,y,1,big\n", 2, "expected a size"),
        ("a,value_gbps\nx,1\n", 1, "no column b"),
        ("a,b,value_gbps\n", 1, "no rows"),
        ("", 1, "no rows"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text, line, said):
    table = parse(text)
    assert table.problems[0][0] == line
    assert said in table.problems[0][1]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_commas_semicolons_and_tabs_separate_alike(separator, mark):
    text = f"{mark}# from a spreadsheet\na,b,value_gbps,rail\nx,y,391.5,2\n".replace(",", separator)
    (row,) = parse(text).rows
    assert (row.a, row.b, row.gbps, row.rail, row.line) == ("x", "y", 391.5, "2", 3)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a;b;value_gbps\nx;y;391,5\n", 2, "got '391,5'; write the decimal sign as a point: did you mean '391.5'?"),
        ("a\tb\tvalue_gbps\nx\ty\t391,523\n", 2, "did you mean '391.523'?"),
        ("a,b,value_gbps\n\nx,y,391,5\n", 3, "got 4; is one a number with a decimal comma"),
        ("a,b,value_gbps,rail\nx,y,391,5,rail2\n", 2, "write it with a point"),
        ("a,b;value_gbps\nx,y;1\n", 1, "no column b, value: expected column names a,b,value_gbps"),
        ("a b value_gbps\nx y 1\n", 1, "no column a, b, value: expected column names a,b,value_gbps"),
        ("a;value_gbps\nx;1\n", 1, "no column b: expected column names a,b,value_gbps"),
        ("one,two,rate\nx,y,1\n", 1, "got 'one, two, rate'"),
        ("a;b;valu_gbps\nx;y;1\n", 1, "got 'valu_gbps'; did you mean 'value_gbps'?"),
    ],
)
def test_a_table_of_a_spreadsheet_that_cannot_be_read_is_told_what_to_write(text, line, said):
    table = parse(text)
    assert table.rows == ()
    assert [number for number, problem in table.problems if said in problem] == [line]


@given(st.text(max_size=300))
def test_any_text_is_rows_or_problems(text):
    table = parse(text)
    assert table.rows or table.problems


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_what_was_written_is_read(values):
    text = "a,b,value_gbps\n" + "".join(f"h{n},k{n},{value!r}\n" for n, value in enumerate(values))
    assert [row.gbps for row in parse(text).rows] == values


def test_one_wrong_line_of_many_is_told_with_its_number():
    """Lines are read many at a time; what is wrong is said of its own line, and comments and empty lines count."""
    lines = ["a,b,value_gbps", "# c,d,1", "", *(f"h{n},g{n},391.5" for n in range(9_000))]
    assert len(parse("\n".join(lines)).rows) == 9_000
    lines[7_000] = "h1,h1,391.5"
    found = parse("\n".join(lines))
    assert found.problems == ((7_001, "expected two different hosts, got 'h1' twice"),)
    assert found.rows[-1].line == 9_003


PERFTEST = """---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_3
 local address: LID 0x1c QPN 0x0b1 PSN 0x5d10a2
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             391.31             391.27\t\t     0.746
 8388608    5000             392.31             392.27\t\t     0.005
---------------------------------------------------------------------------------------
"""


def test_that_a_table_was_not_read_to_its_end_is_said():
    found = parse("a,b,value_gbps\n" + "gpu001,gpu002,FAILED\n" * 30)
    assert found.problems[-1] == (21, "not read on after 20 problems")
    assert len(found.problems) == 21


def test_perftest_hosts_come_from_the_file_name():
    (row,) = parse_perftest(PERFTEST, "gpu001--gpu002.txt").rows
    assert (row.a, row.b, row.gbps, row.rail, row.directed) == ("gpu001", "gpu002", 392.27, "mlx5_3", True)
    assert "perftest does not print" in parse_perftest(PERFTEST, "run7.txt").problems[0][1]


def test_further_tests_of_a_perftest_file_are_not_left_out_in_silence():
    assert parse_perftest(PERFTEST, "a--b.txt").notes == ()
    table = parse_perftest(PERFTEST + PERFTEST.replace("392.27", "210.5"), "a--b.txt")
    assert [row.gbps for row in table.rows] == [392.27]
    assert table.notes == ("only the first of 2 tests counts: give each a file of its own",)


DOWN = " Port number 1 state is Down\n Couldn't set the link layer\n Couldn't get context for the device\n"
REFUSED = "Couldn't connect to 192.168.1.3:18515\nUnable to open file descriptor for socket connection\n"


def test_a_perftest_client_whose_port_is_down_is_a_failure_of_its_own_part():
    (found,) = parse_perftest(DOWN, "a--b--rail2.txt").failures
    assert (found.a, found.b, found.rail, found.fabric, found.at) == ("a", "b", "rail2", True, "a")
    assert found.text == "Port number 1 state is Down"


def test_whose_port_is_down_is_not_known_where_the_server_writes_too():
    (found,) = parse_perftest("* Waiting for client to connect... *\n" + DOWN, "a--b.txt").failures
    assert (found.fabric, found.at) == (True, None)


@pytest.mark.parametrize(
    ("words", "fabric"),
    [
        (REFUSED, False),
        ("Completion with error at client\n  Failed status 12: wr_id 0 syndrom 0x81\nscnt=128, ccnt=0\n", True),
        ("Completion with error at client\n  Failed status 4: wr_id 0 syndrom 0x51\n", False),
    ],
)
def test_a_perftest_log_that_is_only_a_failure_is_read_without_being_told(words, fabric):
    table = read(words, "auto", "a--b.txt")
    assert table.problems == ()
    assert [(one.a, one.b, one.fabric) for one in table.failures] == [("a", "b", fabric)]


def test_a_number_beside_a_failure_of_the_fabric_does_not_hide_it():
    table = parse_perftest(PERFTEST + "Completion with error at client\n Failed status 12: wr_id 0\n", "a--b.txt")
    assert len(table.rows) == 1
    assert [(one.fabric, one.rail) for one in table.failures] == [(True, "mlx5_3")]


def ranks(*words):
    heads = "".join(
        f"#  Rank  {n} Group  0 Pid {n} on {host} device  0 [0000:1b:00] H100\n" for n, host in enumerate("ab")
    )
    return "# Collective test starting: all_reduce_perf\n" + heads + "\n".join(words) + "\n"


def test_an_nccl_log_whose_peer_ended_is_a_failure_without_a_culprit():
    words = "b: Test NCCL failure common.cu:1279 'remote process exited or there was a network error / '"
    (found,) = parse_nccl(ranks(words)).failures
    assert (found.a, found.b, found.fabric, found.at) == ("a", "b", False, None)


def test_an_nccl_log_whose_retries_ran_out_blames_the_fabric_and_neither_host():
    words = (
        "a:1:2 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion from peer 10.0.0.2 with status=12 opcode=0"
    )
    (found,) = parse_nccl(ranks(words)).failures
    assert (found.fabric, found.at) == (True, None)


def test_who_reads_receives():
    (row,) = parse_perftest(PERFTEST.replace("Write", "Read"), "a--b--rail2.txt").rows
    assert (row.a, row.b, row.rail) == ("b", "a", "rail2")


def test_an_nccl_log_of_two_hosts_is_a_pair_and_of_ten_is_refused():
    folder = CAPTURES / "nccl-tests"
    table = parse_nccl((folder / "15-oci-h100-2node-16gpu.txt").read_text())
    assert [(row.a, row.b, row.size_bytes >> 30) for row in table.rows] == [
        ("h100-ord01-03-14", "h100-ord01-03-294", 16)
    ]
    assert table.rows[0].gbps == pytest.approx(471.22 * 8, rel=0.01)
    two = parse_nccl((folder / "17-h100-pair-g1-alltoall+sendrecv-2.17.6.txt").read_text())
    assert [row.kind for row in two.rows] == ["alltoall", "sendrecv"]
    many = parse_nccl((folder / "21-h100-10node-80gpu-5ops-2.17.8.txt").read_text())
    assert many.rows == ()
    assert many.problems[0] == (6, many.problems[0][1])
    failed = parse_nccl((folder / "18-h100-pair-g8-FAILED-remote-process-exited.txt").read_text())
    assert failed.rows == ()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (PERFTEST, "perftest"),
        ("# made by hand\na,b,value_gbps\nx,y,3\n", "csv"),
        ("#  Rank  0 Group  0 Pid 1 on a device 0\n", "nccl-tests"),
        ("a,value_gbps\nx,1\n", "csv"),
        ("\ufeffa;b;value_gbps\nx;y;3\n", "csv"),
        ("Couldn't connect to 192.168.1.3:18515\nUnable to init the socket connection\n", "perftest"),
        ("Completion with error at client\n  Failed status 12: wr_id 0 syndrom 0x81\n", "perftest"),
        (" Port number 1 state is Down\n Couldn't set the link layer\n", "perftest"),
        ("bash: line 1: ib_write_bw: command not found\n", "perftest"),
        ("bash: line 1: all_reduce_perf: command not found\n", None),
        ("a,b,value_gbps,kind\nx,y,0,Failed status 12\n", "csv"),
        ("all is well, they say\n", None),
        ("hello\n", None),
        ('{"bandwidth": [[0, 1], [1, 0]]}', None),
    ],
)
def test_the_format_is_seen_from_the_text(text, name):
    assert detect(text) == name


@pytest.mark.parametrize(
    ("text", "line", "got"),
    [
        ("src,dst,bw_gbps\na,b,390\n", 1, "src, dst, bw_gbps"),
        ('"Source","Target","Bandwidth (Gbps)"\na,b,390\n', 1, "Source, Target, Bandwidth (Gbps)"),
        ("# OSU MPI Bandwidth Test v7.1\n# Size      Bandwidth (MB/s)\n1 5.3\n", 3, "1 5.3"),
    ],
)
def test_a_table_of_no_known_format_is_told_which_columns_it_has_and_which_are_wanted(text, line, got):
    ((where, problem),) = read(text, "auto", "pairs.csv").problems
    assert where == line
    assert "no format is recognised" in problem
    assert f"expected column names a,b,value_gbps[,kind,size,rail,via], got '{got}'" in problem


@given(st.text(max_size=200), st.sampled_from([*FORMATS, "auto"]), st.sampled_from(["a--b.txt", "run7.txt"]))
def test_no_reader_ever_raises_and_every_problem_has_a_line(text, name, file_name):
    for whole in (text, PERFTEST[:200] + text):
        table = read(whole, name, file_name)
        assert table.rows or table.problems or table.notes
        lines = max(len(whole.splitlines()), 1)
        assert all(1 <= line <= lines for line, _ in table.problems)
