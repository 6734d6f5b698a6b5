"""perftest: the command line of ib_write_bw, and what it printed."""

from __future__ import annotations

import re

from fabric.tools.argument import address, program, whole, word
from fabric.tools.perftest_failures import blames_fabric, failures
from fabric.tools.perftest_log import PerftestFailure, PerftestLog, PerftestRow, PerftestTest
from fabric.tools.perftest_tables import tests

__all__ = [
    "PerftestFailure",
    "PerftestLog",
    "PerftestRow",
    "PerftestTest",
    "blames_fabric",
    "parse",
    "write_bw",
]

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def write_bw(
    *,
    device: str,
    port: int,
    peer: str | None,
    size_bytes: int,
    duration_s: int,
    queue_pairs: int,
    cuda_gpu: int | None,
    numa_node: int | None,
    ib_port: int = 1,
    gid_index: int | None = None,
    program_path: str = "ib_write_bw",
    numactl_path: str = "numactl",
) -> tuple[str, ...]:
    """
    One side of ib_write_bw; without *peer* it is the server. Raises ValueError for a value it cannot carry.

    Only spellings that perftest 4.5 and later take. Buffers are on the GPU, else on the memory node. With *gid_index*
    packets carry that entry of the port's GID table: RoCE needs it where the tool's own choice is not routed.
    """
    memory: tuple[str, ...] = ()
    if numa_node is not None:
        whole(numa_node, "NUMA node", at_least=0, at_most=1023)
        memory = (program(numactl_path), f"--cpunodebind={numa_node}", f"--membind={numa_node}")
    gpu = () if cuda_gpu is None else (f"--use_cuda={whole(cuda_gpu, 'GPU', at_least=0, at_most=1023)}",)
    return (
        *memory,
        program(program_path),
        f"--ib-dev={word(device, 'device')}",
        f"--ib-port={whole(ib_port, 'device port', at_least=1, at_most=255)}",
        f"--port={whole(port, 'TCP port', at_least=1, at_most=65535)}",
        f"--size={whole(size_bytes, 'size', at_least=1, at_most=1 << 31)}",
        f"--duration={whole(duration_s, 'duration', at_least=1, at_most=7 * 86400)}",
        f"--qp={whole(queue_pairs, 'queue pairs', at_least=1, at_most=16384)}",
        *(() if gid_index is None else (f"--gid-index={whole(gid_index, 'GID index', at_least=0, at_most=255)}",)),
        "--report_gbits",
        "--CPU-freq",
        *gpu,
        *(() if peer is None else (address(peer, "peer"),)),
    )


def parse(text: str) -> PerftestLog:
    """
    Every table and every failure in the output of one or more perftest programs; never raises.

    Bandwidth is in decimal Gb/s: ``MB/sec`` (before 2024) and ``MiB/sec`` are both MiB/s. A latency table
    (ib_write_lat) is a test without rows whose problem says so.
    """
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    lines = text.splitlines()
    return PerftestLog(tests(lines), failures(text, lines))
