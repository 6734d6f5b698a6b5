"""Host x host: what two hosts reach together, with the low pairs ringed that a suspected cable or switch explains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from statistics import median

from markupsafe import Markup

from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect
from fabric.report.html.shares import colour_class
from fabric.report.html.svg import dot, mark, picture, rect, tag, text
from fabric.report.shown_run import Row, ShownRun

Pair = tuple[str, str]

_MOST_SAID = 8
_MOST_PROBES = 20  # a suspect names no more of its bad probes (model.verdict.Suspect)


@dataclass(frozen=True, slots=True)
class Explained:
    """Low pairs whose bad probes are all evidence against one suspect: *number* is its place in the list, from 1."""

    number: int
    component: str
    pairs: tuple[Pair, ...]


def explained(
    low: Mapping[Pair, Sequence[Row]], suspects: Sequence[Suspect], topology: Topology
) -> tuple[Explained, ...]:
    """
    What suspected switches and the cables between them explain: those suspects have no host of their own.

    *low*: the low rows of each low pair. A pair belongs to the first suspect that explains all of them.
    """
    found = []
    left = dict(low)
    for number, suspect in enumerate(suspects, start=1):
        if suspect.hosts or not suspect.probes:
            continue
        ids = _accusing(suspect, [row for rows in low.values() for row in rows], topology)
        pairs = tuple(pair for pair, rows in left.items() if all(row.probe.probe_id in ids for row in rows))
        for pair in pairs:
            del left[pair]
        if pairs:
            found.append(Explained(number, suspect.component, pairs))
    return tuple(found)


def patterns(
    shares: Mapping[Pair, tuple[float | None, Outcome]], low: AbstractSet[Pair], known: Sequence[Explained]
) -> tuple[str, ...]:
    """
    Of pairs that are each there once, in one order.

    First the pairs of a suspect, each suspect one line. Of the rest rows: a host that is low with all of at least two
    partners; then the pairs that no such host explains.
    """
    of_suspects = {pair for one in known for pair in one.pairs}
    rest = low - of_suspects
    by_host: dict[str, list[bool]] = {}
    for pair, (share, _) in shares.items():
        if share is not None and pair not in of_suspects:
            for host in pair:
                by_host.setdefault(host, []).append(pair in rest)
    rows = {host for host, found in by_host.items() if len(found) > 1 and all(found)}
    said = [_of_suspect(one) for one in known]
    said += [f"row: {host} is low with each of its {len(by_host[host])} partners" for host in sorted(rows)]
    said += [f"cell: {a} with {b} is low" for a, b in shares if (a, b) in rest and rows.isdisjoint((a, b))]
    more = len(said) - _MOST_SAID
    return tuple(said) if more <= 0 else (*said[:_MOST_SAID], f"and {more} more")


def _of_suspect(one: Explained) -> str:
    many = f"{len(one.pairs)} low pairs have" if len(one.pairs) > 1 else "1 low pair has"
    return f"ringed: {many} one cause, suspect {one.number}, {one.component}"


def _accusing(suspect: Suspect, low: Sequence[Row], topology: Topology) -> set[str]:
    """
    The ids of the low probes that accuse it. Of one that names as many as it may: also those of the same rail that
    begin or end under the leaf it names, or, where it names none, that cross from leaf to leaf.
    """
    named = set(suspect.probes)
    if len(named) < _MOST_PROBES:
        return named
    rails = {_rail(row) for row in low if row.probe.probe_id in named}
    ends = set(Part.of(suspect.component).link_ends or (suspect.component,))
    under = ends.intersection(leaf for row in low for host in row.probe.hosts for leaf in topology.hosts[host].leaves)
    alike = [(row.probe.probe_id, set(_leaves(row, topology))) for row in low if _rail(row) in rails]
    return named | {probe for probe, leaves in alike if (under & leaves if under else len(leaves) > 1)}


def _leaves(row: Row, topology: Topology) -> Iterator[str]:
    rail = _rail(row)
    for host in row.probe.hosts:
        leaves = topology.hosts[host].leaves
        if isinstance(rail, int) and rail < len(leaves):
            yield leaves[rail]


def _rail(row: Row) -> object:
    return row.probe.params.get("rail")


LOW = 0.95
"""Below this share of the median of all pairs a pair is low (a choice, wider than the noise)."""

_SIZE = 560.0
_LEFT = 90.0
_RIGHT = 52.0  # the last name leans out
_MOST_NAMES = 48
_MOST_HOSTS = 128
"""Of more hosts only those of pairs that did not pass or are low are drawn: a pair of 2,048 is a quarter of a pixel."""


@dataclass(frozen=True, slots=True)
class DrawnMatrix:
    """
    Of one kind in one phase: each pair's share of the median of all pairs, and its worst outcome.

    *explained*: the low pairs that have one cause, a suspected part of the network.
    """

    name: str
    hosts: tuple[str, ...]
    shares: Mapping[Pair, tuple[float | None, Outcome]]
    patterns: tuple[str, ...]
    explained: tuple[Explained, ...] = ()


def pair_matrices(run: ShownRun) -> list[DrawnMatrix]:
    """
    One matrix for each written phase and kind in which two hosts measure together, at least three pairs.

    The rounds of a phase are one picture: of each pair the least counts.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    written = _names(run)
    for row in run.rows:
        if len(row.probe.hosts) == 2:
            groups.setdefault((written.get(row.probe.phase, row.probe.phase), row.probe.kind), []).append(row)
    return [_matrix(f"{kind} in {phase}", rows, run) for (phase, kind), rows in groups.items() if len(rows) >= 3]


