"""A resolved scenario and inventory come back from JSON as they were."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric import config
from fabric.errors import ConfigError
from fabric.model.inventory import Inventory
from fabric.model.sampling import ZeroGrowth
from fabric.model.scenario import Scenario
from tests.places import INVENTORY, SCENARIOS, SHIPPED_SCENARIOS

Resolved = tuple[Scenario, Inventory]


def again(resolved: Resolved) -> Resolved:
    """Through JSON text and back."""
    return config.from_resolved(json.loads(json.dumps(config.resolved_document(*resolved))))


def test_a_round_trip_loses_nothing(folder: Path, inventory_text: str) -> None:
    """Every part is equal and in the same order, with faults, jump hosts and explicit settings."""
    text = inventory_text.replace("  port: 22", "  port: 2222\n  jump: [{address: b.example.net, user: ops}]")
    (folder / "inventory.yaml").write_text(text)
    resolved = config.load_scenario(folder / "scenario.yaml", faults=("gpu1/mlx5_0->numa1:slow=0.25",))
    scenario, inventory = again(resolved)
    assert (scenario, inventory) == resolved
    assert list(inventory.topology.hosts) == list(resolved[1].topology.hosts)
    assert list(inventory.topology.switches) == list(resolved[1].topology.switches)
    first, *others = {id(host.platform) for host in inventory.topology.hosts.values()}
    assert others == []
    assert first


@pytest.mark.parametrize(
    ("row", "growth"),
    [
        (None, None),
        (
            {"criteria": ["pfc"], "pfc_paused": 0.05, "retransmits_per_hour": None},
            ZeroGrowth(("pfc",), pfc_paused=0.05),
        ),
    ],
)
def test_what_ports_may_not_count_is_read_from_older_runs(folder: Path, row: Any, growth: ZeroGrowth | None) -> None:
    """They keep the criteria and how much is too much in one."""
    document = json.loads(json.dumps(config.resolved_document(*config.load_scenario(folder / "scenario.yaml"))))
    document["scenario"]["judge"] = {"baseline": None, "marginal": 0.005, "zero_growth": row}
    assert config.from_resolved(document)[0].judge.growth == growth


@pytest.mark.parametrize("path", SHIPPED_SCENARIOS, ids=lambda path: path.stem)
def test_what_we_ship_comes_back(path: Path) -> None:
    """Changes, matrix values, rounds and expectations among it."""
    resolved = config.load_scenario(path)
    assert again(resolved) == resolved


def test_a_run_from_before_changes_can_still_be_judged(folder: Path) -> None:
    """What it does not say has the value that it had."""
    resolved = config.load_scenario(folder / "scenario.yaml")
    document = json.loads(json.dumps(config.resolved_document(*resolved)))
    for phase in document["scenario"]["phases"]:
        for key in ("changes", "env", "label", "where", "round"):
            del phase[key]
    del document["scenario"]["expect"], document["scenario"]["allow"], document["inventory"]["changes"]
    for key in ("shield", "sm_reroute_s", "ufm_isolates"):
        del document["inventory"]["mock"][key]
    assert config.from_resolved(document) == resolved


def test_a_hall_is_kept_compactly() -> None:
    """2,048 hosts take less than 100 bytes each, and their layout is written once."""
    resolved = config.load_scenario(SCENARIOS / "self-check.yaml", inventory_path=INVENTORY / "hall-2048.yaml")
    document = config.resolved_document(*resolved)
    assert len(document["inventory"]["platforms"]) == 1
    assert len(json.dumps(document)) < 2048 * 100
    assert again(resolved) == resolved


def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The way to every value of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner for key, each in items for inner in paths(each, (*path, key)))]


def document_of(name: str) -> dict[str, Any]:
    """What run.json keeps of a scenario that we ship."""
    resolved = config.load_scenario(SCENARIOS / f"{name}.yaml")
    return dict(json.loads(json.dumps(config.resolved_document(*resolved))))


DOCUMENT, CHANGING = document_of("self-check"), document_of("ar-under-ber")
PATHS = [(document, path) for document in (DOCUMENT, CHANGING) for path in paths(document)[1:]]


@given(st.sampled_from(PATHS), st.sampled_from([None, -1, 10**9, "x", [], {}, True, 0.5]))
def test_a_damaged_document_is_refused_or_read(place: tuple[dict[str, Any], tuple[str | int, ...]], value: Any) -> None:
    """A run.json that was tampered with never ends in anything but ConfigError."""
    document, path = json.loads(json.dumps(place[0])), place[1]
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with suppress(ConfigError):
        scenario, inventory = config.from_resolved(document)
        assert (type(scenario), type(inventory)) == (Scenario, Inventory)


@pytest.mark.parametrize("document", [{}, {"format": 1}, {**DOCUMENT, "format": 2}])
def test_another_document_is_refused(document: dict[str, Any]) -> None:
    """What is no resolved run, or one of another format, is a ConfigError."""
    with pytest.raises(ConfigError, match=r"run\.json"):
        config.from_resolved(document)
