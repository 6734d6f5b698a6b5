"""Read one YAML file as a plain tree in which every scalar is text, and remember the line of each value.

PyYAML would read ``on`` as true, ``22:22`` as 1342, ``010`` as 8 and ``1e-6`` as text. So nothing is converted here;
the field's type does that. The parser's events are checked first: an alias is refused and never expanded, and depth and
size are bounded before anything is composed.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import yaml

from fabric.config.problems import KeyPath, Problems
from fabric.model.fields.wording import quoted, shown

ENTRIES_MOST = 2000
"""The most names of a folder that are compared (a choice)."""


def near_path(path: Path) -> str:
    """Return ``; did you mean 'scenarios/self-check.yaml'?``: the first missing part replaced by the nearest name."""
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
    """Return the entry in the same folder whose name is most similar; None if there is none."""
    try:
        names = {entry.name for entry in islice(wrong.parent.iterdir(), ENTRIES_MOST)} - {wrong.name}
    except OSError:
        return None
    found = get_close_matches(wrong.name, sorted(names), n=1)
    return wrong.with_name(found[0]) if found else None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a NUL, or a name that is too long
        return False


Tree: TypeAlias = "str | list[Tree] | dict[str, Tree]"

BYTES_MOST = 1 << 20
DEPTH_MOST = 50
_TOO_DEEP = f"nested deeper than {DEPTH_MOST} levels"
NODES_MOST = 200_000  # 2,048 hosts written one by one are 30,000

# Matches what YAML 1.1 forbids, and NEL, LS and PS: YAML counts them as line ends, but editors do not.
_REFUSED = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAMES_IN_BRACES = re.compile(r"[{,].*?:\s*([A-Za-z][\w.-]*\[[\d,-]+\][\w.-]*)")
_NOTHING = ("", "~", "null", "Null", "NULL")
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


_MARKS = {"a scenario": "phases", "an inventory": "platforms", "a baseline": "limits"}
"""Kinds of files, and the key that only these have and need."""


class _Stop(Exception):
    """Raised with a line and a problem after which reading on makes no sense."""


def read_document(path: Path, problems: Problems, kind: str) -> dict[str, Tree]:
    """
    Return the mapping in a file, as far as it could be read; note what is wrong in *problems*.

    *kind* is what it is meant to be (``a scenario``). Of a file of another kind only that is noted.
    """
    try:
        text = _text(path)
        problems.lines[()] = 1
        _check(_events(text), problems)
        root = yaml.compose(text, Loader=_LOADER)
        tree = None if root is None else _tree(root, (), problems)
        _refuse_another_kind(tree, kind, problems)
    except _Stop as exc:
        problems.at_line(*exc.args)
        return {}
    if isinstance(tree, dict):
        return tree
    problems.add((), "the file is empty" if tree is None else "expected 'key: value' lines at the top of the file")
    return {}


def _refuse_another_kind(tree: object, kind: str, problems: Problems) -> None:
    """_Stop at the key by which a file is known to be of another kind, if it does not have that of its own."""
    for other, mark in _MARKS.items():
        if isinstance(tree, dict) and mark in tree and _MARKS[kind] not in tree:
            raise _Stop(problems.lines[mark,], f"this is {other} (it has {quoted(mark)}), not {kind}")


def _unquoted(text: str, line: int) -> str:
    """Return a hint to quote a set of names within braces, where YAML ends it at its bracket: ``{to: spine[1-4]}``."""
    found = _NAMES_IN_BRACES.search("".join(text.splitlines()[line - 1 : line])) if line else None
    return "" if found is None else f"; within {{ }} put a set of names in quotes: {quoted(found[1])}"


def _text(path: Path) -> str:
    """Return the text of a file; _Stop if it is no regular file, too large or not UTF-8."""
    try:
        if not path.is_file():
            raise _Stop(0, "not a regular file" if path.exists() else f"no such file{near_path(path)}")
        with path.open("rb") as file:
            data = file.read(BYTES_MOST + 1)
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the path
        raise _Stop(0, f"cannot be read: {shown(getattr(exc, 'strerror', None) or str(exc))}") from exc
    if len(data) > BYTES_MOST:
        raise _Stop(0, f"larger than {BYTES_MOST} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise _Stop(line, f"not UTF-8 (byte 0x{data[exc.start]:02x})") from exc
    refused = _REFUSED.search(text)
    if refused:
        line = text.count("\n", 0, refused.start()) + 1
        raise _Stop(line, f"control character U+{ord(refused.group()):04X} is not allowed")
    return text


def _events(text: str) -> Iterator[yaml.Event]:
    """Yield the parser's events; _Stop at a syntax error, with its line."""
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        line = mark.line + 1 if mark else 0
        lines = text.splitlines()
        at = lines[mark.line][mark.column :] if mark and mark.line < len(lines) else ""
        syntax_error = ", ".join(part for part in (exc.context, exc.problem) if part)
        problem = f"not readable as YAML: {shown(syntax_error, most=200)}{_unquoted(text, line)}"
        if at.startswith("\t"):
            problem = "a tab cannot indent or start a value in YAML; use spaces"
        elif "maximum nesting depth" in syntax_error:  # libyaml 0.2.6 and later has a bound of its own, above ours
            problem = _TOO_DEEP
        raise _Stop(line, problem) from exc
    except (yaml.YAMLError, ValueError, OverflowError) as exc:  # ValueError: "\U00110000" in the pure Python parser
        raise _Stop(0, f"not readable as YAML: {shown(str(exc), most=200)}") from exc


