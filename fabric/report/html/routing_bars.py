"""Adaptive routing off and on, drawn as Meta drew it (arXiv 2410.21680, figures 12a and 12b), for our numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean, median, pstdev

from markupsafe import Markup

from fabric.report.html.configurations import Samples
from fabric.report.html.scale import Scale, y_axis
from fabric.report.html.svg import dot, line, picture, rect, text

_HEIGHT, _LEFT, _TOP = 300.0, 64.0, 30.0
_MOST_DOTS = 96

Word = "adaptive_routing"


def asked_for(samples: Sequence[Samples]) -> bool:
    """Whether a matrix compares adaptive routing off and on."""
    return len({value for one in samples for name, value in one.configuration.where if name == Word}) > 1


def bars(samples: Sequence[Samples], *, simulated: bool) -> Markup:
    """Figure 12a: a bar for each configuration (mean), a dot for each iteration, off and on side by side."""
    listed = [(one, one.by_size[max(one.by_size)]) for one in samples]
    groups = list(dict.fromkeys(_rest(one) for one, _ in listed))
    highest = max(value for _, values in listed for value in values) * 1.12
    y = Scale(0.0, highest, _HEIGHT - 56, _TOP)
    step = 170.0
    width = max(_LEFT + step * len(groups) + 20, 420)
    parts = y_axis(y, _LEFT, width - 10, "Gb/s")
    for number, group in enumerate(groups):
        here = [(one, values) for one, values in listed if _rest(one) == group]
        left = _LEFT + step * number + 20
        for place, (one, values) in enumerate(sorted(here, key=lambda pair: _on(pair[0]))):
            parts += _bar(left + place * 66, one, values, y)
        parts.append(text(left + 60, _HEIGHT - 18, group, anchor="middle", cls="name", most=28))
    parts += _stamp(width, simulated)
    return picture(width, _HEIGHT, parts, "bandwidth with adaptive routing off and on, mean and every iteration")


def rings(samples: Sequence[Samples], *, simulated: bool) -> Markup:
    """Figure 12b: every concurrent ring's own mean, sorted, with quartiles; CV says how far apart they are."""
    found = [(one, sorted(fmean(values) for values in one.by_group.values())) for one in samples]
    highest = max(values[-1] for _, values in found) * 1.12
    y = Scale(0.0, highest, _HEIGHT - 56, _TOP)
    step = 190.0
    width = max(_LEFT + step * len(found) + 20, 420)
    parts = y_axis(y, _LEFT, width - 10, "Gb/s")
    for number, (one, values) in enumerate(sorted(found, key=lambda pair: (_rest(pair[0]), _on(pair[0])))):
        parts += _cloud(_LEFT + step * number + 20, step - 50, one, values, y)
    parts += _stamp(width, simulated)
    return picture(width, _HEIGHT, parts, "bandwidth of concurrent rings with adaptive routing off and on")


def _bar(x: float, one: Samples, values: Sequence[float], y: Scale) -> Iterator[Markup]:
    mean = fmean(values)
    cls = "bar on" if _on(one) else "bar off"
    yield rect(x, y(mean), 52, y(0) - y(mean), cls, f"{one.configuration.text}: mean {mean:.1f} Gb/s of {len(values)}")
    shown = values[:_MOST_DOTS]
    for number, value in enumerate(shown):
        yield dot(x + 6 + 40 * (number + 0.5) / len(shown), y(value), 2, "iteration")
    yield text(x + 26, min(y(max(values)), y(mean)) - 7, f"{mean:,.0f}", anchor="middle", cls="value")
    yield text(x + 26, _HEIGHT - 38, f"AR {_word(one)}", anchor="middle", cls="tick")


def _cloud(x: float, width: float, one: Samples, values: Sequence[float], y: Scale) -> Iterator[Markup]:
    last = len(values) - 1
    low, middle, high = values[last // 4], median(values), values[last - last // 4]
    yield rect(x, y(high), width, y(low) - y(high), "bar on" if _on(one) else "bar off")
    yield line(x, y(middle), x + width, y(middle), "middle")
    for number, value in enumerate(values):
        yield dot(x + width * (number + 0.5) / len(values), y(value), 2.5, "iteration")
    mean = fmean(values)
    spread = pstdev(values) / mean if mean else 0.0
    yield text(x + width / 2, y(values[-1]) - 9, f"mean {mean:,.0f}, CV {spread:.1%}", anchor="middle", cls="value")
    label = f"AR {_word(one)}, {len(values)} rings"
    yield text(x + width / 2, _HEIGHT - 38, label, anchor="middle", cls="tick")
    yield text(x + width / 2, _HEIGHT - 18, _rest(one), anchor="middle", cls="name", most=28)


def _stamp(width: float, simulated: bool) -> list[Markup]:
    return [text(width - 12, 16, "simulated", anchor="end", cls="stamp")] if simulated else []


def _on(one: Samples) -> bool:
    return _word(one) == "on"


def _word(one: Samples) -> str:
    return dict(one.configuration.where).get(Word, "")


def _rest(one: Samples) -> str:
    others = [f"{name}={value}" for name, value in one.configuration.where if name != Word]
    return ", ".join([one.configuration.phase, *others])
