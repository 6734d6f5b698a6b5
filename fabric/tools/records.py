"""What other systems recorded about hosts, links, switches and batches of modules; no I/O.

Jobs (``sacct``), nodes that were taken out (``sacctmgr``), tickets (CSV), kernel messages (``journalctl``, ``dmesg``).
The first line of a text tells which of them it is.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeVar

from pydantic_core import PydanticCustomError

from fabric.errors import UnreadableOutput
from fabric.model.fields.folded import FoldedNames

_SACCT, _TICKETS = ("JobID", "State", "NodeList", "End"), ("component", "opened")
_EVENTS = ("NodeName", "TimeStart", "State", "Reason")
_BROKEN = ("NODE_FAIL", "BOOT_FAIL")
"""States of a job that a node ended; FAILED and TIMEOUT are mostly the job's own (Slurm's list of job states)."""

_NO_NODES, _NOT_YET = ("", "None assigned"), ("", "Unknown")
_OUT = ("DOWN", "DRAIN", "FAIL")
"""States of a node in which Slurm gives it no job."""

_EXCLUDES = re.compile(r"(?:^|\s)(?:--exclude[= ]|-x ?)([^\s=]{1,4096})", re.ASCII)
"""The options by which a job's command line excludes nodes."""

_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
_KERNEL = re.compile(
    rf"(?P<at>{_TIME}(?:Z|[+-]\d\d:?\d\d)) (?P<host>\S{{1,255}}) kernel: (?P<message>.*)"
    rf"|(?P<host2>[^\s:]{{1,255}}): (?P<at2>{_TIME},\d{{1,9}}[+-]\d\d:?\d\d) (?P<message2>.*)",
    re.ASCII,
)
"""A line of ``journalctl -k -o short-iso``, or of ``dmesg --time-format iso`` of many hosts (pdsh, clush)."""

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?[0-9a-fA-F:.]+\): (\d{1,4}),", re.ASCII)
_LINK = re.compile(r"mlx5_core \S+ \S+: Link down|mlx5_core \S+: Port module event\[error\]", re.ASCII)
_COMPONENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/>+-]{0,254}", re.ASCII)
_LONGEST_KIND = 64
MOST_PROBLEMS = 20
"""Most unreadable lines of one file that are reported."""

BATCH = "batch:"
"""Prefix of a batch of modules, before the name that its tickets give it."""
_NODES = FoldedNames(16_384)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Record:
    """
    One thing that happened, at a time (UTC), to the components *names*.

    *signal*: which signal of a lemon it counts for (``tickets``, ``out``, ``excluded``, ``single_fails``,
    ``multi_fails``); ``jobs``: a job that a node did not end; empty where it is none by itself. *kind* of trouble, such
    as ``xid 79``; empty where unknown. *line*: its line in the file.
    """

    at: datetime
    names: tuple[str, ...]
    signal: str
    kind: str = ""
    line: int = 0


class UnreadableLines(UnreadableOutput):
    """Lines of a file that are not records: *lines*, each with its number and what was expected instead."""

    def __init__(self, lines: Sequence[tuple[int, str]]) -> None:
        self.lines = tuple(lines)
        super().__init__("; ".join(f"line {number}: {why}" for number, why in lines))


def read_records(text: str) -> tuple[Record, ...]:
    """
    Return every record in order; raises UnreadableOutput for another text, UnreadableLines with all that is wrong.
    """
    text = text.removeprefix("\ufeff")
    first = text.partition("\n")[0].strip()
    for columns, form, read in (
        (_SACCT, _Sacct, _job),
        (_EVENTS, _Sacct, _event),
        (_TICKETS, csv.excel, _ticket),
    ):
        if set(columns) <= set(first.split(form.delimiter)):
            return tuple(_read(_rows(text, form), read))
    lines = enumerate(text.split("\n"), start=1)
    found = [(number, line) for number, raw in lines if (line := _KERNEL.fullmatch(raw.rstrip("\r")))]
    if not found:
        texts = (
            f"columns {'|'.join(_SACCT)} (sacct -X -P), {'|'.join(_EVENTS)} (sacctmgr), {','.join(_TICKETS)} (tickets)"
        )
        kernel = "lines of journalctl -k -o short-iso, or of dmesg --time-format iso with HOST: before each"
        raise UnreadableOutput(f"expected {texts}, or {kernel}; got {first[:80]!r}")
    return tuple(_read(found, _message))


