"""
The source files of a run with their SHA-256: what a certificate stands on.

What is derived may be made again and is left out; everything else in the directory counts, also what should not be
there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fabric.errors import StoreError

DERIVED = frozenset(
    {
        "verdict.json",
        "judged.json",
        "measurements.parquet",
        "samples.parquet",
        "report.html",
        "junit.xml",
        "metrics.prom",
        "summary.md",
        "compare.html",
        "acceptance.json",
        "certificate.json",
        "certificate.html",
        "certificate.json.sha256",
        "certificate.json.sig",
    }
)
"""Files at the top of a run directory that are made from the others."""

JUDGED = (
    "verdict.json",
    "judged.json",
    "report.html",
    "junit.xml",
    "metrics.prom",
    "summary.md",
    "acceptance.json",
    "compare.html",
    "measurements.parquet",
    "samples.parquet",
)
"""Files that tell what a run has measured until now: no longer true once it measures more. A certificate stays: it says
which files it is about, and somebody may have signed it."""

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file: its path within the run directory (with ``/``), its size, the SHA-256 of its content in hex."""

    path: str
    size_bytes: int
    sha256: str


def manifest(run: Path) -> list[SourceFile]:
    """Every source file, in order of path; StoreError for one that cannot be read, or that is no plain file."""
    found = []
    try:
        for path in sorted(run.rglob("*"), key=lambda one: one.relative_to(run).as_posix()):
            name = path.relative_to(run).as_posix()
            if name in DERIVED or _temporary(path) or (path.is_dir() and not path.is_symlink()):
                continue
            if path.is_symlink() or not path.is_file():
                raise StoreError(f"{path}: not a plain file: a run directory has none such")
            found.append(SourceFile(name, path.stat().st_size, sha256_of(path)))
    except OSError as exc:
        raise StoreError(f"{exc.filename or run}: cannot read: {exc.strerror or exc}") from exc
    return found


def digest(files: Sequence[SourceFile]) -> str:
    """
    SHA-256 in hex over the canonical manifest: a line ``<sha256>  <path>`` a file, in order of path.

    ``sha256sum`` prints the same lines, so that it alone can tell it, too.
    """
    ordered = sorted(files, key=lambda one: one.path)
    return hashlib.sha256("".join(f"{one.sha256}  {one.path}\n" for one in ordered).encode()).hexdigest()


def differences(stated: Sequence[SourceFile], found: Sequence[SourceFile]) -> list[str]:
    """Which files are not as they were, in words; empty when all are."""
    old = {one.path: one for one in stated}
    new: Mapping[str, SourceFile] = {one.path: one for one in found}
    lines = []
    for path in sorted({*old, *new}):
        if path not in new:
            lines.append(f"{path}: missing")
        elif path not in old:
            lines.append(f"{path}: was not there")
        elif old[path].sha256 != new[path].sha256:
            lines.append(f"{path}: changed")
    return lines


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hex; raises OSError."""
    with path.open("rb") as file:
        found = hashlib.sha256()
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def _temporary(path: Path) -> bool:
    """What a writer leaves beside a file when it is killed."""
    return path.name.startswith(".") and path.name.endswith(".tmp")
