"""What a run means for a training job, in words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fabric.model.training import TrainingImpact
from fabric.model.units import duration_text

_DAY_S = 86_400.0
_LEAST = 0.005


def impact_line(impact: TrainingImpact) -> str:
    """``a 1,024-GPU job on this fleet: MTTF 7.9 h, expected ETTR 0.93``, then what it rests on or why it is unknown."""
    return "; ".join((f"a {impact.gpus:,}-GPU job on this fleet: {_numbers(impact)}", *impact.notes))


def is_known(impact: TrainingImpact | None) -> bool:
    """Whether there is a number to tell, or a bandwidth to speak of."""
    return impact is not None and (impact.mttf_s is not None or impact.step_stretch is not None)


def training_document(impact: TrainingImpact | None) -> dict[str, Any] | None:
    """For verdict.json; None where the run's hosts have no GPUs."""
    return None if impact is None else {**asdict(impact), "notes": list(impact.notes)}


def _numbers(impact: TrainingImpact) -> str:
    least = "at least " if impact.bound else ""
    said = []
    if impact.mttf_s is not None:
        said.append(f"MTTF {least}{_time(impact.mttf_s)}")
    if impact.ettr is not None and not (impact.bound and impact.ettr < _LEAST):  # "at least 0.00" says nothing
        said.append(f"expected ETTR {least}{impact.ettr:.2f}")
    if impact.step_stretch is not None:
        said.append(f"steps take {impact.step_stretch:.2f} times as long")
    return ", ".join(said) if said else "nothing can be said"


def _time(seconds: float) -> str:
    if seconds < 3600:
        return duration_text(seconds)
    return f"{seconds / 3600:.1f} h" if seconds < 2 * _DAY_S else f"{seconds / _DAY_S:.1f} days"
