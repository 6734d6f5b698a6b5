"""``zero_growth`` and ``allowed_growth`` of ``judge:``: what ports may not count, and what is too much of the rest."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fabric.config.problems import Problems
from fabric.config.sample_file import SampleEntry
from fabric.model.fields.entry import Entry
from fabric.model.fields.scalars import Choice, Decimal
from fabric.model.fields.wording import quoted
from fabric.model.zero_growth import CRITERIA, PFC, RETRANSMITS, ZeroGrowth

Criterion = Annotated[str, Choice(CRITERIA)]

MOST_RETRANSMITS = 1e12
"""A bound on what can be written (a choice: more than a port of 800 Gb/s has packets in an hour)."""


class AllowedGrowthEntry(Entry):
    """What grows on a good fabric, too: how much of it is too much."""

    pfc_paused: Annotated[float, Decimal(0, 1)] | None = Field(
        None, description="The share of an hour in which a port may be paused, in either direction: 0.05."
    )
    retransmits_per_hour: Annotated[float, Decimal(0, MOST_RETRANSMITS)] | None = Field(
        None, description="How much the counters of retransmissions of a port may grow in an hour, together."
    )


_LIMITS = {PFC: "pfc_paused", RETRANSMITS: "retransmits_per_hour"}
"""Criteria that need a limit, and its key."""


def zero_growth_of(criteria: tuple[str, ...], allowed: AllowedGrowthEntry | None) -> ZeroGrowth | None:
    """The decoded keys; None where nothing is asked."""
    if not criteria:
        return None
    limits = allowed or AllowedGrowthEntry()
    return ZeroGrowth(criteria, limits.pfc_paused, limits.retransmits_per_hour)


def check_zero_growth(
    criteria: tuple[str, ...],
    allowed: AllowedGrowthEntry | None,
    sample: SampleEntry | None,
    *,
    problems: Problems,
) -> None:
    """Note what each key alone cannot say."""
    limits = allowed or AllowedGrowthEntry()
    for position, name in enumerate(criteria):
        if name in criteria[:position]:
            problems.add(("judge", "zero_growth", position), f"{quoted(name)} is there twice")
    for name, key in _LIMITS.items():
        given = getattr(limits, key) is not None
        if name in criteria and not given:
            text = f"{quoted(name)} grows on a good fabric, too: say what is too much: 'allowed_growth: {{{key}: ...}}'"
            problems.add(("judge", "zero_growth", criteria.index(name)), text)
        if given and name not in criteria:
            problems.add(("judge", "allowed_growth", key), f"it is not judged: 'zero_growth' does not have {name}")
    if criteria and (sample is None or not sample.counters):
        text = "what ports count must be read for it: 'sample: {every: 5m}'"
        problems.add(("judge", "zero_growth"), text if sample is None else "it needs the counters of 'sample:'")
