"""The command line of a collective of nccl-tests, and whether an output answers it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fabric.tools.driver import differing, untold, whole
from fabric.tools.nccl import NcclTest
from fabric.tools.nccl.rows import FACTOR

WARMUP_ITERATIONS = 5
"""Iterations before the measured ones; nccl-tests' own default until 2.17, given always because it changed."""


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
        yield from differing(test.told, self.told | _UNASKED)
        kinds = _KINDS.get(self.op, test.kinds)
        for kind in test.kinds:
            if kind not in kinds:
                yield f"asked {' '.join(kinds[0])}, saw {' '.join(kind)}"
        if test.unchecked:
            yield "asked for results to be checked, saw N/A"

    def cut(self, test: NcclTest) -> Iterator[str]:
        """What every release prints and this output lacks; later ones print more, and say which they are."""
        yield from untold(test.told, self.told)
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
