"""The command line of a collective of nccl-tests, its launchers, and whether an output answers it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fabric.model.topology import Platform
from fabric.tools.driver import differing, option_word, program, setting, unanswered, whole, word
from fabric.tools.nccl import NcclTest
from fabric.tools.nccl.rows import FACTOR

WARMUP_ITERATIONS = 5
"""Iterations before the measured ones; nccl-tests' own default until 2.17, given always because it changed."""
GRANTED_S = 30
"""
Time within which srun must get its nodes; else it would wait for a drained node until the probe's deadline.

Measured with Slurm 22.05: exit 1, ``Unable to allocate resources``, when it is over. The nodes of a step that ended
just before are free again within seconds.
"""


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective over *sizes_bytes*, each the same multiple of the one before, with results checked."""

    op: str
    sizes_bytes: tuple[int, ...]
    gpus_per_process: int
    iterations: int

    @property
    def factor(self) -> int:
        """Return that multiple; for a single size any value will do."""
        return self.sizes_bytes[1] // self.sizes_bytes[0] if len(self.sizes_bytes) > 1 else 2

    def argv(self) -> tuple[str, ...]:
        """
        Return its command line; raises ValueError for a collective that nccl-tests does not have or a value out of
        range.
        """
        if self.op not in FACTOR:
            raise ValueError(f"no collective {self.op!r} in nccl-tests; there are {', '.join(sorted(FACTOR))}")
        options = {
            "-b": whole(self.sizes_bytes[0], "smallest size", at_least=1),
            "-e": whole(self.sizes_bytes[-1], "largest size", at_least=self.sizes_bytes[0]),
            "-f": whole(self.factor, "factor", at_least=2),
            "-g": whole(self.gpus_per_process, "GPUs per process", at_least=1, at_most=1024),
            "-n": whole(self.iterations, "iterations", at_least=1),
            "-w": WARMUP_ITERATIONS,
        }
        return (f"{self.op}_perf", *(part for option, value in options.items() for part in (option, str(value))))

    @property
    def expected(self) -> dict[str, str]:
        """Return the settings that every release prints before it begins, as asked here."""
        return {
            "nThread": "1",
            "nGpus": str(self.gpus_per_process),
            "minBytes": str(self.sizes_bytes[0]),
            "maxBytes": str(self.sizes_bytes[-1]),
            "step": f"{self.factor}(factor)",
            "warmup iters": str(WARMUP_ITERATIONS),
            "iters": str(self.iterations),
            "validation": "1",
        }

    def mismatches(self, test: NcclTest) -> Iterator[str]:
        """Yield where a test's output answers another question: ``asked iters 20, saw 1``."""
        seen = {op for op in (test.op, test.settings.get("starting"), test.settings.get("concluded")) if op is not None}
        if seen - {self.op}:
            yield f"asked {self.op}, saw {', '.join(sorted(seen - {self.op}))}"
        yield from differing(test.settings, self.expected | _UNASKED)
        kinds = _KINDS.get(self.op, test.kinds)
        for kind in test.kinds:
            if kind not in kinds:
                yield f"asked {' '.join(kinds[0])}, saw {' '.join(kind)}"
        if test.unchecked:
            yield "asked for results to be checked, saw N/A"

    def missing_lines(self, test: NcclTest) -> Iterator[str]:
        """Yield what every release prints and this output lacks; later releases print more, and name their version."""
        yield from unanswered(test.settings, self.expected)
        if "version" in test.settings and "starting" not in test.settings:
            yield "no line says which test starts"
        if not test.complete or "out of bounds" not in test.settings:
            yield "the closing lines are missing: output was cut"
        elif "starting" in test.settings and "concluded" not in test.settings:
            yield "the last line is missing: output was cut"


_UNASKED = {"agg iters": "1", "graph": "0", "unalign": "0"}  # options never given; not all releases print all

# Type, reduction and root in every row; until 2022 there were fewer columns.
_KINDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "all_reduce": (("float", "sum", "-1"), ("float", "sum")),
    "alltoall": (("float", "none", "-1"), ("float",)),
}


def mpirun(argv: Sequence[str], *, hosts: Sequence[str], platform: Platform, env: Mapping[str, str]) -> tuple[str, ...]:
    """
    Wrap *argv* for Open MPI, with options that releases 4 and 5 both accept; the site's own options come first.

    Processes are not bound to cores: NCCL's proxy threads would share the one core of their process.
    """
    per_host = _per_host(argv, hosts, platform)
    many = ("-np", str(len(hosts) * per_host), "-H", ",".join(f"{name}:{per_host}" for name in hosts))
    layout = ("--map-by", f"ppr:{per_host}:node", "--bind-to", "none")
    exported = (part for name, value in env.items() for part in ("-x", setting(name, value)))
    own = map(option_word, platform.mpirun_options)
    return (program(platform.program("mpirun")), *own, *many, *layout, *exported, *argv)


def srun(argv: Sequence[str], *, hosts: Sequence[str], platform: Platform, env: Mapping[str, str]) -> tuple[str, ...]:
    """
    Wrap *argv* for Slurm.

    The site's own options come last: of two ``--mpi`` or ``--cpu-bind`` srun takes the last. Variables go through
    ``env``, not ``--export``, which splits values at commas (NCCL_IB_HCA has commas).
    """
    per_host = _per_host(argv, hosts, platform)
    many = (f"--ntasks={len(hosts) * per_host}", f"--ntasks-per-node={per_host}")
    where = (f"--nodes={len(hosts)}", f"--nodelist={','.join(hosts)}", *many)
    how = ("--mpi=pmix", "--cpu-bind=none", f"--immediate={GRANTED_S}", *map(option_word, platform.srun_options))
    exported = ("env", *(setting(name, value) for name, value in env.items())) if env else ()
    return (program(platform.program("srun")), *where, *how, *exported, *argv)


def _per_host(argv: Sequence[str], hosts: Sequence[str], platform: Platform) -> int:
    """
    Return the processes per host, one for each GPU; raises ValueError for a command, or hosts, that cannot be launched.
    """
    if not argv or not argv[0] or argv[0].startswith("-") or "=" in argv[0]:
        raise ValueError(f"not a program: {argv[:1]!r}")
    if not hosts or len({word(name, "host") for name in hosts}) != len(hosts):
        raise ValueError(f"no hosts to launch on, or one is named twice: {', '.join(hosts)}")
    return whole(len(platform.gpus), "processes per host", at_least=1, at_most=4096)
