"""One rank's output, line by line: where each test begins, its table, its closing lines."""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.tools.nccl_checks import disagreements, wrong_rows
from fabric.tools.nccl_log import NcclRow, NcclTest
from fabric.tools.nccl_ops import inferred
from fabric.tools.nccl_rows import GBPS, LARGEST, UNKNOWN, Columns, columns, full_row, looks_like_row, row

# The order in which a test prints its parts; a part that comes too early begins the next test.
_VERSION, _STARTING, _OPTIONS, _DEVICES, _RANK, _HEADING, _FOOTER = range(7)
_PROBLEMS_KEPT = 20  # of one test; a choice: more than anybody reads


@dataclass(slots=True)
class _Draft:
    """One test while its lines arrive."""

    first_line: int
    stage: int
    op: str | None = None
    groups: dict[int, int] = field(default_factory=dict)  # ranks listed, by group (NCCL_TESTS_SPLIT)
    last_rank: int = -1
    hosts: dict[str, None] = field(default_factory=dict)
    columns: Columns | None = None
    first_row: list[str] = field(default_factory=list)
    rows: list[NcclRow] = field(default_factory=list)
    average: float | None = None  # GB/s, as printed
    out_of_bounds: bool = False
    below_own_limit: bool = False
    problems: list[str] = field(default_factory=list)

    def say(self, problem: str) -> None:
        if len(self.problems) < _PROBLEMS_KEPT:
            self.problems.append(problem)


@dataclass(frozen=True, slots=True)
class StreamTest:
    """A test and where in the log it began; *wrong* says which results were wrong, None when none were."""

    first_line: int
    test: NcclTest
    wrong: str | None


