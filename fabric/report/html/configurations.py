"""Measurements grouped by configuration: which phase, with which matrix values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from statistics import fmean, median, pstdev

from markupsafe import Markup

from fabric.model.text import size_text
from fabric.report.html.svg import Scale, dot, line, path, picture, rect, tag, text, y_axis
from fabric.report.shown_run import ShownRun


@dataclass(frozen=True, slots=True)
class Configuration:
    """One written phase with one combination of the matrix; *faulty*: something was made worse in it on purpose."""

    phase: str
    where: tuple[tuple[str, str], ...]
    faulty: bool

    @property
    def text(self) -> str:
        """``degraded, adaptive_routing=off``."""
        return ", ".join([self.phase, *(f"{name}={value}" for name, value in self.where)])


@dataclass(frozen=True, slots=True)
class ConfigurationSamples:
    """Of one kind of probe in one configuration: bandwidths by message size, one for each probe (Gb/s)."""

    kind: str
    configuration: Configuration
    by_size: Mapping[int, tuple[float, ...]]
    by_group: Mapping[str, tuple[float, ...]]  # of the largest size, by who took part


def configurations(run: ShownRun) -> dict[str, Configuration]:
    """By the name of the phase as it ran."""
    faulty = {result.change.phase for result in run.judged.verdict.changes if result.change.is_fault}
    return {
        phase.name: Configuration(phase.written, phase.where, phase.name in faulty)
        for phase in run.judged.scenario.phases
    }


def collected(run: ShownRun) -> list[ConfigurationSamples]:
    """Every kind of probe with message sizes, by configuration, in the order of the scenario; rounds are together."""
    known = configurations(run)
    sizes: dict[tuple[str, Configuration], dict[int, list[float]]] = {}
    groups: dict[tuple[str, Configuration], dict[str, list[float]]] = {}
    for row in run.rows:
        result, configuration = row.result, known.get(row.probe.phase)
        if "sizes_bytes" not in row.probe.params or configuration is None:
            continue
        if result is None or result.outcome is not None:
            continue
        least: dict[int, float] = {}
        for found in result.measurements:
            if found.size_bytes:
                least[found.size_bytes] = min(found.value, least.get(found.size_bytes, found.value))
        if not least:
            continue
        key = (row.probe.kind, configuration)
        for size_bytes, value in least.items():
            sizes.setdefault(key, {}).setdefault(size_bytes, []).append(value)
        groups.setdefault(key, {}).setdefault(row.series, []).append(least[max(least)])
    return [
        ConfigurationSamples(
            kind,
            configuration,
            {size: tuple(values) for size, values in sorted(by_size.items())},
            {name: tuple(values) for name, values in groups[kind, configuration].items()},
        )
        for (kind, configuration), by_size in sizes.items()
    ]


_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT = 760.0, 280.0, 64.0, 26.0, 16.0
SERIES = 8
"""Colours that can be told apart (Okabe and Ito); a ninth line has the first one again, with another sign."""


def draw(kind: str, samples: Sequence[ConfigurationSamples]) -> Markup | None:
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


def _series(one: ConfigurationSamples, index: int, x: Scale, y: Scale) -> Iterator[Markup]:
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


def _key(several: Sequence[ConfigurationSamples]) -> Iterator[Markup]:
    for index, one in enumerate(several):
        y = _HEIGHT + 8 + 18 * index
        n = min(len(values) for values in one.by_size.values())
        yield line(_LEFT, y, _LEFT + 34, y, f"series c{index % SERIES}{_dashed(one)}")
        yield dot(_LEFT + 17, y, 3.5, f"point c{index % SERIES}")
        yield text(_LEFT + 42, y + 4, f"{one.configuration.text} (n {n}; band: least to most)", cls="tick")


def _dashed(one: ConfigurationSamples) -> str:
    """What was made bad on purpose is broken also in print."""
    return " dashed" if one.configuration.faulty else ""


_BARS_HEIGHT, _BARS_LEFT, _BARS_TOP = 300.0, 64.0, 30.0
_MOST_DOTS = 96

Word = "adaptive_routing"


def asked_for(samples: Sequence[ConfigurationSamples]) -> bool:
    """Whether a matrix compares adaptive routing off and on."""
    return len({value for one in samples for name, value in one.configuration.where if name == Word}) > 1


def bars(samples: Sequence[ConfigurationSamples], *, simulated: bool) -> Markup:
    """Figure 12a: a bar for each configuration (mean), a dot for each iteration, off and on side by side."""
    listed = [(one, one.by_size[max(one.by_size)]) for one in samples]
    groups = list(dict.fromkeys(_rest(one) for one, _ in listed))
    highest = max(value for _, values in listed for value in values) * 1.12
    y = Scale(0.0, highest, _BARS_HEIGHT - 56, _BARS_TOP)
    step = 170.0
    width = max(_BARS_LEFT + step * len(groups) + 20, 420)
    parts = y_axis(y, _BARS_LEFT, width - 10, "Gb/s")
    for number, group in enumerate(groups):
        here = [(one, values) for one, values in listed if _rest(one) == group]
        left = _BARS_LEFT + step * number + 20
        for place, (one, values) in enumerate(sorted(here, key=lambda pair: _on(pair[0]))):
            parts += _bar(left + place * 66, one, values, y)
        parts.append(text(left + 60, _BARS_HEIGHT - 18, group, anchor="middle", cls="name", most=28))
    parts += _stamp(width, simulated)
    return picture(width, _BARS_HEIGHT, parts, "bandwidth with adaptive routing off and on, mean and every iteration")


def rings(samples: Sequence[ConfigurationSamples], *, simulated: bool) -> Markup:
    """Figure 12b: every concurrent ring's own mean, sorted, with quartiles; CV says how far apart they are."""
    found = [(one, sorted(fmean(values) for values in one.by_group.values())) for one in samples]
    highest = max(values[-1] for _, values in found) * 1.12
    y = Scale(0.0, highest, _BARS_HEIGHT - 56, _BARS_TOP)
    step = 190.0
    width = max(_BARS_LEFT + step * len(found) + 20, 420)
    parts = y_axis(y, _BARS_LEFT, width - 10, "Gb/s")
    for number, (one, values) in enumerate(sorted(found, key=lambda pair: (_rest(pair[0]), _on(pair[0])))):
        parts += _cloud(_BARS_LEFT + step * number + 20, step - 50, one, values, y)
    parts += _stamp(width, simulated)
    return picture(width, _BARS_HEIGHT, parts, "bandwidth of concurrent rings with adaptive routing off and on")


