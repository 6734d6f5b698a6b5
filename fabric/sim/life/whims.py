"""
RNICs and cables that are well most of the time: one run in so many is slow, they fade, or they cannot bear warmth.

``dipping``: one transfer in fifty keeps *factor* of its bandwidth. ``fading``: after a day *factor* is left of it.
``heat_sick``: its module's temperature swings, and at its warmest *factor* is left.

Decided for each transfer when it begins, and for all of it. The numbers are choices: such faults are reported without
their course (a switch that resets its lanes, a cable that ages, a module under a bad fan).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fabric.model.inventory import Fault
from fabric.sim.faults import PORT
from fabric.sim.hashing import text_hash, word
from fabric.sim.hosts.heat import SWING_C, Swing
from fabric.sim.hosts.site import Site

ONE_IN = 50
FADES_S = 86400.0
LEAST = 0.05  # a link that has faded for long


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
        device = fault.component.partition("/")[2].removesuffix(PORT)
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
            for cable in ("",) if inside else ("", PORT):
                whim = self._here.get(f"{host}/{device}{cable}")
                if whim is not None:
                    least = min(least, whim.left(bits, at_s))
        return least