class Stream:
    """Reads the lines of one rank; ``line`` says whether it knew what to make of one."""

    def __init__(self) -> None:
        self._drafts: list[_Draft] = []
        self._now: _Draft | None = None
        self._cells = 0  # of a full row of the table that is open
        self._remnant = ""  # a line that may be a row cut short, if no other follows

    def line(self, number: int, line: str, cells: list[str]) -> bool:
        """Take one line, split into *cells*; false when it is not nccl-tests' own."""
        self._remnant = ""
        if cells[0][0] == "#":
            return self._comment(number, cells)
        now = self._now
        if now is not None and len(cells) == self._cells and line.isascii() and "_" not in line:
            read = full_row(cells, now.columns or UNKNOWN)
            if read is not None:
                if not now.rows:
                    now.first_row = cells
                now.rows.append(read)
                return True
        return cells[0].isdigit() and self._odd_row(number, line, cells)

    def finish(self) -> list[StreamTest]:
        """Every test of this rank, in the order printed."""
        if self._remnant and self._now is not None and self._now.columns is not None:
            self._now.say(f"the last row is cut: {self._remnant[:120]!r}")
        return [_finished(draft) for draft in self._drafts]

    def _odd_row(self, number: int, line: str, cells: list[str]) -> bool:
        now = self._now
        if not looks_like_row(cells):
            if len(cells) <= 3 and now is not None and now.average is None and all(c.isdigit() for c in cells[:2]):
                self._remnant = line.strip()
            return False
        if now is not None and now.stage == _HEADING and now.columns is None:
            return False  # its heading is one that we cannot read, and said so
        if now is None or now.columns is None or now.average is not None:
            if row(line, cells, UNKNOWN) is None:
                return False
            now = self._at(number, _HEADING)
            now.say("the heading is not in the log: columns and units are those of nccl-tests' default layout")
            self._open(now, UNKNOWN)
        read = row(line, cells, now.columns or UNKNOWN)
        if read is None:
            now.say(f"unreadable or cut row: {line.strip()[:120]!r}")
            return False
        if not now.rows:
            now.first_row = cells
        now.rows.append(read)
        return True

    def _open(self, draft: _Draft, at: Columns) -> None:
        draft.columns = at
        self._cells = at.cells

    def _at(self, number: int, stage: int) -> _Draft:
        """The test that a part belongs to; a new one when the present one is past that part."""
        now = self._now
        if now is None or stage < now.stage or (stage == now.stage and stage not in (_RANK, _FOOTER)):
            now = _Draft(number, stage)
            self._drafts.append(now)
            self._now, self._cells = now, 0
        now.stage = stage
        return now

    def _comment(self, number: int, cells: list[str]) -> bool:
        what = cells[1] if len(cells) > 1 else ""
        if what == "Rank":
            self._rank(number, cells)
        elif what == "size":
            self._heading(number, cells[1:])
        elif what == "Out" and cells[2:4] == ["of", "bounds"]:
            self._at(number, _FOOTER).out_of_bounds |= cells[-1] == "FAILED"
        elif what == "Avg":
            self._footer(number, cells)
        elif what == "nccl-tests":
            self._at(number, _VERSION)
        elif what == "Collective" and cells[2:4] == ["test", "starting:"] and len(cells) > 4:
            self._at(number, _STARTING).op = cells[4].partition("_perf")[0].rpartition("/")[2][:64] or None
        elif what == "nThread":
            self._at(number, _OPTIONS)
        elif what == "Using" and cells[2:] == ["devices"]:
            self._at(number, _DEVICES)
        return True

    def _rank(self, number: int, cells: list[str]) -> None:
        """``Rank  0 Group  0 Pid 440010 on cnode2-001 device ...``; before 2.12 there is no group."""
        if len(cells) < 7:
            return
        group = cells[4] if cells[3] == "Group" else "0"
        if not (_small(cells[2]) and _small(group)) or "on" not in cells[:-1]:
            return
        now = self._at(number, _RANK)
        now.groups[int(group)] = now.groups.get(int(group), 0) + 1
        now.last_rank = max(now.last_rank, int(cells[2]))
        now.hosts[cells[cells.index("on") + 1]] = None

    def _heading(self, number: int, names: list[str]) -> None:
        if names[1:3] != ["count", "type"]:
            return
        now = self._at(number, _HEADING)
        at = columns(names)
        if at is None:
            now.say(f"unknown columns: {' '.join(names)[:200]!r}")
        else:
            self._open(now, at)

    def _footer(self, number: int, cells: list[str]) -> None:
        """``# Avg bus bandwidth    : 13.4689 ``, and OK or FAILED when NCCL_TESTS_MIN_BW is set."""
        if cells[2:4] != ["bus", "bandwidth"] or len(cells) < 6:
            return
        now = self._at(number, _FOOTER)
        self._cells = 0
        try:
            average = float(cells[5]) if cells[5].isascii() and "_" not in cells[5] else -1.0
        except ValueError:
            average = -1.0
        if 0 <= average < LARGEST:
            now.average = average
            now.below_own_limit = cells[6:7] == ["FAILED"]
        else:
            now.say(f"unreadable average: {cells[5][:40]!r}")


def _small(cell: str) -> bool:
    """Whether a rank, or a group, is written here."""
    return cell.isascii() and cell.isdigit() and len(cell) <= 9


def _finished(draft: _Draft) -> StreamTest:
    at = draft.columns or UNKNOWN
    op, ranks = inferred(draft.first_row, at, draft.rows, op=draft.op, ranks=_listed(draft))
    wrong = wrong_rows(draft.rows) or ("out of bounds values: FAILED" if draft.out_of_bounds else None)
    problems = [
        *draft.problems,
        *disagreements(draft.rows, op=op, ranks=ranks, average=draft.average, timed=at.timed),
        *([wrong] if wrong else []),
        *(["the average is below NCCL_TESTS_MIN_BW, says the tool"] if draft.below_own_limit else []),
    ]
    if not draft.rows and draft.average is None:
        problems.append("no result row")
    average = None if draft.average is None else draft.average * GBPS
    test = NcclTest(op, ranks, tuple(draft.rows), average, average is not None, tuple(problems), tuple(draft.hosts))
    return StreamTest(draft.first_line, test, wrong)


def _listed(draft: _Draft) -> int | None:
    """
    How many ranks took part, by the list of devices: of one group, where the job was split.

    A list that was shortened still ends with the highest rank.
    """
    if not draft.groups:
        return None
    if len(draft.groups) == 1:
        return draft.last_rank + 1 if draft.last_rank + 1 >= sum(draft.groups.values()) else None
    sizes = set(draft.groups.values())
    return sizes.pop() if len(sizes) == 1 and sum(draft.groups.values()) == draft.last_rank + 1 else None
