"""Keys that several kinds of probe have: their types, how a file spells them, and what they mean."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from fabric.model.command import GIB
from fabric.model.fields.quantities import Duration, Size, geometric
from fabric.model.fields.scalars import SAFE_NAME, Choice, Whole
from fabric.model.recorded import ALGORITHMS

Name = Annotated[str, SAFE_NAME, Field(description="Its name in ids and reports; the kind when left out.")]
Repeat = Annotated[int, Whole(1, 1000), Field(description="How often each measurement is made.")]
Seed = Annotated[int, Whole(0, 2**32 - 1), Field(description="What a random order is drawn with.")]

MessageSize = Annotated[
    int, Size(1, GIB), Field(validation_alias="size", description="Message size (ib_write_bw --size).")
]
Seconds = Annotated[
    int, Duration(1, 3600), Field(validation_alias="duration", description="How long each pair is measured.")
]
QueuePairs = Annotated[int, Whole(1, 1024), Field(description="Queue pairs of each measurement.")]

Sizes = Annotated[
    tuple[Annotated[int, Size(1 << 10, 256 * GIB)], ...],
    AfterValidator(geometric),
    Field(
        validation_alias="sizes",
        min_length=1,
        max_length=30,
        description="Message sizes, each the same whole multiple of the one before.",
    ),
]
Iterations = Annotated[int, Whole(1, 10_000), Field(description="Iterations of each size (nccl-tests -n).")]
Algorithm = Annotated[
    str,
    Choice(ALGORITHMS),
    Field(description="NCCL_ALGO. RING judges the network; others can exceed it on two hosts."),
]
Launcher = Annotated[str, Choice(("mpirun", "srun")), Field(description="What starts the ranks: mpirun or srun.")]
