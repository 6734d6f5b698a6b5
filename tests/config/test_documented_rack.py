"""The examples of docs/inventory.md are what they say."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import jsonschema
import yaml

from fabric import config
from tests.places import INVENTORY, ROOT

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
    inventory = config.load_inventory(beside_baselines(tmp_path, block("name: roce-rack")))
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
    baselines = config.load_baselines({platform.baseline}, Path(inventory.source))
    assert config.baseline_notes(None, inventory, baselines) == ()


def test_the_infiniband_rack_is_changed_by_managers_that_are_not_under_test(tmp_path: Path) -> None:
    """Its settings fit it, its baseline too, and an editor takes it."""
    text = block("name: ib-rack")
    inventory = config.load_inventory(beside_baselines(tmp_path, text))
    assert list(inventory.topology.hosts) == ["gpu1", "gpu2", "gpu3", "gpu4"]
    assert [manager.host for manager in inventory.changes.subnet_managers] == list(inventory.topology.management)
    baselines = config.load_baselines({"h100-ndr"}, Path(inventory.source))
    assert config.baseline_notes(None, inventory, baselines) == ()
    jsonschema.Draft202012Validator(config.inventory_schema()).validate(yaml.safe_load(text))
