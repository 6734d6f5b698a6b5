"""A run as its directory tells it: what was asked, planned and measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fabric.config import from_resolved
from fabric.errors import ConfigError, StoreError
from fabric.model.change import Change
from fabric.model.inventory import Inventory
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Scenario
from fabric.model.verdict import Baseline
from fabric.plan.plan import Plan, plan_scenario
from fabric.runs.events import EVENTS, History, history_of, read_events
from fabric.runs.run_document import baselines_from, read_run


@dataclass(frozen=True)
class PastRun:
    """One run: what its *document*, run.json, asks for, planned, and what its history says where that was read."""

    path: Path
    document: Mapping[str, Any]
    scenario: Scenario
    inventory: Inventory
    baselines: Mapping[str, Baseline]
    plan: Plan
    history: History = field(default_factory=History)

    @property
    def name(self) -> str:
        """Scenario and id: ``self-check/20260101-000000``."""
        return f"{self.scenario.name}/{self.document['run_id']}"

    @property
    def backend(self) -> str:
        """How its hosts were reached."""
        return str(self.document["backend"])

    @property
    def results(self) -> Mapping[str, ProbeResult]:
        """Of every probe that has one, by its id."""
        return self.history.results

    @cached_property
    def probes(self) -> tuple[Probe, ...]:
        """Those that were planned before, then those that were planned while it went on."""
        return (*self.plan.planned, *self.history.added)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was asked and could not be planned."""
        return tuple(note for phase in self.plan.phases for note in phase.notes)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Those that were planned."""
        return tuple(change for phase in self.plan.phases for change in phase.changes)

    @property
    def ended(self) -> bool:
        """False when its history stops before the run did."""
        return any(event["event"] == "run_ended" for event in self.history.others)


def read_past_run(path: Path) -> PastRun:
    """Raises ConfigError when it is no run directory, StoreError when its history is another run's."""
    path = path.parent / path.readlink() if path.is_symlink() else path
    document = read_run(path)
    scenario, inventory = from_resolved(document["asked"])
    history = history_of(read_events(path / EVENTS))
    if history.first is not None and history.first.get("run_id") != document["run_id"]:
        raise StoreError(f"{path / EVENTS}: the history of another run ({history.first.get('run_id')})")
    baselines = baselines_from(document, path / "run.json")
    return PastRun(path, document, scenario, inventory, baselines, plan_scenario(scenario, inventory), history)


def refuse_own_record(run: str, baseline: Baseline) -> None:
    """
    A run is no witness for itself: ConfigError when a baseline's recorded numbers came from the run it shall judge.

    *run* is ``scenario/run-id``.
    """
    if any(run in entry.runs for entry in baseline.recorded):
        text = f"its recorded numbers came from {run}, which it would judge: a run cannot be compared with itself"
        raise ConfigError.at(baseline.source, text)
