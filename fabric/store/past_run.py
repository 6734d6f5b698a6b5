"""A run as its directory tells it: what was asked, planned and measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fabric.config import from_resolved
from fabric.errors import ConfigError, Problem, StoreError
from fabric.model.change import Change
from fabric.model.inventory import Inventory
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Scenario
from fabric.model.verdict import Baseline
from fabric.plan.plan import plan_scenario
from fabric.store.events import read_events
from fabric.store.results import from_events, replanned
from fabric.store.run_document import baselines_from, read_run

EVENTS = "events.jsonl"


@dataclass(frozen=True, slots=True)
class PastRun:
    """
    One run, read back.

    *name* is ``scenario/run-id``. *notes* say what was asked and could not be planned; *changes* are those that were
    planned. *ended* is False when its history stops before the run did.
    """

    name: str
    path: Path
    backend: str
    scenario: Scenario
    inventory: Inventory
    baselines: Mapping[str, Baseline]
    probes: tuple[Probe, ...]
    notes: tuple[str, ...]
    changes: tuple[Change, ...]
    results: Mapping[str, ProbeResult]
    ended: bool


def read_past_run(path: Path) -> PastRun:
    """Raises ConfigError when it is no run directory, StoreError when its history is another run's."""
    path = path.parent / path.readlink() if path.is_symlink() else path
    document = read_run(path)
    scenario, inventory = from_resolved(document["asked"])
    plan = plan_scenario(scenario, inventory)
    events = list(read_events(path / EVENTS))
    if events and events[0].get("run_id") != document["run_id"]:
        raise StoreError(f"{path / EVENTS}: the history of another run ({events[0].get('run_id')})")
    return PastRun(
        name=f"{scenario.name}/{document['run_id']}",
        path=path,
        backend=document["backend"],
        scenario=scenario,
        inventory=inventory,
        baselines=baselines_from(document, path / "run.json"),
        probes=(
            *(slot.probe for phase in plan.phases for component in phase.schedule.components for slot in component),
            *replanned(events),
        ),
        notes=tuple(note for phase in plan.phases for note in phase.notes),
        changes=tuple(change for phase in plan.phases for change in phase.changes),
        results=from_events(events),
        ended=any(event["event"] == "run_ended" for event in events),
    )


def refuse_own_record(run: str, baseline: Baseline) -> None:
    """
    A run is no witness for itself: ConfigError when a baseline's recorded numbers came from the run it shall judge.

    *run* is ``scenario/run-id``.
    """
    if any(run in entry.runs for entry in baseline.recorded):
        text = f"its recorded numbers came from {run}, which it would judge: a run cannot be compared with itself"
        raise ConfigError([Problem(baseline.source, 0, text)])
