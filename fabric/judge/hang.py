"""Finding whom a hung job waits for: the first collective of each group that not all ranks called alike and finished.

A rank that did not call a collective in which others wait is the one they wait for, unless it waits itself in another
group: then it is a consequence. A rank that called something else than most ranks is a suspect, a certain one if the
majority outnumbers it together with all silent ranks, or if the job's past calls speak for the majority. Without a
majority the past calls tell the usual call, but not for certain. A rank without a dump may be dead, stopped or only
unheard: it may be the cause, but is never certain.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import median_low

from fabric.judge.normal.keys import grouped
from fabric.model import gathered
from fabric.model.diagnosis import PairTest
from fabric.model.hang import (
    Call,
    CallState,
    Hang,
    HangKind,
    HangSuspect,
    JobEvidence,
    Place,
    RankTrace,
    Standstill,
)
from fabric.model.outcome import Outcome

FROZEN_S = 60.0
"""Two answers of NCCL RAS at least this far apart with equal counts: the job stands still (RAS waits as long for a
process)."""

ANOTHER_JOB_NS = 3600 * 10**9
"""Ranks call one collective within the watchdog's time, mostly 10 or 30 minutes; a call further off is of another
job."""

_REPEATED = 8
"""How many of the last calls are compared with earlier ones (a choice: more than a layer has)."""

_NAMED_MOST = 64
"""The most hosts that are proposed for tests (a choice: a scenario of some minutes)."""


def judge_hang(evidence: JobEvidence) -> Hang:
    """Judge all evidence together; it holds one trace per rank and group, but several where NCCL RAS was asked."""
    evidence = replace(evidence, ranks=evidence.ranks.union(*(trace.members for trace in evidence.traces)))
    groups = grouped(evidence.traces, lambda trace: trace.group)
    notes = list(evidence.notes)
    found: list[_StuckGroup] = []
    left_out: set[int] = set()
    for group, traces in groups.items():
        members = frozenset[int]().union(*(trace.members for trace in traces))
        if group.endswith("(default_pg)"):
            members |= evidence.ranks
        if traces[0].counted:
            one = _counted(group, traces, evidence.furthest.get(group, 0))
        else:
            own = _of_one_job(traces)
            others = [one.rank for one in traces if one not in own]
            left_out.update(others)
            notes += [f"rank {number}: its dump is of another time, and left out" for number in others]
            one = _standstill(group, own, members)
        if one is not None:
            found.append(one)
    all_known = any(trace.members or trace.counted for trace in evidence.traces)
    heard = {trace.rank for trace in evidence.traces} - left_out
    unheard = not all_known or not evidence.ranks <= heard
    suspects = _placed(
        [*_causes(found, evidence, unheard=unheard), *_unreached(evidence), *evidence.failures], evidence.places
    )
    causes = {one.group for one in suspects}
    standing = sorted((one for one, _ in found), key=lambda one: one.group not in causes)
    outcomes = [one.outcome for one in suspects] + [Outcome.INCONCLUSIVE] * bool(standing or evidence.in_exchange)
    hosts, tests = _next(suspects, standing, evidence)
    return Hang(
        Outcome.worst(outcomes or ([Outcome.PASS] if all_known else [])),
        tuple(standing),
        tuple(suspects),
        ranks=evidence.ranks | evidence.places.keys() | {trace.rank for trace in evidence.traces},
        reporting=frozenset(trace.rank for trace in evidence.traces),
        all_known=all_known,
        hosts=hosts,
        next_tests=tests,
        in_exchange=evidence.in_exchange,
        notes=tuple(dict.fromkeys(notes)),
    )


def _of_one_job(traces: Sequence[RankTrace]) -> list[RankTrace]:
    """
    Return the traces whose calls are near in time to the other ranks' calls of the same number.

    Where there are several such sets, as where the clocks of hosts are hours apart, it is the largest one, and of equal
    ones the latest: there is always one, for what nobody looked at is not well.
    """
    timed = [[(number, call.at_ns) for number, call in one.calls.items() if call.at_ns is not None] for one in traces]
    usual = {number: median_low(of_all) for number, of_all in gathered(chain.from_iterable(timed)).items()}
    late = [median_low([at_ns - usual[number] for number, at_ns in calls]) if calls else None for calls in timed]
    ordered = sorted(one for one in late if one is not None)
    first = max(
        ordered,
        key=lambda one: (bisect_left(ordered, one + ANOTHER_JOB_NS) - bisect_left(ordered, one), one),
        default=0,
    )
    return [
        trace for trace, its in zip(traces, late, strict=True) if its is None or first <= its < first + ANOTHER_JOB_NS
    ]


_StuckGroup = tuple[Standstill, list[HangSuspect]]  # where a group stands still, and the ranks that may cause it


def _standstill(group: str, traces: Sequence[RankTrace], members: frozenset[int]) -> _StuckGroup | None:
    """Return the first collective with something wrong, and the suspects; None if all ranks report that all is over."""
    if not traces:
        return None
    silent = members - {trace.rank for trace in traces}
    first, last = min(min(one.open, one.called) for one in traces), max(one.called for one in traces)
    numbers = {number for one in traces for number in (one.called, one.called + 1, one.open, *one.calls)}
    before: list[object] = []
    earlier = None  # calls that differ and are over all the same: they matter if the job stands still after them
    for number in sorted(number for number in numbers if number <= last):
        calls = {one.rank: one.calls[number] for one in traces if number in one.calls}
        states = {one.rank: _state(one, number) for one in traces if one.called >= number}
        absent = [one for one in traces if one.called < number]
        waiting = [rank for rank, state in states.items() if state.value < CallState.OVER.value]
        odd, sure = _odd(calls, before, unknown=len(members) - len(calls))
        if not odd and (number < first or not (absent or waiting or (silent and number == last))):
            before += {call.alike for call in calls.values()}
            continue
        standing = Standstill(
            group,
            number,
            Counter(call.op for call in calls.values()).most_common(1)[0][0] if calls else "",
            tuple(one.rank for one in absent),
            tuple(waiting),
            tuple(rank for rank in states if rank not in waiting),
            tuple(sorted(silent)),
            # If nobody waits in it and others went on, a rank that did not call it left an older dump.
            certain=not absent or bool(waiting) or not any(_went_on(one, number) for one in traces),
        )
        if odd and earlier is None:
            earlier = standing, _different(standing, odd, calls, sure=sure)
        if number >= first and (absent or waiting or number == last):
            return earlier or (standing, list(_awaited(standing, absent, states)))
    return None


def _went_on(one: RankTrace, number: int) -> bool:
    return one.called > number or (one.called == number and _state(one, number) is CallState.COMPLETED)


def _state(trace: RankTrace, number: int) -> CallState:
    call = trace.calls.get(number)
    if call is not None:
        return call.state
    return CallState.OVER if number < trace.open else CallState.CALLED


def _odd(calls: Mapping[int, Call], before: Sequence[object], *, unknown: int) -> tuple[frozenset[int], bool]:
    """
    Return the ranks whose call differs from the right one, and whether that is certain; all if nothing tells.

    The right call is what most ranks call, or what followed the same calls *before*: training repeats itself.
    """
    ways = Counter(call.alike for call in calls.values()).most_common()
    if len(ways) < 2 or all(call.state is CallState.COMPLETED for call in calls.values()):
        return frozenset(), False  # ranks may bring unequal parts to a collective that completes
    followed = {way: _followed(way, before) for way, _ in ways}
    longest = [way for way in followed if followed[way] == max(followed.values())]
    repeats = longest[0] if len(longest) == 1 else None
    right, most = ways[0]
    if most > len(calls) - most:
        return _all_but(right, calls), most > len(calls) - most + unknown or repeats == right
    return _all_but(repeats, calls), False


def _followed(way: object, before: Sequence[object]) -> int:
    """
    Return how many of the last calls also came before an earlier call of the kind *way*.

    One is added, so 0 means that there was no such call; at most ``_REPEATED`` + 1.
    """
    most = 0
    for at in (at for at, one in enumerate(before) if one == way):
        same = 0
        while same < min(at, _REPEATED) and before[at - 1 - same] == before[-1 - same]:
            same += 1
        most = max(most, same + 1)
    return most


def _all_but(right: object, calls: Mapping[int, Call]) -> frozenset[int]:
    return frozenset(rank for rank, call in calls.items() if call.alike != right)


def _different(
    standing: Standstill, odd: Iterable[int], calls: Mapping[int, Call], *, sure: bool
) -> list[HangSuspect]:  # fmt: skip
    usual = next((_words(call) for rank, call in calls.items() if rank not in odd), "")
    outcome = Outcome.FAIL if sure else Outcome.INCONCLUSIVE
    at = standing.group, standing.number
    return [HangSuspect(HangKind.DIFFERENT, outcome, rank, *at, _words(calls[rank]), usual) for rank in odd]


def _awaited(
    standing: Standstill, absent: Iterable[RankTrace], states: Mapping[int, CallState]
) -> Iterator[HangSuspect]:  # fmt: skip
    """Yield the absent ranks, then the silent ones; if all ranks called it, those that came less far than others."""
    outcome = Outcome.FAIL if standing.certain else Outcome.INCONCLUSIVE
    at = standing.group, standing.number
    for one in absent:
        last = f"#{one.called} {_words(one.calls[one.called]) if one.called in one.calls else ''}".rstrip()
        yield HangSuspect(HangKind.ABSENT, outcome, one.rank, *at, last, standing.op)
    for rank in standing.silent:
        yield HangSuspect(HangKind.SILENT, Outcome.INCONCLUSIVE, rank, *at)
    if not standing.absent and not standing.silent and len(set(states.values())) > 1:
        least = min(states.values(), key=lambda state: state.value)
        for rank in (rank for rank, state in states.items() if state is least):
            yield HangSuspect(HangKind.UNFINISHED, Outcome.INCONCLUSIVE, rank, *at, least.name.lower())


def _words(call: Call) -> str:
    counts = f" of {', '.join(f'{count:,}' for count in call.elements)} elements" if call.elements else ""
    return f"{call.op}{counts}{' ' if call.dtypes else ''}{', '.join(call.dtypes)}"


def _counted(group: str, traces: Sequence[RankTrace], furthest: int) -> _StuckGroup | None:
    """Do as ``_standstill`` for the counts of NCCL RAS; return None if a later answer shows that the job goes on."""
    times = sorted({trace.at_s for trace in traces if trace.at_s is not None})
    frozen = bool(times) and times[-1] - times[0] >= FROZEN_S
    latest = {trace.rank: trace for trace in sorted(traces, key=lambda one: one.at_s or 0.0)}
    if any(trace.called != latest[trace.rank].called for trace in traces):
        return None
    most = max([furthest, *(trace.called for trace in latest.values())])
    absent = [trace for trace in latest.values() if trace.called < most]
    there = tuple(rank for rank, trace in latest.items() if trace.called == most)
    standing = Standstill(group, most, "", tuple(one.rank for one in absent), there, (), (), certain=frozen)
    return standing, list(_awaited(standing, absent, {}))


def _causes(found: Sequence[_StuckGroup], evidence: JobEvidence, *, unheard: bool) -> list[HangSuspect]:
    """
    Return the suspects without absent ranks that wait in another group, or that gave up because a peer went away.

    If each waits for another, return all of them. An absent rank is not certain while a rank of the job is *unheard*
    (silent, its dump left out), or the job may have more ranks.
    """
    everyone = [one for _, suspects in found for one in suspects]

    def is_consequence(one: HangSuspect) -> bool:
        waits = any(one.rank in other.unfinished for other, _ in found if other.group != one.group)
        return one.kind is HangKind.ABSENT and (waits or one.rank in evidence.gave_up)

    causes = [one for one in everyone if not is_consequence(one)]
    in_circle = not causes and all(standing.absent for standing, _ in found)
    return [
        replace(one, outcome=Outcome.INCONCLUSIVE) if in_circle or (one.kind is HangKind.ABSENT and unheard) else one
        for one in (everyone if in_circle else causes)
    ]


def _unreached(evidence: JobEvidence) -> list[HangSuspect]:
    """Return suspects for the processes that NCCL RAS reports as dead, or that it does not reach."""
    dead = [HangSuspect(HangKind.DEAD, Outcome.FAIL, rank) for rank in sorted(evidence.dead)]
    lost = sorted(evidence.lost - evidence.dead)
    return dead + [HangSuspect(HangKind.SILENT, Outcome.INCONCLUSIVE, rank, said="its process") for rank in lost]


def _placed(suspects: Iterable[HangSuspect], places: Mapping[int, Place]) -> list[HangSuspect]:
    """Keep the worst suspect of each rank or host, certain ones first; add host and RNICs as far as known."""
    kinds = list(HangKind)
    kept: dict[object, HangSuspect] = {}
    for one in sorted(suspects, key=lambda one: (-one.outcome.rank, kinds.index(one.kind), one.rank or 0)):
        place = places.get(one.rank, Place("")) if one.rank is not None else Place(one.host or "")
        if place.host:
            parts = tuple(f"{place.host}/{rnic}" for rnic in sorted(place.rnics)) or one.parts or (place.host,)
            one = replace(one, host=place.host, parts=parts)
        kept.setdefault(one.host if one.rank is None else one.rank, one)
    return list(kept.values())


def _next(
    suspects: Sequence[HangSuspect], standing: Sequence[Standstill], evidence: JobEvidence
) -> tuple[tuple[str, ...], tuple[PairTest, ...]]:  # fmt: skip
    """
    Return the hosts to test, and pair tests with their neighbours in rank order, as NCCL's rings go from host to host.

    The hosts are those of certain suspects, else of all suspects, else all that wait.
    """
    sure = [one for one in suspects if one.outcome is Outcome.FAIL] or suspects
    ranks = standing[0].order if standing else sorted(evidence.places)
    ring = list(dict.fromkeys(evidence.places[rank].host for rank in ranks if rank in evidence.places))
    all_wait = not suspects and standing and standing[0].certain
    hosts = list(dict.fromkeys(ring if all_wait else (one.host for one in sure if one.host)))[:_NAMED_MOST]
    tests = [
        PairTest(one.host, one.others, why="a connection between them failed")
        for one in sure
        if one.host and one.kind is HangKind.FAILED and one.others
    ]
    for host in (host for host in hosts if host in ring and len(ring) > 1):
        at = ring.index(host)
        beside = (ring[at - 1], ring[(at + 1) % len(ring)])
        tests += (PairTest(host, other, why="neighbours in the order of ranks") for other in beside)
    once = grouped(tests, lambda test: frozenset({test.a, test.b}))
    return tuple(hosts), tuple(first for first, *_ in once.values())
