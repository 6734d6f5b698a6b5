"""A run in time: every sample as a level, every change as a band, when a loss was seen and when it was over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from fabric.model.probe import ProbeResult
from fabric.model.scenario import Where
from fabric.model.units import duration_text
from fabric.model.verdict import Verdict
from fabric.report.change_words import what
from fabric.report.html import timeline_samples
from fabric.report.html.scale import Scale, x_axis, y_axis
from fabric.report.html.svg import line, path, picture, rect, tag, text
from fabric.report.shown_run import Row, ShownRun

_WIDTH, _LEFT, _TOP, _BAND = 1080.0, 150.0, 64.0, 14.0
_MOST_SAMPLES = 2500
_BINS = 240
_MOST_BANDS = 14


@dataclass(frozen=True, slots=True)
class Level:
    """One probe: its share of what its own key has without a fault (median), seconds of the run's clock."""

    began_s: float
    ended_s: float
    share: float | None


_Key = tuple[str, str, tuple[str, ...], Where]


def levels(run: ShownRun) -> list[Level]:
    """
    Every probe that ran; share None where nothing was measured.

    The reference is the median of the same probe with the same matrix values in phases without a fault, else in all
    phases; of one that was measured once, the median of its peers on other hosts.
    """
    faulty = {result.change.phase for result in run.judged.verdict.changes if result.change.is_fault}
    wheres = {phase.name: phase.where for phase in run.judged.scenario.phases}
    good: dict[_Key, list[float]] = {}
    every: dict[_Key, list[float]] = {}
    peers: dict[tuple[str, str, Where], list[float]] = {}
    ran: list[tuple[ProbeResult, _Key, float | None]] = []
    for row in run.rows:
        if row.result is None or row.result.attempt == 0:
            continue
        value, where = _value(row), wheres.get(row.probe.phase, ())
        series = row.series if len(row.probe.hosts) == 1 else ""
        key = (row.probe.kind, row.series, row.probe.hosts, where)
        ran.append((row.result, key, value))
        if value is not None:
            (every if row.probe.phase in faulty else good).setdefault(key, []).append(value)
            if row.probe.phase not in faulty:
                peers.setdefault((row.probe.kind, series, where), []).append(value)
    usual = {kind: median(found) for kind, found in peers.items()}
    found = []
    for result, key, value in ran:
        own = good.get(key) or every.get(key) or []
        kind = (key[0], key[1] if len(key[2]) == 1 else "", key[3])
        normal = median(own) if len(own) > 1 else usual.get(kind, own[0] if own else None)
        found.append(Level(result.started_s, result.ended_s, _share(value, normal)))
    return found


def draw(run: ShownRun) -> Markup | None:
    """None where nothing ran."""
    found = levels(run)
    if not found:
        return None
    verdict = run.judged.verdict
    bands = _bands(verdict)
    top = _TOP + _BAND * min(len({name for name, *_ in bands}), _MOST_BANDS)
    bottom = top + 204.0
    x = Scale(
        0.0,
        max(max(level.ended_s for level in found), *(end for _, _, end, _ in bands), 1.0) * 1.01,
        _LEFT,
        _WIDTH - 14,
    )
    highest = max((level.share for level in found if level.share is not None), default=1.0)
    y = Scale(0.0, max(highest * 1.05, 1.1), bottom, top + 24)
    parts = [*x_axis(x, _TOP - 6, bottom, "seconds"), *y_axis(y, _LEFT, _WIDTH - 14, "of normal")]
    parts += _phases(run, x, bottom)
    parts += _band_parts(bands, x, bottom)
    parts += _samples(found, x, y) if len(found) <= _MOST_SAMPLES else _binned(found, x, y)
    parts += _seen(verdict, x, top, bottom)
    sampled, end = timeline_samples.draw(run, x, bottom + 30)
    label = "time line: bandwidth, changes, losses seen and over, counters and temperatures"
    return picture(_WIDTH, end + 6, [*parts, *sampled], label)


def caption(run: ShownRun) -> str:
    """What the picture leaves out, and what its 1 is."""
    number = sum(1 for row in run.rows if row.result is not None and row.result.attempt > 0)
    said = "each line is one probe" if number <= _MOST_SAMPLES else "least, median and most of all probes that ran then"
    clock = "simulated seconds" if run.simulated else "seconds of the run's clock"
    faulty = {result.change.phase for result in run.judged.verdict.changes if result.change.is_fault}
    if all(phase.name in faulty for phase in run.judged.scenario.phases):
        one = "no phase was without a fault: 1 is the median of the same probe in all phases"
    else:
        one = "1 is the median of the same probe without a fault, or of its peers on other hosts"
    return f"{number:,} probes, {said}; {clock}; {one}"


def _value(row: Row) -> float | None:
    """Of the largest size the lower number, as limits are judged."""
    result = row.result
    if result is None or result.outcome is not None or not result.measurements:
        return None
    largest = max(m.size_bytes or 0 for m in result.measurements)
    return min(m.value for m in result.measurements if (m.size_bytes or 0) == largest)


def _share(value: float | None, normal: float | None) -> float | None:
    return value / normal if value is not None and normal else None


