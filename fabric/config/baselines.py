"""Decodes baseline files: what is normal for a platform, each number with its source."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import Field

from fabric.config.document import read_document
from fabric.config.entries import report, valid_items
from fabric.config.problems import Problems
from fabric.config.recorded import LINK_CLASSES, RecordedEntry, recorded_in
from fabric.errors import ConfigError, Problem
from fabric.model.fields.entry import Entry
from fabric.model.fields.quantities import Size
from fabric.model.fields.scalars import SAFE_NAME, Choice, Decimal, Flag, Line, Whole
from fabric.model.fields.wording import nearest, quoted, shown
from fabric.model.verdict import Baseline, Limit
from fabric.probes.keys import ALGORITHMS
from fabric.probes.kinds import ASKED


class LimitEntry(Entry):
    """The least that is acceptable for a key; a part that is left out matches anything."""

    kind: Annotated[str, Choice(tuple(ASKED))] = Field(description="The probe kind.")
    link_class: Annotated[str, Choice(LINK_CLASSES)] | None = Field(
        None, description="The PCIe distance, for loopback."
    )
    size_bytes: Annotated[int, Size(1, 1 << 40)] | None = Field(
        None, validation_alias="size", description="The message size."
    )
    min_size_bytes: Annotated[int, Size(1, 1 << 40)] | None = Field(
        None, validation_alias="min_size", description="The limit says nothing of smaller messages."
    )
    ranks: Annotated[int, Whole(1, 1_000_000)] | None = Field(None, description="How many ranks take part.")
    algorithm: Annotated[str, Choice(ALGORITHMS)] | None = Field(None, description="NCCL_ALGO.")
    at_least_gbps: Annotated[float, Decimal(0.001, 1_000_000)] = Field(description="The limit, in decimal Gb/s.")
    per_rnic: Annotated[bool, Flag()] = Field(
        False, description="Whether the limit is for one RNIC, to be multiplied by how many the host has."
    )
    source: Annotated[str, Line("a source", most=1000)] = Field(description="Where the number comes from.")


class BaselineFile(Entry):
    """A whole baseline file."""

    name: Annotated[str, SAFE_NAME] = Field(description="The file's name without .yaml.")
    limits: tuple[LimitEntry, ...] = Field(min_length=1, max_length=10_000, description="What is acceptable.")
    recorded: tuple[RecordedEntry, ...] = Field(
        (), min_length=1, max_length=10_000, description="What good runs measured; `fabric baseline accept` writes it."
    )


def load_baseline(path: Path) -> Baseline:
    """The baseline in a file. ConfigError holds everything that is wrong."""
    problems = Problems(shown(str(path)))
    if not path.suffix and len(path.parts) == 1 and not path.exists():
        problems.at_line(0, f"no such file; a file is expected here, not a name: inventory/baselines/{path}.yaml")
        problems.raise_if_any()
    tree = read_document(path, problems)
    if tree or not problems:
        report(BaselineFile, tree, problems)
    first: dict[tuple[object, ...], int] = {}
    limits = []
    for here, entry in valid_items(LimitEntry, tree.get("limits"), ("limits",)):
        key = (entry.kind, entry.link_class, entry.size_bytes, entry.ranks, entry.algorithm)
        if key in first:
            problems.add(here, f"the same key as the limit on line {first[key]}")
        first.setdefault(key, problems.lines[here])
        limits.append(Limit(**entry.model_dump(exclude_none=True)))
    name = tree.get("name")
    if isinstance(name, str) and name != path.stem:
        problems.add(("name",), f"expected {quoted(path.stem)}, as the file is called, got {quoted(name)}")
    recorded = recorded_in(tree, problems)
    problems.raise_if_any()
    return Baseline(path.stem, str(path), tuple(limits), recorded)


def load_baselines(names: Iterable[str], inventory: Path) -> dict[str, Baseline]:
    """The baselines of these names beside the inventory file. ConfigError holds what is wrong with any of them."""
    found: dict[str, Baseline] = {}
    problems: list[Problem] = []
    for name in sorted(set(names)):
        try:
            found[name] = load_baseline(baseline_path(name, inventory))
        except ConfigError as exc:
            problems.extend(exc.problems)
    if problems:
        raise ConfigError(problems)
    return found


def baseline_path(name: str, inventory: Path) -> Path:
    """Where the baseline of that name lies: ``baselines/`` beside the inventory file."""
    return inventory.parent / "baselines" / f"{name}.yaml"


def baseline_problem(name: str, inventory: Path) -> str | None:
    """Why there is no such baseline, or None when its file is there."""
    path = baseline_path(name, inventory)
    if path.is_file():
        return None
    known = sorted(other.stem for other in path.parent.glob("*.yaml"))
    file = quoted(f"baselines/{name}.yaml")
    return f"no baseline {quoted(name)}: there is no {file} beside the inventory{nearest(name, known)}"
