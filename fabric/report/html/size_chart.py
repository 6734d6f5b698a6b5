"""Bandwidth against message size, one line a configuration, with the spread as a band."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log2
from statistics import median

from markupsafe import Markup

from fabric.model.units import size_text
from fabric.report.html.configurations import Samples
from fabric.report.html.scale import Scale, y_axis
from fabric.report.html.svg import dot, line, path, picture, tag, text

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT = 760.0, 280.0, 64.0, 26.0, 16.0
SERIES = 8
"""Colours that can be told apart (Okabe and Ito); a ninth line has the first one again, with another sign."""


def draw(kind: str, samples: Sequence[Samples]) -> Markup | None:
    """None where no probe of the kind has two sizes."""
    several = [one for one in samples if len(one.by_size) > 1][: 2 * SERIES]
    if not several:
        return None
    sizes = sorted({size for one in several for size in one.by_size})
    highest = max(value for one in several for values in one.by_size.values() for value in values)
    y = Scale(0.0, highest * 1.08, _HEIGHT - 34, _TOP)
    x = Scale(log2(sizes[0]), log2(sizes[-1]), _LEFT + 20, _WIDTH - _RIGHT - 20)
    parts = y_axis(y, _LEFT, _WIDTH - _RIGHT, "Gb/s")
    for size in sizes:
        parts.append(text(x(log2(size)), _HEIGHT - 16, size_text(size), anchor="middle", cls="tick"))
    parts.append(text(_WIDTH - _RIGHT, _HEIGHT - 2, "message size, bytes", anchor="end", cls="tick"))
    for index, one in enumerate(several):
        parts += _series(one, index, x, y)
    parts += _key(several)
    height = _HEIGHT + 8 + 18 * len(several)
    return picture(_WIDTH, height, parts, f"{kind}: bandwidth against message size")


def _series(one: Samples, index: int, x: Scale, y: Scale) -> Iterator[Markup]:
    across = [(x(log2(size)), values) for size, values in one.by_size.items()]
    upper = [(at, y(max(values))) for at, values in across]
    lower = [(at, y(min(values))) for at, values in reversed(across)]
    yield tag(
        "polygon", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in upper + lower), class_=f"band c{index % SERIES}"
    )
    yield path([(at, y(median(values))) for at, values in across], f"series c{index % SERIES}{_dashed(one)}")
    for size, values in one.by_size.items():
        said = f"{one.configuration.text}, {size_text(size)}: median {median(values):.1f} Gb/s of {len(values)}"
        yield dot(x(log2(size)), y(median(values)), 3.5, f"point c{index % SERIES}", said)


def _key(several: Sequence[Samples]) -> Iterator[Markup]:
    for index, one in enumerate(several):
        y = _HEIGHT + 8 + 18 * index
        n = min(len(values) for values in one.by_size.values())
        yield line(_LEFT, y, _LEFT + 34, y, f"series c{index % SERIES}{_dashed(one)}")
        yield dot(_LEFT + 17, y, 3.5, f"point c{index % SERIES}")
        yield text(_LEFT + 42, y + 4, f"{one.configuration.text} (n {n}; band: least to most)", cls="tick")


def _dashed(one: Samples) -> str:
    """What was made bad on purpose is broken also in print."""
    return " dashed" if one.configuration.faulty else ""
