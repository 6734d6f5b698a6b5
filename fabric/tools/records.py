"""
What others wrote down of hosts, links and switches: jobs (``sacct``), tickets (CSV), kernel messages (``journalctl``).

No I/O; which of the three a text is, its first line tells.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from pydantic_core import PydanticCustomError

from fabric.errors import UnreadableOutput
from fabric.model.fields.folded import FoldedNames

_SACCT, _TICKETS = ("JobID", "State", "NodeList", "End"), ("component", "opened")
_BROKEN = ("NODE_FAIL", "BOOT_FAIL")
"""States of a job that a node ended; FAILED and TIMEOUT are mostly the job's own (Slurm's list of job states)."""

_NO_NODES, _NOT_YET = ("", "None assigned"), ("", "Unknown")
_KERNEL = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:?\d\d)) (\S{1,255}) kernel: (.*)", re.ASCII)
"""As ``journalctl -k -o short-iso`` writes a line."""

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?[0-9a-fA-F:.]+\): (\d{1,4}),", re.ASCII)
_LINK = re.compile(r"mlx5_core \S+ \S+: Link down|mlx5_core \S+: Port module event\[error\]", re.ASCII)
_COMPONENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/>+-]{0,254}", re.ASCII)
_LONGEST_KIND = 64
_NODES = FoldedNames(16_384)


@dataclass(frozen=True, slots=True)
class Record:
    """
    One thing that happened, at a time (UTC), to the components *names*.

    *signal*: which signal of a lemon it is one of (``tickets``, ``single_fails``, ``multi_fails``); ``jobs``: a job
    that a node did not end; empty where it is none by itself. *kind* of trouble, as ``xid 79``; empty where unknown.
    """

    at: datetime
    names: tuple[str, ...]
    signal: str
    kind: str = ""


def read_records(text: str) -> tuple[Record, ...]:
    """Every record, in the order written; UnreadableOutput for another text, with the line that is wrong."""
    text = text.removeprefix("\ufeff")
    first = text.partition("\n")[0].strip()
    if set(_SACCT) <= set(first.split("|")):
        return tuple(_each(text, _Sacct, _job))
    if set(_TICKETS) <= set(first.split(",")):
        return tuple(_each(text, csv.excel, _ticket))
    lines = enumerate(text.split("\n"), start=1)
    found = [(number, line) for number, raw in lines if (line := _KERNEL.fullmatch(raw.rstrip("\r")))]
    if not found:
        columns = f"columns {'|'.join(_SACCT)} (sacct -X -P), {','.join(_TICKETS)} (tickets)"
        raise UnreadableOutput(f"expected {columns}, or lines of journalctl -k -o short-iso; got {first[:80]!r}")
    return tuple(_messages(found))


class _Sacct(csv.Dialect):
    """As ``sacct -P`` prints: nothing is quoted."""

    delimiter, quoting, lineterminator = "|", csv.QUOTE_NONE, "\n"


def _each(text: str, form: type[csv.Dialect], read: Callable[[Mapping[str, str]], Record | None]) -> Iterator[Record]:
    rows = csv.reader(io.StringIO(text, newline=""), form, strict=True)
    try:
        names = next(rows)
        if len(set(names)) < len(names):
            raise ValueError("a column is there twice")
        for cells in rows:
            if any(cells) and (found := read(dict(zip(names, cells, strict=True)))) is not None:
                yield found
    except (ValueError, csv.Error) as exc:
        raise UnreadableOutput(f"line {rows.line_num}: {exc}") from exc


def _job(row: Mapping[str, str]) -> Record | None:
    """A job that ran and is over; a step (``1234.0``) is none."""
    if "." in row["JobID"] or row["End"] in _NOT_YET or row["NodeList"] in _NO_NODES:
        return None
    names = _nodes(row["NodeList"])
    failed = "single_fails" if len(names) == 1 else "multi_fails"
    return Record(_at(row["End"]), names, failed if row["State"].startswith(_BROKEN) else "jobs")


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


def _ticket(row: Mapping[str, str]) -> Record:
    name, kind = _component(row["component"].strip()), (row.get("kind") or "").strip()
    if len(kind) > _LONGEST_KIND or not kind.isprintable():
        raise ValueError(f"expected a kind of at most {_LONGEST_KIND} printable characters, got {kind[:80]!r}")
    return Record(_at(row["opened"]), (name,), "tickets", kind)


def _messages(lines: Iterable[tuple[int, re.Match[str]]]) -> Iterator[Record]:
    for number, line in lines:
        try:
            if (found := _message(line)) is not None:
                yield found
        except ValueError as exc:
            raise UnreadableOutput(f"line {number}: {exc}") from exc


def _message(line: re.Match[str]) -> Record | None:
    xid, link = _XID.search(line[3]), _LINK.search(line[3])
    if xid is None and link is None:
        return None
    kind = f"xid {xid[1]}" if xid else "link down" if "Link down" in line[3] else "module error"
    return Record(_at(line[1]), (_component(line[2]),), "", kind)


def _at(text: str) -> datetime:
    """ISO 8601; without a time zone it is UTC."""
    try:
        found = datetime.fromisoformat(text.strip())
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as exc:
        raise ValueError(f"expected a time such as 2026-11-23T12:00:00, got {text[:80]!r}") from exc
