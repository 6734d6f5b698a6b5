"""Decode a scenario file with its inventory, and report every problem at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from fabric.changes.kind import Context
from fabric.config.baselines import baseline_problem
from fabric.config.document import Tree, read_document
from fabric.config.expect import Expected, ExpectEntry
from fabric.config.inventory import load_inventory
from fabric.config.links import Links
from fabric.config.phases import (
    Matrix,
    MatrixValues,
    check_all_used,
    check_names,
    expanded,
    read_matrix,
    read_phases,
    rounds,
    written_names,
)
from fabric.config.problems import Problems, duplicates, report, section
from fabric.config.selection import HostsText, Selection, hosts_named
from fabric.errors import ConfigError, Problem
from fabric.model.fields.entry import key
from fabric.model.fields.scalars import Choice, Line, Whole
from fabric.model.fields.wording import quoted, shown
from fabric.model.inventory import Inventory
from fabric.model.sampling import PFC, RETRANSMITS, SampleSettings, ZeroGrowth
from fabric.model.scenario import (
    PHASES_MOST,
    Expectation,
    JudgeSettings,
    Name,
    Phase,
    Scenario,
    ScenarioSettings,
    Where,
)


@dataclass(frozen=True, kw_only=True)
class ScenarioFile(ScenarioSettings):
    """A whole scenario file."""

    description: Annotated[str, Line("a description", most=2000)] | None = None
    """One line for people."""
    inventory: Annotated[str, Line("a path", most=4096)] | None = None
    """The inventory file, relative to this one; --inventory overrides it."""
    hosts: Annotated[Selection, HostsText()] = key(default_factory=lambda: Selection("all"))
    """Where it runs: all, gpu[001-016], a list, {rack: r1} or {tor: leaf3}; --hosts overrides it."""
    matrix: dict[Name, MatrixValues] = key(default_factory=dict, min_length=1, max_length=6)
    """Values by name: the phases run once per combination, $name stands for the value."""
    rounds: Annotated[int, Whole(1, 100)] = 1
    """How often all combinations are run."""
    order: Annotated[str, Choice(("as_written", "abba"))] = "as_written"
    """abba: every second round runs the combinations backwards, so that drift cancels out."""
    phases: tuple[Phase, ...] = key(min_length=1, max_length=64)
    """Its parts, in order."""
    expect: tuple[ExpectEntry, ...] = key((), max_length=100)
    """What shall come out, phase against phase."""


READ_MOST = 500_000  # the most values of the file times combinations: some ten seconds


_Body = tuple[ScenarioFile | None, tuple[Phase, ...], tuple[Expectation, ...]]
"""The file's own keys (None if they are wrong), its phases in running order, and its expectations."""


def load_scenario(
    path: Path, *, inventory_path: Path | None = None, hosts: str | None = None, faults: tuple[str, ...] = ()
) -> tuple[Scenario, Inventory]:
    """
    Return the scenario in a file, and the inventory it runs on.

    *inventory_path* and *hosts* are ``--inventory`` and ``--hosts`` and override the file's own; *faults* are
    ``--fault`` texts. Raises ConfigError with everything that is wrong in both files.
    """
    problems, command_line = Problems(shown(str(path))), Problems("--hosts")
    tree = read_document(path, problems, "a scenario")
    where = inventory_path or _inventory_path(tree, path, problems)
    inventory, others = _inventory(where, faults)
    names = _hosts(hosts, tree, inventory, problems, command_line)
    links = Links(Context(inventory.topology, inventory.changes, hosts=names)) if inventory and names else None
    file, phases, expect = _read_body(tree, links, problems) if tree or not problems else (None, (), ())
    judge = section(JudgeSettings, tree, "judge")
    missing = baseline_problem(judge.baseline, where) if judge.baseline and where else None
    if missing:
        problems.add(("judge", "baseline"), missing)
    if file is not None:
        _check_zero_growth(judge, file.sample, problems)
    problems.raise_if_any((*others, *command_line.all()))
    assert inventory is not None  # otherwise its problems were raised above
    assert file is not None  # likewise
    # Pauses are read only if they are judged: each reading starts a tool.
    sample = None if file.sample is None else file.sample.changed(pfc=PFC in judge.zero_growth)
    scenario = Scenario(
        description=file.description or "",
        source=str(path),
        inventory=inventory.source,
        hosts=names,
        phases=phases,
        expect=expect,
        lines=tuple(_lines(tree.get("phases"), problems)),
        **file.fields_of(ScenarioSettings) | {"sample": sample},
    )
    return scenario, inventory


_LIMITS = {PFC: "pfc_paused", RETRANSMITS: "retransmits_per_hour"}
"""Criteria that need a limit, and the key of the limit."""


def _check_zero_growth(judge: JudgeSettings, sample: SampleSettings | None, problems: Problems) -> None:
    """Note problems between keys that are each right alone."""
    criteria, limits = judge.zero_growth, judge.allowed_growth or ZeroGrowth()
    for position, name in duplicates(criteria):
        problems.add(("judge", "zero_growth", position), f"{quoted(name)} is there twice")
    for name, bound in _LIMITS.items():
        given = getattr(limits, bound) is not None
        if name in criteria and not given:
            text = f"{quoted(name)} grows on a good fabric, too: say what is too much: "
            problems.add(("judge", "zero_growth", criteria.index(name)), f"{text}'allowed_growth: {{{bound}: ...}}'")
        if given and name not in criteria:
            problems.add(("judge", "allowed_growth", bound), f"it is not judged: 'zero_growth' does not have {name}")
    if criteria and (sample is None or not sample.counters):
        text = "what ports count must be read for it: 'sample: {every: 5m}'"
        problems.add(("judge", "zero_growth"), text if sample is None else "it needs the counters of 'sample:'")


