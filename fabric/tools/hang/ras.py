"""Answers of NCCL RAS (``ncclras``, ``ncclras -f json``): missing ranks, and how many operations each launched.

One answer proves little, because ranks of a working job are apart, too. JSON has the time of day, so two equal answers
show a job that stands still. NCCL 2.28.7 to 2.28.9 leave out a comma before the status of a missing rank.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from fabric.errors import UnreadableOutput
from fabric.model.hang import HangKind, HangSuspect, JobEvidence, Place, RankTrace
from fabric.model.outcome import Outcome
from fabric.tools.hang.flight_recorder import MOST_RANKS

_COMMA = re.compile(r'([\d"el])([ \t]*\r?\n\s*)("[^"\n]*"\s*:)')


def mended(text: str) -> str:
    """Return the document with the commas that NCCL 2.28.7 to 2.28.9 leave out."""
    return _COMMA.sub(r"\1,\2\3", text)


def is_status(document: Any) -> bool:
    """Return whether a JSON document is a status of RAS."""
    return isinstance(document, dict) and "communicators" in document


def parse_json(document: Any) -> JobEvidence:
    """
    Return the evidence of the largest communicator, whose ranks are the job's; UnreadableOutput for a damaged document.
    """
    try:
        return _status(document)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as exc:
        raise UnreadableOutput(f"a damaged status of NCCL RAS: {type(exc).__name__}: {exc}") from None


def _status(document: dict[str, Any]) -> JobEvidence:
    comms = document["communicators"]
    if not comms:
        return JobEvidence(notes=("NCCL RAS knows of no communicator",))
    at = datetime.strptime(document["timestamp"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    one = max(comms, key=lambda comm: int(comm["size"]))
    size = int(one["size"])
    if not 0 < size <= MOST_RANKS:
        raise ValueError(f"a communicator of {size} ranks")
    group = f"communicator {str(one['hash'])[:40]} {str(one.get('secondary_hash', ''))[:80]}".rstrip()
    traces, notes = [], []
    for rank in one["ranks"]:
        launched = sum(int(count) for count in rank["collective_counts"].values())
        if not 0 <= int(rank["rank"]) < size:
            raise ValueError(f"rank {int(rank['rank'])} of {size}")
        traces.append(_counted(int(rank["rank"]), group, launched, at))
        if rank["status"].get("async_error") or rank["status"].get("abort_flag"):
            notes.append(f"rank {int(rank['rank'])}: NCCL RAS tells of an error, or that it was aborted")
    missing = one.get("missing_ranks", ())
    places = {
        int(rank["rank"]): Place(str(rank["host"])[:255], int(rank.get("nvml_dev", rank["cuda_dev"])))
        for rank in (*one["ranks"], *missing)
    }
    lost = frozenset(int(rank["rank"]) for rank in missing)
    dead = frozenset(int(rank["rank"]) for rank in missing if rank["status"].get("considered_dead"))
    if len(comms) > 1:
        notes.append(f"{len(comms) - 1} smaller communicators are not looked at: their ranks have other numbers")
    return JobEvidence(tuple(traces), places, dead=dead, lost=lost, ranks=frozenset(range(size)), notes=tuple(notes))


_COMM = re.compile(r"\s*#\d+-\d+ \(([0-9a-fA-F]{1,32})\) ")
_LAUNCHED = re.compile(r"\s*\d+ ranks? ha(?:ve|s) launched up to operation (\d{1,18})")
_WHICH = re.compile(r"\s*Communicator ranks have different (?:collective operation|(\w+) operation|(status))")
_RANK = re.compile(r"\s*Rank (\d{1,6}) -- GPU (\d{1,4}) managed by process \d+ on node (\S{1,255})")
_MISSING = re.compile(r"\s*The missing ranks?: ([\d, ]{1,4000})")
_PROCESS = re.compile(r"\s*Process \d+ on node (\S{1,255}) managing GPUs? (\d{1,4})\s*$")
_DIAGNOSED = re.compile(r"\S{1,255} NCCL DIAG \[(?!OK\])\w{1,12}\]\s+(.{1,200})")
MARK = re.compile(
    r"^\s*Communicators\.\.\. \(|launched up to operation|The missing ranks?: |considered dead|NCCL DIAG", re.MULTILINE
)
"""A pattern by which an answer in words is recognized."""


def parse_text(text: str) -> JobEvidence:
    """
    Return the evidence in an answer in words: it names only outliers; others have their furthest operation, and no
    time.
    """
    reader = _Text()
    for line in text.splitlines():
        reader.line(line)
    return reader.evidence()


class _Text:
    """Reads line by line; an earlier line says which operation, and which list, the next rank belongs to."""

    def __init__(self) -> None:
        self._comm = self._group = ""
        self._launched: int | None = None
        self._dying = False
        self._traces: dict[tuple[str, int], RankTrace] = {}
        self._furthest: dict[str, int] = {}
        self._places: dict[int, Place] = {}
        self._processes: dict[Place, bool] = {}  # lost processes, and whether they are given up
        self._missing: set[int] = set()
        self._notes: list[str] = []

    def line(self, line: str) -> None:
        """Take one line."""
        if found := _COMM.match(line):
            self._comm, self._launched, self._dying = found[1], None, False
        elif found := _WHICH.match(line):
            self._group, self._launched = f"communicator {self._comm} {found[1] or ''}".rstrip(), None
            if found[2]:
                self._notes.append(f"{self._group}: NCCL RAS says that its ranks have different status")
        elif found := _LAUNCHED.match(line):
            self._launched = int(found[1])
            self._furthest[self._group] = max(self._launched, self._furthest.get(self._group, 0))
        elif found := _RANK.match(line):
            self._places[int(found[1])] = Place(found[3], int(found[2]))
            if self._launched is not None:
                self._traces[self._group, int(found[1])] = _counted(int(found[1]), self._group, self._launched)
        elif found := _DIAGNOSED.match(line):
            self._notes.append(f"NCCL RAS: {found[1].strip()}")
        else:
            self._lost_line(line)

    def _lost_line(self, line: str) -> None:
        if line.strip() in ("DEAD", "INCOMPLETE"):
            self._dying = line.strip() == "DEAD"
        elif found := _PROCESS.match(line):
            process = Place(found[1], int(found[2]))
            self._processes[process] = self._dying or self._processes.get(process, False)
        elif found := _MISSING.match(line):
            self._missing |= {int(rank) for rank in re.findall(r"\d{1,6}", found[1])}

    def evidence(self) -> JobEvidence:
        """
        Return all evidence; the process of a missing rank is known only where one rank and one process are missing.
        """
        lost, dead = frozenset(self._missing), frozenset[int]()
        if len(lost) == len(self._processes) == 1:
            ((process, given_up),) = self._processes.items()
            self._places[min(lost)] = process
            dead = lost if given_up else dead
            self._processes.clear()
        return JobEvidence(
            tuple(self._traces.values()),
            self._places,
            self._furthest,
            lost=lost,
            dead=dead,
            ranks=lost,
            failures=tuple(self._lost_processes()),
            notes=tuple(self._notes),
        )

    def _lost_processes(self) -> Iterator[HangSuspect]:
        for process, given_up in self._processes.items():
            kind, outcome = (HangKind.DEAD, Outcome.FAIL) if given_up else (HangKind.SILENT, Outcome.INCONCLUSIVE)
            yield HangSuspect(kind, outcome, said=f"the process of GPU {process.gpu}", host=process.host)


def _counted(rank: int, group: str, launched: int, at_s: float | None = None) -> RankTrace:
    """Return the trace of a rank from RAS, in JSON or in words: how many operations it launched."""
    return RankTrace(rank, group, launched, launched + 1, at_s=at_s, counted=True)
