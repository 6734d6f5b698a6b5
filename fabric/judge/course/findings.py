"""A part and what became of it over the hours of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fabric.model.sampling import CounterCourse

Modules = Mapping[str, Mapping[str, CounterCourse]]
"""The temperatures of modules by host and device."""

MOST_PROBES = 20  # as ``model.verdict.Suspect``

FEW, OPEN, CLEARED, TOO_MANY = "few_dips", "dips_open", "dips_cleared", "dips_too_many"
NOTES = frozenset({FEW, OPEN, CLEARED, TOO_MANY})
"""The kinds of findings that are told and accuse nobody."""


@dataclass(frozen=True, slots=True)
class CourseFinding:
    """
    A part and its course: ``drift``, ``step``, ``heat``, ``low``, ``dips`` or ``came_back``; of what many RNICs share
    ``shared`` (its probes went bad) or ``went_down`` (their ports did). Those of ``NOTES`` accuse nobody.

    *part*: its kind as in ``model.verdict.Suspect``. *text* says the course in words. *rivals* explain nearly as much.
    *hosts*: whose it is. *explains*: the hosts of every probe that it takes part in, by id. *ports*: whose counters it
    explains.
    """

    component: str
    kind: str
    text: str
    part: str = ""
    confidence: float = 0.0
    probes: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    explains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ports: tuple[str, ...] = ()
