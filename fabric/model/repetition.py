"""How often a probe is measured when the judge may ask for more samples (``judge: {samples: auto}``)."""

from __future__ import annotations

from dataclasses import dataclass

AS_WRITTEN, AUTO = "as_written", "auto"
"""The values of the key: as often as ``repeat`` says, or until the judge can tell."""

LEAST_SAMPLES = 3
"""Every probe is measured so often before anything is concluded (safety goals, B.3: start with three)."""

MOST_SAMPLES = 30
"""More samples of one probe are never asked for (safety goals, B.3). Enough to tell 3 % at a CV of 3 % in one test."""


@dataclass(frozen=True, slots=True)
class FilledTime:
    """What all rounds of one repeated phase have in common: its own *name*, and the time that they fill together."""

    name: str
    within_s: float
