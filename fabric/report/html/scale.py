"""Numbers to pixels, and where to put the ticks."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10

from markupsafe import Markup

from fabric.report.html.svg import line, text


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear scale: *low* and *high* in the number's own unit, *start* and *end* in pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value; one outside is drawn just outside."""
        span = self.high - self.low
        share = (value - self.low) / span if span else 0.5
        return self.start + min(max(share, -0.02), 1.02) * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers within the scale, at most *most*."""
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        raw = span / max(most - 1, 1)
        power = 10.0 ** floor(log10(raw))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
        first = ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, floor(self.high / step + 1e-9) + 1)]


def y_axis(scale: Scale, left: float, right: float, unit: str) -> list[Markup]:
    """Light lines with their numbers at the left, and the unit above."""
    parts = []
    for tick in scale.ticks():
        y = scale(tick)
        parts += [line(left, y, right, y, "grid"), text(left - 6, y + 4, f"{tick:,g}", anchor="end", cls="tick")]
    return [*parts, text(left - 6, scale.end - 8, unit, anchor="end", cls="tick")]


def x_axis(scale: Scale, top: float, bottom: float, unit: str) -> list[Markup]:
    """Light lines with their numbers below, and the unit at the right."""
    parts = []
    for tick in scale.ticks(8):
        x = scale(tick)
        parts += [line(x, top, x, bottom, "grid"), text(x, bottom + 14, f"{tick:,g}", anchor="middle", cls="tick")]
    return [*parts, text(scale.end, bottom + 28, unit, anchor="end", cls="tick")]
