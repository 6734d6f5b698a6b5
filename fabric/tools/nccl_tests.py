"""nccl-tests: the command line of a collective, and what it printed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fabric.tools.argument import whole
from fabric.tools.nccl_failures import Failures, blames_fabric
from fabric.tools.nccl_log import NcclFailure, NcclLog, NcclPlace, NcclRow, NcclTest
from fabric.tools.nccl_ops import FACTOR
from fabric.tools.nccl_stream import Stream

__all__ = [
    "WARMUP_ITERATIONS",
    "Collective",
    "NcclFailure",
    "NcclLog",
    "NcclPlace",
    "NcclRow",
    "NcclTest",
    "blames_fabric",
    "parse",
]

WARMUP_ITERATIONS = 5
"""Iterations before the measured ones; nccl-tests' own default until 2.17, given always because it changed."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# srun -l: "12: "; mpirun --tag-output: "[1,0]<stdout>:", and "[prterun-host-1234@1,0]<stdout>: " since Open MPI 5.
_PREFIX = re.compile(r"\s*(?:(\d{1,7}):(?: |$)|\[(?:[^\[\]\s@]{1,300}@)?(\d{1,7},\d{1,7})\]<std(?:out|err)>: ?)")


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective over sizes from *min_bytes*, each *factor* times the one before, results checked."""

    op: str
    min_bytes: int
    max_bytes: int
    factor: int
    gpus_per_process: int
    iterations: int

    def argv(self) -> tuple[str, ...]:
        """Its command line; raises ValueError for one that nccl-tests does not have or a value out of range."""
        if self.op not in FACTOR:
            raise ValueError(f"no collective {self.op!r} in nccl-tests; there are {', '.join(sorted(FACTOR))}")
        options = {
            "-b": whole(self.min_bytes, "smallest size", at_least=1),
            "-e": whole(self.max_bytes, "largest size", at_least=self.min_bytes),
            "-f": whole(self.factor, "factor", at_least=2),
            "-g": whole(self.gpus_per_process, "GPUs per process", at_least=1, at_most=1024),
            "-n": whole(self.iterations, "iterations", at_least=1),
            "-w": WARMUP_ITERATIONS,
        }
        return (f"{self.op}_perf", *(part for option, value in options.items() for part in (option, str(value))))

    @property
    def told(self) -> dict[str, str]:
        """What every release says before it begins, where this was asked."""
        return {
            "nThread": "1",
            "nGpus": str(self.gpus_per_process),
            "minBytes": str(self.min_bytes),
            "maxBytes": str(self.max_bytes),
            "step": f"{self.factor}(factor)",
            "warmup iters": str(WARMUP_ITERATIONS),
            "iters": str(self.iterations),
            "validation": "1",
        }

    def otherwise(self, test: NcclTest) -> Iterator[str]:
        """Where a test's output answers another question: ``asked iters 20, saw 1``."""
        seen = {op for op in (test.op, test.told.get("starting"), test.told.get("concluded")) if op is not None}
        if seen - {self.op}:
            yield f"asked {self.op}, saw {', '.join(sorted(seen - {self.op}))}"
        for name, value in (self.told | _UNASKED).items():
            if test.told.get(name, value) != value:
                yield f"asked {name} {value}, saw {test.told[name]}"
        kinds = _KINDS.get(self.op, test.kinds)
        for kind in test.kinds:
            if kind not in kinds:
                yield f"asked {' '.join(kinds[0])}, saw {' '.join(kind)}"
        if test.unchecked:
            yield "asked for results to be checked, saw N/A"

    def cut(self, test: NcclTest) -> Iterator[str]:
        """What every release prints and this output lacks; later ones print more, and say which they are."""
        missing = [name for name in self.told if name not in test.told]
        if missing:
            yield f"no line says {', '.join(missing)}"
        if "version" in test.told and "starting" not in test.told:
            yield "no line says which test starts"
        if not test.complete or "out of bounds" not in test.told:
            yield "the closing lines are missing: output was cut"
        elif "starting" in test.told and "concluded" not in test.told:
            yield "the last line is missing: output was cut"


_UNASKED = {"agg iters": "1", "graph": "0", "unalign": "0"}  # options never given; not every release tells of all

# Type, reduction and root in every row; until 2022 there were fewer columns.
_KINDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "all_reduce": (("float", "sum", "-1"), ("float", "sum")),
    "alltoall": (("float", "none", "-1"), ("float",)),
}


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
