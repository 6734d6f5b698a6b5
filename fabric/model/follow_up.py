"""How much may be measured beyond a plan, and how what is measured because of one part is marked."""

from __future__ import annotations

from dataclasses import dataclass

AGAIN = "again"
"""The name of a probe's parameter: it was run because this part (``gpu001/mlx5_3``) had dipped. Such probes are chosen
by what was measured, so they say nothing of how often healthy parts dip, and are judged apart."""


@dataclass(frozen=True, slots=True)
class FollowUpLimits:
    """The most that one follow-up may spend in one phase; only what already runs when it is spent ends after it."""

    rounds: int  # how often it may be given more
    probes: int  # in all its rounds together
    budget_s: float  # by the executor's clock, from when it was first asked; after it no round begins
