"""A run in time: every sample as a level, every change as a band, when a loss was seen and when it was over."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from markupsafe import Markup

from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Where
from fabric.model.text import duration_text
from fabric.model.verdict import Verdict
from fabric.probes.pairwise import PairwiseSpec
from fabric.report.html import samples
from fabric.report.html.shares import over_hosts
from fabric.report.html.svg import Scale, dot, line, path, picture, rect, tag, text, x_axis, y_axis
from fabric.report.shown_run import Row, ShownRun


class TargetedRounds:
    """The further rounds of a phase that localises: mostly pairs that cross a part under suspicion."""

    def __init__(self, run: ShownRun) -> None:
        self._planned: Mapping[str, Mapping[str, int]] = {
            phase.name: {spec.name: spec.first + spec.rounds for spec in phase.probes if isinstance(spec, PairwiseSpec)}
            for phase in run.judged.scenario.phases
            if phase.localise is not None
        }

    @property
    def phases(self) -> Collection[str]:
        """The phases that may have such rounds."""
        return self._planned.keys()

    def has(self, probe: Probe) -> bool:
        """Whether it is of a round after the planned ones (a probe's rounds count from 0)."""
        rounds = self._planned.get(probe.phase)
        if rounds is None:
            return False
        number, planned = probe.params.get("round"), rounds.get(str(probe.params.get("name")))
        return isinstance(number, int) and planned is not None and number >= planned


class RoundLevel(NamedTuple):
    """
    One probe: its share of what its own key has without a fault (median), seconds of the run's clock.

    *line* numbers the written phase it is of, so that the rounds of one are one line; -1: of a targeted round, which
    looks where something is slow and so says nothing of the fabric as a whole.

    A tuple: 300,000 of them are made in a third of the time.
    """

    began_s: float
    ended_s: float
    share: float | None
    line: int = 0


_FLOWS = "link_burn"
"""Its flows are all alike, also those that begin and end on one host: each is measured by all the others."""

_Key = tuple[str, str, tuple[str, ...], Where]
_PeerKey = tuple[str, str, Where]


def levels(run: ShownRun) -> list[RoundLevel]:
    """
    Every probe that ran; share None where nothing was measured. A step that went well and has no number by its nature
    (routes that were read) is none.

    The reference of a probe that one host makes alone is the median of the hosts, with at least three of them. Else,
    and of those of several hosts, it is the median of the same probe with the same matrix values in phases without a
    fault, or in all phases. One that was measured once has its peers, else what is required: over itself it would
    always be 1.
    """
    verdict = run.judged.verdict
    faulty = {result.change.phase for result in verdict.changes if result.change.is_fault}
    wheres = {phase.name: phase.where for phase in run.judged.scenario.phases}
    known = _Known({}, {}, {}, altered=bool(verdict.changes))
    ran: list[tuple[Row, ProbeResult, _PeerKey, float | None]] = []
    for row in run.rows:
        probe, _, result = row
        if result is None or result.attempt == 0 or result.outcome is Outcome.PASS:
            continue
        value = _value(result)
        alone = len(probe.hosts) == 1 and probe.kind != _FLOWS
        peer = (probe.kind, row.series if alone else "", wheres.get(probe.phase, ()))
        ran.append((row, result, peer, value))
        if value is not None and probe.phase not in faulty:
            known.peers.setdefault(peer, []).append((probe.hosts, value))
    usual = {peer: over_hosts(found) for peer, found in known.peers.items()}
    # Most probes have peers enough, and nothing else of them is needed.
    by_peers = {} if known.altered else {peer: normal for peer, normal in usual.items() if normal is not None}
    for row, _, peer, value in ran:
        if value is not None and (len(row.probe.hosts) > 1 or peer not in by_peers):
            known.add(_key(row, peer), value, faulty=row.probe.phase in faulty)
    lines, targeted = _lines(run), TargetedRounds(run)
    found = []
    for row, result, peer, value in ran:
        probe = row.probe
        if len(probe.hosts) == 1 and peer in by_peers:
            normal: float | None = by_peers[peer]
        else:
            normal = known.normal(row, _key(row, peer), usual.get(peer))
        number = -1 if probe.phase in targeted.phases and targeted.has(probe) else lines.get(probe.phase, 0)
        found.append(RoundLevel(result.started_s, result.ended_s, _share(value, normal), number))
    return found


def _key(row: Row, peer: _PeerKey) -> _Key:
    return row.probe.kind, row.series, row.probe.hosts, peer[2]


@dataclass(slots=True)
class _Known:
    """What was measured: of each probe without and with faults, and of its peers; *altered*: changes were made."""

    good: dict[_Key, list[float]]
    every: dict[_Key, list[float]]
    peers: dict[_PeerKey, list[tuple[tuple[str, ...], float]]]
    altered: bool

    def add(self, key: _Key, value: float, *, faulty: bool) -> None:
        """Of what is not measured by its peers alone."""
        (self.every if faulty else self.good).setdefault(key, []).append(value)

    def normal(self, row: Row, key: _Key, usual: float | None) -> float | None:
        """What a probe of several hosts, or without enough peers, is measured by; None: nothing is known."""
        own = self.good.get(key) or self.every.get(key) or ()
        if len(own) > 1 and (self.altered or len(row.probe.hosts) > 1):
            return median(own)
        return usual or row.verdict.limit_gbps or (median(own) if own else None)


def _lines(run: ShownRun) -> dict[str, int]:
    """By phase the number of the phase that is written in the file, with its matrix values."""
    numbers: dict[tuple[str, Where], int] = {}
    return {
        phase.name: numbers.setdefault((phase.written, phase.where), len(numbers))
        for phase in run.judged.scenario.phases
    }


def _value(result: ProbeResult) -> float | None:
    """Of the largest size the lower number, as limits are judged."""
    if result.outcome is not None or not result.measurements:
        return None
    if len(result.measurements) == 1:
        return result.measurements[0].value
    largest = max(m.size_bytes or 0 for m in result.measurements)
    return min(m.value for m in result.measurements if (m.size_bytes or 0) == largest)


def _share(value: float | None, normal: float | None) -> float | None:
    return value / normal if value is not None and normal else None


_WIDTH, _LEFT, _TOP, _BAND = 1080.0, 150.0, 64.0, 14.0
_MOST_SAMPLES = 2500
_BINS = 240
_LONG = 8
"""A probe over so many slices of time is in all of them: else there would be a hole while it runs (a choice)."""
_MOST_BANDS = 14
_LONGEST_LABEL = 34
_LETTER = 5.2  # pixels of one letter of a tiny label
_HOURS_FROM_S = 7200.0


def draw(run: ShownRun, known: Sequence[RoundLevel] | None = None) -> Markup | None:
    """None where nothing ran; *known*: the levels of the run, where somebody has them already."""
    found = levels(run) if known is None else known
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
    parts = [*_time_axis(x, bottom), *y_axis(y, _LEFT, _WIDTH - 14, "of normal")]
    parts += _phases(run, x, bottom)
    parts += _band_parts(bands, x, bottom)
    parts += _samples(found, x, y) if len(found) <= _MOST_SAMPLES else binned(found, x, y)
    parts += _seen(verdict, x, top, bottom)
    sampled, end = samples.draw(run, x, bottom + 30)
    label = "time line: bandwidth, changes, losses seen and over, counters and temperatures"
    return picture(_WIDTH, end + 6, [*parts, *sampled], label)


def caption(run: ShownRun, known: Sequence[RoundLevel] | None = None) -> str:
    """What the picture leaves out, what its 1 is, and what the signs in it mean; *known* as in ``draw``."""
    found = levels(run) if known is None else known
    number, targeted = len(found), sum(level.line < 0 for level in found)
    said = "each line is one probe" if number <= _MOST_SAMPLES else "least, median and most of all probes that ran then"
    if number > _MOST_SAMPLES and targeted:
        said += f"; the median line leaves out {targeted:,} of targeted rounds, which look where something is slow"
    clock = "simulated time" if run.simulated else "the run's own clock"
    faulty = {result.change.phase for result in run.judged.verdict.changes if result.change.is_fault}
    if all(phase.name in faulty for phase in run.judged.scenario.phases):
        one = "no phase was without a fault: 1 is the median of the same probe in all phases"
    else:
        one = (
            "1 is what the same probe gives on other hosts or without a fault; where there is neither, what is required"
        )
    return ". ".join([f"{number:,} probes, {said}; {clock}; {one}", *_signs(run.judged.verdict, found)]) + "."


def _signs(verdict: Verdict, found: Sequence[RoundLevel]) -> Iterator[str]:
    """What the signs mean, of those that the picture has."""
    if _bands(verdict):
        yield "Band: a change in force"
    if any(window.detect_s is not None for effect in verdict.effects for window in effect.windows):
        yield "Flags: a loss was seen, and was over"
    if any(level.share is None for level in found):
        yield "Cross: given up or not measured"


Band = tuple[str, float, float, bool]
"""What, from, until (seconds), and whether it is a fault."""


def _bands(verdict: Verdict) -> list[Band]:
    """Windows of equal changes of one phase are one band."""
    found: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    faults: dict[str, bool] = {}
    ends = [window.ended_s for one in verdict.changes for window in one.windows if window.ended_s is not None]
    for result in verdict.changes:
        name = str(result.change.spec)
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
    spans: dict[str, list[float]] = {}
    for probe, _, result in run.rows:
        if result is not None and result.attempt > 0:
            span = spans.setdefault(probe.phase, [result.started_s, result.ended_s])
            if result.started_s < span[0]:
                span[0] = result.started_s
            if result.ended_s > span[1]:
                span[1] = result.ended_s
    free = [0.0, 0.0]  # where the label before ends, in each of two rows
    labels = []
    for name, (begin, end) in spans.items():
        at = x(begin)
        level = 0 if free[0] <= at else 1
        y = _TOP - (28, 40)[level]
        shown = name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"
        fits = free[level] <= at and at + _LETTER * len(shown) < _WIDTH
        yield line(at, y - 6 if fits else _TOP - 24, at, bottom, "phase")
        if fits:
            free[level] = at + _LETTER * (len(shown) + 2)
            label = text(at + 3, y, shown, cls="tiny over-lines")
            labels.append(tag("g", label, tag("title", f"{name}, {duration_text(end - begin)}")))
    yield from labels


def _time_axis(x: Scale, bottom: float) -> list[Markup]:
    """Hours where a run took many, else seconds."""
    if x.high <= _HOURS_FROM_S:
        return x_axis(x, _TOP - 6, bottom, "seconds")
    return x_axis(Scale(0.0, x.high / 3600.0, x.start, x.end), _TOP - 6, bottom, "hours")


def _samples(found: Sequence[RoundLevel], x: Scale, y: Scale) -> Iterator[Markup]:
    for level in found:
        if level.share is None:
            yield _lost(x((level.began_s + level.ended_s) / 2), y)
        else:
            at = y(level.share)
            cls = "level" if level.share >= 0.95 else "level low"
            yield line(x(level.began_s), at, max(x(level.ended_s), x(level.began_s) + 1.5), at, cls)


def _lost(at: float, y: Scale) -> Markup:
    """The cross of what was given up or not measured, on the axis of time."""
    return tag("path", d=f"M{at - 4:.1f} {y(0) - 9:.1f}l8 8m-8 0l8 -8", class_="lost")


def binned(found: Sequence[RoundLevel], x: Scale, y: Scale) -> Iterator[Markup]:
    """
    Too many to draw each: per slice of time the least and the most of all, and the median of each phase; a slice in
    which a probe ended without a number has a cross.

    Targeted rounds have no median: theirs falls because good hosts are no longer measured, not because they got worse.
    """
    width = (x.high - x.low) / _BINS
    every: dict[int, list[float]] = {}
    by_phase: dict[int, dict[int, list[float]]] = {}
    lost: dict[int, None] = {}
    for began_s, ended_s, share, number in found:
        if share is None:
            lost[int((ended_s - x.low) / width)] = None
            continue
        last = int((ended_s - x.low) / width)
        first = int((began_s - x.low) / width)
        for slot in range(first, last + 1) if last - first >= _LONG else (last,):
            every.setdefault(slot, []).append(share)
            if number >= 0:
                by_phase.setdefault(number, {}).setdefault(slot, []).append(share)
    for slot, shares in sorted(every.items()):
        at = x(x.low + (slot + 0.5) * width)
        yield line(at, y(min(shares)), at, y(max(shares)), "spread")
    yield from (_lost(x(x.low + (slot + 0.5) * width), y) for slot in lost)
    for slots in by_phase.values():
        points = [(x(x.low + (slot + 0.5) * width), y(median(shares))) for slot, shares in sorted(slots.items())]
        yield path(points, "series c0") if len(points) > 1 else dot(*points[0], 1.5, "point c0")


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
