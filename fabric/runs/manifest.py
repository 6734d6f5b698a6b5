"""
The source files of a run with their SHA-256: what a certificate stands on.

What is derived may be made again and is left out; everything else in the directory counts, also what should not be
there: hidden files, those of a writer that was killed, links, empty folders.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fabric.errors import StoreError
from fabric.runs.plain_file import MIB, plain_stream, storing
from fabric.runs.tables import TABLES

JUDGED = (
    "verdict.json",
    "report.html",
    "junit.xml",
    "metrics.prom",
    "summary.md",
    "acceptance.json",
    "compare.html",  # of older versions, as the next
    "samples.parquet",
    *(table.file for table in TABLES.values()),
)
"""Files that tell what a run has measured until now: no longer true once it measures more. A certificate stays: it says
which files it is about, and somebody may have signed it."""

DERIVED = frozenset(
    {*JUDGED, "certificate.json", "certificate.html", "certificate.json.sha256", "certificate.json.sig"}
)
"""Files at the top of a run directory that are made from the others."""

TICKETS, FIGURES = "tickets", "figures"
"""The folders of what is derived: of each suspect, Markdown alone; pictures, PNG and SVG alone."""

_DERIVED_IN = {TICKETS: (".md",), FIGURES: (".png", ".svg")}

MOST_DIFFERENCES = 100
"""So many files that are not as they were are named (a choice); then it is not looked further."""

_MAY_BE_EMPTY = ("raw", TICKETS, FIGURES)
"""Folders that a run makes before it writes into them, or takes the files out of."""

_WRITTEN = ("run.json", "identity.json", "STOP")
"""Sources at the top that are written whole, by way of a temporary file, as what is derived is."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file: its path within the run directory (with ``/``), its size, the SHA-256 of its content in hex."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class _Entry:
    """What lies in a run directory, and of what is no source file what it is instead."""

    path: str
    size_bytes: int
    wrong: str = ""


def manifest(run: Path) -> list[SourceFile]:
    """Every source file, in order of path; StoreError for one that cannot be read, or that is no plain file."""
    found = []
    for entry in _entries(run):
        if entry.wrong:
            raise StoreError(f"{run / entry.path}: {entry.wrong}: a run directory has none such")
        found.append(SourceFile(entry.path, entry.size_bytes, _sha256(run, entry)))
    return sorted(found, key=lambda one: one.path)


def digest(files: Sequence[SourceFile]) -> str:
    """
    SHA-256 in hex over the canonical manifest: a line ``<sha256>  <path>`` a file, in order of path.

    ``sha256sum`` prints the same lines, so that it alone can tell it, too.
    """
    ordered = sorted(files, key=lambda one: one.path)
    return hashlib.sha256("".join(f"{one.sha256}  {one.path}\n" for one in ordered).encode()).hexdigest()


def differences(stated: Sequence[SourceFile], run: Path) -> list[str]:
    """
    Which files of a run directory are not as stated, in words; empty when all are.

    A file of another size is not read. StoreError where one cannot be.
    """
    known = {one.path: one for one in stated}
    seen: set[str] = set()
    wrong: dict[str, str] = {}
    for entry in _entries(run):
        seen.add(entry.path)
        if text := entry.wrong or _changed(run, entry, known.get(entry.path)):
            wrong[entry.path] = text
        if len(wrong) > MOST_DIFFERENCES:
            return [*_lines(wrong), "and perhaps more: it was not looked further"]
    wrong.update((path, "missing") for path in known if path not in seen)
    return _lines(wrong)


def leftovers(run: Path) -> list[Path]:
    """The temporary files of writers of ours that were killed; whoever works on the run alone may remove them."""
    return [*(run / f".{name}.tmp" for name in (*DERIVED, *_WRITTEN)), *tickets_of(run, ".*.tmp")]


def tickets_of(run: Path, pattern: str = "*.md") -> list[Path]:
    """The tickets of a run; none behind a link, which leads somewhere else."""
    folder = run / TICKETS
    return [] if folder.is_symlink() else sorted(folder.glob(pattern))


def _is_derived(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return name in DERIVED or file.endswith(_DERIVED_IN.get(folder, ()))


def _entries(run: Path) -> Iterator[_Entry]:
    """Every source file, and whatever else should not be there; folders only where they are empty."""
    waiting = [""]
    with storing(run, "cannot read", inside=True):
        while waiting:
            folder = waiting.pop()
            with os.scandir(run / folder) as entries:
                found = list(entries)
            if not found and folder and folder.partition("/")[0] not in _MAY_BE_EMPTY:
                yield _entry(f"{folder}/", 0, "an empty folder")
            for one in found:
                name = f"{folder}/{one.name}" if folder else one.name
                if one.is_dir(follow_symlinks=False):
                    waiting.append(name)
                elif not one.is_file(follow_symlinks=False):
                    yield _entry(name, 0, "not a plain file")
                elif not _is_derived(name):
                    yield _entry(name, one.stat(follow_symlinks=False).st_size)


def _entry(name: str, size_bytes: int, wrong: str = "") -> _Entry:
    """A name that is no text cannot stand in a manifest."""
    shown = name.encode("utf-8", "backslashreplace").decode()
    return _Entry(shown, size_bytes, wrong or ("" if shown == name else "its name is no text"))


def _changed(run: Path, entry: _Entry, stated: SourceFile | None) -> str:
    """Empty where the file is as stated."""
    if stated is None:
        killed = Path(entry.path).name.startswith(".") and entry.path.endswith(".tmp")
        return "was not there" + (" (a writer that is killed leaves such a file)" if killed else "")
    same = entry.size_bytes == stated.size_bytes and _sha256(run, entry) == stated.sha256
    return "" if same else "changed"


def _sha256(run: Path, entry: _Entry) -> str:
    """Of the content as long as it was when it was found: what is appended meanwhile is not read."""
    found, left = hashlib.sha256(), entry.size_bytes
    with storing(run / entry.path, "cannot read"), plain_stream(run / entry.path) as file:
        while left > 0 and (block := file.read(min(MIB, left))):
            found.update(block)
            left -= len(block)
    return found.hexdigest()


def _lines(wrong: dict[str, str]) -> list[str]:
    return [f"{path}: {text}" for path, text in sorted(wrong.items())]
