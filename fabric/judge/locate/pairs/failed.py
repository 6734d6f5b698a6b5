"""Failed pair tests: who is to blame, by what the tools say and by who else could be measured.

A failed test is not a bandwidth of 0, so failed tests are no samples of the decoder. A host is named when the tool
itself says that a part of it is bad, or when no test with it gave a result while at least two of its partners were
measured with others. It is FAIL only by the tool's own words (port down, retries exceeded, wrong results). Where a
connection could not be made, or a tool gave up for reasons of its own, it is INCONCLUSIVE: nothing was measured, and it
is not known whether the network or the test's own set-up is to blame. It is never ERROR: here nothing is measured by
us.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fabric.judge.locate.pairs.findings import pair_suspect, some
from fabric.judge.locate.pairs.samples import rail_name
from fabric.judge.locate.search import MOST_NAMED, SURE
from fabric.judge.normal.keys import grouped
from fabric.model.diagnosis import PairFailure, PairRow, PairTest
from fabric.model.outcome import Outcome
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect

LEAST_PARTNERS = 2
"""How many partners must have been measured with others: a single one, or what is between the two, may be bad."""

_TEXTS_MOST = 4
_NEXT = "what the tool names first; then loopback on this host and its port counters"
_NEXT_UNSURE = "see that the test can be run there at all (login, driver, device), then measure the host again"
_NEXT_PATH = "measure the two again, and each with another partner; read the counters of the switches between them"


@dataclass(frozen=True, slots=True)
class FailedPairs:
    """
    What failed tests say: *suspects*, each with its line, and other lines of the verdict in *judged*.

    *hosts* are all that a test failed with, *next_tests* are the tests to make again.
    """

    suspects: tuple[tuple[Suspect, str], ...] = ()
    judged: tuple[tuple[Outcome, str], ...] = ()
    next_tests: tuple[PairTest, ...] = ()
    hosts: tuple[str, ...] = ()


def failed_tests(failures: Sequence[PairFailure], rows: Sequence[PairRow], topology: Topology | None) -> FailedPairs:
    """Judge *failures* beside *rows*, what was measured; a failed test that was measured all the same is settled."""
    open_ = _unsettled(failures, rows, topology) if failures else []
    if not open_:
        return FailedPairs()
    met = _met(rows, topology)
    hosts = tuple(dict.fromkeys(host for one in open_ for host in (one.a, one.b)))
    suspects: list[tuple[Suspect, str]] = []
    explained: set[int] = set()
    tests: list[PairTest] = []
    for host in hosts:
        for rail, mine in _by_rail(host, open_, topology).items():
            found = _host(host, rail, mine, met)
            if found is None:
                continue
            suspect, text, partner = found
            suspects.append((suspect, text))
            explained |= {id(one) for one in mine}
            if suspect.outcome is not Outcome.FAIL and partner is not None:
                tests.append(PairTest(host, partner, why=f"tells about {host}: no test with it gave a result"))
    rest = [one for one in open_ if id(one) not in explained]
    suspects += _paths([one for one in rest if one.fabric])
    judged, again = [], [one for one in rest if not one.fabric]
    if again:
        tests += [PairTest(one.a, one.b, why="was not measured") for one in again]
        named = some([f"{one.a} to {one.b} ({one.text})" for one in again])
        judged.append((Outcome.INCONCLUSIVE, f"{len(again)} pair tests failed and were not measured: {named}"))
    known = {host for host, _ in met} | {host for suspect, _ in suspects for host in suspect.hosts}
    never = [host for host in hosts if host not in known]
    if never:
        text = f"not cleared, no test with them gave a result: {some(never)}"
        judged.append((Outcome.INCONCLUSIVE, text))
    return FailedPairs(tuple(suspects), tuple(judged), tuple(tests), hosts)


def _unsettled(
    failures: Sequence[PairFailure], rows: Sequence[PairRow], topology: Topology | None
) -> list[PairFailure]:
    """Return the failures that count: a measurement of the same test settles one, unless the tool blames the fabric."""
    measured: dict[tuple[str, str], set[tuple[str, str | None]]] = {}
    for row in rows:
        for a, b in ((row.a, row.b), (row.b, row.a))[: 1 if row.directed else 2]:
            measured.setdefault((a, b), set()).add((row.kind, rail_name(row.rail, (a,), topology)))

    def settled(one: PairFailure) -> bool:
        rail = rail_name(one.rail, (one.a,), topology)
        same = measured.get((one.a, one.b), set())
        return any(one.kind in ("", kind) and (None in (rail, other) or rail == other) for kind, other in same)

    return [one for one in failures if one.fabric or not settled(one)]


_Met = dict[tuple[str, str | None], set[str]]
"""By host and rail, and by host and None for all its rails: the hosts that it was measured with."""


def _met(rows: Sequence[PairRow], topology: Topology | None) -> _Met:
    found: _Met = {}
    for row in rows:
        for host, other in ((row.a, row.b), (row.b, row.a)):
            for rail in {None, rail_name(row.rail, (host,), topology)}:
                found.setdefault((host, rail), set()).add(other)
    return found


def _by_rail(
    host: str, failures: Sequence[PairFailure], topology: Topology | None
) -> dict[str | None, list[PairFailure]]:
    """Return the failures with a host by rail; all under None if any does not say its rail."""
    mine = [one for one in failures if host in (one.a, one.b)]
    known = all(one.rail is not None for one in mine)
    return grouped(mine, lambda one: rail_name(one.rail, (host,), topology) if known else None)


def _host(
    host: str, rail: str | None, mine: Sequence[PairFailure], met: _Met
) -> tuple[Suspect, str, str | None] | None:
    """Return a host side that failed tests speak against, the text for it, and a partner to test it with; or None."""
    named = [one for one in mine if one.at == host]
    partners = sorted({one.b if one.a == host else one.a for one in mine})
    well = [other for other in partners if met.get((other, rail), set()) - {host}]
    alone = not met.get((host, rail)) and len(well) >= LEAST_PARTNERS
    if not named and not alone:
        return None
    bad = bool(named) or any(one.fabric for one in mine)
    part = f"{host}/{rail}" if rail is not None and met.get((host, None)) else host
    text = f"{len(mine)} pair tests with it failed"
    if alone:
        text = f"none of the {len(mine)} pair tests with it gave a result"
        text = f"{text}, while {len(well)} of its partners measured others"
    suspect = Suspect(
        component=part,
        kind="rnic" if part != host else "host",
        outcome=Outcome.FAIL if bad else Outcome.INCONCLUSIVE,
        # Named by the tool; else Laplace, as none of n tests gave a result; or its set-up may be to blame.
        confidence=SURE if named else round(min((len(mine) + 1) / (len(mine) + 2), SURE), 2) if bad else 1 / 2,
        evidence=(f"{text}: with {some(partners)}", *_texts(mine)),
        next_step=_NEXT if bad else _NEXT_UNSURE,
        hosts=(host,),
    )
    words = next((one.text for one in named or mine if one.fabric), mine[0].text)
    verdict = f"{part} is bad" if bad else f"{part} may be bad, or its tests were not set up"
    return suspect, f"{verdict}: {text} ({words})", well[0] if well else None


def _texts(failures: Sequence[PairFailure]) -> list[str]:
    """Return what the tools said, the most frequent first, each with one pair."""
    count = Counter(one.text for one in failures)
    first = {one.text: one for one in reversed(failures)}
    return [
        f"{number} x {text} ({first[text].a} to {first[text].b})" for text, number in count.most_common(_TEXTS_MOST)
    ]


def _paths(failures: Sequence[PairFailure]) -> list[tuple[Suspect, str]]:
    """Return suspects for pairs whose tool blames the fabric, where nothing says which host or what between them."""
    pairs = grouped(failures, lambda one: (min(one.a, one.b), max(one.a, one.b)))
    found = []
    for (a, b), mine in list(pairs.items())[:MOST_NAMED]:
        evidence = (f"{len(mine)} pair tests between these two failed", *_texts(mine))
        suspect = pair_suspect(a, b, len(mine), evidence=evidence, next_step=_NEXT_PATH)
        found.append((suspect, f"{suspect.component}: detected, not localised further: {mine[0].text}"))
    return found
