"""How the tools are called on the hosts of a platform: where they are, their environment, what ``mpirun`` is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from fabric.config.problems import KeyPath, Problems
from fabric.model.fields.entry import Entry
from fabric.model.fields.scalars import OPTION_WORD, Word
from fabric.model.fields.wording import quoted

PROGRAM_PATH = Word(
    r"(/[A-Za-z0-9._+@-]{1,255}){1,32}",
    "an absolute path such as /opt/perftest/bin/ib_write_bw (letters, digits, '.', '_', '+', '@', '-')",
)
OptionWords = tuple[Annotated[str, OPTION_WORD], ...]
ProgramPath = Annotated[str, PROGRAM_PATH]


class ToolsEntry(Entry):
    """Programs that are not on the path of the account on the hosts."""

    ib_write_bw: ProgramPath | None = Field(None, description="perftest's ib_write_bw, built with CUDA.")
    numactl: ProgramPath | None = Field(None, description="numactl, which binds ib_write_bw to a memory node.")
    alltoall_perf: ProgramPath | None = Field(None, description="nccl-tests' alltoall_perf.")
    all_reduce_perf: ProgramPath | None = Field(None, description="nccl-tests' all_reduce_perf, built with MPI.")
    mpirun: ProgramPath | None = Field(None, description="Open MPI's mpirun.")
    srun: ProgramPath | None = Field(None, description="Slurm's srun, with launcher srun.")

    def given(self) -> tuple[tuple[str, str], ...]:
        """Each program that is given, and its path."""
        paths = ((name, getattr(self, name)) for name in type(self).model_fields)
        return tuple((name, path) for name, path in paths if path is not None)


_OURS = {
    "NCCL_ALGO": "the scenario says it (tor_all_reduce: algorithm)",
    "NCCL_IB_HCA": "it is made from this platform's rnics",
    "NCCL_IB_GID_INDEX": "write gid_index in this platform instead",
    "CUDA_VISIBLE_DEVICES": "each probe has its own GPUs",
}
_LAYOUT = (
    *("-np", "--np", "-n", "--n", "-c", "-N", "--npernode", "-npernode", "-H", "-host", "--host", "-hostfile"),
    *("--hostfile", "-machinefile", "--machinefile", "-map-by", "--map-by", "-bind-to", "--bind-to"),
)
_PAIRS = ("-mca", "--mca", "-gmca", "--gmca", "--prtemca", "--pmixmca")


def env_problems(env: Mapping[str, str], path: KeyPath, problems: Problems) -> None:
    """Note the variables that the testbench itself sets."""
    for name in env:
        if name in _OURS:
            problems.add((*path, name), f"{quoted(name)} cannot be set here: {_OURS[name]}")


def option_problems(words: Sequence[str], path: KeyPath, problems: Problems) -> None:
    """Note what would not reach ``mpirun`` as it is meant."""
    if words and not words[0].startswith("-"):
        problems.add((*path, 0), f"expected an option first, got {quoted(words[0])}, which mpirun would run")
    after = 0  # where the values of an option before end
    for position, word in enumerate(words):
        if position < after:
            continue
        if word in _PAIRS:
            after = position + 3
            if after > len(words):
                problems.add((*path, position), f"expected a name and a value after {quoted(word)}")
        elif word == "-x":
            problems.add((*path, position), "'-x' is not taken here: write variables under 'env'")
        elif word in _LAYOUT:
            problems.add((*path, position), f"{quoted(word)} cannot be set here: the probe sets hosts and ranks")