def _lines(phases: Tree | None, problems: Problems) -> Iterator[tuple[str, str, int]]:
    """Yield the line of each phase's changes, and of its probes by kind, with or without settings."""
    for position, phase in enumerate(phases if isinstance(phases, list) else []):
        if not isinstance(phase, dict):
            continue
        name, path, probes = str(phase.get("name")), ("phases", position), phase.get("probes")
        if "changes" in phase:
            yield "changes", name, problems.lines.get((*path, "changes"), 0)
        for place, probe in enumerate(probes if isinstance(probes, list) else []):
            kind = next(iter(probe), "") if isinstance(probe, dict) else str(probe)
            yield kind, name, problems.lines.get((*path, "probes", place), 0)


def _inventory_path(tree: dict[str, Tree], path: Path, problems: Problems) -> Path | None:
    """Return the scenario's own inventory, relative to the scenario's folder."""
    written = tree.get("inventory")
    if tree and written is None:
        problems.add((), "'inventory' is required here, or --inventory")
    if not isinstance(written, str) or not written or not written.isprintable():
        return None
    joined = path.parent / written
    short = Path(os.path.normpath(joined))
    try:
        # a/../b is b only if a is not a symbolic link
        return short if short.exists() and short.samefile(joined) else joined
    except OSError:
        return joined


def _inventory(where: Path | None, faults: tuple[str, ...]) -> tuple[Inventory | None, tuple[Problem, ...]]:
    """Return the inventory, or its problems."""
    if where is None:
        return None, ()
    try:
        return load_inventory(where, extra_faults=faults), ()
    except ConfigError as exc:
        return None, exc.problems


def _hosts(
    text: str | None, tree: dict[str, Tree], inventory: Inventory | None, problems: Problems, command_line: Problems
) -> tuple[str, ...]:
    """Return the hosts selected by ``--hosts``, or else by the file's own key; none if the text is wrong."""
    if text is not None:
        return hosts_named(text, inventory, partial(command_line.at_line, 0))
    return hosts_named(tree.get("hosts", "all"), inventory, partial(problems.add, ("hosts",)))  # each problem once


def _read_body(tree: Mapping[str, Tree], links: Links | None, problems: Problems) -> _Body:
    """Read everything in a scenario file that is not about the inventory itself; note each problem once."""
    matrix = read_matrix(tree, problems)
    raw = tree.get("phases")
    found: dict[Where, tuple[Phase, ...]] = {}
    file: ScenarioFile | None = None
    for where in _bounded(matrix.combinations, problems):
        filled = None if raw is None else matrix.filled(raw, where, ("phases",), problems)
        whole = tree if filled is None else {**tree, "phases": filled}
        read = report(ScenarioFile, whole, problems)
        if not found:
            file = read
            check_names(filled, problems)
        found[where] = read_phases(filled, where, links, problems)
    if raw is not None:
        check_all_used(matrix, problems)
    phases = [phase for each in found.values() for phase in each]
    count = None if file is None else file.rounds
    expect = Expected(written_names(raw), phases, matrix, count, problems).all(tree.get("expect"))
    if file is None:
        return None, (), ()
    _check_rounds(file, matrix, problems)
    return file, _in_order(file, found, problems), expect


def _bounded(combinations: tuple[Where, ...], problems: Problems) -> tuple[Where, ...]:
    """Return the combinations, or only the first if reading the file for all would take minutes."""
    count = len(problems.lines)
    if count * len(combinations) <= READ_MOST:
        return combinations
    problems.add(("matrix",), f"{len(combinations)} combinations of a file of {count} values are too many to read")
    return combinations[:1]


def _check_rounds(file: ScenarioFile, matrix: Matrix, problems: Problems) -> None:
    """Note problems between keys that are each right alone."""
    if file.order == "abba" and (file.rounds == 1 or len(matrix.combinations) == 1):
        text = "order abba turns every second round around: it needs a matrix and 'rounds' of two or more"
        problems.add(("order",), text)
    for position, rail in duplicates(file.allow):
        problems.add(("allow", position), f"{quoted(rail)} is there twice")


def _in_order(file: ScenarioFile, found: Mapping[Where, tuple[Phase, ...]], problems: Problems) -> tuple[Phase, ...]:
    """Return the phases in running order; without matrix and rounds, as they are written."""
    if len(file.phases) * len(found) * file.rounds > PHASES_MOST:
        count = f"{len(file.phases)} x {len(found)} x {file.rounds}"
        text = f"expected at most {PHASES_MOST} phases in all, got {count} (phases x combinations x rounds)"
        problems.add(("rounds",) if file.rounds > 1 else ("matrix",), text)
        return ()
    if file.rounds == 1 and tuple(found) == ((),):
        return found[()]
    runs = rounds(tuple(found), file.rounds, file.order)
    return expanded(((number, found[where]) for number, where in runs), problems)
