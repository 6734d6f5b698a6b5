"""Reads nccl-tests' output line by line, for every rank: where each test begins, its table, its closing lines."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fabric.tools.driver import COLOUR
from fabric.tools.nccl.failures import Failures, NcclFailure
from fabric.tools.nccl.rows import (
    GBPS,
    LARGEST,
    UNCHECKED_IN_PLACE,
    Columns,
    NcclRow,
    columns,
    disagreements,
    inferred,
    looks_like_row,
    row,
    wrong_rows,
)

# The order in which a test prints its parts; a part that comes too early begins the next test.
_VERSION, _STARTING, _OPTIONS, _DEVICES, _RANK, _HEADING, _FOOTER = range(7)
_PROBLEMS_KEPT = 20  # of one test; a choice: more than anybody reads


# Rank  0 Group  0 Pid 440010 on cnode2-001 device  0 [0000:0f:00] NVIDIA H100; before 2.12 there is no group.
_RANK_LINE = re.compile(
    r"Rank (\d{1,9})(?: Group (\d{1,9}))? [^ ]+ [^ ]+ on ([^ ]+) device ([^ ]+(?: \[[^ ]*)?)", re.ASCII
)
_OUT_OF_BOUNDS = re.compile(r"[1-9]\d{0,18} FAILED", re.ASCII)
# srun -l: "12: "; mpirun --tag-output: "[1,0]<stdout>:", and "[prterun-host-1234@1,0]<stdout>: " since Open MPI 5.
_PREFIX = re.compile(r"\s*(?:(\d{1,7}):(?: |$)|\[(?:[^\[\]\s@]{1,300}@)?(\d{1,7},\d{1,7})\]<std(?:out|err)>: ?)")


class NcclRank(NamedTuple):
    """
    One line of the list of devices: *group* is 0 where the job was not split.

    *device* is its number and, where printed, its place on the PCI bus: processes that see one GPU all call it 0.
    """

    rank: int
    group: int
    host: str
    device: str


@dataclass(slots=True)
class NcclTest:
    """
    One collective over a range of sizes.

    *op* (``all_reduce``) and *ranks* are printed or inferred (see ``rows.py``), else None. *average* is the printed bus
    bandwidth over all rows (GB/s), used as a checksum and not for judging. *problems* says what does not add up; empty
    when everything was read and agrees with itself. *settings* is what the test prints about itself, by the names
    printed (``nGpus``, ``iters``), with the collective of its first line under ``starting`` and that of its last under
    ``concluded``; *listed* is its list of devices. *kinds*: type, reduction and root of its rows, each once.
    *unchecked*: results that could be checked were not. *wrong* says which results were wrong, None when none were.
    *line* is where its list of devices begins, or else its table (1-based).

    While its lines arrive: the *stage* that it has reached, its *columns*, and the cells of its *first_row*.
    """

    line: int = field(default=1, compare=False)
    stage: int = 0
    op: str | None = None
    ranks: int | None = None
    rows: list[NcclRow] = field(default_factory=list)
    average: float | None = None
    problems: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    listed: list[NcclRank] = field(default_factory=list)
    kinds: list[tuple[str, ...]] = field(default_factory=list)
    unchecked: bool = False
    wrong: str | None = None
    columns: Columns | None = None
    first_row: list[str] = field(default_factory=list)
    below_own_limit: bool = False

    @property
    def avg_busbw_gbps(self) -> float | None:
        """Return the printed average, in Gb/s."""
        return None if self.average is None else self.average * GBPS

    @property
    def complete(self) -> bool:
        """Return whether the closing lines were printed."""
        return self.average is not None

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of its devices, in the order first met."""
        return tuple(dict.fromkeys([one.host for one in self.listed]))

    def add(self, found: re.Match[str], at: Columns) -> None:
        """Add a row, as the pattern of its columns found it."""
        if not self.rows:
            self.first_row = found[0].split()
        self.rows.append(row(found, at))
        kind = tuple(found[2].split())
        if kind not in self.kinds and len(self.kinds) < _PROBLEMS_KEPT:
            self.kinds.append(kind)

    def bounds(self, words: Sequence[str]) -> None:
        """Take ``0 OK`` or ``3 FAILED``; other words, as where another process printed into the line, say nothing."""
        text = " ".join(words)
        if _OUT_OF_BOUNDS.fullmatch(text):
            self.wrong = "out of bounds values: FAILED"
        elif text != "0 OK":
            self.say(f"unreadable count of values out of bounds: {text[:40]!r}")
            return
        self.settings["out of bounds"] = text

    def say(self, problem: str) -> None:
        """Note a problem, up to a bound."""
        if len(self.problems) < _PROBLEMS_KEPT:
            self.problems.append(problem)


