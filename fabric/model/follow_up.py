"""How much may be measured beyond a plan."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one follow-up may spend in one phase; only what already runs when it is spent ends after it."""

    rounds: int  # how often it may be given more
    probes: int  # in all its rounds together
    budget_s: float  # by the executor's clock, from when it was first asked; after it no round begins
