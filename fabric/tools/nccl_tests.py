"""nccl-tests: the command line of a collective, and what it printed."""

from __future__ import annotations

import re

from fabric.tools.argument import whole
from fabric.tools.nccl_failures import Failures, blames_fabric
from fabric.tools.nccl_log import NcclFailure, NcclLog, NcclPlace, NcclRow, NcclTest
from fabric.tools.nccl_ops import FACTOR
from fabric.tools.nccl_stream import Stream

__all__ = [
    "WARMUP_ITERATIONS",
    "NcclFailure",
    "NcclLog",
    "NcclPlace",
    "NcclRow",
    "NcclTest",
    "blames_fabric",
    "collective",
    "parse",
]

WARMUP_ITERATIONS = 5
"""Iterations before the measured ones; nccl-tests' own default until 2.17, given always because it changed."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# srun -l: "12: "; mpirun --tag-output: "[1,0]<stdout>:", and "[prterun-host-1234@1,0]<stdout>: " since Open MPI 5.
_PREFIX = re.compile(r"\s*(?:(\d{1,7}):(?: |$)|\[(?:[^\[\]\s@]{1,300}@)?(\d{1,7},\d{1,7})\]<std(?:out|err)>: ?)")


def collective(
    *, op: str, min_bytes: int, max_bytes: int, factor: int, gpus_per_process: int, iterations: int
) -> tuple[str, ...]:
    """
    One collective over sizes from *min_bytes*, each *factor* times the one before, results checked.

    Raises ValueError for a collective that nccl-tests does not have or a value out of range.
    """
    if op not in FACTOR:
        raise ValueError(f"no collective {op!r} in nccl-tests; there are {', '.join(sorted(FACTOR))}")
    options = {
        "-b": whole(min_bytes, "smallest size", at_least=1),
        "-e": whole(max_bytes, "largest size", at_least=min_bytes),
        "-f": whole(factor, "factor", at_least=2),
        "-g": whole(gpus_per_process, "GPUs per process", at_least=1, at_most=1024),
        "-n": whole(iterations, "iterations", at_least=1),
        "-w": WARMUP_ITERATIONS,
    }
    return (f"{op}_perf", *(part for option, value in options.items() for part in (option, str(value))))


def parse(text: str) -> NcclLog:
    """
    Every test and every failure in the output of one run; never raises.

    Bandwidth is in decimal Gb/s (printed: GB/s). Reads every column layout since 2019, several tests in a row, lines
    tagged with their rank by srun or mpirun (each rank is read by itself), indentation, colours, and noise between
    rows. Collective and ranks are inferred where the log does not say and only one fits; see ``nccl_ops``.
    """
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    plain, streams, failures = Stream(), dict[str, Stream](), Failures()
    for number, line in enumerate(text.splitlines()):
        cells = line.split()
        if not cells or plain.line(number, line, cells):
            continue
        found = _PREFIX.match(line) if ":" in line else None
        if found is not None:
            line = line[found.end() :]
            cells = line.split()
            stream = streams.setdefault(found[1] or found[2], Stream())
            if not cells or stream.line(number, line, cells):
                continue
        failures.line(line)
    tests = [test for stream in (plain, *streams.values()) for test in stream.finish()]
    tests.sort(key=lambda test: test.first_line)
    for test in tests:
        if test.wrong is not None:
            failures.wrong_result(test.wrong)
    return NcclLog(tuple(test.test for test in tests), failures.found())
