"""What is read on the hosts again and again while a run works."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field

from fabric.model.fields.entry import Entry, NotInFiles
from fabric.model.fields.quantities import Duration
from fabric.model.fields.scalars import Flag

Value = int | float | None
"""A number that was read; None: it could not be."""


class SampleSettings(Entry):
    """
    What is sampled, and how often, from the first phase to the last; without the key nothing is.

    *pfc*: pause frames of Ethernet ports, by ethtool, as seldom as optics, where they are judged.
    """

    every_s: Annotated[
        float,
        Duration(1, 3600),
        AfterValidator(float),
        Field(validation_alias="every", description="How often, 1s to 1h."),
    ] = 10.0
    counters: Annotated[bool, Flag(), Field(description="Error counters of the RNICs' ports.")] = True
    temperatures: Annotated[bool, Flag(), Field(description="Of RNICs, modules and GPUs; clocks of GPUs.")] = True
    optics: Annotated[
        bool, Flag(), Field(description="Light received and sent (mlxlink -m, as root), five times less often.")
    ] = False
    pfc: Annotated[bool, NotInFiles()] = False


@dataclass(frozen=True, slots=True)
class CounterReading:
    """What one number is: on which host, of which part (``mlx5_0``, ``gpu3``), which counter or sensor."""

    host: str
    part: str
    name: str


@dataclass(slots=True)
class CounterCourse:
    """
    What became of one reading: it was *values[i]* from *at_s[i]* on; None: not readable.

    *until_s* is when its host was last asked.
    """

    at_s: list[float] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    until_s: float = 0.0

    def value_at(self, at_s: float) -> Value:
        """What it was then; None before the first sample, too."""
        place = bisect_right(self.at_s, at_s) - 1
        return self.values[place] if place >= 0 else None


@dataclass(frozen=True, slots=True)
class Samples:
    """Everything kept of a run's samples: *every_s* between two of them, and the course of each reading."""

    every_s: float
    courses: Mapping[CounterReading, CounterCourse]