def _bar(x: float, one: ConfigurationSamples, values: Sequence[float], y: Scale) -> Iterator[Markup]:
    mean = fmean(values)
    cls = "bar on" if _on(one) else "bar off"
    yield rect(x, y(mean), 52, y(0) - y(mean), cls, f"{one.configuration.text}: mean {mean:.1f} Gb/s of {len(values)}")
    shown = values[:_MOST_DOTS]
    for number, value in enumerate(shown):
        yield dot(x + 6 + 40 * (number + 0.5) / len(shown), y(value), 2, "iteration")
    yield text(x + 26, min(y(max(values)), y(mean)) - 7, f"{mean:,.0f}", anchor="middle", cls="value")
    yield text(x + 26, _BARS_HEIGHT - 38, f"AR {_word(one)}", anchor="middle", cls="tick")


def _cloud(x: float, width: float, one: ConfigurationSamples, values: Sequence[float], y: Scale) -> Iterator[Markup]:
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
    yield text(x + width / 2, _BARS_HEIGHT - 38, label, anchor="middle", cls="tick")
    yield text(x + width / 2, _BARS_HEIGHT - 18, _rest(one), anchor="middle", cls="name", most=28)


def _stamp(width: float, simulated: bool) -> list[Markup]:
    return [text(width - 12, 16, "simulated", anchor="end", cls="stamp")] if simulated else []


def _on(one: ConfigurationSamples) -> bool:
    return _word(one) == "on"


def _word(one: ConfigurationSamples) -> str:
    return dict(one.configuration.where).get(Word, "")


def _rest(one: ConfigurationSamples) -> str:
    others = [f"{name}={value}" for name, value in one.configuration.where if name != Word]
    return ", ".join([one.configuration.phase, *others])
