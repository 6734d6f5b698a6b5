"""Decodes the ``recorded:`` section of a baseline file, and candidate files, which hold such a section alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from pydantic import Field

from fabric.config.document import Tree, read_document
from fabric.config.problems import Problems, report, valid_items
from fabric.model.fields.entry import Entry
from fabric.model.fields.quantities import Size
from fabric.model.fields.scalars import SAFE_NAME, Choice, Decimal, Whole, Word
from fabric.model.fields.wording import shown
from fabric.model.recorded import Key, Recorded
from fabric.model.text import size_text
from fabric.model.topology import NVLINK
from fabric.probes.keys import ALGORITHMS
from fabric.probes.kinds import ASKED

LINK_CLASSES = ("pix", "node", "sys", "mem_local", "mem_remote", NVLINK)
LEAF_CLASSES = ("same_leaf", "cross_leaf")
TOOLS = ("perftest", "nccl-tests")
DIRECTIONS = ("one_way", "both_ways")
BACKENDS = ("ssh", "process", "mock")

RUN_NAME = Word(rf"{SAFE_NAME.pattern}/{SAFE_NAME.pattern}", "a run as scenario/run-id")

_Gbps = Annotated[float, Decimal(0.001, 1_000_000)]


class RecordedEntry(Entry):
    """What good runs measured for one key; a part of the key that is left out was not there to record."""

    kind: Annotated[str, Choice(tuple(ASKED))] = Field(description="The probe kind.")
    tool: Annotated[str, Choice(TOOLS)] = Field(description="The tool family that measured.")
    link_class: Annotated[str, Choice(LINK_CLASSES + LEAF_CLASSES)] | None = Field(
        None, description="The PCIe distance, for loopback; whether one leaf was crossed or more, between RNICs."
    )
    size_bytes: Annotated[int, Size(1, 1 << 40)] | None = Field(
        None, validation_alias="size", description="The message size."
    )
    ranks: Annotated[int, Whole(1, 1_000_000)] | None = Field(None, description="How many ranks took part.")
    algorithm: Annotated[str, Choice(ALGORITHMS)] | None = Field(None, description="NCCL_ALGO.")
    direction: Annotated[str, Choice(DIRECTIONS)] | None = Field(None, description="one_way or both_ways.")
    line_rate_gbps: _Gbps | None = Field(None, description="The line rate of the slower RNIC.")
    median_gbps: _Gbps = Field(description="The median of the samples.")
    mad_gbps: Annotated[float, Decimal(0, 1_000_000)] = Field(description="Their median absolute deviation.")
    n: Annotated[int, Whole(2, 100_000_000)] = Field(description="How many samples.")
    cv: Annotated[float, Decimal(0, 10)] = Field(description="1.4826 x MAD / median.")
    trimmed: Annotated[int, Whole(0, 100_000_000)] = Field(0, description="How many outliers were left out.")
    runs: tuple[Annotated[str, RUN_NAME], ...] = Field(
        min_length=1, max_length=1000, description="The runs that the samples came from, as scenario/run-id."
    )

    def recorded(self) -> Recorded:
        """In the words of the model."""
        given = self.model_dump()
        key = Key(**{field.name: given.pop(field.name) for field in fields(Key)})
        return Recorded(key, **given)


class CandidateFile(Entry):
    """A whole candidate file."""

    name: Annotated[str, SAFE_NAME] = Field(description="The baseline that it is meant for.")
    backend: Annotated[str, Choice(BACKENDS)] = Field(description="What the runs were measured through.")
    recorded: tuple[RecordedEntry, ...] = Field(min_length=1, max_length=10_000, description="What was measured.")


@dataclass(frozen=True, slots=True)
class Candidate:
    """What was recorded and nobody has accepted yet: for which baseline, and through which backend it was measured."""

    name: str
    backend: str
    recorded: tuple[Recorded, ...]


def load_candidate(path: Path) -> Candidate:
    """The candidate in a file; ConfigError holds everything that is wrong."""
    problems = Problems(shown(str(path)))
    tree = read_document(path, problems)
    if tree or not problems:
        report(CandidateFile, tree, problems)
    entries = recorded_in(tree, problems)
    problems.raise_if_any()
    return Candidate(str(tree["name"]), str(tree["backend"]), entries)


def recorded_in(tree: dict[str, Tree], problems: Problems) -> tuple[Recorded, ...]:
    """The well formed entries of the section; a key that is there twice is noted."""
    first: dict[Key, int] = {}
    found = []
    for here, entry in valid_items(RecordedEntry, tree.get("recorded"), ("recorded",)):
        recorded = entry.recorded()
        if recorded.key in first:
            problems.add(here, f"the same key as the one recorded on line {first[recorded.key]}")
        first.setdefault(recorded.key, problems.lines[here])
        found.append(recorded)
    return tuple(found)


_HEAD = "recorded:"
_NOTE = "  # What good runs measured; written by `fabric baseline accept`, which replaces this section as a whole."
_TOP_LEVEL = re.compile(r"[^\s#\-\]\}]")


def recorded_section(entries: Iterable[Recorded]) -> str:
    """The section as text, one line a key, in an order that does not depend on that of *entries*."""
    lines = sorted(_line(entry) for entry in entries)
    return "\n".join((_HEAD, _NOTE, *lines)) + "\n"


def candidate_text(candidate: Candidate) -> str:
    """A whole candidate file."""
    return (
        "# Made by `fabric baseline record`. Nothing is judged by it until a person has read it and says\n"
        "# `fabric baseline accept` with this file.\n"
        f"name: {candidate.name}\nbackend: {candidate.backend}\n{recorded_section(candidate.recorded)}"
    )


def with_recorded(text: str, entries: Iterable[Recorded]) -> str:
    """
    The text of a baseline file with its section replaced, or appended where there is none.

    The section is everything from ``recorded:`` to the last line that belongs to it; comments and blank lines that
    follow, before the next key, are that key's.
    """
    lines = text.splitlines(keepends=True)
    section = recorded_section(entries)
    start = next((number for number, line in enumerate(lines) if line.startswith(_HEAD)), None)
    if start is None:
        return f"{text.rstrip()}\n{section}"
    end = next((n for n in range(start + 1, len(lines)) if _TOP_LEVEL.match(lines[n])), len(lines))
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return "".join(lines[:start]) + section + "".join(lines[end:])


def _line(entry: Recorded) -> str:
    key = entry.key
    fields = {
        "kind": key.kind,
        "tool": key.tool,
        "link_class": key.link_class,
        "size": None if key.size_bytes is None else size_text(key.size_bytes),
        "ranks": key.ranks,
        "algorithm": key.algorithm,
        "direction": key.direction,
        "line_rate_gbps": None if key.line_rate_gbps is None else f"{key.line_rate_gbps:g}",
        "median_gbps": f"{entry.median_gbps:.6g}",
        "mad_gbps": f"{entry.mad_gbps:.4g}",
        "n": entry.n,
        "cv": f"{entry.cv:.4g}",
        "trimmed": entry.trimmed or None,
        "runs": f"[{', '.join(entry.runs)}]",
    }
    return f"  - {{{', '.join(f'{name}: {value}' for name, value in fields.items() if value is not None)}}}"
