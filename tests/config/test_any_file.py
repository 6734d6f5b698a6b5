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
from tests.config.conftest import CHANGING, INVENTORY, SCENARIO, SETTINGS

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

# In each file what stands there, and what stands there instead: %s is the hostile text, quoted.
NAMES = {
    "inventory": [
        *(("name: small", "name: %s"), ("baseline: h100-ndr", "baseline: %s"), ("platform: duo", "platform: %s")),
        *(("name: pcie1", "name: %s"), ("index: 0, pcie_switch: pcie0", "index: 0, pcie_switch: %s")),
        *(("device: mlx5_1", "device: %s"), ('names: "gpu[1-4]"', "names: %s"), ("component: gpu3", "component: %s")),
        *(('address: "{name}.mgmt"', "address: %s"), ('rack: "r{rack}"', "rack: %s"), ("  port: 22", "  port: %s")),
        *(('leaves: "leaf{rail}"', "leaves: %s"), ('names: "spine[0-1]"', "names: %s"), ("  user: root", "  user: %s")),
        *(('to: "spine[0-1]"', "to: %s"), ("link_layer: infiniband", "link_layer: %s")),
        ("name: small", "%s: 1\nname: small"),  # an unknown key is quoted, whatever it holds
    ],
    "scenario": [
        *(("name: look", "name: %s"), ("hosts: all", "hosts: %s"), ("- name: tor", "- name: %s")),
        *(("needs: [inside]", "needs: [%s]"), ("size: 8M", "size: %s"), ("  marginal: 0.01", "  baseline: %s")),
        ("sizes: [1G, 2G, 4G]", "algorithm: %s"),
    ],
    # They reach commands that alter the fabric: hosts, options, paths and addresses.
    "settings": [
        *(("via: gpu1", "via: %s"), ("host: gpu2", "host: %s"), ("routing_engine: ar_ftree", "routing_engine: %s")),
        *(("lease: {ttl: 30s, max_hold: 2h}", "guard_directory: %s"), ("  via: gpu1", "  port_state: %s")),
        ("blast_radius: {links_fraction: 0.25}", "ufm_url: %s"),
    ],
    "changing": [
        *(("links: [gpu1/mlx5_0, leaf0--spine1#1]", "links: %s"), ('of: ["leaf[0-1]"]', "of: %s")),
        *(("effective: 3e-5", "effective: %s"), ("compare: degraded", "compare: %s")),
    ],
}
# What is handed on as it is written takes what prints, on one line, and nothing that looks like an option.
FREE_TEXT = {
    "inventory": [("  user: root", "  key_file: %s"), ('prefix: [ip, netns, exec, "{host}"]', "prefix: [%s]")],
    "scenario": [
        ("description: A look at a small rack", "description: %s"),
        ("inventory: inventory.yaml", "inventory: %s"),
    ],
    "changing": [("down: [1s, 2s]", "down: [1s, %s]"), ("NCCL_IB_TIMEOUT: 22", "A: %s")],
}


def wrong_with(folder: Path) -> str:
    """Empty when the scenario is refused, with a line, and every message prints on one line; else what is wrong."""
    try:
        config.load_scenario(folder / "scenario.yaml")
    except ConfigError as exc:
        if not all(problem.text.isprintable() for problem in exc.problems):
            return "the message does not print"
        return "" if any(problem.line > 0 for problem in exc.problems) else "no problem names a line"
    return "it was accepted"


@pytest.mark.parametrize(
    ("file", "old", "new", "hostile"),
    [
        *((file, *words, tuple(CONTROL + SHELL)) for file, listed in NAMES.items() for words in listed),
        *((file, *words, tuple(CONTROL)) for file, listed in FREE_TEXT.items() for words in listed),
        *(("scenario", *words, ("-rf", "")) for words in FREE_TEXT["scenario"]),
    ],
)
def test_hostile_text_is_refused_in_every_field(
    folder: Path, file: str, old: str, new: str, hostile: list[str]
) -> None:
    """With a line, and a message that prints on one."""
    texts = {"inventory": INVENTORY, "scenario": SCENARIO, "settings": SETTINGS, "changing": CHANGING}
    if file in ("settings", "changing"):
        (folder / "inventory.yaml").write_text(INVENTORY + SETTINGS)
        (folder / "scenario.yaml").write_text(CHANGING)
    assert old in texts[file]
    path = folder / ("scenario.yaml" if file in ("scenario", "changing") else "inventory.yaml")
    found = {}
    for one in hostile:
        text = texts[file].replace(old, new.replace("%s", json.dumps(one)), 1)  # JSON's escapes are YAML's
        path.write_text(INVENTORY + text if file == "settings" else text)
        found[one] = wrong_with(folder)
    assert {one: wrong for one, wrong in found.items() if wrong} == {}


def test_harmless_text_that_looks_hostile_passes(folder: Path, scenario_text: str, inventory_text: str) -> None:
    """A description may hold quotes, brackets and dollars: it is shown, never run."""
    described = scenario_text.replace("A look at a small rack", json.dumps("""<b>$(x)</b> "it's"; ../"""))
    (folder / "scenario.yaml").write_text(described)
    (folder / "inventory.yaml").write_text(inventory_text.replace("exec,", 'exec, "-c", "$(id); ls",'))
    scenario, inventory = config.load_scenario(folder / "scenario.yaml")
    assert scenario.description == """<b>$(x)</b> "it's"; ../"""
    assert inventory.process.prefix == ("ip", "netns", "exec", "-c", "$(id); ls", "{host}")
