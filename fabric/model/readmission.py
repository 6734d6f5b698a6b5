"""A host that was repaired and let into a run again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Readmission:
    """
    *host* was let in again at *at_s* (seconds of the run's clock); *reason*: why it had been out.

    *still_bad* says why it was left out again by its first bad round, before it had a good one; empty: it was not.
    """

    host: str
    at_s: float
    reason: str = ""
    still_bad: str = ""
