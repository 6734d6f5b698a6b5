"""What is read on the hosts again and again while a run works."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

Value = int | float | None
"""A number that was read; None: it could not be."""


@dataclass(frozen=True, slots=True)
class SampleSettings:
    """
    What is sampled, every *every_s* seconds, from the first phase to the last.

    *counters*: what ports count; *temperatures*: of RNICs, their modules and GPUs, and clocks; *optics*: light received
    and sent, by mlxlink, which asks the firmware and so runs five times less often; *pfc*: pause frames of Ethernet
    ports, by ethtool, five times less often, too.
    """

    every_s: float = 10.0
    counters: bool = True
    temperatures: bool = True
    optics: bool = False
    pfc: bool = False


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
