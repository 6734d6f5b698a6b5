"""Collect everything that is wrong with one file, with lines, and put pydantic's errors in plain words."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fabric.errors import ConfigError, Problem
from fabric.model.fields.entry import Entry, InFiles, OneOf, from_file, written_keys
from fabric.model.fields.wording import nearest, quoted, seen

KeyPath = tuple[str | int, ...]
"""The path to a value in a file: ``("hosts", 0, "platform")``."""

PROBLEMS_MOST = 500  # a file of 1 MiB can have a hundred thousand: nobody reads them, and finding them takes minutes


class Problems:
    """
    The problems found so far in one file.

    *lines* is filled while the file is read. A path that was passed to ``spoil`` gets no second problem.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[KeyPath, int] = {}
        self._found: dict[Problem, None] = {}  # in order, each once
        self._spoiled: set[KeyPath] = set()
        self._stands_for: dict[KeyPath, str] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, path: KeyPath, text: str) -> None:
        """Note a problem at *path*, or at the nearest thing around it that has a line."""
        where = self._known(path)
        if where in self._spoiled:
            return
        explained = f"{text} (that is {self._stands_for[where]})" if where in self._stands_for else text
        self.at_line(self.lines.get(where, 0), explained)

    def stands_for(self, path: KeyPath, written: str) -> None:
        """Note that the value at *path* replaced the text *written* there: problems then quote that text, too."""
        self._stands_for[path] = written

    def spoil(self, path: KeyPath, text: str) -> None:
        """Note a problem so bad that any further problem at *path* would mislead."""
        self.add(path, text)
        self._spoiled.add(path)

    def silence(self, path: KeyPath) -> None:
        """Note no problems at *path*: its value follows from something that is wrong elsewhere."""
        self._spoiled.add(path)

    def at_line(self, line: int, text: str) -> None:
        """Note a problem on a line; 0 is the whole file. Raise ConfigError when there are too many."""
        self._found[Problem(self.file, line, text)] = None
        if len(self._found) >= PROBLEMS_MOST:
            raise ConfigError((*self._found, Problem(self.file, 0, f"not read on after {PROBLEMS_MOST} problems")))

    def all(self) -> tuple[Problem, ...]:
        """Return all problems."""
        return tuple(self._found)

    def raise_if_any(self, others: Iterable[Problem] = ()) -> None:
        """Raise ConfigError with all problems, these and *others*, if there are any."""
        everything = (*self.all(), *others)
        if everything:
            raise ConfigError(everything)

    def _known(self, path: KeyPath) -> KeyPath:
        """
        Return the part of *path* that is in the file.

        A step that is not in it (a missing key, the tag of a union in pydantic's location) is left out.
        """
        known: KeyPath = ()
        for step in path:
            if (*known, step) in self.lines:
                known = (*known, step)
        return known


T = TypeVar("T")


def duplicates(values: Iterable[T]) -> Iterator[tuple[int, T]]:
    """Yield every value that occurred before, with its position."""
    seen: set[T] = set()
    for position, value in enumerate(values):
        if value in seen:
            yield position, value
        seen.add(value)


_EXPECTED = {
    "model_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping (key: value)",
    "dataclass_type": "a mapping (key: value)",
    "dict_type": "a mapping (key: value)",
    "tuple_type": "a list",
    "list_type": "a list",
    "string_type": "text",
}


def report(model: type[T], tree: object, problems: Problems) -> T | None:
    """Return the decoded entry, or None after noting everything that is wrong."""
    try:
        return from_file(model, tree)
    except ValidationError as exc:
        for error in exc.errors(include_url=False):
            if error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]:
                continue  # pydantic counts only the right entries; the wrong ones have problems of their own
            path, text = _wording(model, error)
            problems.add(path, text)
        return None


def valid(model: type[T], tree: object) -> T | None:
    """Return the decoded entry, or None if it is wrong (``report`` notes why)."""
    try:
        return from_file(model, tree)
    except ValidationError:
        return None


def section(model: type[T], tree: Mapping[str, Any], key: str) -> T:
    """Return the value below a key, or its default if it is wrong, so that other checks can go on."""
    return valid(model, tree.get(key, {})) or model()


def valid_items(model: type[T], tree: object, path: KeyPath) -> Iterator[tuple[KeyPath, T]]:
    """
    Yield every well-formed entry of a list or mapping, with its path, so that wrong ones do not hide others' problems.
    """
    items: Any = enumerate(tree) if isinstance(tree, list) else tree.items() if isinstance(tree, dict) else ()
    for key, value in items:
        entry = valid(model, value)
        if entry is not None:
            yield (*path, key), entry


def _wording(model: type, error: ErrorDetails) -> tuple[KeyPath, str]:
    """Return where an error is and its wording."""
    kind, path = error["type"], tuple(error["loc"])
    if kind == "missing":
        return path[:-1], _missing(model, path)
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return path, _unknown_key(model, path)
    if kind in ("too_short", "too_long"):
        context = error["ctx"]
        bound = f"at least {context['min_length']}" if kind == "too_short" else f"at most {context['max_length']}"
        entries = "entry" if bound.endswith(" 1") else "entries"
        return path, f"expected {bound} {entries}, got {context['actual_length']}"
    if kind in _EXPECTED:
        return path, f"expected {_EXPECTED[kind]}, got {seen(error['input'])}"
    return path, error["msg"]


def _missing(model: type, path: KeyPath) -> str:
    """Return the message for a required key that is missing."""
    key = str(path[-1])
    why = next((one.why[key] for one in _models_at(model, path) if key in getattr(one, "why", ())), "")
    return f"{quoted(key)} is required here" + (f": {why}" if why else "")


_SECRETS = frozenset({"password", "passwd", "pass", "passphrase"})


def _unknown_key(model: type, path: KeyPath) -> str:
    """Return the message for a key that the mapping does not have."""
    key = str(path[-1])
    around = _models_at(model, path)
    known = [key for one in around for key in written_keys(one)]
    secret = "; there are no passwords here: name a key_file, or use the SSH agent" if key in _SECRETS else ""
    return f"unknown key {quoted(key)}{secret or nearest(key, known)}"


def _models_at(model: type, path: KeyPath) -> list[Any]:
    """Return the models whose keys may be beside the last step of *path*."""
    here = [model]
    for step in path[:-1]:
        chosen = [one for one in here if step in written_keys(one)]  # the tag of a union is a key of only one
        inner = [each for one in chosen for each in _models_in(written_keys(one)[str(step)][1])]
        here = inner or chosen or here  # list positions and names of a mapping are not fields
    return here


def _models_in(annotation: Any) -> list[type]:
    """Return the models in a field's type, however wrapped."""
    if isinstance(annotation, type) and issubclass(annotation, Entry | InFiles):
        return [annotation]
    if isinstance(annotation, OneOf):
        return list(annotation.models)
    return [model for inner in get_args(annotation) for model in _models_in(inner)]
