"""Command lines of ib_write_bw and ib_write_lat, the table of ib_write_lat, and whether a table answers a command."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from fabric.model.topology import Platform, Rnic
from fabric.tools.driver import address, differing, option_word, plain, program, unanswered, whole, word
from fabric.tools.perftest import PerftestRow, PerftestTest


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSide:
    """
    Where one side runs: on *rnic* of a host of *platform*, bound to *numa_node*; without *peer* it is the server.

    Buffers are on the *gpu*, where perftest reaches it, else on the memory node.

    With the platform's GID index packets carry that entry of the port's GID table: RoCE needs it where the tool's own
    choice is not routed. With a flow label all packets of one side have the same UDP source port, so that a hash sends
    them over the same way each time (perftest 23.10 and later, perftest_resources.c; older releases accept the option
    and ignore it). With its traffic class they are in that class: by the address of each queue pair (``--tclass``), or
    by the type of service (``--tos``) where the site's own options make rdma_cm create the queue pairs.
    """

    platform: Platform
    rnic: Rnic
    port: int
    peer: str | None
    size_bytes: int
    numa_node: int
    gpu: int | None = None
    flow_label: int | None = None


def write_bw(side: CommandSide, *, duration_s: int, queue_pairs: int) -> tuple[str, ...]:
    """
    Return the command of one side of ib_write_bw. Raises ValueError for a value it cannot carry.

    Only spellings that perftest 4.5 and later accept. GPU memory is registered by DMA-BUF, where the platform says so,
    not by nvidia_peermem (an option that perftest accepts after ``--use_cuda`` only).
    """
    measured = (
        f"--duration={whole(duration_s, 'duration', at_least=1, at_most=7 * 86400)}",
        f"--qp={whole(queue_pairs, 'queue pairs', at_least=1, at_most=16384)}",
    )
    last, how = ["--report_gbits", "--CPU-freq"], side.platform.use_cuda
    if side.gpu is not None and how != "no":
        option = "--use_rocm" if side.platform.amd else "--use_cuda"
        last.append(f"{option}={whole(side.gpu, 'GPU', at_least=0, at_most=1023)}")
        last += [f"{option}_dmabuf"] if how == "dmabuf" else []
    return _argv("ib_write_bw", side, measured, last)


def write_lat(side: CommandSide, *, iterations: int) -> tuple[str, ...]:
    """
    Return the command of one side of ib_write_lat. Raises ValueError for a value it cannot carry.

    It runs by iterations, because a run by duration prints no percentiles.
    """
    measured = (f"--iters={whole(iterations, 'iterations', at_least=5, at_most=1 << 31)}",)
    return _argv("ib_write_lat", side, measured, ["--CPU-freq"])


_BY_RDMA_CM = frozenset({"-R", "--rdma_cm"})


def _argv(tool: str, side: CommandSide, measured: Sequence[str], last: Sequence[str]) -> tuple[str, ...]:
    platform, numa_node = side.platform, whole(side.numa_node, "NUMA node", at_least=0, at_most=1023)
    # perftest refuses a type of service without rdma_cm, and ignores a class with it (perftest_parameters.c:1908).
    by_class = "tclass" if _BY_RDMA_CM.isdisjoint(platform.perftest_options) else "tos"
    optional = (
        ("gid-index", platform.gid_index, "GID index", 0, 255),
        (by_class, platform.traffic_class, "traffic class", 0, 255),
        ("flow_label", side.flow_label, "flow label", 1, (1 << 20) - 1),  # 20 bits; 0 means none
    )
    return (
        *(program(platform.program("numactl")), f"--cpunodebind={numa_node}", f"--membind={numa_node}"),
        program(platform.program(tool)),
        f"--ib-dev={word(side.rnic.device, 'device')}",
        f"--ib-port={whole(side.rnic.port, 'device port', at_least=1, at_most=255)}",
        f"--port={whole(side.port, 'TCP port', at_least=1, at_most=65535)}",
        f"--size={whole(side.size_bytes, 'size', at_least=1, at_most=1 << 31)}",
        *measured,
        *(
            f"--{name}={whole(value, what, at_least=least, at_most=most)}"
            for name, value, what, least, most in optional
            if value is not None
        ),
        *last,
        *map(option_word, platform.perftest_options),
        *(() if side.peer is None else (address(side.peer, "peer"),)),
    )


def given_options(argv: tuple[str, ...]) -> dict[str, str]:
    """Return the options of a command line with their values."""
    return dict(word[2:].split("=", 1) for word in argv if word.startswith("--") and "=" in word)


@dataclass(frozen=True, slots=True)
class PerftestAsked:
    """
    A command line in the words of the output; *expected* must be printed, *unasked* may be missing.

    *duration_s* is 0 where messages are counted (``write_lat``).
    """

    title: str
    expected: Mapping[str, str]
    unasked: Mapping[str, str]
    size_bytes: int
    duration_s: int
    both_ways: bool = False  # the sum is printed; whether iterations are those of one side is not documented


# What is printed for options that are never given; not every release prints all of it.
_UNASKED = {"Dual-port": "OFF", "Transport type": "IB", "Using SRQ": "OFF", "rdma_cm QPs": "OFF"}


_ANSWERED = (("GID index", "gid-index"), ("GPU", "use_cuda"), ("GPU", "use_rocm"))


@lru_cache(maxsize=4096)
def asked(argv: tuple[str, ...], link_type: str) -> PerftestAsked:
    """
    Return what a command line of ``write_bw`` or ``write_lat`` asks for on a port whose *link_type* is ``IB`` or
    ``Ethernet``.
    """
    given, both_ways = given_options(argv), "--bidirectional" in argv
    expected = {
        "Device": given["ib-dev"],
        "Number of qps": given.get("qp", "1"),
        "Connection type": "RC",
        "Link type": link_type,
        **{name: given[option] for name, option in _ANSWERED if option in given},
    }
    unasked = _UNASKED if "GPU" in expected else {**_UNASKED, "GPU": "none"}
    if not _BY_RDMA_CM.isdisjoint(argv):
        unasked = {**unasked, "rdma_cm QPs": "ON"}
    if "cpunodebind" in given:  # since 6.29, which goes to the RNIC's own node where nothing prevents it
        unasked = {**unasked, "NUMA node": given["cpunodebind"]}
    measured = "Latency" if "iters" in given else "Bidirectional BW" if both_ways else "BW"
    size_bytes, duration_s = int(given["size"]), int(given.get("duration", 0))
    return PerftestAsked(f"RDMA_Write {measured}", expected, unasked, size_bytes, duration_s, both_ways)


def mismatches(test: PerftestTest, wanted: PerftestAsked) -> Iterator[str]:
    """Yield where a table answers another question than *wanted*: ``asked Device mlx5_0, saw mlx5_1``."""
    if test.test is not None and test.test != wanted.title:
        yield f"asked {wanted.title}, saw {test.test}"
    if test.unit is not None and test.unit != "Gb/sec":
        yield f"asked Gb/sec, saw {test.unit}"
    yield from differing(test.settings, wanted.expected)
    yield from differing(test.settings, wanted.unasked)
    sizes = [row.size_bytes for row in test.rows]
    if sizes and sizes != [wanted.size_bytes]:
        yield f"asked {wanted.size_bytes} bytes, saw {', '.join(map(str, sizes[:3]))}"
    elif sizes:
        yield from _lasted(test.rows[0], wanted)


def _lasted(row: PerftestRow, wanted: PerftestAsked) -> Iterator[str]:
    """
    Check the duration of a run: by duration no peak is measured, and only the middle half is counted.

    ``-f`` leaves out a quarter at each end, in whole seconds, so that a run of three seconds or less is counted as a
    whole.
    """
    asked_for = f"asked for {wanted.duration_s} s"
    if row.bw_peak_gbps is not None:
        yield f"{asked_for}, saw a peak, as of a number of iterations"
    if row.bw_average_gbps:
        ways = 2 if wanted.both_ways else 1
        lasted_s = row.iterations * row.size_bytes * 8e-9 / (row.bw_average_gbps / ways)
        least_s = wanted.duration_s - 2 * (wanted.duration_s // 4)
        if not 0.5 * least_s <= lasted_s <= 1.5 * ways * wanted.duration_s:
            yield f"{asked_for}, saw {row.iterations} iterations, which took {lasted_s:.3g} s"


def missing_lines(test: PerftestTest, wanted: PerftestAsked) -> Iterator[str]:
    """Yield what every release prints above a table and is missing there."""
    if test.test is None:
        yield "no title"
    yield from unanswered(test.settings, wanted.expected)
    queue_pairs = int(wanted.expected["Number of qps"])
    for side, addresses in (("local", test.local), ("remote", test.remote)):
        if len(addresses) != queue_pairs:
            yield f"{len(addresses)} {side} addresses of {queue_pairs} queue pairs"


_COLUMNS = (
    "#bytes", "#iterations", "t_min[usec]", "t_max[usec]", "t_typical[usec]", "t_avg[usec]", "t_stdev[usec]",
    "99% percentile[usec]", "99.9% percentile[usec]",
)  # fmt: skip
_TABLE = re.compile(
    r"^ *" + r"\s+".join(re.escape(name) for name in _COLUMNS) + r"[ \t]*\n(?P<row>[ \t\d.]+)\n(?P<rule>-{20,}$)?",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Latency:
    """One table: the maximum, the median and the 99th percentile of all messages, microseconds one way."""

    size_bytes: int
    iterations: int
    most_us: float
    typical_us: float
    p99_us: float


def parse_latency(text: str) -> Latency | None:
    """
    Return the one table in an output; None where there is none, several, or one that is cut or contradicts itself.
    """
    tables = list(_TABLE.finditer(plain(text)))
    if len(tables) != 1:
        return None
    cells = tables[0]["row"].split()
    if len(cells) != len(_COLUMNS) or tables[0]["rule"] is None:
        return None
    try:
        size, iterations, numbers = int(cells[0]), int(cells[1]), [float(cell) for cell in cells[2:]]
    except ValueError:
        return None
    least, most, typical, _, _, p99, p999 = numbers
    if not 0.0 < least <= typical <= p99 <= p999 <= most:
        return None
    return Latency(size, iterations, most, typical, p99)


def latency_mismatches(found: Latency, argv: tuple[str, ...]) -> Iterator[str]:
    """Yield where a table is of other messages than that command line asks for: ``asked iterations 200, saw 100``."""
    given = given_options(argv)
    seen = {"size": str(found.size_bytes), "iterations": str(found.iterations)}
    return differing(seen, {"size": given["size"], "iterations": given["iters"]})