@dataclass(frozen=True, slots=True)
class NcclLog:
    """Everything in one output; both are empty when it has nothing of nccl-tests."""

    tests: tuple[NcclTest, ...]
    failures: tuple[NcclFailure, ...]


def parse(text: str) -> NcclLog:
    """
    Return every test and every failure in the output of one run; never raises.

    Bandwidth is in decimal Gb/s (printed: GB/s). Reads every column layout since 2019, several tests in a row, lines
    tagged with their rank by srun or mpirun (each rank is read by itself), indentation, colours, and noise between
    rows. Collective and ranks are inferred where the log does not say and only one fits; see ``rows.py``.
    """
    if "\x1b" in text:
        text = COLOUR.sub("", text)
    plain, streams, failures = _Stream(), dict[str, _Stream](), Failures()
    for number, line in enumerate(text.splitlines(), start=1):
        if plain.line(number, line):
            continue
        found = _PREFIX.match(line) if ":" in line else None
        if found is not None:
            line = line[found.end() :]
            stream = streams.setdefault(found[1] or found[2], _Stream())
            if stream.line(number, line):
                continue
        failures.line(line)
    tests = [test for stream in (plain, *streams.values()) for test in stream.finish()]
    tests.sort(key=lambda test: test.line)
    for test in tests:
        if test.wrong is not None:
            failures.wrong_result(test.wrong)
    return NcclLog(tuple(tests), failures.found())


