"""Decodes a scenario file with its inventory: every problem at once, or both."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from pydantic_core import PydanticCustomError

from fabric.config.baselines import baseline_problem
from fabric.config.changes import Fabric
from fabric.config.document import Tree, read_document
from fabric.config.entries import valid
from fabric.config.inventory import load_inventory
from fabric.config.links import Links
from fabric.config.problems import Problems
from fabric.config.repetition import at_least_thrice
from fabric.config.sample_file import SampleEntry
from fabric.config.scenario_body import Body, read_body
from fabric.config.scenario_file import JudgeEntry
from fabric.config.selection import HostsText, Selection, selected
from fabric.config.zero_growth_file import check_zero_growth, zero_growth_of
from fabric.errors import ConfigError, Problem
from fabric.model.fields.wording import shown
from fabric.model.inventory import Inventory
from fabric.model.repetition import AUTO
from fabric.model.sampling import SampleSettings
from fabric.model.scenario import JudgeSettings, Scenario
from fabric.model.zero_growth import PFC, ZeroGrowth
from fabric.probes.kinds import UNUSABLE


def load_scenario(
    path: Path, *, inventory_path: Path | None = None, hosts: str | None = None, faults: tuple[str, ...] = ()
) -> tuple[Scenario, Inventory]:
    """
    The scenario in a file, and the inventory it runs on.

    *inventory_path* and *hosts* are ``--inventory`` and ``--hosts`` and override the file's own; *faults* are
    ``--fault`` texts. ConfigError holds everything that is wrong, with both files.
    """
    if UNUSABLE:
        raise ConfigError(UNUSABLE)
    problems, command_line = Problems(shown(str(path))), Problems("--hosts")
    tree = read_document(path, problems)
    where = inventory_path or _inventory_path(tree, path, problems)
    inventory, others = _inventory(where, faults)
    wanted = _hosts_option(hosts, command_line) if hosts is not None else _hosts_key(tree)
    names: tuple[str, ...] = ()
    if inventory and wanted:
        say = (
            (lambda text: command_line.at_line(0, text))
            if hosts is not None
            else lambda text: problems.add(("hosts",), text)
        )
        names = selected(wanted, inventory.topology, say, source=inventory.source)
    fabric = Fabric(inventory, Links(inventory.topology, names)) if inventory and names else None
    body = read_body(tree, fabric, problems) if tree or not problems else Body(None)
    judge = valid(JudgeEntry, tree.get("judge", {})) or JudgeEntry()
    missing = baseline_problem(judge.baseline, where) if judge.baseline and where else None
    if missing:
        problems.add(("judge", "baseline"), missing)
    if body.file is not None:
        check_zero_growth(judge.zero_growth, judge.allowed_growth, body.file.sample, problems=problems)
    problems.raise_if_any((*others, *command_line.all()))
    file = body.file
    if inventory is None or file is None:  # what is wrong with them was raised above
        raise ConfigError([Problem(str(path), 0, "no inventory" if inventory is None else "not readable")])
    growth = zero_growth_of(judge.zero_growth, judge.allowed_growth)
    scenario = Scenario(
        name=file.name,
        description=file.description or "",
        source=str(path),
        inventory=inventory.source,
        hosts=names,
        phases=at_least_thrice(body.phases) if judge.samples == AUTO else body.phases,
        judge=JudgeSettings(judge.baseline, judge.marginal, judge.samples, growth),
        expect=body.expect,
        allow=file.allow,
        sample=_sample(file.sample, growth),
        identity=file.identity,
        lasts_s=None if file.for_ is None else float(file.for_),
    )
    return scenario, inventory


def _sample(entry: SampleEntry | None, growth: ZeroGrowth | None) -> SampleSettings | None:
    """Pauses are read where they are judged: asking for them costs a tool each time."""
    if entry is None:
        return None
    return replace(entry.settings(), pfc=growth is not None and PFC in growth.criteria)


def _inventory_path(tree: dict[str, Tree], path: Path, problems: Problems) -> Path | None:
    """The scenario's own inventory, relative to the scenario's folder."""
    written = tree.get("inventory")
    if not tree or (isinstance(written, str) and not written.isprintable()):
        return None
    if written is None:
        problems.add((), "'inventory' is required here, or --inventory")
    if not isinstance(written, str) or not written:
        return None
    joined = path.parent / written
    short = Path(os.path.normpath(joined))
    try:
        # a/../b is b only where a is no symbolic link
        return short if short.exists() and short.samefile(joined) else joined
    except OSError:
        return joined


def _inventory(where: Path | None, faults: tuple[str, ...]) -> tuple[Inventory | None, tuple[Problem, ...]]:
    """The inventory, or what is wrong with it."""
    if where is None:
        return None, ()
    try:
        return load_inventory(where, extra_faults=faults), ()
    except ConfigError as exc:
        return None, exc.problems


def _hosts_option(text: str, problems: Problems) -> Selection | None:
    """What ``--hosts`` selects."""
    try:
        return HostsText().parse(text)
    except PydanticCustomError as exc:
        problems.at_line(0, exc.message())
        return None


def _hosts_key(tree: dict[str, Tree]) -> Selection | None:
    """What the file's ``hosts`` selects; None when it is wrong."""
    try:
        return HostsText().parse(tree.get("hosts", "all"))
    except PydanticCustomError:
        return None
