"""What a person can ask of pair results that any tool measured."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Sequence
from pathlib import Path

from fabric.config.inventory import load_inventory
from fabric.errors import ConfigError, Problem
from fabric.model.diagnosis import Diagnosis, PairFailure, PairRow, PairTable
from fabric.model.fields.wording import shown
from fabric.tools import pairs

MOST_BYTES = 256 << 20
"""A larger file is refused (a choice: 65,024 results are 3 MB)."""


def diagnose_files(
    files: Sequence[Path],
    *,
    inventory: Path | None = None,
    format_name: str = "auto",
    limit_gbps: float | None = None,
    floor: float | None = None,
) -> tuple[Diagnosis, tuple[str, ...]]:
    """
    The diagnosis of all files together, and what the readers left out. ConfigError with everything that is wrong.

    ``-`` is standard input.
    """
    from fabric.judge.locate.pairs.diagnose import diagnose  # numpy takes a while to import, and memory
    from fabric.judge.locate.pairs.samples import unknown_names
    from fabric.judge.locate.structure import FLOOR

    topology = load_inventory(inventory).topology if inventory is not None else None
    rows: list[PairRow] = []
    failures: list[PairFailure] = []
    notes: list[str] = []
    problems: list[Problem] = []
    for file in files:
        name = shown(str(file))
        table = pairs.read(_decoded(read_input(file, MOST_BYTES)), format_name, file.name)
        problems += [Problem(name, line, text) for line, text in table.problems]
        if topology is not None and not table.problems:
            problems += [Problem(name, line, text) for line, text in unknown_names(_named(table), topology)]
        rows += table.rows
        failures += table.failures
        notes += [f"{name}: {note}" for note in table.notes]
    if problems:
        raise ConfigError(problems)
    found = diagnose(rows, topology=topology, limit_gbps=limit_gbps, floor=floor or FLOOR, failures=failures)
    return found, tuple(notes)


def _named(table: PairTable) -> list[PairRow]:
    """Everything that names hosts: failed tests as rows as well."""
    return [*table.rows, *(PairRow(one.a, one.b, 0.0, one.line, rail=one.rail) for one in table.failures)]


def read_input(file: Path, most_bytes: int) -> bytes:
    """What a person names to be read, ``-`` for standard input; ConfigError where that cannot be, or is too large."""
    name = shown(str(file))
    try:
        if str(file) == "-":
            data = sys.stdin.buffer.read(most_bytes + 1)
        else:
            with file.open("rb") as stream:
                data = stream.read(most_bytes + 1)
    except OSError as exc:
        raise ConfigError.at(name, f"cannot read: {exc.strerror}") from exc
    if len(data) > most_bytes:
        raise ConfigError.at(name, f"larger than {most_bytes >> 20} MiB")
    return data


def _decoded(data: bytes) -> str:
    """UTF-8, or UTF-16 where a byte order mark says so (spreadsheets); what is neither shows as U+FFFD in messages."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")
