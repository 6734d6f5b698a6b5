"""The verdict on a hung job, for people and as a document: which ranks it waits for."""

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any

from fabric.model.hang import Hang, HangKind, HangSuspect
from fabric.model.outcome import Outcome
from fabric.model.text import fold
from fabric.report import templates
from fabric.report.output import TEST_FIELDS, jsonable
from fabric.report.verdict_json import EXIT_CODES

HANG_FORMAT = 2
_LISTED = 12


def hang_document(hang: Hang) -> dict[str, Any]:
    """Return the whole verdict as JSON-able values."""
    return {
        "format": HANG_FORMAT,
        "outcome": hang.outcome.value,
        "exit_code": EXIT_CODES[hang.outcome],
        "ranks": len(hang.ranks),
        "told_nothing": sorted(hang.ranks - hang.reporting),
        "standstills": jsonable(hang.standstills),
        "suspects": [{**jsonable(one), "why": _why(one)} for one in hang.suspects],
        "hosts_to_test": list(hang.hosts),
        "next_tests": [jsonable(one, TEST_FIELDS) for one in hang.next_tests],
        "notes": [*_reasons(hang), *hang.notes],
    }


def hang_text(hang: Hang) -> str:
    """Return the whole verdict as text, and the command that tests the hosts to be tested."""
    tested = {*hang.hosts, *(host for test in hang.next_tests for host in (test.a, test.b))}
    return templates.text(
        "hang.txt.j2",
        it=hang,
        tested=quote(fold(sorted(tested))),
        sure=[_name(one) for one in hang.suspects if one.outcome is Outcome.FAIL],
        suspects=[(_name(one), one, _why(one)) for one in hang.suspects],
        notes=[*_reasons(hang), *hang.notes],
        ranks=_ranks,
        most=_LISTED,
    )


def _name(one: HangSuspect) -> str:
    if one.rank is None:
        return one.host or "a host"
    return f"rank {one.rank} on {one.host}" if one.host is not None else f"rank {one.rank}"


def _ranks(ranks: Sequence[int]) -> str:
    """Return ``ranks 0-6,8``."""
    return f"rank{'s' if len(ranks) > 1 else ''} {fold(str(rank) for rank in sorted(ranks)).strip('[]')}"


def _why(one: HangSuspect) -> str:
    which = f"#{one.number} of group {one.group}"
    if one.kind is HangKind.DEAD:
        return f"NCCL RAS does not reach {one.said or 'its process'}, and considers it dead"
    if one.kind is HangKind.ABSENT:
        return f"it did not call {one.others or 'operation'} {which}, which others wait in; its last was {one.said}"
    if one.kind is HangKind.DIFFERENT:
        others = f"the others called {one.others}" if one.others else "nobody can tell which of them is right"
        return f"it called {one.said} as {which}; {others}"
    if one.kind is HangKind.UNFINISHED:
        return f"in {which} it is only {one.said}, others are further; ranks of a job that works are apart, too"
    if one.kind is HangKind.SILENT and one.said:
        return f"NCCL RAS does not reach {one.said}"
    if one.kind is HangKind.SILENT:
        return f"no dump or log of it was given, and the others wait in {which}: dead, stopped, or only not collected"
    return one.said


def _reasons(hang: Hang) -> Iterator[str]:
    """Yield what is not known, and what would show it."""
    if any(not one.certain and not one.unfinished for one in hang.standstills):
        yield "nobody waits in it, and others went on: a dump is of an earlier time; dump all ranks again, at once"
    if any(not one.certain and one.unfinished for one in hang.standstills):
        yield "NCCL RAS answered once; ranks of a job that works are apart, too: ask twice, a minute apart (-f json)"
    if hang.standstills and not hang.suspects:
        yield "network, GPU, or a job that works: dump again after a minute; if the number is the same, test the hosts"
    if hang.in_exchange:
        yield f"a send or receive is not over on {_ranks(sorted(hang.in_exchange))}; these are not compared with others"
    if hang.reporting and not hang.standstills and not hang.suspects and not hang.in_exchange:
        yield "if the job hangs all the same, it hangs outside these collectives"
    if not hang.all_known:
        yield "how many ranks the job has is not known: some may be missing here (--ranks says all)"
    if any(len(one.absent) > 1 for one in hang.standstills):
        yield "several ranks are awaited: what they do meanwhile is not recorded, and one may hold up the others"
    unplaced = [one.rank for one in hang.suspects if one.rank is not None and one.host is None]
    if unplaced:
        yield f"the host of {_ranks(unplaced)} is not known: --ranks FILE says where ranks run"
