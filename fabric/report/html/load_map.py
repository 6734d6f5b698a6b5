"""How full the cables between switches were: a row for each lower switch, a column for each upper one."""

from __future__ import annotations

from bisect import bisect_right

from markupsafe import Markup

from fabric.report.html.link_load import BOUNDS, FULL, LinkLoads
from fabric.report.html.svg import picture, rect, tag, text

_WIDTH, _LEFT, _TOP, _ROW = 1080.0, 110.0, 34.0, 11.0
_WIDEST = 44.0
_CLASSES = ("below 25 %", "to 50", "to 75", "to 90", "90 % of line rate and more")


def draw(loads: LinkLoads) -> Markup:
    """A cell that is full has a dot as well as a colour."""
    lower = list(dict.fromkeys(low for low, _ in loads.shares))
    upper = list(dict.fromkeys(high for _, high in loads.shares))
    cell = min((_WIDTH - _LEFT - 10) / len(upper), _WIDEST)
    parts = [_head(number, name, cell, len(upper)) for number, name in enumerate(upper)]
    for number, low in enumerate(lower):
        y = _TOP + _ROW * number
        parts.append(text(_LEFT - 6, y + _ROW - 2.5, low, anchor="end", cls="tiny", most=20))
        for place, high in enumerate(upper):
            share = loads.shares.get((low, high))
            if share is not None:
                x = _LEFT + place * cell
                said = f"{low}--{high}: {share:.0%} of line rate"
                parts.append(rect(x, y, cell - 0.8, _ROW - 0.8, f"l{bisect_right(BOUNDS, share)}", said))
                if share >= FULL:
                    parts.append(tag("circle", cx=x + cell / 2, cy=y + _ROW / 2, r=1.6, class_="full"))
    height = _TOP + _ROW * len(lower) + 30
    return picture(_WIDTH, height, [*parts, *_legend(height - 8)], f"load of the cables between switches, {loads.name}")


def _head(number: int, name: str, cell: float, count: int) -> Markup:
    """Every name while they fit, else every so many."""
    every = max(int(len(name) * 5.5 / cell) + 1, 1) if count > 1 else 1
    return text(
        _LEFT + (number + 0.5) * cell, _TOP - 8, name if number % every == 0 else "", anchor="middle", cls="tiny"
    )


def _legend(y: float) -> list[Markup]:
    parts, x = [], _LEFT
    for number, words in enumerate(_CLASSES):
        parts += [rect(x, y - 9, 16, 10, f"l{number}"), text(x + 21, y, words, cls="tick")]
        x += 105 if number == 0 else 80
    return parts
