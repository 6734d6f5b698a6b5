"""The JSON Schemas accept what the decoder accepts, refuse what it refuses, and describe every key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from fabric import config
from fabric.errors import ConfigError
from tests.places import SHIPPED_INVENTORIES, SHIPPED_SCENARIOS

INVENTORIES, SCENARIOS = (
    jsonschema.Draft202012Validator(schema) for schema in (config.inventory_schema(), config.scenario_schema())
)


def accepts(schema: jsonschema.Draft202012Validator, text: str) -> bool:
    """Whether an editor that reads YAML as it does would find the text good."""
    return bool(schema.is_valid(yaml.safe_load(text)))


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


@pytest.mark.parametrize("path", SHIPPED_INVENTORIES, ids=lambda path: path.name)
def test_shipped_inventories_fit(path: Path) -> None:
    """What we ship is good in an editor too."""
    jsonschema.Draft202012Validator(config.inventory_schema()).validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize("path", SHIPPED_SCENARIOS, ids=lambda path: path.name)
def test_shipped_scenarios_fit(path: Path) -> None:
    """What we ship is good in an editor too."""
    jsonschema.Draft202012Validator(config.scenario_schema()).validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("backend: mock", "backend: mok"),
        ("  port: 22", "  port: 65536"),
        ("agent: true", "agent: maybe"),
        ("device: mlx5_1", "device: eth0"),
        ("rail: 1, ", ""),
        ('rack: "r{rack}"', 'rack: "r{rak}"'),
        ("  user: root", "  user: null"),
        ("mock:", "changes: {guard_directory: /run/../etc}\nmock:"),
        ("mock:", "changes: {lease: {ttl: 30}}\nmock:"),
        ("mock:", "changes: {adaptive_on: {Engine: x}}\nmock:"),
        ("mock:", "changes: {blast_radius: {changes: 0}}\nmock:"),
        ("noise_cv: 0.003", "sm_reroute: 15"),
    ],
)
def test_bad_inventories_do_not_fit(inventory_text: str, old: str, new: str) -> None:
    """An editor marks the commonest mistakes."""
    assert accepts(INVENTORIES, inventory_text)
    assert not accepts(INVENTORIES, inventory_text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "good"),
    [
        ("size: 8M", "size: 8388608", True),
        ("size: 8M", 'size: "8388608"', True),
        ("- rnic_to_rnic", "- rnic_to_rnic: {}", True),
        ("hosts: all", "hosts: [gpu1, 'gpu[2-3]']", True),
        ("hosts: all", "hosts: {rack: r1}", True),
        ("duration: 5s", "duration: 5", False),
        ("- rnic_to_rnic", "- {rnic_to_rnic: {}, loopback: {}}", False),
        ("hosts: all", "matrix: {}", False),
        ("hosts: all", "matrix: {size: []}", False),
        ("hosts: all", "rounds: 0", False),
        ("hosts: all", "allow: [everything]", False),
        ("- rnic_to_rnic", "- $kind", None),
        ("needs: [inside]", "needs: [$x]", False),
        ("size: 8M", "size: $", False),
        ("needs: [inside]", "changes: [{link_down: {links: gpu1/mlx5_0, for: 0.5s}}]", True),
        ("needs: [inside]", "changes: [{link_down: {links: [gpu1/mlx5_0, gpu2/mlx5_1], at: 1m}}]", True),
        ("needs: [inside]", "changes: [{ber: {links: {tier: access, of: ['gpu[1-2]']}, raw: 3e-4}}]", True),
        ("needs: [inside]", "changes: [{ber: {links: {tier: access, count: 2}, raw: 0.0001}}]", True),
        ("needs: [inside]", "changes: [{port_flap: {links: gpu1/mlx5_0, down: 5s, count: 2, period: 9s}}]", True),
        ("needs: [inside]", "changes: [{adaptive_routing: on, scope: job}]\n    env: {NCCL_IB_TIMEOUT: 22}", True),
        ("needs: [inside]", "changes: [{port_flap: {links: [$link], down: $down}}]\n    env: {A: $b}", None),
        ("needs: [inside]", "changes: [{adaptive_routing: maybe, scope: job}]", False),
        ("needs: [inside]", "changes: [{link_down: {links: a b}}]", False),
        ("needs: [inside]", "changes: [{link_down: {links: gpu1/mlx5_0, fro: 5s}}]", False),
        ("judge:", "expect: [{compare: tor/inside, at_least: 0.9, at_most: 2}]\njudge:", True),
        ("judge:", "expect: [{phase: tor, ends: completed}]\njudge:", True),
        ("judge:", "expect: [{phase: tor, where: {a: on}, recovers_within: 30s, to: 0.9}]\njudge:", None),
        ("judge:", "expect: [{phase: tor}]\njudge:", False),
        ("marginal: 0.01", "marginal: 1", False),
    ],
)
def test_scenarios_fit_as_the_decoder_takes_them(
    folder: Path, scenario_text: str, old: str, new: str, good: bool | None
) -> None:
    """Schema and decoder agree; None: good by itself, though the rest of the file does not go with it."""
    text = scenario_text.replace(old, new)
    assert accepts(SCENARIOS, text) is (good is not False)
    (folder / "scenario.yaml").write_text(text)
    if good:
        config.load_scenario(folder / "scenario.yaml")
    elif good is False:
        with pytest.raises(ConfigError):
            config.load_scenario(folder / "scenario.yaml")
