"""Text that would do harm in a shell, a path, a page or a terminal is refused in every field, and quoted harmlessly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fabric import config
from fabric.errors import ConfigError

CONTROL = ["a\nb", "a\0b", "a\u202eb", "a\u200fb", "a\x1b[31mb", "a\rb", "a\x7fb", "a\u2028b"]
SHELL = [
    "$(reboot)",
    "`id`",
    "a;ls",
    "a|b",
    "a&b",
    "a>b",
    "'",
    '"',
    "a b",
    "<script>",
    "../x",
    "a/../b",
    "-rf",
    "--help",
]
SHELL += ["%s", "{name}{", "*", "~", "\\x"]

INVENTORY_WORDS = {
    "name: small": "name",
    "baseline: h100-ndr": "baseline",
    "platform: duo": "platform",
    "name: pcie1": "name",
    "index: 0, pcie_switch: pcie0": "index: 0, pcie_switch",
    "device: mlx5_1": "device",
    'names: "gpu[1-4]"': "names",
    'address: "{name}.mgmt"': "address",
    'rack: "r{rack}"': "rack",
    'leaves: "leaf{rail}"': "leaves",
    'names: "spine[0-1]"': "names",
    'to: "spine[0-1]"': "to",
    "  user: root": "  user",
    "  port: 22": "  port",
    "component: gpu3": "component",
    "link_layer: infiniband": "link_layer",
}
SCENARIO_WORDS = {
    "name: look": "name",
    "hosts: all": "hosts",
    "- name: tor": "- name",
    "needs: [inside]": "needs",
    "size: 8M": "size",
    "  marginal: 0.01": "  baseline",
    "sizes: [1G, 2G, 4G]": "algorithm",
}
SETTING_WORDS = {
    "via: gpu1": "via",
    "host: gpu2": "host",
    "routing_engine: ar_ftree": "routing_engine",
    "lease: {ttl: 30s, max_hold: 2h}": "guard_directory",
    "blast_radius: {links_fraction: 0.25}": "ufm_url",
    "  via: gpu1": "  port_state",
}
CHANGING_WORDS = {
    "links: [gpu1/mlx5_0, leaf0--spine1#1]": "links",
    "down: $down": "down",
    "tier: spine": "tier",
    'of: ["leaf[0-1]"]': "of",
    "effective: 3e-5": "effective",
    "adaptive_routing: $routing": "adaptive_routing",
    "shield: on": "shield",
    "compare: degraded": "compare",
    "against: {routing: off}": "against",
    "ends: completed": "ends",
    "order: abba": "order",
    "rounds: 2": "allow",
}
FREE_TEXT = {"description: A look at a small rack": "description", "inventory: inventory.yaml": "inventory"}
PATHS = {"  user: root": "  key_file", 'prefix: [ip, netns, exec, "{host}"]': "prefix"}


def refused(folder: Path) -> None:
    """The scenario is refused, and every message prints on one line."""
    with pytest.raises(ConfigError) as caught:
        config.load_scenario(folder / "scenario.yaml")
    assert all(problem.text.isprintable() for problem in caught.value.problems)
    assert any(problem.line > 0 for problem in caught.value.problems)


def quoted(text: str) -> str:
    """As a YAML double-quoted scalar (JSON escapes are YAML's)."""
    return json.dumps(text)


@pytest.mark.parametrize("hostile", CONTROL + SHELL)
@pytest.mark.parametrize("old", INVENTORY_WORDS)
def test_names_in_an_inventory(folder: Path, inventory_text: str, old: str, hostile: str) -> None:
    """No name, device, address, user or template takes hostile text."""
    text = inventory_text.replace(old, f"{INVENTORY_WORDS[old]}: {quoted(hostile)}", 1)
    (folder / "inventory.yaml").write_text(text)
    refused(folder)


@pytest.mark.parametrize("hostile", CONTROL + SHELL)
@pytest.mark.parametrize("old", SCENARIO_WORDS)
def test_names_in_a_scenario(folder: Path, scenario_text: str, old: str, hostile: str) -> None:
    """No phase, probe, baseline or host name takes hostile text."""
    value = f"[{quoted(hostile)}]" if "needs" in old else quoted(hostile)
    (folder / "scenario.yaml").write_text(scenario_text.replace(old, f"{SCENARIO_WORDS[old]}: {value}"))
    refused(folder)


@pytest.mark.parametrize("hostile", [*CONTROL, "-rf", ""])
@pytest.mark.parametrize("old", FREE_TEXT)
def test_free_text_in_a_scenario(folder: Path, scenario_text: str, old: str, hostile: str) -> None:
    """Descriptions and paths take what prints, on one line, and nothing that looks like an option."""
    (folder / "scenario.yaml").write_text(scenario_text.replace(old, f"{FREE_TEXT[old]}: {quoted(hostile)}"))
    refused(folder)


@pytest.mark.parametrize("hostile", [*CONTROL, ""])
@pytest.mark.parametrize("old", PATHS)
def test_paths_and_arguments_in_an_inventory(folder: Path, inventory_text: str, old: str, hostile: str) -> None:
    """Key files and prefixes take no control characters."""
    value = f"[{quoted(hostile)}]" if "prefix" in old else quoted(hostile)
    (folder / "inventory.yaml").write_text(inventory_text.replace(old, f"{PATHS[old]}: {value}"))
    refused(folder)


@pytest.mark.parametrize("hostile", CONTROL + SHELL)
@pytest.mark.parametrize("old", SETTING_WORDS)
def test_words_in_the_settings_of_changes(
    folder: Path, inventory_text: str, settings_text: str, old: str, hostile: str
) -> None:
    """They reach commands that alter the fabric: hosts, options, paths and addresses take nothing hostile."""
    assert old in settings_text
    text = inventory_text + settings_text.replace(old, f"{SETTING_WORDS[old]}: {quoted(hostile)}", 1)
    (folder / "inventory.yaml").write_text(text)
    refused(folder)


@pytest.mark.parametrize("hostile", CONTROL + SHELL)
@pytest.mark.parametrize("old", CHANGING_WORDS)
def test_words_in_changes_and_expectations(
    folder: Path, inventory_text: str, settings_text: str, changing_text: str, old: str, hostile: str
) -> None:
    """No link, rate, time, switch or name of a phase does."""
    assert old in changing_text
    (folder / "inventory.yaml").write_text(inventory_text + settings_text)
    text = changing_text.replace(old, f"{CHANGING_WORDS[old]}: {quoted(hostile)}", 1)
    (folder / "scenario.yaml").write_text(text)
    refused(folder)


@pytest.mark.parametrize("hostile", CONTROL)
@pytest.mark.parametrize("old", ["down: [1s, 2s]", "NCCL_IB_TIMEOUT: 22"])
def test_values_that_are_handed_on(
    folder: Path, inventory_text: str, settings_text: str, changing_text: str, old: str, hostile: str
) -> None:
    """Variables and values of the matrix take what prints, on one line."""
    (folder / "inventory.yaml").write_text(inventory_text + settings_text)
    new = f"down: [1s, {quoted(hostile)}]" if "down" in old else f"A: {quoted(hostile)}"
    (folder / "scenario.yaml").write_text(changing_text.replace(old, new))
    refused(folder)


@pytest.mark.parametrize("hostile", CONTROL + SHELL)
def test_keys(folder: Path, inventory_text: str, hostile: str) -> None:
    """An unknown key is quoted, whatever it holds; so is a platform's name."""
    (folder / "inventory.yaml").write_text(f"{quoted(hostile)}: 1\n{inventory_text}")
    refused(folder)
    (folder / "inventory.yaml").write_text(inventory_text.replace("  duo:", f"  {quoted(hostile)}:"))
    refused(folder)


def test_harmless_text_that_looks_hostile_passes(folder: Path, scenario_text: str, inventory_text: str) -> None:
    """A description may hold quotes, brackets and dollars: it is shown, never run."""
    described = scenario_text.replace("A look at a small rack", quoted("""<b>$(x)</b> "it's"; ../"""))
    (folder / "scenario.yaml").write_text(described)
    (folder / "inventory.yaml").write_text(inventory_text.replace("exec,", 'exec, "-c", "$(id); ls",'))
    scenario, inventory = config.load_scenario(folder / "scenario.yaml")
    assert scenario.description == """<b>$(x)</b> "it's"; ../"""
    assert inventory.process.prefix == ("ip", "netns", "exec", "-c", "$(id); ls", "{host}")
