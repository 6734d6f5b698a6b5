"""What the failures of a fleet mean for a training job, as far as a run has measured them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrainingImpact:
    """
    What a job of *gpus* GPUs has to expect; None where nothing was measured that says so, *notes* say why.

    *mttf_s* is the mean time to failure, *ettr* the expected part of the time that trains. With *bound* the rate is
    only known not to be above: then both are at least as much. *step_stretch* is how many times
    as long a step takes with the bandwidth that was retained.

    They rest on *failures* in *host_days* of looking. *flaps* counts links that went down in that time and came back
    without any probe that died of it (None: not counted).
    """

    gpus: int
    mttf_s: float | None
    ettr: float | None
    bound: bool = False
    step_stretch: float | None = None
    notes: tuple[str, ...] = ()
    failures: int | None = None
    host_days: float | None = None
    flaps: int | None = None
