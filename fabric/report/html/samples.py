"""Below the bandwidth in the time line: what was sampled on the hosts that matter, as rates and temperatures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markupsafe import Markup

from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.sampling import HOT_C, JUDGED, CounterCourse, CounterReading, growth
from fabric.probes.sources import HARDWARE, HARDWARE_ETHERNET
from fabric.report.html.svg import Scale, line, path, rect, text
from fabric.report.shown_run import ShownRun
from fabric.runs.samples import read_samples

MOST_POINTS = 500
"""Of one series; more are brought together, the highest of them is drawn."""

_LATE = 1.5
"""Samples come a little late; one that came so many times its distance later had others in between, all alike."""

_MOST_LANES = 8
_MOST_HOSTS = 4
_LANE, _GAP, _WORDS = 40.0, 12.0, 12.0
_WARM = ("module_c", "gpu_c", "asic_c")
_COUNTED = (*JUDGED, *HARDWARE, *HARDWARE_ETHERNET)


@dataclass(frozen=True, slots=True)
class Lane:
    """
    One series: its name, its points (seconds, value), and what is said of it.

    *rate*: the points are growth a second from the time before, *total* all of it; otherwise they are levels.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    said: str
    rate: bool
    total: int = 0


def lanes(run: ShownRun) -> list[Lane]:
    """Counters that grew, the worst hosts' and the suspects' first, then the temperatures of those hosts; bounded."""
    folder = Path(run.judged.path)
    counted = read_samples(folder, lambda reading: reading.name in _COUNTED)
    rates = {reading: _rates(reading.name, course) for reading, course in counted.courses.items()}
    grew = {reading: sum(by for _, by in steps) for reading, steps in rates.items() if steps}
    hosts = _hosts(run, grew)
    order = sorted(grew, key=lambda one: (_place(one.host, hosts), _COUNTED.index(one.name), -grew[one], one.part))
    found = [
        Lane(
            f"{one.host}/{one.part} {one.name}",
            _per_second(rates[one], counted.every_s),
            f"{one.name} on {one.host}/{one.part}: +{grew[one]:,}",
            rate=True,
            total=grew[one],
        )
        for one in order[:_MOST_LANES]
    ]
    warm = read_samples(folder, lambda reading: reading.host in hosts and reading.name in _WARM)
    for host in hosts:
        found += _hottest(host, warm.courses, warm.every_s)
    return found


def draw(run: ShownRun, x: Scale, top: float) -> tuple[list[Markup], float]:
    """The lanes from *top* down, and where they end; nothing where nothing was sampled."""
    parts: list[Markup] = []
    for lane in lanes(run):
        bottom = top + _GAP + _LANE
        parts += _lane(lane, x, top + _GAP, bottom)
        top = bottom
    return parts, top


def _hosts(run: ShownRun, grew: dict[CounterReading, int]) -> list[str]:
    """Those of the suspects, those with a port that is not well, then those that counted most."""
    verdict = run.judged.verdict
    of_suspects = [host for suspect in verdict.suspects for host in suspect.hosts]
    sick = [
        Part.of(one.component).host
        for one in verdict.components
        if Part.of(one.component).is_port and one.outcome in (Outcome.FAIL, Outcome.MARGINAL)
    ]
    most = [one.host for one in sorted(grew, key=lambda one: -grew[one]) if one.name in JUDGED]
    return list(dict.fromkeys((*of_suspects, *sick, *most, *run.judged.scenario.hosts[:1])))[:_MOST_HOSTS]


def _place(host: str, hosts: Sequence[str]) -> int:
    return hosts.index(host) if host in hosts else len(hosts)


def _rates(name: str, course: CounterCourse) -> list[tuple[float, int]]:
    """When it grew, and by how much."""
    found, before = [], None
    for at_s, value in zip(course.at_s, course.values, strict=True):
        if value is not None and before is not None:
            by = growth(name, int(before), int(value)).by
            if by:
                found.append((at_s, by))
        before = value
    return found


