"""Whatever a file holds ends in the model or in a ConfigError whose every line prints and does no harm."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric import config
from fabric.errors import ConfigError, Problem

FEW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
INSERTS = [*"\n \t:[]{}'\"\0", "- ", "&a ", "*a", "!!int ", "null", "22:22", "on", "---\n"]
edits = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(INSERTS)), min_size=1, max_size=4)


def survives(decode: Callable[[], object]) -> None:
    """Only ConfigError may come out, with problems that print."""
    problems = problems_of(decode)
    assert problems is None or problems
    assert all(problem.text.isprintable() and problem.line >= 0 for problem in problems or ())


def problems_of(decode: Callable[[], object]) -> tuple[Problem, ...] | None:
    """What a ConfigError holds, or None when there was none."""
    try:
        decode()
    except ConfigError as exc:
        return exc.problems
    return None


def damaged(text: str, wounds: list[tuple[float, int, str]]) -> str:
    """The text with some characters cut out and others put in."""
    for where, cut, insert in wounds:
        at = int(where * len(text))
        text = text[:at] + insert + text[at + cut :]
    return text


@FEW
@given(data=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_arbitrary_bytes(folder: Path, data: bytes) -> None:
    """Any bytes, as either file and as a baseline."""
    path = folder / "any.yaml"
    path.write_bytes(data)
    survives(lambda: config.load_inventory(path))
    survives(lambda: config.load_scenario(path))
    survives(lambda: config.load_baseline(path))


@FEW
@given(wounds=edits)
def test_damaged_inventories(folder: Path, inventory_text: str, wounds: list[tuple[float, int, str]]) -> None:
    """A valid inventory with a few wounds."""
    path = folder / "damaged.yaml"
    path.write_text(damaged(inventory_text, wounds))
    survives(lambda: config.load_inventory(path))


@FEW
@given(wounds=edits)
def test_damaged_scenarios(folder: Path, scenario_text: str, wounds: list[tuple[float, int, str]]) -> None:
    """A valid scenario with a few wounds."""
    path = folder / "damaged.yaml"
    path.write_text(damaged(scenario_text, wounds))
    survives(lambda: config.load_scenario(path))


@FEW
@given(wounds=edits)
def test_damaged_changes(
    folder: Path, inventory_text: str, settings_text: str, changing_text: str, wounds: list[tuple[float, int, str]]
) -> None:
    """A scenario with a matrix, changes and expectations, or the settings for them, with a few wounds."""
    path, inventory = folder / "damaged.yaml", folder / "inventory.yaml"
    path.write_text(damaged(changing_text, wounds))
    inventory.write_text(inventory_text + settings_text)
    survives(lambda: config.load_scenario(path))
    path.write_text(changing_text)
    assert problems_of(lambda: config.load_scenario(path)) is None
    inventory.write_text(inventory_text + damaged(settings_text, wounds))
    survives(lambda: config.load_scenario(path))


@FEW
@given(swap=st.data())
def test_exchanged_values(folder: Path, inventory_text: str, swap: st.DataObject) -> None:
    """A valid inventory in which two lines have exchanged what follows their colon."""
    lines = inventory_text.splitlines()
    keyed = [number for number, line in enumerate(lines) if ": " in line]
    one, other = swap.draw(st.sampled_from(keyed)), swap.draw(st.sampled_from(keyed))
    (head, tail), (head_2, tail_2) = (lines[number].split(": ", 1) for number in (one, other))
    lines[one], lines[other] = f"{head}: {tail_2}", f"{head_2}: {tail}"
    path = folder / "swapped.yaml"
    path.write_text("\n".join(lines))
    survives(lambda: config.load_inventory(path))


CONTROL = ["a\nb", "a\0b", "a\u202eb", "a\x1b[31mb", "a\x7fb", "a\u2028b"]
SHELL = ["$(reboot)", "a;ls", "'", '"', "a b", "<script>", "a/../b", "--help", "{name}{"]

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
    'of: ["leaf[0-1]"]': "of",
    "effective: 3e-5": "effective",
    "compare: degraded": "compare",
}
FREE_TEXT = {"description: A look at a small rack": "description", "inventory: inventory.yaml": "inventory"}
PATHS = {"  user: root": "  key_file", 'prefix: [ip, netns, exec, "{host}"]': "prefix"}


HOSTILE = CONTROL + SHELL


def wrong_with(folder: Path) -> str:
    """Empty when the scenario is refused, with a line, and every message prints on one line; else what is wrong."""
    try:
        config.load_scenario(folder / "scenario.yaml")
    except ConfigError as exc:
        if not all(problem.text.isprintable() for problem in exc.problems):
            return "the message does not print"
        return "" if any(problem.line > 0 for problem in exc.problems) else "no problem names a line"
    return "it was accepted"


def each(file: Path, texts: dict[str, str]) -> None:
    """Each of these contents of a file of the scenario is refused, named by the hostile text in it."""
    found = {}
    for hostile, text in texts.items():
        file.write_text(text)
        found[hostile] = wrong_with(file.parent)
    assert {hostile: wrong for hostile, wrong in found.items() if wrong} == {}


def quoted(text: str) -> str:
    """As a YAML double-quoted scalar (JSON escapes are YAML's)."""
    return json.dumps(text)


@pytest.mark.parametrize("old", INVENTORY_WORDS)
def test_names_in_an_inventory(folder: Path, inventory_text: str, old: str) -> None:
    """No name, device, address, user or template takes hostile text."""
    key = INVENTORY_WORDS[old]
    each(folder / "inventory.yaml", {one: inventory_text.replace(old, f"{key}: {quoted(one)}", 1) for one in HOSTILE})


@pytest.mark.parametrize("old", SCENARIO_WORDS)
def test_names_in_a_scenario(folder: Path, scenario_text: str, old: str) -> None:
    """No phase, probe, baseline or host name takes hostile text."""
    values = {one: f"[{quoted(one)}]" if "needs" in old else quoted(one) for one in HOSTILE}
    texts = {one: scenario_text.replace(old, f"{SCENARIO_WORDS[old]}: {value}") for one, value in values.items()}
    each(folder / "scenario.yaml", texts)


@pytest.mark.parametrize("old", FREE_TEXT)
def test_free_text_in_a_scenario(folder: Path, scenario_text: str, old: str) -> None:
    """Descriptions and paths take what prints, on one line, and nothing that looks like an option."""
    hostile = [*CONTROL, "-rf", ""]
    texts = {one: scenario_text.replace(old, f"{FREE_TEXT[old]}: {quoted(one)}") for one in hostile}
    each(folder / "scenario.yaml", texts)


@pytest.mark.parametrize("old", PATHS)
def test_paths_and_arguments_in_an_inventory(folder: Path, inventory_text: str, old: str) -> None:
    """Key files and prefixes take no control characters."""
    values = {one: f"[{quoted(one)}]" if "prefix" in old else quoted(one) for one in [*CONTROL, ""]}
    texts = {one: inventory_text.replace(old, f"{PATHS[old]}: {value}") for one, value in values.items()}
    each(folder / "inventory.yaml", texts)


@pytest.mark.parametrize("old", SETTING_WORDS)
def test_words_in_the_settings_of_changes(folder: Path, inventory_text: str, settings_text: str, old: str) -> None:
    """They reach commands that alter the fabric: hosts, options, paths and addresses take nothing hostile."""
    assert old in settings_text
    new = {one: f"{SETTING_WORDS[old]}: {quoted(one)}" for one in HOSTILE}
    texts = {one: inventory_text + settings_text.replace(old, text, 1) for one, text in new.items()}
    each(folder / "inventory.yaml", texts)


@pytest.mark.parametrize("old", CHANGING_WORDS)
def test_words_in_changes_and_expectations(
    folder: Path, inventory_text: str, settings_text: str, changing_text: str, old: str
) -> None:
    """No link, rate, switch or name of a phase does."""
    (folder / "inventory.yaml").write_text(inventory_text + settings_text)
    new = {one: f"{CHANGING_WORDS[old]}: {quoted(one)}" for one in HOSTILE}
    each(folder / "scenario.yaml", {one: changing_text.replace(old, text, 1) for one, text in new.items()})


@pytest.mark.parametrize("old", ["down: [1s, 2s]", "NCCL_IB_TIMEOUT: 22"])
def test_values_that_are_handed_on(
    folder: Path, inventory_text: str, settings_text: str, changing_text: str, old: str
) -> None:
    """Variables and values of the matrix take what prints, on one line."""
    (folder / "inventory.yaml").write_text(inventory_text + settings_text)
    new = {one: f"down: [1s, {quoted(one)}]" if "down" in old else f"A: {quoted(one)}" for one in CONTROL}
    each(folder / "scenario.yaml", {one: changing_text.replace(old, text) for one, text in new.items()})


def test_keys(folder: Path, inventory_text: str) -> None:
    """An unknown key is quoted, whatever it holds."""
    each(folder / "inventory.yaml", {one: f"{quoted(one)}: 1\n{inventory_text}" for one in HOSTILE})


def test_harmless_text_that_looks_hostile_passes(folder: Path, scenario_text: str, inventory_text: str) -> None:
    """A description may hold quotes, brackets and dollars: it is shown, never run."""
    described = scenario_text.replace("A look at a small rack", quoted("""<b>$(x)</b> "it's"; ../"""))
    (folder / "scenario.yaml").write_text(described)
    (folder / "inventory.yaml").write_text(inventory_text.replace("exec,", 'exec, "-c", "$(id); ls",'))
    scenario, inventory = config.load_scenario(folder / "scenario.yaml")
    assert scenario.description == """<b>$(x)</b> "it's"; ../"""
    assert inventory.process.prefix == ("ip", "netns", "exec", "-c", "$(id); ls", "{host}")
