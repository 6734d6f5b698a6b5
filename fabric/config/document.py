"""
Reads one YAML file as a plain tree in which every scalar is text, and remembers on which line each value stands.

PyYAML would read ``on`` as true, ``22:22`` as 1342, ``010`` as 8 and ``1e-6`` as text: so nothing is converted here,
the field's type does that. The events of the parser are followed one by one, not composed: an alias is refused
where it stands and never expanded, and depth and size are bounded without recursion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import yaml

from fabric.config.problems import KeyPath, Problems
from fabric.model.fields.wording import quoted, shown

ENTRIES_MOST = 2000
"""So many names of a folder are looked at (a choice)."""

_NEAR = 0.6  # the share of letters in common, as for words in a file


def near_path(path: Path) -> str:
    """``; did you mean 'scenarios/self-check.yaml'?``: its first part that is not there, as the nearest that is."""
    parts = [path, *path.parents]
    missing = [one for one in parts if not _exists(one)]
    if not missing or missing[-1].name in ("", ".."):
        return ""
    wrong = missing[-1]
    near = _near(wrong)
    if near is None:
        return ""
    meant = near / path.relative_to(wrong)
    return f"; did you mean {quoted(str(meant if _exists(meant) else near), most=200)}?"


def _near(wrong: Path) -> Path | None:
    """The entry of its folder whose name is like its own."""
    try:
        names = {entry.name for entry in islice(wrong.parent.iterdir(), ENTRIES_MOST)} - {wrong.name}
    except OSError:
        return None
    found = get_close_matches(wrong.name, sorted(names), n=1, cutoff=_NEAR)
    return wrong.with_name(found[0]) if found else None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a NUL, or a name that is too long
        return False


Tree: TypeAlias = "str | list[Tree] | dict[str, Tree]"

BYTES_MOST = 1 << 20
DEPTH_MOST = 50
NODES_MOST = 200_000  # 2,048 hosts written one by one are 30,000

# What YAML 1.1 may hold, without NEL, LS and PS: YAML counts lines by them and editors do not.
_REFUSED = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAMES_IN_BRACES = re.compile(r"[{,].*?:\s*([A-Za-z][\w.-]*\[[\d,-]+\][\w.-]*)")
_NOTHING = ("", "~", "null", "Null", "NULL")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Stop(Exception):
    """Reading on makes no sense; the problem is already noted."""


def read_document(path: Path, problems: Problems) -> dict[str, Tree]:
    """The mapping that a file holds, as far as it could be read; what is wrong is in *problems*."""
    text = _text(path, problems)
    if text is None:
        return {}
    problems.lines[()] = 1
    builder = _Builder(problems)
    try:
        for event in _events(text, problems):
            builder.take(event)
    except _Stop:
        return {}
    root = builder.root
    if isinstance(root, dict):
        return root
    problems.add((), "the file is empty" if root is None else "expected 'key: value' lines at the top of the file")
    return {}


def _unquoted(text: str, line: int) -> str:
    """Within braces a set of names ends at its bracket: ``{to: spine[1-4]}``."""
    found = _NAMES_IN_BRACES.search("".join(text.splitlines()[line - 1 : line])) if line else None
    return "" if found is None else f"; within {{ }} put a set of names in quotes: {quoted(found[1])}"


def _text(path: Path, problems: Problems) -> str | None:
    """The text of a file, if it is a file, small enough and UTF-8."""
    try:
        if not path.is_file():
            problems.at_line(0, "not a regular file" if path.exists() else f"no such file{near_path(path)}")
            return None
        with path.open("rb") as file:
            data = file.read(BYTES_MOST + 1)
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the path
        problems.at_line(0, f"cannot be read: {shown(getattr(exc, 'strerror', None) or str(exc))}")
        return None
    if len(data) > BYTES_MOST:
        problems.at_line(0, f"larger than {BYTES_MOST} bytes")
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        problems.at_line(data.count(b"\n", 0, exc.start) + 1, f"not UTF-8 (byte 0x{data[exc.start]:02x})")
        return None
    refused = _REFUSED.search(text)
    if refused:
        line = text.count("\n", 0, refused.start()) + 1
        problems.at_line(line, f"control character U+{ord(refused.group()):04X} is not allowed")
        return None
    return text


def _events(text: str, problems: Problems) -> Iterator[yaml.Event]:
    """The parser's events; a syntax error is noted with its line and ends the reading."""
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        line = mark.line + 1 if mark else 0
        lines = text.splitlines()
        at = lines[mark.line][mark.column :] if mark and mark.line < len(lines) else ""
        if at.startswith("\t"):
            problems.at_line(line, "a tab cannot indent or start a value in YAML; use spaces")
        else:
            said = ", ".join(part for part in (exc.context, exc.problem) if part)
            problems.at_line(line, f"not readable as YAML: {shown(said, most=200)}{_unquoted(text, line)}")
        raise _Stop from exc
    except (yaml.YAMLError, ValueError, OverflowError) as exc:  # ValueError: "\U00110000" in the pure Python parser
        problems.at_line(0, f"not readable as YAML: {shown(str(exc), most=200)}")
        raise _Stop from exc