def _per_second(steps: Sequence[tuple[float, int]], every_s: float) -> tuple[tuple[float, float], ...]:
    return bounded([(at_s, by / max(every_s, 1e-3)) for at_s, by in steps])


def bounded(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """At most ``MOST_POINTS``: of each slice of time the highest."""
    if len(points) <= MOST_POINTS:
        return tuple(points)
    first, last = points[0][0], points[-1][0]
    width = (last - first) / MOST_POINTS or 1.0
    highest: dict[int, tuple[float, float]] = {}
    for point in points:
        number = min(int((point[0] - first) / width), MOST_POINTS - 1)
        if number not in highest or point[1] > highest[number][1]:
            highest[number] = point
    return tuple(highest.values())


def held(points: Sequence[tuple[float, float]], every_s: float) -> list[tuple[float, float]]:
    """
    The same points, and one more before each that came late: a course keeps only what changed.

    What stood still for an hour and then rose was not rising for an hour.
    """
    found = list(points[:1])
    for (before_s, before), (at_s, value) in pairwise(points):
        if at_s - before_s > _LATE * every_s:
            found.append((at_s - every_s, before))
        found.append((at_s, value))
    return found


def _hottest(host: str, courses: Mapping[CounterReading, CounterCourse], every_s: float) -> Iterator[Lane]:
    """Of each kind of sensor the one that became hottest."""
    found: dict[str, tuple[float, CounterReading, CounterCourse]] = {}
    for reading, course in courses.items():
        most_c = max((value for value in course.values if value is not None), default=None)
        if reading.host == host and most_c is not None and most_c > found.get(reading.name, (-300.0,))[0]:
            found[reading.name] = most_c, reading, course
    for name in _WARM:
        if name in found:
            most_c, reading, course = found[name]
            points = [(at_s, float(value)) for at_s, value in zip(course.at_s, course.values, strict=True) if value]
            points.append((max(course.until_s, points[-1][0]), points[-1][1]))
            points = held(points, every_s)
            said = f"hottest {name.removesuffix('_c')} of {host}: {reading.part}, up to {most_c:.0f} C"
            yield Lane(f"{host}/{reading.part} {name.removesuffix('_c')} C", bounded(points), said, rate=False)


def rate_text(per_s: float) -> str:
    """Growth a second, or an hour where a second sees less than one."""
    return f"{per_s:,.3g}/s" if per_s >= 1 else f"{per_s * 3600:.3g}/h"


def _lane(lane: Lane, x: Scale, top: float, bottom: float) -> Iterator[Markup]:
    yield text(x.start - 6, bottom - 4, lane.name, anchor="end", cls="tiny", most=30)
    yield line(x.start, bottom, x.end, bottom, "grid")
    most = max((value for _, value in lane.points), default=0.0)
    if lane.rate:
        y = Scale(0.0, most or 1.0, bottom, top)
        for at_s, value in lane.points:
            yield rect(x(at_s) - 1, y(value), 2.0, bottom - y(value), "counted", f"{lane.said}, {rate_text(value)}")
        yield text(
            x.end - 2,
            top + 8,
            f"+{lane.total:,} in all, at most {rate_text(most)}",
            anchor="end",
            cls="tiny over-lines",
        )
        return
    least = min(value for _, value in lane.points)
    y = Scale(min(least, 20.0), max(most, HOT_C + 5.0), bottom - _WORDS, top)
    yield line(x.start, y(HOT_C), x.end, y(HOT_C), "limit")
    steps = [(x(at_s), y(value)) for at_s, value in lane.points]
    yield path(steps, "series c1")
    said = f"{lane.said}; line: {HOT_C:.0f} C"
    yield text(x.end - 2, bottom - 3, said, anchor="end", cls="tiny")  # below the curve, in a line of its own
