"""The evidence against a suspect in one picture: its bad probes against their peers and the limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fabric.model.scenario import ExpectedRatio
from fabric.model.verdict import ExpectationVerdict, Suspect
from fabric.report.html.shares import Label, label_of
from fabric.report.html.svg import Scale, dot, line, mark, picture, rect, text, x_axis
from fabric.report.shown_run import Row, ShownRun

_LEFT, _WIDTH, _ROW, _TOP = 250.0, 760.0, 20.0, 26.0
MOST_ROWS = 12


@dataclass(frozen=True, slots=True)
class PeerBand:
    """What the same measurement gave elsewhere, Gb/s: the middle 90 % and the median."""

    low: float
    middle: float
    high: float


Elsewhere = Mapping[Label, Sequence[tuple[float, tuple[str, ...]]]]
"""Of each label what was measured (Gb/s), and on which hosts."""


def elsewhere(rows: Sequence[Row], run: ShownRun) -> Elsewhere:
    """
    Of every label among *rows*, all that was measured for it by probes that accuse nobody.

    What another suspect made slow is no measure of this one.
    """
    accusing = {probe for suspect in run.judged.verdict.suspects for probe in suspect.probes}
    wanted = {label_of(row) for row in rows if len(row.probe.hosts) == 1}
    kinds = {row.probe.kind for row in rows if len(row.probe.hosts) != 1}
    found: dict[Label, list[tuple[float, tuple[str, ...]]]] = {}
    told = {kind for kind, _ in wanted} | kinds
    for row in run.rows:
        value = row.verdict.value_gbps
        if row.probe.kind not in told:
            continue
        label = peer_label(row)
        if value is None or row.probe.probe_id in accusing:
            continue
        if label in wanted or (not label[1] and label[0] in kinds):
            found.setdefault(label, []).append((value, row.probe.hosts))
    return found


def peer_label(row: Row) -> Label:
    """Probes of several hosts are compared with all of their kind."""
    return label_of(row) if len(row.probe.hosts) == 1 else (row.probe.kind, "")


def evidence(suspect: Suspect, run: ShownRun, measured: Elsewhere) -> Markup | None:
    """One line for each bad probe, the worst first; None where nothing was measured."""
    rows = [row for probe in suspect.probes if (row := run.row_of.get(probe)) is not None]
    every = [row for row in rows if row.verdict.value_gbps is not None]
    if not every:
        return None
    labels = dict.fromkeys(peer_label(row) for row in every)
    others = {host for one in run.judged.verdict.suspects for host in one.hosts}
    peers = {
        label: found for label in labels if (found := peers_of(measured.get(label, ()), suspect, others)) is not None
    }
    known = sorted(every, key=lambda row: _of_usual(row, peers))[:MOST_ROWS]
    highest = max(_highest(row, peers) for row in known) * 1.05
    scale = Scale(0.0, highest, _LEFT, _WIDTH - 40)
    bottom = _TOP + _ROW * len(known)
    parts, named = x_axis(scale, _TOP - 6, bottom, "Gb/s"), names(known)
    for number, row in enumerate(known):
        parts += _line(row, named[number], _TOP + _ROW * number + _ROW / 2, scale, peers.get(peer_label(row)))
    parts += _legend(with_peers=bool(peers))
    said = f"{suspect.component}: {len(known)} bad measurements against their peers and limits"
    return picture(_WIDTH, bottom + 34, parts, said)


def good_alone(suspect: Suspect, run: ShownRun) -> bool:
    """Whether every number against it meets what is required: then the evidence is something else, such as counters."""
    rows = [row for probe in suspect.probes if (row := run.row_of.get(probe)) is not None]
    known = [row.verdict for row in rows if row.verdict.value_gbps is not None]
    return bool(known) and all(
        one.limit_gbps is not None and one.value_gbps is not None and one.value_gbps >= one.limit_gbps for one in known
    )


def names(rows: Sequence[Row]) -> list[str]:
    """Of each probe its id without the phase; with it where two would be called alike."""
    short = [row.probe.probe_id.partition("/")[2] for row in rows]
    return [row.probe.probe_id if short.count(name) > 1 else name for row, name in zip(rows, short, strict=True)]


def _line(row: Row, name: str, y: float, scale: Scale, peers: PeerBand | None) -> list[Markup]:
    value, limit = row.verdict.value_gbps or 0.0, row.verdict.limit_gbps
    parts = [text(_LEFT - 10, y + 4, name, anchor="end", cls="tick", most=38)]
    if peers is not None:
        parts.append(rect(scale(peers.low), y - 5, scale(peers.high) - scale(peers.low), 10, "peers"))
        parts.append(line(scale(peers.middle), y - 6, scale(peers.middle), y + 6, "middle"))
    if limit is not None:
        parts.append(line(scale(limit), y - 8, scale(limit), y + 8, "limit"))
    parts.append(mark(scale(value), y, 9, row.verdict.outcome.value, f"{row.probe.probe_id}: {value:.1f} Gb/s"))
    parts.append(text(scale(value) - 9, y + 4, f"{value:.0f}", anchor="end", cls="value halo"))
    return parts


def _legend(*, with_peers: bool) -> list[Markup]:
    peers = [
        rect(_LEFT + 90, 4, 26, 10, "peers"),
        text(_LEFT + 122, 13, "the same elsewhere (middle 90 %)", cls="tick"),
    ]
    return [
        mark(_LEFT + 5, 9, 8, "fail"),
        text(_LEFT + 14, 13, "measured", cls="tick"),
        *(peers if with_peers else []),
        line(_LEFT + 350, 2, _LEFT + 350, 16, "limit"),
        text(_LEFT + 357, 13, "at least required", cls="tick"),
    ]


def _of_usual(row: Row, peers: Mapping[Label, PeerBand]) -> float:
    """What it has of the median of its peers, else of its limit; with neither it comes last."""
    other = peers.get(peer_label(row))
    reference = other.middle if other else row.verdict.limit_gbps
    return (row.verdict.value_gbps or 0.0) / reference if reference else float("inf")


def _highest(row: Row, peers: Mapping[Label, PeerBand]) -> float:
    other = peers.get(peer_label(row))
    return max(row.verdict.value_gbps or 0.0, row.verdict.limit_gbps or 0.0, other.high if other else 0.0)


def peers_of(
    measured: Sequence[tuple[float, tuple[str, ...]]], suspect: Suspect, suspected: set[str]
) -> PeerBand | None:
    """Of hosts that are not suspected, else of those that this suspect is not about; None where there are none."""
    values = sorted(value for value, hosts in measured if suspected.isdisjoint(hosts))
    if not values:
        values = sorted(value for value, hosts in measured if not set(suspect.hosts).intersection(hosts))
    if not values:
        return None
    last = len(values) - 1
    return PeerBand(values[round(last * 0.05)], values[last // 2], values[round(last * 0.95)])


_EXPECTED_WIDTH, _EXPECTED_LEFT, _EXPECTED_ROW, _EXPECTED_TOP = 1000.0, 470.0, 26.0, 16.0


def draw(run: ShownRun) -> Markup | None:
    """Ratios only; None where there is none with a number."""
    asked = run.judged.scenario.expect
    found = run.judged.verdict.expectations
    rows = [
        (one, (wanted.at_least, wanted.at_most))
        for one, wanted in zip(found, asked if len(asked) == len(found) else (), strict=False)
        if isinstance(wanted, ExpectedRatio) and wanted.over is not None and one.low is not None
    ]
    if not rows:
        return None
    highest = max(
        max(one.high or 0.0, one.value or 0.0, *(b for b in bound if b is not None), 1.0) for one, bound in rows
    )
    x = Scale(0.0, highest * 1.08, _EXPECTED_LEFT, _EXPECTED_WIDTH - 70)
    bottom = _EXPECTED_TOP + _EXPECTED_ROW * len(rows)
    parts = x_axis(x, _EXPECTED_TOP - 8, bottom, "ratio (1: no difference)")
    parts.append(line(x(1.0), _EXPECTED_TOP - 8, x(1.0), bottom, "one"))
    for number, (one, bound) in enumerate(rows):
        parts += _row(one, bound, _EXPECTED_TOP + _EXPECTED_ROW * number + _EXPECTED_ROW / 2, x)
    return picture(_EXPECTED_WIDTH, bottom + 34, parts, "expected ratios with their 95 % intervals")


def _row(one: ExpectationVerdict, bound: Sequence[float | None], y: float, x: Scale) -> Iterator[Markup]:
    yield text(_EXPECTED_LEFT - 22, y + 4, one.text, anchor="end", cls="tick", most=74)
    yield mark(_EXPECTED_LEFT - 12, y, 9, one.outcome.value)
    value, low, high = one.value or 0.0, one.low or 0.0, one.high or 0.0
    for limit, way in zip(bound, (1, -1), strict=True):
        if limit is not None:
            yield line(x(limit), y - 9, x(limit), y + 9, "bound")
            yield line(x(limit), y - 9, x(limit) + 6 * way, y - 9, "bound")
            yield line(x(limit), y + 9, x(limit) + 6 * way, y + 9, "bound")
    yield line(x(low), y, x(high), y, "interval")
    yield dot(x(value), y, 4, "point c0", f"{value:.3g}, {low:.3g} to {high:.3g}, n {one.n}")
    yield text(_EXPECTED_WIDTH - 60, y + 4, f"{value:.3g}", cls="value")