Band = tuple[str, float, float, bool]
"""What, from, until (seconds), and whether it is a fault."""


def _bands(verdict: Verdict) -> list[Band]:
    """Windows of equal changes of one phase are one band."""
    found: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    faults: dict[str, bool] = {}
    ends = [window.ended_s for one in verdict.changes for window in one.windows if window.ended_s is not None]
    for result in verdict.changes:
        name = what(result.change)
        faults[name] = result.change.is_fault
        for number, window in enumerate(result.windows):
            end = window.ended_s if window.ended_s is not None else max(ends, default=window.began_s)
            found.setdefault((name, result.change.phase, number), []).append((window.began_s, end))
    return [
        (name, min(a for a, _ in spans), max(b for _, b in spans), faults[name])
        for (name, _, _), spans in found.items()
    ]


def _band_parts(bands: Sequence[Band], x: Scale, bottom: float) -> Iterator[Markup]:
    """A lane for each different change; a fault also shades the samples below."""
    lanes: dict[str, int] = {}
    for name, begin, end, fault in bands:
        lane = lanes.setdefault(name, len(lanes))
        if lane >= _MOST_BANDS:
            continue
        y = _TOP + _BAND * lane
        cls = "fault" if fault else "toggle"
        yield rect(
            x(begin), y, max(x(end) - x(begin), 1.5), _BAND - 3, f"lane {cls}", f"{name}: {begin:.1f} to {end:.1f} s"
        )
        if fault:
            yield rect(x(begin), y, max(x(end) - x(begin), 1.0), bottom - y, "shade")
    for name, lane in list(lanes.items())[:_MOST_BANDS]:
        yield text(_LEFT - 6, _TOP + _BAND * lane + 9, name, anchor="end", cls="tiny", most=30)


def _phases(run: ShownRun, x: Scale, bottom: float) -> Iterator[Markup]:
    spans: dict[str, tuple[float, float]] = {}
    for row in run.rows:
        if row.result is not None and row.result.attempt > 0:
            begin, end = spans.get(row.probe.phase, (row.result.started_s, row.result.ended_s))
            spans[row.probe.phase] = (min(begin, row.result.started_s), max(end, row.result.ended_s))
    for number, (name, (begin, end)) in enumerate(spans.items()):
        yield line(x(begin), _TOP - 30, x(begin), bottom, "phase")
        room = max(int((x(end) - x(begin)) / 5.4), 3)
        if room > 5:
            y = _TOP - 22 if number % 2 == 0 or room > len(name) else _TOP - 34
            yield tag(
                "g",
                text(x(begin) + 3, y, name, cls="tiny", most=room),
                tag("title", f"{name}, {duration_text(end - begin)}"),
            )


def _samples(found: Sequence[Level], x: Scale, y: Scale) -> Iterator[Markup]:
    for level in found:
        if level.share is None:
            middle = x((level.began_s + level.ended_s) / 2)
            yield tag("path", d=f"M{middle - 4:.1f} {y(0) - 9:.1f}l8 8m-8 0l8 -8", class_="lost")
        else:
            at = y(level.share)
            cls = "level" if level.share >= 0.95 else "level low"
            yield line(x(level.began_s), at, max(x(level.ended_s), x(level.began_s) + 1.5), at, cls)


def _binned(found: Sequence[Level], x: Scale, y: Scale) -> Iterator[Markup]:
    """Too many to draw each: per slice of time the least, the median and the most."""
    width = (x.high - x.low) / _BINS
    bins: Mapping[int, list[float]] = {}
    gathered: dict[int, list[float]] = {}
    for level in found:
        if level.share is not None:
            gathered.setdefault(int((level.ended_s - x.low) / width), []).append(level.share)
    bins = dict(sorted(gathered.items()))
    at = {number: x(x.low + (number + 0.5) * width) for number in bins}
    for number, shares in bins.items():
        yield line(at[number], y(min(shares)), at[number], y(max(shares)), "spread")
    yield path([(at[number], y(median(shares))) for number, shares in bins.items()], "series c0")


def _seen(verdict: Verdict, x: Scale, top: float, bottom: float) -> Iterator[Markup]:
    """A flag where a loss was seen, another where it was over; changes at one time share them."""
    drawn: set[tuple[str, int]] = set()
    for effect in verdict.effects:
        for window in effect.windows:
            moments = []
            if window.detect_s is not None:
                moments.append(("loss seen", window.began_s + window.detect_s, window.detect_s, "after it began"))
            if window.recover_s is not None and window.ended_s is not None and window.detect_s is not None:
                moments.append(("back", window.ended_s + window.recover_s, window.recover_s, "after it ended"))
            for word, at_s, took_s, since in moments:
                if (word, round(x(at_s))) in drawn:
                    continue
                drawn.add((word, round(x(at_s))))
                cls = "seen" if word == "loss seen" else "seen over"
                yield tag("g", line(x(at_s), top, x(at_s), bottom, cls), tag("title", f"{word} {took_s:.1f} s {since}"))
                sign = f"M{x(at_s):.1f} {top:.1f}l10 5l-10 5z"
                yield tag("path", d=sign, class_=f"flag {cls}")
