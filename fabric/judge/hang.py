"""
Who a hung job waits for: the first collective of each group that not all ranks called alike and finished.

A rank that did not call what others wait in is the one that they wait for, unless it waits itself in another group:
then it is a consequence. A rank that called something else is named where the others are more than it could be with
all that are silent, or where the job's past calls tell which of two is the usual one. Whoever left no dump may be dead,
stopped or only unheard: it may be the one, and is never more than that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

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
"""Two answers of NCCL RAS so far apart with the same counts: it stands still (so long RAS waits for a process)."""

ANOTHER_JOB_NS = 3600 * 10**9
"""Ranks call one collective within the watchdog's time, mostly 10 or 30 minutes; further apart it is another job's."""

_REPEATED = 8
"""Calls that are compared with those before (a choice: more than a layer has)."""

_NAMED_MOST = 64
"""Hosts to be tested, where nothing tells more (a choice: a scenario of some minutes)."""


def judge_hang(evidence: JobEvidence) -> Hang:
    """The verdict on all evidence together; each trace of a rank in a group is there once but for those of NCCL RAS."""
    evidence = replace(evidence, ranks=evidence.ranks.union(*(trace.members for trace in evidence.traces)))
    groups = grouped(evidence.traces, lambda trace: trace.group)
    notes = list(evidence.notes)
    found: list[_StuckGroup] = []
    for group, traces in groups.items():
        members = frozenset[int]().union(*(trace.members for trace in traces))
        if group.endswith("(default_pg)"):
            members |= evidence.ranks
        if traces[0].counted:
            one = _counted(group, traces, evidence.furthest.get(group, 0))
        else:
            own = _of_one_job(traces)
            notes += [f"rank {one.rank}: its dump is of another time, and left out" for one in traces if one not in own]
            one = _standstill(group, own, members)
        if one is not None:
            found.append(one)
    all_known = any(trace.members or trace.counted for trace in evidence.traces)
    suspects = _placed(
        [*_causes(found, evidence, all_known=all_known), *_unreached(evidence), *evidence.failures], evidence.places
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
    """Those whose calls are near in time to the others' calls of the same number."""

    def timed(trace: RankTrace) -> list[tuple[int, int]]:
        return [(number, call.at_ns) for number, call in trace.calls.items() if call.at_ns is not None]

    calls = gathered(one for trace in traces for one in timed(trace))
    usual = {number: median(of_all) for number, of_all in calls.items()}
    return [
        trace for trace in traces if all(abs(at_ns - usual[number]) < ANOTHER_JOB_NS for number, at_ns in timed(trace))
    ]


_StuckGroup = tuple[Standstill, list[HangSuspect]]  # where a group stands still, and who may be why


def _standstill(group: str, traces: Sequence[RankTrace], members: frozenset[int]) -> _StuckGroup | None:
    """The first collective with something wrong, and who is to blame; None where all ranks report that all is over."""
    if not traces:
        return None
    silent = members - {trace.rank for trace in traces}
    first, last = min(min(one.open, one.called) for one in traces), max(one.called for one in traces)
    numbers = {number for one in traces for number in (one.called, one.called + 1, one.open, *one.calls)}
    before: list[object] = []
    earlier = None  # a call that differs and is over all the same: it matters where the job stands still after it
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
            # Where nobody waits in it and others went on, who did not call it left a dump of an earlier time.
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
    The ranks whose call differs from what it should be, and whether that is certain; all where nobody can tell.

    It should be what most ranks call, and what came *before* after the same calls: training repeats itself.
    """
    ways = Counter(call.alike for call in calls.values()).most_common()
    if len(ways) < 2 or all(call.state is CallState.COMPLETED for call in calls.values()):
        return frozenset(), False  # ranks may well bring unequal parts to what is completed
    followed = {way: _followed(way, before) for way, _ in ways}
    longest = [way for way in followed if followed[way] == max(followed.values())]
    repeats = longest[0] if len(longest) == 1 else None
    right, most = ways[0]
    if most > len(calls) - most:
        return _all_but(right, calls), most > len(calls) - most + unknown or repeats == right
    return _all_but(repeats, calls), False


def _followed(way: object, before: Sequence[object]) -> int:
    """How many of the last calls once came before such a call, at most ``_REPEATED``; 0 where there was none such."""
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
    """Who did not call it, who tells nothing; where all called it, who did not come as far as others."""
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
    """The same of what NCCL RAS counted; None where a later answer shows that the job goes on."""
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


def _causes(found: Sequence[_StuckGroup], evidence: JobEvidence, *, all_known: bool) -> list[HangSuspect]:
    """
    Without ranks that are absent because they wait in another group, or because a peer of theirs went away.

    All of them where each waits for another. While a rank of the job tells nothing, or there may be more ranks, an
    absent one is not certain.
    """
    everyone = [one for _, suspects in found for one in suspects]
    unheard = not all_known or evidence.ranks - {trace.rank for trace in evidence.traces}

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
    """What NCCL RAS says of processes that it does not reach."""
    dead = [HangSuspect(HangKind.DEAD, Outcome.FAIL, rank) for rank in sorted(evidence.dead)]
    lost = sorted(evidence.lost - evidence.dead)
    return dead + [HangSuspect(HangKind.SILENT, Outcome.INCONCLUSIVE, rank, said="its process") for rank in lost]


def _placed(suspects: Iterable[HangSuspect], places: Mapping[int, Place]) -> list[HangSuspect]:
    """Of each rank, or host, the worst that is said, certain ones first, with host and RNICs as far as known."""
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
    The hosts to test, and with whom: neighbours in the order of ranks, in which NCCL's rings go from host to host.

    They are those of certain suspects, else of all suspects, else all that wait.
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
