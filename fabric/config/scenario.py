"""Decodes a scenario file with its inventory: every problem at once, or both."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
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
from fabric.config.scenario_body import Body, read_body
from fabric.config.scenario_file import AllowedGrowthEntry, JudgeEntry
from fabric.config.selection import HostsText, Selection, selected
from fabric.errors import ConfigError, Problem
from fabric.model.fields.wording import quoted, shown
from fabric.model.inventory import Inventory
from fabric.model.sampling import PFC, RETRANSMITS, SampleSettings, ZeroGrowth
from fabric.model.scenario import AUTO, LEAST_SAMPLES, JudgeSettings, Phase, ProbeSpec, Scenario
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
        _check_zero_growth(judge.zero_growth, judge.allowed_growth, body.file.sample, problems=problems)
    problems.raise_if_any((*others, *command_line.all()))
    file = body.file
    if inventory is None or file is None:  # what is wrong with them was raised above
        raise ConfigError([Problem(str(path), 0, "no inventory" if inventory is None else "not readable")])
    growth = _zero_growth(judge.zero_growth, judge.allowed_growth)
    scenario = Scenario(
        name=file.name,
        description=file.description or "",
        source=str(path),
        inventory=inventory.source,
        hosts=names,
        phases=_at_least_thrice(body.phases) if judge.samples == AUTO else body.phases,
        judge=JudgeSettings(judge.baseline, judge.marginal, judge.samples, growth),
        expect=body.expect,
        allow=file.allow,
        sample=_sample(file.sample, growth),
        identity=file.identity,
        lasts_s=None if file.for_ is None else float(file.for_),
        lines=tuple(_lines(tree.get("phases"), problems)),
    )
    return scenario, inventory


_LIMITS = {PFC: "pfc_paused", RETRANSMITS: "retransmits_per_hour"}
"""Criteria that need a limit, and its key."""


def _zero_growth(criteria: tuple[str, ...], allowed: AllowedGrowthEntry | None) -> ZeroGrowth | None:
    """The decoded keys; None where nothing is asked."""
    if not criteria:
        return None
    limits = allowed or AllowedGrowthEntry()
    return ZeroGrowth(criteria, limits.pfc_paused, limits.retransmits_per_hour)


def _check_zero_growth(
    criteria: tuple[str, ...],
    allowed: AllowedGrowthEntry | None,
    sample: SampleSettings | None,
    *,
    problems: Problems,
) -> None:
    """Note what each key alone cannot say."""
    limits = allowed or AllowedGrowthEntry()
    for position, name in enumerate(criteria):
        if name in criteria[:position]:
            problems.add(("judge", "zero_growth", position), f"{quoted(name)} is there twice")
    for name, key in _LIMITS.items():
        given = getattr(limits, key) is not None
        if name in criteria and not given:
            text = f"{quoted(name)} grows on a good fabric, too: say what is too much: 'allowed_growth: {{{key}: ...}}'"
            problems.add(("judge", "zero_growth", criteria.index(name)), text)
        if given and name not in criteria:
            problems.add(("judge", "allowed_growth", key), f"it is not judged: 'zero_growth' does not have {name}")
    if criteria and (sample is None or not sample.counters):
        text = "what ports count must be read for it: 'sample: {every: 5m}'"
        problems.add(("judge", "zero_growth"), text if sample is None else "it needs the counters of 'sample:'")


def _at_least_thrice(phases: Iterable[Phase]) -> tuple[Phase, ...]:
    """The phases with ``repeat`` of at least three, where samples may be added; one with changes stays as written."""
    return tuple(
        phase if phase.changes else replace(phase, probes=tuple(_repeated(spec) for spec in phase.probes))
        for phase in phases
    )


def _repeated(spec: ProbeSpec) -> ProbeSpec:
    if not spec.alone:
        return spec
    return spec.changed(repeat=max(LEAST_SAMPLES, spec.repeat))


def _lines(phases: Tree | None, problems: Problems) -> Iterator[tuple[str, str, int]]:
    """Where each phase has its changes, and its probes by kind, written with settings or without."""
    for position, phase in enumerate(phases if isinstance(phases, list) else []):
        if not isinstance(phase, dict):
            continue
        name, path, probes = str(phase.get("name")), ("phases", position), phase.get("probes")
        if "changes" in phase:
            yield "changes", name, problems.lines.get((*path, "changes"), 0)
        for place, probe in enumerate(probes if isinstance(probes, list) else []):
            kind = next(iter(probe), "") if isinstance(probe, dict) else str(probe)
            yield kind, name, problems.lines.get((*path, "probes", place), 0)


def _sample(settings: SampleSettings | None, growth: ZeroGrowth | None) -> SampleSettings | None:
    """Pauses are read where they are judged: asking for them costs a tool each time."""
    return settings and settings.changed(pfc=growth is not None and PFC in growth.criteria)


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
