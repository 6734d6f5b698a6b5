"""The JSON Schemas accept what the decoder accepts, refuse what it refuses, and describe every key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from fabric import config

ROOT = Path(__file__).parents[2]
INVENTORIES = sorted((ROOT / "inventory").glob("*.yaml"))
SCENARIOS = [ROOT / "scenarios" / "self-check.yaml"]  # later scenarios add keys of their own


def accepts(schema: dict[str, Any], text: str) -> bool:
    """Whether an editor that reads YAML as it does would find the text good."""
    return bool(jsonschema.Draft202012Validator(schema).is_valid(yaml.safe_load(text)))


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key of every mapping in a schema."""
    for name, part in {"": schema, **schema["$defs"]}.items():
        for key, value in part.get("properties", {}).items():
            yield f"{name}.{key}", value


@pytest.mark.parametrize("schema", [config.inventory_schema(), config.scenario_schema()], ids=["inventory", "scenario"])
def test_schemas_are_valid_and_describe_every_key(schema: dict[str, Any]) -> None:
    """An editor can show what each key means, and no mapping takes unknown keys."""
    jsonschema.Draft202012Validator.check_schema(schema)
    assert [key for key, value in properties(schema) if not value.get("description")] == []
    mappings = [schema, *schema["$defs"].values()]
    assert all(part["additionalProperties"] is False for part in mappings)
    for _, value in properties(schema):
        if "default" in value:
            jsonschema.Draft202012Validator({"$defs": schema["$defs"], **value}).validate(value["default"])


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.name)
def test_shipped_inventories_fit(path: Path) -> None:
    """What we ship is good in an editor too."""
    jsonschema.Draft202012Validator(config.inventory_schema()).validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.name)
def test_shipped_scenarios_fit(path: Path) -> None:
    """What we ship is good in an editor too."""
    jsonschema.Draft202012Validator(config.scenario_schema()).validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("backend: mock", "backend: mok"),
        ("  port: 22", "  prot: 22"),
        ("  port: 22", "  port: 65536"),
        ("  port: 22", "  port: '022'"),
        ("agent: true", "agent: maybe"),
        ("connect_timeout: 15s", "connect_timeout: 15"),
        ("device: mlx5_1", "device: eth0"),
        ("platform: duo", "platform: ../duo"),
        ("rail: 1, ", ""),
        ('rack: "r{rack}"', 'rack: "r{rak}"'),
        ("kind: hanging", "kind: sleepy"),
        ("  user: root", "  user: null"),
    ],
)
def test_bad_inventories_do_not_fit(inventory_text: str, old: str, new: str) -> None:
    """An editor marks the commonest mistakes."""
    assert accepts(config.inventory_schema(), inventory_text)
    assert not accepts(config.inventory_schema(), inventory_text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "good"),
    [
        ("size: 8M", "size: 8388608", True),
        ("size: 8M", 'size: "8388608"', True),
        ("- rnic_to_rnic", "- rnic_to_rnic: {}", True),
        ("hosts: all", "hosts: [gpu1, 'gpu[2-3]']", True),
        ("hosts: all", "hosts: {rack: r1}", True),
        ("size: 8M", "size: 8MB", False),
        ("duration: 5s", "duration: 5", False),
        ("- rnic_to_rnic", "- rnic_to_nic", False),
        ("- rnic_to_rnic", "- {rnic_to_rnic: {}, loopback: {}}", False),
        ("hosts: all", "hosts: {rack: r1, tor: leaf1}", False),
        ("hosts: all", "matrix: {}", False),
        ("needs: [inside]", "needs: inside", False),
        ("marginal: 0.01", "marginal: 1", False),
    ],
)
def test_scenarios_fit_as_the_decoder_takes_them(
    folder: Path, scenario_text: str, old: str, new: str, good: bool
) -> None:
    """Schema and decoder agree."""
    text = scenario_text.replace(old, new)
    assert accepts(config.scenario_schema(), text) is good
    (folder / "scenario.yaml").write_text(text)
    if good:
        config.load_scenario(folder / "scenario.yaml")
