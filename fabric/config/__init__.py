"""Inventory, scenario and baseline files: YAML to the model, strictly, every problem at once with its line."""

from fabric.config.baselines import (
    Candidate,
    baseline_notes,
    baseline_path,
    candidate_text,
    load_baseline,
    load_baselines,
    load_candidate,
    with_recorded,
)
from fabric.config.inventory import load_inventory
from fabric.config.resolved import from_resolved, resolved_document, resolved_inventory
from fabric.config.scenario import load_scenario
from fabric.config.schema import inventory_schema, scenario_schema

__all__ = [
    "Candidate",
    "baseline_notes",
    "baseline_path",
    "candidate_text",
    "from_resolved",
    "inventory_schema",
    "load_baseline",
    "load_baselines",
    "load_candidate",
    "load_inventory",
    "load_scenario",
    "resolved_document",
    "resolved_inventory",
    "scenario_schema",
    "with_recorded",
]
