"""The command lines of ib_write_bw and ib_write_lat, and the reading of their tables."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measured_rack import dgx_platform
from fabric.tools import perftest
from fabric.tools.perftest import command
from fabric.tools.perftest.command import CommandSide
from tests.builders import accepted
from tests.places import GOLDEN

FOLDER = GOLDEN / "perftest"
MIB = 8 * (1 << 20) / 1e9  # MiB/s in Gb/s


PLATFORM = dgx_platform()
SIDE = CommandSide(
    platform=PLATFORM, rnic=PLATFORM.rnics[0], port=18600, peer="127.0.0.1", size_bytes=8 << 20, numa_node=0
)


def side(device="mlx5_0", ib_port=1, **changed):
    """One with some values changed."""
    return replace(SIDE, rnic=replace(SIDE.rnic, device=device, port=ib_port), **changed)


def write_bw(duration_s=5, queue_pairs=2, **changed):
    """A client with some values changed."""
    return command.write_bw(side(**changed), duration_s=duration_s, queue_pairs=queue_pairs)


def write_lat(iterations, **changed):
    """The same of ib_write_lat."""
    return command.write_lat(side(**changed), iterations=iterations)


def golden(name: str) -> perftest.PerftestLog:
    """A recorded file, parsed."""
    return perftest.parse((FOLDER / f"{name}.txt").read_text())


def rows(test: perftest.PerftestTest):
    """Size, iterations, peak, average of each row."""
    return [(row.size_bytes, row.iterations, row.bw_peak_gbps, row.bw_average_gbps) for row in test.rows]


def header(unit: str = "Gb/sec") -> str:
    """The column names."""
    return f" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]\n"


def test_the_client_names_its_server_last() -> None:
    """The whole command line, in spellings that perftest 4.5 takes too."""
    assert write_bw() == (
        *("numactl", "--cpunodebind=0", "--membind=0"),
        *("ib_write_bw", "--ib-dev=mlx5_0", "--ib-port=1", "--port=18600", "--size=8388608", "--duration=5"),
        *("--qp=2", "--report_gbits", "--CPU-freq", "127.0.0.1"),
    )


def test_the_server_on_a_memory_node_is_bound_to_it() -> None:
    """Without a peer it is the server; numactl binds both CPU and memory."""
    argv = write_bw(peer=None, numa_node=1, ib_port=2)
    assert argv[:4] == ("numactl", "--cpunodebind=1", "--membind=1", "ib_write_bw")
    assert argv[-1] == "--CPU-freq"
    assert "--ib-port=2" in argv


@pytest.mark.parametrize("peer", ["::1", "fe80::1%eth0", "gpu001.rack-1.example", "10.0.0.1"])
def test_a_peer_is_a_name_or_an_address(peer: str) -> None:
    """IPv6 with a zone included."""
    assert write_bw(peer=peer)[-1] == peer


def test_a_value_that_could_be_misread_is_refused() -> None:
    """Nothing from an inventory can become an option."""
    changed: list[dict[str, Any]] = [
        *({"peer": peer} for peer in ("-a", "--all", "", "a b", "a;b", "$(x)", "a\n", "gpu\u0661")),
        *({"device": device} for device in ("", "-d", "mlx5 0", "mlx5_0,mlx5_1")),
        *({"port": port} for port in (0, -1, 65536)),
        *({"size_bytes": 0}, {"duration_s": 0}, {"queue_pairs": 0}, {"gpu": -1}, {"numa_node": -1}),
        *({"flow_label": label} for label in (0, 1 << 20)),
        {"ib_port": 0},
    ]
    assert accepted(changed, lambda values: write_bw(**values), ValueError) == []


def test_a_run_by_duration_has_no_peak() -> None:
    """The tool prints 0.00 for a peak that it did not measure."""
    (test,) = golden("duration-client").tests
    assert (test.test, test.device, test.problems) == ("RDMA_Write BW", "mlx5_2", [])
    assert rows(test) == [(8388608, 60321, None, 391.27)]


def test_mebibytes_become_decimal_gigabits() -> None:
    """11610.98 MiB/s is 97.4 Gb/s."""
    (test,) = golden("mib-since-2024").tests
    assert rows(test) == [(65536, 5000, 11622.60 * MIB, 11610.98 * MIB)]
    assert test.rows[0].bw_average_gbps == pytest.approx(97.4, abs=1e-3)


def test_each_interleaved_row_belongs_to_its_table() -> None:
    """Server and client wrote to one stream, a line each."""
    log = golden("interleaved-server-client")
    expected = [(2, 5000, 0.042142, 0.0421), (65536, 5000, 180.29, 180.11), (8388608, 5000, 196.22, 196.02)]
    assert [rows(test) for test in log.tests] == [expected, expected]
    assert {test.device for test in log.tests} == {"mlx5_0", "mlx5_1"}
    assert [test.problems for test in log.tests] == [[], []]


def test_a_failed_test_leaves_its_place_to_the_next() -> None:
    """Rows of a later block are never given to one that failed before it."""
    log = perftest.parse((FOLDER / "retries-exceeded.txt").read_text() + (FOLDER / "duration-client.txt").read_text())
    assert [(test.device, len(test.rows)) for test in log.tests] == [("mlx5_5", 0), ("mlx5_2", 1)]
    assert [test.problems for test in log.tests] == [["no result row"], []]


def test_a_cut_last_row_is_dropped_and_said() -> None:
    """The rows before it stay."""
    (test,) = golden("all-sizes-last-row-cut").tests
    assert len(test.rows) == 12
    assert test.rows[-1] == perftest.PerftestRow(4096, 5000, 62.62, 62.55)
    assert len(test.problems) == 1
    assert "the last row is cut: '8192 " in test.problems[0]


def test_a_zero_average_after_iterations_is_no_value() -> None:
    """Noise may be glued to such a row."""
    line = " 1024       20     0.000000            0.000000     0.000000Correlation coefficient r^2: 0.89 < 0.9\n"
    (test,) = perftest.parse(header() + line).tests
    assert rows(test) == [(1024, 20, None, None)]
    assert "not measured" in test.problems[0]


def test_an_altered_average_contradicts_the_message_rate() -> None:
    """Average = message rate x size."""
    (test,) = perftest.parse(header() + " 65536 5000 92.42 29.40 0.176239\n").tests
    assert test.problems == ["65536 bytes: average 29.40 and message rate 0.176239 contradict each other"]


def test_a_service_level_column_is_not_the_iterations() -> None:
    """Its layout has one more number."""
    (test,) = golden("service-level-column").tests
    assert rows(test) == [(65536, 5000, 97.11, 96.42)]


def test_what_is_said_above_the_table_is_read() -> None:
    """By the names printed, two to a line; absent ones stay absent."""
    (test,) = golden("duration-client").tests
    wanted = {"Device": "mlx5_2", "Number of qps": "1", "Connection type": "RC", "Link type": "IB", "Dual-port": "OFF"}
    assert {name: test.settings.get(name) for name in wanted} == wanted
    assert "GID index" not in test.settings
    assert (test.unit, len(test.local), len(test.remote), test.closed) == ("Gb/sec", 1, 1, True)


def test_a_gpu_belongs_to_the_block_that_follows() -> None:
    """It is picked before the title is printed; the next block has none."""
    text = (FOLDER / "duration-client.txt").read_text()
    log = perftest.parse(f"\nPicking device No. 3\n{text}{text}")
    assert [test.settings.get("GPU") for test in log.tests] == ["3", None]


def test_a_table_without_its_last_line_is_not_closed() -> None:
    """Its output may have been cut."""
    text = (FOLDER / "duration-client.txt").read_text().rstrip()
    (test,) = perftest.parse(text[: text.rindex("\n---")] + "\n").tests
    assert not test.closed


@pytest.mark.parametrize(
    ("said", "reasons"),
    [("", []), (" NUMA node       : 1\n", []), (" NUMA node       : 0\n", ["asked NUMA node 1, saw 0"])],
)
def test_where_it_ran_is_read_back(said: str, reasons: list[str]) -> None:
    """From 6.29 on it says its node, and might have left the one it was bound to: then it measured another memory."""
    asked = command.asked(write_bw(numa_node=1), "IB")
    (test,) = perftest.parse(f"{' ' * 20}RDMA_Write BW Test\n{said}").tests
    assert list(command.mismatches(test, asked)) == reasons


@pytest.mark.parametrize(("duration_s", "counted_s"), [(1, 1), (3, 3), (4, 2), (8, 4), (10, 6), (60, 30)])
def test_a_run_by_duration_counts_its_middle(duration_s: int, counted_s: int) -> None:
    """A quarter at each end, in whole seconds, is not counted; a run of another length has another count."""
    asked = command.asked(write_bw(duration_s=duration_s, size_bytes=65536, queue_pairs=1), "IB")

    def said(seconds: float) -> list[str]:
        row = perftest.PerftestRow(65536, round(400e9 / 8 / 65536 * seconds), None, 400.0)
        test = perftest.PerftestTest("RDMA_Write BW", {**asked.expected}, "Gb/sec", rows=[row])
        return list(command.mismatches(test, asked))

    assert said(counted_s) == []
    assert len(said(0.0065)) == len(said(10 * duration_s)) == 1


REAL = Path(__file__).parents[1] / "golden" / "captures" / "perftest" / "ib_write_lat-rxe.txt"
ASKED = write_lat(200, size_bytes=2)


def test_a_real_table_is_read() -> None:
    """From perftest over Soft-RoCE, a slow fabric."""
    found = command.parse_latency(REAL.read_text())
    assert found == command.Latency(
        size_bytes=2,
        iterations=200,
        most_us=39769.87,
        typical_us=8005.14,
        p99_us=38984.24,
    )
    assert list(command.latency_mismatches(found, ASKED)) == []
    (test,) = perftest.parse(REAL.read_text()).tests
    wanted = command.asked(ASKED, "Ethernet")
    assert [*command.mismatches(test, wanted), *command.missing_lines(test, wanted)] == []


def test_colours_and_the_line_ends_of_a_terminal_are_no_part_of_a_table() -> None:
    """As of a wrapper that runs it on a terminal."""
    text = REAL.read_text()
    assert command.parse_latency(text.replace("\n", "\x1b[0m\r\n")) == command.parse_latency(text)


def test_an_answer_to_another_question_is_told() -> None:
    found = command.parse_latency(REAL.read_text())
    assert found is not None
    other = write_lat(100, device="mlx5_1", peer=None, size_bytes=8)
    assert list(command.latency_mismatches(found, other)) == ["asked size 8, saw 2", "asked iterations 100, saw 200"]
    (test,) = perftest.parse(REAL.read_text()).tests
    assert list(command.mismatches(test, command.asked(other, "IB"))) == [
        "asked Device mlx5_1, saw mlx5_0",
        "asked Link type IB, saw Ethernet",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("8005.14", "80051.4"),  # a median above the largest
        ("8005.14", "80o5.14"),
        ("38984.24", ""),
        ("t_typical[usec]", "t_typical[msec]"),
        ("39769.87\n----", "39769.87\n# cut "),
    ],
)
def test_what_is_cut_or_contradicts_itself_is_no_table(old: str, new: str) -> None:
    text = REAL.read_text()
    assert old in text
    assert command.parse_latency(text.replace(old, new)) is None
    assert command.parse_latency(text + text) is None


def test_no_value_becomes_another_argument() -> None:
    with pytest.raises(ValueError, match="peer"):
        write_lat(200, peer="-D 9")