def _check(events: Iterable[yaml.Event], problems: Problems) -> None:
    """Refuse what is never allowed, before anything is composed: aliases, tags, a second document, depth and size."""
    documents = nodes = depth = 0
    for event in events:
        line = event.start_mark.line + 1 if event.start_mark else 0
        problem = ""
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            problem = "a second document starts here ('---'); one file holds one" if documents > 1 else ""
        elif isinstance(event, yaml.NodeEvent):
            nodes += 1
            depth += isinstance(event, yaml.CollectionStartEvent)
            if nodes > NODES_MOST:
                problem = f"more than {NODES_MOST} values"
            elif event.anchor is not None:
                what = f"alias {quoted(f'*{event.anchor}')}"
                if not isinstance(event, yaml.AliasEvent):
                    what = f"anchor {quoted(f'&{event.anchor}')}"
                problem = f"{what} is not allowed: write the value out"
            elif depth > DEPTH_MOST:
                problem = _TOO_DEEP
            tag: str | None = getattr(event, "tag", None)
            if tag is not None and not problem:
                problems.at_line(line, f"tag {quoted(tag)} is not allowed")
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if problem:
            raise _Stop(line, problem)


def _tree(node: yaml.Node, path: KeyPath, problems: Problems) -> Tree:
    """Return the content of a node; note the lines of everything in it."""
    if isinstance(node, yaml.ScalarNode):
        if not node.style and node.value in _NOTHING and path:
            problem = "expected a value, got nothing: leave the key out, or quote the text if it is meant"
            problems.spoil(path, problem)
        return str(node.value)
    if isinstance(node, yaml.SequenceNode):
        for place, each in enumerate(node.value):
            problems.lines[*path, place] = each.start_mark.line + 1
        return [_tree(each, (*path, place), problems) for place, each in enumerate(node.value)]
    found: dict[str, Tree] = {}
    for key, value in node.value:
        line, here = key.start_mark.line + 1, (*path, key.value)
        if not isinstance(key, yaml.ScalarNode):
            raise _Stop(line, "a key must be plain text, got a list or mapping")
        if key.value in found:
            first = problems.lines[here]
            problems.at_line(line, f"key {quoted(key.value)} is there twice (first on line {first})")
            continue
        problems.lines[here] = line
        found[key.value] = _tree(value, here, problems)
    return found