class _Sacct(csv.Dialect):
    """The form of ``sacct -P``: nothing is quoted."""

    delimiter, quoting, lineterminator = "|", csv.QUOTE_NONE, "\n"


def _rows(text: str, form: type[csv.Dialect]) -> Iterator[tuple[int, Mapping[str, str] | str]]:
    """Yield each row with its line, or what is wrong with it; text that is not CSV ends the rows."""
    rows = csv.reader(io.StringIO(text, newline=""), form, strict=True)
    try:
        names = next(rows)
        if len(set(names)) < len(names):
            raise ValueError("a column is there twice")
        for cells in rows:
            if any(cells):
                wrong = f"expected {len(names)} cells, got {len(cells)}"
                yield rows.line_num, dict(zip(names, cells, strict=False)) if len(cells) == len(names) else wrong
    except (ValueError, csv.Error) as exc:
        yield rows.line_num, str(exc)


def _read(rows: Iterable[tuple[int, T | str]], read: Callable[[T], Iterable[Record]]) -> Iterator[Record]:
    problems: list[tuple[int, str]] = []
    for number, row in rows:
        try:
            if isinstance(row, str):
                raise ValueError(row)
            for found in read(row):
                yield replace(found, line=number)
        except ValueError as exc:
            problems.append((number, str(exc)))
            if len(problems) == MOST_PROBLEMS:
                break
    if problems:
        raise UnreadableLines(problems)


def _job(row: Mapping[str, str]) -> Iterator[Record]:
    """Yield a job that ran and is over, and the nodes that it excluded; a step (``1234.0``) yields nothing."""
    if "." in row["JobID"] or row["End"] in _NOT_YET:
        return
    at = _at(row["End"])
    for listed in _EXCLUDES.findall(row.get("SubmitLine") or ""):
        yield Record(at, _nodes(listed), "excluded")
    if row["NodeList"] not in _NO_NODES:
        names = _nodes(row["NodeList"])
        failed = "single_fails" if len(names) == 1 else "multi_fails"
        yield Record(at, names, failed if row["State"].startswith(_BROKEN) else "jobs")


def _event(row: Mapping[str, str]) -> Iterator[Record]:
    """Yield a node that was taken out; an event without a node concerns the whole cluster, and yields nothing."""
    if row["NodeName"] and row["State"].startswith(_OUT):
        yield Record(_at(row["TimeStart"]), _nodes(row["NodeName"]), "out")


@lru_cache(maxsize=1024)  # many jobs ran on the same nodes
def _nodes(text: str) -> tuple[str, ...]:
    try:
        return tuple(_component(name) for name in _NODES.parse(text).names())
    except PydanticCustomError as exc:
        raise ValueError(exc.message()) from exc


def _component(name: str) -> str:
    if not _COMPONENT.fullmatch(name):
        raise ValueError(f"expected a host or a part such as leaf3, got {name[:80]!r}")
    return name


def _ticket(row: Mapping[str, str]) -> Iterator[Record]:
    """Yield a ticket about a component, and about the leaf and the batch of modules that its row may name."""
    name, kind = _component(row["component"].strip()), (row.get("kind") or "").strip()
    if len(kind) > _LONGEST_KIND or not kind.isprintable():
        raise ValueError(f"expected a kind of at most {_LONGEST_KIND} printable characters, got {kind[:80]!r}")
    leaf, batch = ((row.get(column) or "").strip() for column in ("leaf", "batch"))
    also = [_component(one) for one in (leaf, BATCH + batch if batch else "") if one]
    yield Record(_at(row["opened"]), (name, *also), "tickets", kind)


def _message(line: re.Match[str]) -> Iterator[Record]:
    host, at, message = (line[name] or line[f"{name}2"] or "" for name in ("host", "at", "message"))
    xid, link = _XID.search(message), _LINK.search(message)
    if xid or link:
        kind = f"xid {xid[1]}" if xid else "link down" if "Link down" in message else "module error"
        yield Record(_at(at), (_component(host),), "", kind)


def _at(text: str) -> datetime:
    """Read a time in ISO 8601; without a time zone it is UTC."""
    try:
        found = datetime.fromisoformat(text.strip())
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as exc:
        raise ValueError(f"expected a time such as 2026-11-23T12:00:00, got {text[:80]!r}") from exc