class _Stream:
    """Reads the lines of one rank; ``line`` returns whether it recognized one."""

    def __init__(self) -> None:
        self._tests: list[NcclTest] = []
        self._now: NcclTest | None = None
        self._remnant = ""  # a line that may be a row cut short, if no other follows

    def line(self, number: int, line: str) -> bool:
        """Take one line; return False when it is not nccl-tests' own."""
        self._remnant, now = "", self._now
        at = None if now is None or now.average is not None else now.columns  # of the open table
        if now is not None and at is not None and (found := at.pattern.fullmatch(line)):
            now.add(found, at)
            return True
        cells = line.split()
        if not cells:
            return True
        if cells[0][0] == "#":
            return self._comment(number, cells)
        if cells[0].isdigit():
            self._unread(line, cells, at)
        return False

    def finish(self) -> list[NcclTest]:
        """Return every test of this rank, in the order printed."""
        if self._remnant and self._now is not None:
            self._now.say(f"the last row is cut: {self._remnant[:120]!r}")
        for test in self._tests:
            _finish(test)
        return self._tests

    def _unread(self, line: str, cells: list[str], at: Columns | None) -> None:
        """Note a row of an open table that does not fit its heading; without a heading nothing is a row."""
        if self._now is None or at is None:
            return
        if looks_like_row(cells) or len(cells) == at.cells:
            self._now.say(f"unreadable or cut row: {line.strip()[:120]!r}")
        elif len(cells) <= 3 and all(cell.isdigit() for cell in cells[:2]):
            self._remnant = line.strip()

    def _at(self, number: int, stage: int) -> NcclTest:
        """Return the test that a part belongs to; a new test when the present one is past that part."""
        now = self._now
        if now is None or stage < now.stage or (stage == now.stage and stage not in (_RANK, _FOOTER)):
            now = NcclTest(number, stage)
            self._tests.append(now)
            self._now = now
        now.stage = stage
        return now

    def _comment(self, number: int, cells: list[str]) -> bool:
        what = cells[1] if len(cells) > 1 else ""
        if what == "Rank":
            self._rank(number, cells)
        elif what == "size":
            self._heading(number, cells[1:])
        elif what == "Out" and cells[2:4] == ["of", "bounds"]:
            now = self._at(number, _FOOTER)
            now.bounds(cells[6:])
        elif what == "Avg":
            self._footer(number, cells)
        elif what in ("nccl-tests", "rccl-tests"):
            self._at(number, _VERSION).settings["version"] = " ".join(cells[3:4])
        elif what == "Collective" and cells[2:3] == ["test"] and len(cells) > 4:
            self._collective(number, cells[3], cells[4].partition("_perf")[0].rpartition("/")[2][:64])
        elif what == "nThread":
            self._at(number, _OPTIONS).settings.update(_options(cells[1:]))
        elif what == "Using" and cells[2:] == ["devices"]:
            self._at(number, _DEVICES)
        return True

    def _collective(self, number: int, word: str, op: str) -> None:
        """
        Read ``Collective test starting: all_reduce_perf``, printed since 2025; ``concluded`` is the last line of all.
        """
        if word == "starting:":
            self._at(number, _STARTING).settings["starting"] = op
        elif word == "concluded:" and self._now is not None:
            self._now.settings["concluded"] = op

    def _rank(self, number: int, cells: list[str]) -> None:
        found = _RANK_LINE.match(" ".join(cells[1:]))
        if found is not None:
            now = self._at(number, _RANK)
            now.line = now.line if now.listed else number
            now.listed.append(NcclRank(int(found[1]), int(found[2] or 0), found[3], found[4]))

    def _heading(self, number: int, names: list[str]) -> None:
        if names[1:3] != ["count", "type"]:
            return
        now = self._at(number, _HEADING)
        now.line = now.line if now.listed else number
        at = columns(*names)
        if at is None:
            now.say(f"unknown columns: {' '.join(names)[:200]!r}")
        else:
            now.columns = at

    def _footer(self, number: int, cells: list[str]) -> None:
        """Read ``# Avg bus bandwidth    : 13.4689 ``, with OK or FAILED when NCCL_TESTS_MIN_BW is set."""
        if cells[2:4] != ["bus", "bandwidth"] or len(cells) < 6:
            return
        now = self._at(number, _FOOTER)
        try:
            average = float(cells[5]) if cells[5].isascii() and "_" not in cells[5] else -1.0
        except ValueError:
            average = -1.0
        if 0 <= average < LARGEST:
            now.average = average
            now.below_own_limit = cells[6:7] == ["FAILED"]
        else:
            now.say(f"unreadable average: {cells[5][:40]!r}")


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Read ``nThread 1 nGpus 8 step: 2(factor) warmup iters: 5``: names of one word or more, each with its number."""
    name: list[str] = []
    for word in words:
        if word[0].isdigit() or word[0] == "-":
            yield " ".join(name).rstrip(":"), word
            name = []
        else:
            name.append(word)


def _finish(test: NcclTest) -> None:
    """Finish a test after its last line: find out what was run, and what does not add up."""
    test.op, test.ranks = test.settings.get("starting") or None, _listed(test.listed)
    if test.columns is not None:
        test.op, test.ranks = inferred(test.first_row, test.columns, test.rows, op=test.op, ranks=test.ranks)
    out_of_place = [row.out_of_place.wrong for row in test.rows if row.out_of_place is not None]
    in_place = [row.in_place.wrong for row in test.rows]
    test.wrong = wrong_rows(test.rows) or test.wrong
    unseen = None in out_of_place or (test.op not in UNCHECKED_IN_PLACE and None in in_place)
    test.unchecked = test.columns is not None and test.columns.counts_wrong and unseen
    test.problems += [
        *disagreements(test.rows, op=test.op, ranks=test.ranks, average=test.average),
        *([test.wrong] if test.wrong else []),
        *(["the average is below NCCL_TESTS_MIN_BW, says the tool"] if test.below_own_limit else []),
        *([] if test.rows or test.complete else ["no result row"]),
    ]


def _listed(listed: Sequence[NcclRank]) -> int | None:
    """
    Return how many ranks took part, by the list of devices; ranks of one group, where the job was split.

    A list that was shortened still ends with the highest rank.
    """
    if not listed:
        return None
    groups = Counter([one.group for one in listed])
    last = max([one.rank for one in listed])
    if len(groups) == 1:
        return last + 1 if last + 1 >= len(listed) else None
    sizes = set(groups.values())
    return sizes.pop() if len(sizes) == 1 and len(listed) == last + 1 else None
