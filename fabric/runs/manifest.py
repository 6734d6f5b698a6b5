"""The source files of a run with their SHA-256, on which a certificate rests.

Derived files may be made again and are left out. Everything else in the directory counts, also what should not be
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

OUTDATED_BY_MEASURING = (
    "verdict.json",
    "report.html",
    "junit.xml",
    "metrics.prom",
    "summary.md",
    "acceptance.json",
    "compare.html",  # of older versions, like the next one
    "samples.parquet",
    *(table.file for table in TABLES.values()),
)
"""
Files about what a run has measured so far, outdated once it measures more. A certificate stays: it says which files it
is about, and somebody may have signed it.
"""

DERIVED = frozenset(
    {*OUTDATED_BY_MEASURING, "certificate.json", "certificate.html", "certificate.json.sha256", "certificate.json.sig"}
)
"""Files at the top of a run directory that are made from the others."""

TICKETS, FIGURES = "tickets", "figures"
"""Folders of derived files: tickets of suspects (only Markdown) and pictures (only PNG and SVG)."""

_DERIVED_IN = {TICKETS: (".md",), FIGURES: (".png", ".svg")}

MOST_DIFFERENCES = 100
"""Changed files that are named at most (a choice); then the comparison stops."""

_MAY_BE_EMPTY = ("raw", TICKETS, FIGURES)
"""Folders that may be empty: a run makes them before it writes into them, or takes their files out."""

_WRITTEN = ("run.json", "identity.json", "STOP")
"""Sources at the top that are written whole through a temporary file, like derived files."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file: its path within the run directory (with ``/``), its size, the SHA-256 of its content in hex."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a run directory; *wrong* says what it is if it is no source file."""

    path: str
    size_bytes: int
    wrong: str = ""


def manifest(run: Path) -> list[SourceFile]:
    """Return every source file, in order of path; StoreError for one that cannot be read or is no plain file."""
    found = []
    for entry in _entries(run):
        if entry.wrong:
            raise StoreError(f"{run / entry.path}: {entry.wrong}: a run directory has none such")
        found.append(SourceFile(entry.path, entry.size_bytes, _sha256(run, entry)))
    return sorted(found, key=lambda one: one.path)


def digest(files: Sequence[SourceFile]) -> str:
    """
    Return the SHA-256 in hex over the canonical manifest: a line ``<sha256>  <path>`` a file, in order of path.

    ``sha256sum`` prints the same lines, so it is enough to check the digest.
    """
    ordered = sorted(files, key=lambda one: one.path)
    return hashlib.sha256("".join(f"{one.sha256}  {one.path}\n" for one in ordered).encode()).hexdigest()


def differences(stated: Sequence[SourceFile], run: Path) -> list[str]:
    """
    Return which files of a run directory are not as stated, in words; empty when all are.

    A file whose size differs is not read. StoreError when one cannot be read.
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
    """Return temporary files of our writers that were killed; whoever alone works on the run may remove them."""
    return [*(run / f".{name}.tmp" for name in (*DERIVED, *_WRITTEN)), *tickets_of(run, ".*.tmp")]


def tickets_of(run: Path, pattern: str = "*.md") -> list[Path]:
    """Return the tickets of a run; none behind a link, which leads somewhere else."""
    folder = run / TICKETS
    return [] if folder.is_symlink() else sorted(folder.glob(pattern))


def _is_derived(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return name in DERIVED or file.endswith(_DERIVED_IN.get(folder, ()))


def _entries(run: Path) -> Iterator[_Entry]:
    """Yield every source file and everything that should not be there; folders only where they are empty."""
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
    """Make an entry; a name that is not valid text is wrong, because a manifest cannot hold it."""
    shown = name.encode("utf-8", "backslashreplace").decode()
    return _Entry(shown, size_bytes, wrong or ("" if shown == name else "its name is no text"))


def _changed(run: Path, entry: _Entry, stated: SourceFile | None) -> str:
    """Return how a file differs from what was stated; empty where it does not."""
    if stated is None:
        killed = Path(entry.path).name.startswith(".") and entry.path.endswith(".tmp")
        return "was not there" + (" (a writer that is killed leaves such a file)" if killed else "")
    same = entry.size_bytes == stated.size_bytes and _sha256(run, entry) == stated.sha256
    return "" if same else "changed"


def _sha256(run: Path, entry: _Entry) -> str:
    """Return the hash of the content up to the length found first: what is appended meanwhile is not read."""
    found, left = hashlib.sha256(), entry.size_bytes
    with storing(run / entry.path, "cannot read"), plain_stream(run / entry.path) as file:
        while left > 0 and (block := file.read(min(MIB, left))):
            found.update(block)
            left -= len(block)
    return found.hexdigest()


def _lines(wrong: dict[str, str]) -> list[str]:
    return [f"{path}: {text}" for path, text in sorted(wrong.items())]
