"""From a command line to a plan: read and check every file, and collect what to tell the user before a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fabric.changes.rails import blast_problems
from fabric.config import selection
from fabric.config.baselines import baseline_notes, load_baselines
from fabric.config.problems import Problems
from fabric.config.scenario import load_scenario
from fabric.errors import ConfigError, Problem
from fabric.judge.course.follow_up import dips_lines
from fabric.judge.course.rows import too_few_rounds
from fabric.model.inventory import Inventory
from fabric.model.scenario import Scenario
from fabric.model.verdict import Baseline
from fabric.plan import PhasePlan, Plan, hold_problems, plan_scenario
from fabric.plan.as_run import longer_than_asked, rounds_alike, staged, timed, without_drills
from fabric.probes.again import AgainSpec


@dataclass(frozen=True, slots=True)
class Given:
    """
    What a command line says: a scenario file, and what overrides it.

    *lasts_s*: the duration of a run whose phases have a share of the whole, instead of the file's own ``for``. *yes*:
    the command line said that the fabric may be altered, so nobody was asked.
    """

    scenario: Path
    inventory: Path | None = None
    hosts: str | None = None
    faults: tuple[str, ...] = ()
    lasts_s: float | None = None
    yes: bool = False

    @property
    def document(self) -> dict[str, Any]:
        """Return it as run.json keeps it, with the folder that its paths are relative to."""
        texts = {"scenario": str(self.scenario), "inventory": self.inventory and str(self.inventory)}
        found = {"folder": str(Path.cwd()), **asdict(self), **texts}
        return found if self.yes else {name: value for name, value in found.items() if name != "yes"}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Given:
        """Rebuild it from a document, with paths that are right from any folder."""
        folder, inventory = Path(document["folder"]), document["inventory"]
        return cls(
            folder / document["scenario"],
            inventory and folder / inventory,
            document["hosts"],
            tuple(document["faults"]),
            document.get("lasts_s"),
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """A scenario with everything that the command line overrides, decoded and planned."""

    scenario: Scenario
    inventory: Inventory
    baselines: Mapping[str, Baseline]
    plan: Plan
    notes: tuple[str, ...]  # where the baselines' limits do not fit the scenario, and other remarks
    given: Given
    warnings: tuple[str, ...] = ()  # the notes that are also shown before a run


def prepare(given: Given, *, outline: bool = False) -> Asked:
    """
    Read and check every file, then plan; raises ConfigError with all problems before anything else happens.

    *outline*: the plan is for its numbers alone, not to be run.
    """
    scenario, inventory = load_scenario(
        given.scenario, inventory_path=given.inventory, hosts=given.hosts, faults=given.faults
    )
    override = scenario.judge.baseline
    used = {inventory.topology.hosts[host].platform.baseline for host in scenario.hosts}
    baselines = load_baselines(sorted({override} if override else used), Path(inventory.source))
    notes = baseline_notes(scenario, inventory, baselines)
    known: dict[str, PhasePlan] = {}
    scenario, drills = without_drills(scenario)
    scenario, covered = staged(scenario, inventory)
    scenario, rounds = timed(scenario, inventory, lasts_s=given.lasts_s, known=known)
    alike = rounds_alike(scenario.hosts, inventory.topology) if outline else (lambda phase: phase.name)
    plan = plan_scenario(scenario, inventory, known=known, alike=alike)
    longer = longer_than_asked(plan, scenario.lasts_s if given.lasts_s is None else given.lasts_s)
    if too_much := _too_much(given.scenario, scenario, plan, inventory):
        raise ConfigError(too_much)
    warnings = () if longer is None else (longer,)
    notes = (*notes, *drills, *covered, *rounds, *too_few_rounds(scenario.phases), *dips_lines(plan), *warnings)
    return Asked(scenario, inventory, baselines, plan, notes, given, warnings)


def require_run(asked: Asked) -> Asked:
    """
    Refuse to run a scenario that would not measure what was meant.

    Raises ConfigError if its probe ``again`` has no evidence (without it, the other phases would take hours for
    nothing), with the line of each such probe and the option that fills it.
    """
    specs = (spec for phase in asked.scenario.phases for spec in phase.probes)
    if not any(isinstance(spec, AgainSpec) and spec.because is None for spec in specs):
        return asked
    text = "'again' measures again what failed in an earlier run: say in which, --because RUN"
    lines = [line for key, _, line in asked.scenario.lines if key == AgainSpec.kind] or [0]
    raise ConfigError([Problem(asked.scenario.source, line, text) for line in lines])


def backend_of(inventory: Inventory, backend: str | None, faults: Sequence[str]) -> str:
    """Return the backend: of the command line, else of the inventory; raise ConfigError for faults of real hosts."""
    name = backend or inventory.backend
    if faults and name != "mock":
        raise ConfigError.at("--fault", f"faults are for the mock backend, not for {name}")
    return name


def refuse_unguarded(scenario: Scenario, backend: str) -> None:
    """
    Refuse changes of the fabric where the guards that undo them would not outlive the run.

    When a Slurm step ends, Slurm ends everything that the step started on a host, even what left its session
    (proctrack/cgroup). Raises ConfigError with the line of each phase that has changes.
    """
    text = "backend slurm makes no changes: Slurm ends with the step the guards that undo them; --backend ssh can"
    changing = {phase.written for phase in scenario.phases if phase.changes}
    if backend == "slurm" and changing:
        lines = _lines_of_changes(scenario)
        raise ConfigError(Problem(scenario.source, lines.get(phase, 0), text) for phase in changing)


def hosts_named(text: str, inventory: Inventory) -> tuple[str, ...]:
    """Return the hosts that ``--hosts`` selects; raise ConfigError with everything that is wrong with it."""
    problems = Problems("--hosts")
    names = selection.hosts_named(text, inventory, partial(problems.at_line, 0))
    problems.raise_if_any()
    return names


def _too_much(path: Path, scenario: Scenario, plan: Plan, inventory: Inventory) -> list[Problem]:
    """Return what the guard rails refuse in each phase, with the line that asks for it."""
    settings, lines = inventory.changes, _lines_of_changes(scenario)
    found: list[Problem] = []
    for one in plan.phases:
        texts = [*blast_problems(one.changes, inventory.topology, settings, scenario.allow)]
        texts += hold_problems(one, settings.lease)
        found += [Problem(str(path), lines.get(one.phase.written, 0), text) for text in texts]
    return found


def _lines_of_changes(scenario: Scenario) -> dict[str, int]:
    """Return the line of ``changes:`` for each phase that has them, by its written name."""
    return {phase: line for key, phase, line in scenario.lines if key == "changes"}