def _names(run: ShownRun) -> dict[str, str]:
    """What each phase is called together with its further rounds."""
    rounds = Counter((phase.written, phase.where) for phase in run.judged.scenario.phases)
    names = {}
    for phase in run.judged.scenario.phases:
        key = (phase.written, phase.where)
        where = "".join(f", {name}={value}" for name, value in phase.where)
        several = f"{rounds[key]} rounds of {phase.written}{where}"
        names[phase.name] = several if rounds[key] > 1 else phase.name
    return names


def _matrix(name: str, rows: Sequence[Row], run: ShownRun) -> DrawnMatrix:
    values: dict[Pair, list[Row]] = {}
    place = {host: number for number, host in enumerate(run.judged.scenario.hosts)}
    for row in rows:
        a, b = sorted(row.probe.hosts, key=lambda host: place.get(host, len(place)))
        values.setdefault((a, b), []).append(row)  # whoever sends: a pair is one pair
    known = [row.verdict.value_gbps for row in rows if row.verdict.value_gbps is not None]
    normal = median(known) if known else None
    taking_part = {host for pair in values for host in pair}
    hosts = tuple(host for host in place if host in taking_part)
    shares = {pair: _folded(members, normal) for pair, members in values.items()}
    low = {pair: found for pair, members in values.items() if (found := _low(members, normal))}
    causes = explained(low, run.judged.verdict.suspects, run.inventory.topology)
    return in_sight(DrawnMatrix(name, hosts, shares, patterns(shares, low.keys(), causes), causes))


def in_sight(matrix: DrawnMatrix) -> DrawnMatrix:
    """Of many hosts those with a pair that did not pass or is low, and what became of all others in words."""
    if len(matrix.hosts) <= _MOST_HOSTS:
        return matrix
    bad = {
        host
        for pair, (share, outcome) in matrix.shares.items()
        if outcome is not Outcome.PASS or (share is not None and share < LOW)
        for host in pair
    }
    kept = {pair: found for pair, found in matrix.shares.items() if bad.issuperset(pair)}
    rest = [share for pair, (share, _) in matrix.shares.items() if pair not in kept and share is not None]
    said = f"{len(rest):,} pairs of the other hosts passed"
    if rest:
        said += f", at {min(rest):.0%} to {max(rest):.0%} of the median"
    hosts = tuple(host for host in matrix.hosts if host in bad)
    return replace(matrix, hosts=hosts, shares=kept, patterns=(*matrix.patterns, f"not drawn: {said}"))


def _low(rows: Sequence[Row], normal: float | None) -> list[Row]:
    """The rows of a pair that are below the median by more than noise."""
    if not normal:
        return []
    return [row for row in rows if row.verdict.value_gbps is not None and row.verdict.value_gbps / normal < LOW]


def _folded(rows: Sequence[Row], normal: float | None) -> tuple[float | None, Outcome]:
    found = [row.verdict.value_gbps for row in rows if row.verdict.value_gbps is not None]
    outcome = max((row.verdict.outcome for row in rows), key=lambda one: one.rank)
    return (min(found) / normal if found and normal else None), outcome


def draw(matrix: DrawnMatrix) -> Markup | None:
    """Only measured pairs are drawn, on both sides of the diagonal; names where they can be read; None: no host."""
    if not matrix.hosts:
        return None
    top = 16.0 + 5.4 * min(max(map(len, matrix.hosts)), 14)  # names stand on end
    place = {host: number for number, host in enumerate(matrix.hosts)}
    cell = min(_SIZE / max(len(place), 1), 26.0)
    side = cell * len(place)
    parts = [rect(_LEFT, top, side, side, "field")]
    every = max(1, len(place) * 12 // int(_SIZE) + (len(place) > _MOST_NAMES))
    for host, index in place.items():
        if index % every == 0:
            middle = index * cell + cell / 2
            parts.append(text(_LEFT - 5, top + middle + 4, host, anchor="end", cls="tick", most=14))
            label = text(0, 0, host, cls="tick", most=14)
            parts.append(_turned(label, _LEFT + middle + 4, top - 5))
    gap = 0.5 if cell > 4 else 0.0
    for (a, b), (share, outcome) in matrix.shares.items():
        for first, second in ((a, b), (b, a)):
            x, y = _LEFT + place[first] * cell, top + place[second] * cell
            size = max(cell - gap, 1.4)
            said = "not measured" if share is None else f"{share:.0%} of the median"
            parts.append(rect(x, y, size, size, colour_class(share), f"{a} and {b}: {said}, {outcome.name}"))
            if outcome is not Outcome.PASS:
                parts.append(mark(x + cell / 2, y + cell / 2, max(min(cell * 0.6, 9), 5), outcome.value))
    parts += _rings(matrix, place, cell, top)
    return picture(_LEFT + side + _RIGHT, top + side + 12, parts, f"pairs of hosts, {matrix.name}")


def _rings(matrix: DrawnMatrix, place: Mapping[str, int], cell: float, top: float) -> Iterator[Markup]:
    """Around the pairs of each suspect, on both sides of the diagonal."""
    for one in matrix.explained:
        said = f"over {one.component}, suspect {one.number}"
        for a, b in one.pairs:
            for first, second in ((a, b), (b, a)):
                x, y = _LEFT + (place[first] + 0.5) * cell, top + (place[second] + 0.5) * cell
                yield dot(x, y, max(cell * 0.7, 6.0), "ring", f"{a} and {b}: {said}")


def _turned(label: Markup, x: float, y: float) -> Markup:
    return tag("g", label, transform=f"translate({x:.1f} {y:.1f}) rotate(-60)")
