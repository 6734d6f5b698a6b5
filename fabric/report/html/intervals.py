"""Expectations as points with their 95 % interval, and the bound that was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from fabric.model.scenario import ExpectedRatio
from fabric.model.verdict import ExpectationVerdict
from fabric.report.html.scale import Scale, x_axis
from fabric.report.html.svg import dot, line, mark, picture, text
from fabric.report.shown_run import ShownRun

_WIDTH, _LEFT, _ROW, _TOP = 1000.0, 470.0, 26.0, 16.0


def draw(run: ShownRun) -> Markup | None:
    """Ratios only; None where there is none with a number."""
    asked = run.judged.scenario.expect
    found = run.judged.verdict.expectations
    bounds = [
        (one.at_least, one.at_most) if isinstance(one, ExpectedRatio) else (None, None)
        for one in (asked if len(asked) == len(found) else ())
    ] or [(None, None)] * len(found)
    rows = [
        (one, bound) for one, bound in zip(found, bounds, strict=True) if one.value is not None and one.low is not None
    ]
    if not rows:
        return None
    highest = max(
        max(one.high or 0.0, one.value or 0.0, *(b for b in bound if b is not None), 1.0) for one, bound in rows
    )
    x = Scale(0.0, highest * 1.08, _LEFT, _WIDTH - 70)
    bottom = _TOP + _ROW * len(rows)
    parts = x_axis(x, _TOP - 8, bottom, "ratio (1: no difference)")
    parts.append(line(x(1.0), _TOP - 8, x(1.0), bottom, "one"))
    for number, (one, bound) in enumerate(rows):
        parts += _row(one, bound, _TOP + _ROW * number + _ROW / 2, x)
    return picture(_WIDTH, bottom + 34, parts, "expected ratios with their 95 % intervals")


def _row(one: ExpectationVerdict, bound: Sequence[float | None], y: float, x: Scale) -> Iterator[Markup]:
    yield text(_LEFT - 22, y + 4, one.text, anchor="end", cls="tick", most=74)
    yield mark(_LEFT - 12, y, 9, one.outcome.value)
    value, low, high = one.value or 0.0, one.low or 0.0, one.high or 0.0
    for limit, way in zip(bound, (1, -1), strict=True):
        if limit is not None:
            yield line(x(limit), y - 9, x(limit), y + 9, "bound")
            yield line(x(limit), y - 9, x(limit) + 6 * way, y - 9, "bound")
            yield line(x(limit), y + 9, x(limit) + 6 * way, y + 9, "bound")
    yield line(x(low), y, x(high), y, "interval")
    yield dot(x(value), y, 4, "point c0", f"{value:.3g}, {low:.3g} to {high:.3g}, n {one.n}")
    yield text(_WIDTH - 60, y + 4, f"{value:.3g}", cls="value")
