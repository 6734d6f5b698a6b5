"""Which low pairs a suspected part of the network explains, and what is left: a row (one host) or a cell (one pair)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from fabric.model.outcome import Outcome
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect
from fabric.report.shown_run import Row

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
    ends = set(suspect.component.replace("->", "--").split("--"))
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