@dataclass(slots=True)
class _Frame:
    """A list or mapping that is still open."""

    value: list[Tree] | dict[str, Tree]
    path: KeyPath
    key: str | None = None  # in a mapping: the key whose value comes next
    twice: bool = False  # that key was there before: its value is read and dropped


class _Builder:
    """Makes the tree from events; lives for one file."""

    def __init__(self, problems: Problems) -> None:
        self.root: Tree | None = None
        self._problems = problems
        self._open: list[_Frame] = []
        self._nodes = 0
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        """Add what one event says."""
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._stop(event, "a second document starts here ('---'); one file holds one")
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
        elif isinstance(event, yaml.NodeEvent):
            self._nodes += 1
            if self._nodes > NODES_MOST:
                self._stop(event, f"more than {NODES_MOST} values")
            self._node(event)

    def _node(self, event: yaml.NodeEvent) -> None:
        line = _line(event)
        if isinstance(event, yaml.AliasEvent):
            self._stop(event, f"alias {quoted(f'*{event.anchor}')} is not allowed: write the value out")
        if event.anchor is not None:
            self._stop(event, f"anchor {quoted(f'&{event.anchor}')} is not allowed: write the value out")
        tag: str | None = getattr(event, "tag", None)
        if tag is not None:
            self._problems.at_line(line, f"tag {quoted(tag)} is not allowed")
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)
            return
        value: list[Tree] | dict[str, Tree] = [] if isinstance(event, yaml.SequenceStartEvent) else {}
        if self._open and isinstance(self._open[-1].value, dict) and self._open[-1].key is None:
            self._stop(event, "a key must be plain text, got a list or mapping")
        path = self._place(value, line)
        self._open.append(_Frame(value, path))
        if len(self._open) > DEPTH_MOST:
            self._stop(event, f"nested deeper than {DEPTH_MOST} levels")

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        frame = self._open[-1] if self._open else None
        if frame and isinstance(frame.value, dict) and frame.key is None:
            self._key(frame, event.value, line)
            return
        path = self._place(event.value, line)
        if not event.style and event.value in _NOTHING and frame:
            self._problems.spoil(
                path, "expected a value, got nothing: leave the key out, or quote the text if it is meant"
            )

    def _key(self, frame: _Frame, key: str, line: int) -> None:
        path = (*frame.path, key)
        frame.key, frame.twice = key, key in frame.value
        if frame.twice:
            first = self._problems.lines.get(path, 0)
            self._problems.at_line(line, f"key {quoted(key)} is there twice (first on line {first})")
        self._problems.lines.setdefault(path, line)

    def _place(self, value: Tree, line: int) -> KeyPath:
        """Put a value where it belongs; its path."""
        if not self._open:
            self.root = value
            return ()
        frame = self._open[-1]
        if isinstance(frame.value, list):
            path: KeyPath = (*frame.path, len(frame.value))
            self._problems.lines.setdefault(path, line)
            frame.value.append(value)
            return path
        key, frame.key = frame.key or "", None
        if not frame.twice:
            frame.value[key] = value
        return (*frame.path, key)

    def _stop(self, event: yaml.Event, text: str) -> None:
        self._problems.at_line(_line(event), text)
        raise _Stop


def _line(event: yaml.Event) -> int:
    """The 1-based line on which an event begins."""
    return event.start_mark.line + 1 if event.start_mark else 0
