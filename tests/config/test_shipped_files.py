"""The example files and those of the docs decode to what they say; the JSON Schemas accept just such files."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from fabric.changes.link_down import PortFlap
from fabric.config.baselines import baseline_notes, load_baselines
from fabric.config.inventory import load_inventory
from fabric.config.scenario import load_scenario
from fabric.config.schema import inventory_schema, scenario_schema
from fabric.errors import ConfigError
from fabric.model.scenario import ExpectedEnd, Scenario
from tests.places import INVENTORY, ROOT, SCENARIOS, SHIPPED_INVENTORIES, SHIPPED_SCENARIOS


@pytest.mark.parametrize("name", ["scenario", "inventory"])
def test_every_key_is_documented(name: str) -> None:
    """docs/*.md names each key of the schema."""
    schema = scenario_schema() if name == "scenario" else inventory_schema()
    text = (ROOT / "docs" / f"{name}.md").read_text()
    parts = [schema, *schema["$defs"].values()]
    keys = {key for part in parts for key in part.get("properties", {})}
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []


def shipped(name: str) -> Scenario:
    """A scenario that we ship, on the inventory that it names."""
    return load_scenario(SCENARIOS / f"{name}.yaml")[0]


def test_flaps_are_expected_to_end_as_nccl_s_timeout_says() -> None:
    """Completed when the outage is shorter than eight timeouts of 4.096 us x 2^t, aborted when it is longer."""
    scenario = shipped("flap-tolerance")
    ends = [expected for expected in scenario.expect if isinstance(expected, ExpectedEnd)]
    for phase in scenario.phases:
        (change,) = phase.changes
        assert isinstance(change, PortFlap)
        window_s = 8 * 4.096e-6 * 2 ** int(dict(phase.env)["NCCL_IB_TIMEOUT"])
        said = {end.completes for end in ends if set(end.phase.where) <= set(phase.where)}
        assert said == {change.down_s < window_s}, phase.name


def test_a_run_that_may_fail_a_host_notes_who_is_who() -> None:
    """Else a validation after the repair cannot tell what was replaced."""
    for name in ("self-check.yaml", "post-repair.yaml"):
        scenario, _ = load_scenario(SCENARIOS / name)
        assert scenario.identity, name


BLOCKS = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "inventory.md").read_text(), flags=re.DOTALL)


def block(part: str) -> str:
    """The one example that holds this text."""
    (found,) = [text for text in BLOCKS if part in text]
    return str(found)


def beside_baselines(folder: Path, text: str) -> Path:
    """The example saved where its own text says."""
    shutil.copytree(INVENTORY / "baselines", folder / "baselines")
    path = folder / "rack.yaml"
    path.write_text(text)
    return path


def test_the_roce_rack_is_complete(tmp_path: Path) -> None:
    """Six hosts on two ToRs, four RNICs and GPUs each, through a bastion; its baseline fits it."""
    inventory = load_inventory(beside_baselines(tmp_path, block("name: roce-rack")))
    hosts = inventory.topology.hosts
    platform = hosts["node01"].platform
    assert [len(group) for group in inventory.topology.tor_groups] == [3, 3]
    assert hosts["node04"].leaves == ("tor1",) * 4
    assert (len(platform.gpus), [rnic.line_rate_gbps for rnic in platform.rnics]) == (4, [200.0] * 4)
    assert (platform.link_layer, platform.gid_index, inventory.backend) == ("ethernet", 3, "ssh")
    assert platform.env
    assert platform.tools
    assert platform.mpirun_options
    assert [jump.address for jump in inventory.ssh.jump] == ["bastion.example.net"]
    baselines = load_baselines({platform.baseline}, Path(inventory.source))
    assert baseline_notes(None, inventory, baselines) == ()


def test_the_infiniband_rack_is_changed_by_managers_that_are_not_under_test(tmp_path: Path) -> None:
    """Its settings fit it, its baseline too, and an editor takes it."""
    text = block("name: ib-rack")
    inventory = load_inventory(beside_baselines(tmp_path, text))
    assert list(inventory.topology.hosts) == ["gpu1", "gpu2", "gpu3", "gpu4"]
    assert [manager.host for manager in inventory.changes.subnet_managers] == list(inventory.topology.management)
    baselines = load_baselines({"h100-ndr"}, Path(inventory.source))
    assert baseline_notes(None, inventory, baselines) == ()
    jsonschema.Draft202012Validator(inventory_schema()).validate(yaml.safe_load(text))


INVENTORY_SCHEMA, SCENARIO_SCHEMA = (
    jsonschema.Draft202012Validator(schema) for schema in (inventory_schema(), scenario_schema())
)


def accepts(schema: jsonschema.Draft202012Validator, text: str) -> bool:
    """Whether an editor that reads YAML as it does would find the text good."""
    return bool(schema.is_valid(yaml.safe_load(text)))


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key of every mapping in a schema."""
    for name, part in {"": schema, **schema["$defs"]}.items():
        for key, value in part.get("properties", {}).items():
            yield f"{name}.{key}", value


@pytest.mark.parametrize("schema", [inventory_schema(), scenario_schema()], ids=["inventory", "scenario"])
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
    jsonschema.Draft202012Validator(inventory_schema()).validate(yaml.safe_load(path.read_text()))


@pytest.mark.slow
@pytest.mark.parametrize("path", SHIPPED_SCENARIOS, ids=lambda path: path.name)
def test_shipped_scenarios_fit(path: Path) -> None:
    """What we ship is good in an editor too."""
    jsonschema.Draft202012Validator(scenario_schema()).validate(yaml.safe_load(path.read_text()))


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
    assert accepts(INVENTORY_SCHEMA, inventory_text)
    assert not accepts(INVENTORY_SCHEMA, inventory_text.replace(old, new))


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
    assert accepts(SCENARIO_SCHEMA, text) is (good is not False)
    (folder / "scenario.yaml").write_text(text)
    if good:
        load_scenario(folder / "scenario.yaml")
    elif good is False:
        with pytest.raises(ConfigError):
            load_scenario(folder / "scenario.yaml")
