"""
RNICs and cables that are well most of the time: one run in so many is slow, they fade, or they cannot bear warmth.

Decided for each transfer when it begins, and for all of it. The numbers are choices: such faults are reported without
their course (a switch that resets its lanes, a cable that ages, a module under a bad fan).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import cos, pi
from typing import TYPE_CHECKING

from fabric.model.inventory import Fault
from fabric.sim.hashing import text_hash, word

if TYPE_CHECKING:
    from fabric.sim.site import Site

WHIMS = ("dipping", "fading", "heat_sick")
"""``dipping``: one transfer in fifty keeps *factor* of its bandwidth. ``fading``: after a day *factor* is left of it.
``heat_sick``: its module's temperature swings, and at its warmest *factor* is left."""

ONE_IN = 50
FADES_S = 86400.0
LEAST = 0.05  # a link that has faded for long
SWING_C, SWING_S = 15.0, 21600.0

_CABLE = ":port"


@dataclass(frozen=True, slots=True)
class Swing:
    """A module that becomes up to 15 C warmer and cools again, once in six hours."""

    since_s: float

    def at(self, now_s: float) -> float:
        """How much warmer it is, degrees Celsius."""
        return SWING_C * (1.0 - cos(2.0 * pi * (now_s - self.since_s) / SWING_S)) / 2.0


@dataclass(frozen=True, slots=True)
class _Whim:
    fault: Fault
    since_s: float

    def left(self, bits: int, at_s: float) -> float:
        """The share of its bandwidth that a transfer has which begins now."""
        lost, lasted_s = 1.0 - self.fault.factor, at_s - self.since_s
        if self.fault.kind == "fading":
            return max(LEAST, 1.0 - lost * lasted_s / FADES_S)
        if self.fault.kind == "heat_sick":
            return 1.0 - lost * Swing(self.since_s).at(at_s) / SWING_C
        return self.fault.factor if word(bits ^ text_hash(self.fault.component), 0) % ONE_IN == 0 else 1.0


class Whims:
    """Those of a whole rack, by component."""

    def __init__(self) -> None:
        self._here: dict[str, _Whim] = {}

    def set(self, site: Site, fault: Fault, at_s: float, *, comes: bool) -> None:
        """From now on a part of *site* has this whim, or has it no more."""
        device = fault.component.partition("/")[2].removesuffix(_CABLE)
        if comes:
            self._here[fault.component] = _Whim(fault, at_s)
        else:
            self._here.pop(fault.component, None)
        if fault.kind == "heat_sick":
            site.swings.pop(device, None)
            if comes:
                site.swings[device] = Swing(at_s)

    def left(self, ends: Iterable[tuple[str, str]], bits: int, at_s: float, *, inside: bool = False) -> float:
        """What the worst of these RNICs (host, device) leaves to a transfer; *inside* no cable is crossed."""
        if not self._here:
            return 1.0
        least = 1.0
        for host, device in ends:
            for cable in ("",) if inside else ("", _CABLE):
                whim = self._here.get(f"{host}/{device}{cable}")
                if whim is not None:
                    least = min(least, whim.left(bits, at_s))
        return least
