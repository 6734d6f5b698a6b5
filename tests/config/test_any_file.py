"""Files are read within bounds; what one holds ends in the model or in a ConfigError that prints and does no harm."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.config import document
from fabric.config.baselines import load_baseline
from fabric.config.document import near_path, read_document
from fabric.config.inventory import load_inventory
from fabric.config.problems import PROBLEMS_MOST, Problems
from fabric.config.scenario import load_scenario
from fabric.errors import ConfigError, Problem
from tests.config.conftest import CHANGING, INVENTORY, SCENARIO, SETTINGS
from tests.places import SHIPPED_BASELINES, SHIPPED_INVENTORIES

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
    survives(lambda: load_inventory(path))
    survives(lambda: load_scenario(path))
    survives(lambda: load_baseline(path))


@FEW
@given(wounds=edits)
def test_damaged_inventories(folder: Path, inventory_text: str, wounds: list[tuple[float, int, str]]) -> None:
    """A valid inventory with a few wounds."""
    path = folder / "damaged.yaml"
    path.write_text(damaged(inventory_text, wounds))
    survives(lambda: load_inventory(path))


@FEW
@given(wounds=edits)
def test_damaged_scenarios(folder: Path, scenario_text: str, wounds: list[tuple[float, int, str]]) -> None:
    """A valid scenario with a few wounds."""
    path = folder / "damaged.yaml"
    path.write_text(damaged(scenario_text, wounds))
    survives(lambda: load_scenario(path))


@FEW
@given(wounds=edits)
def test_damaged_changes(
    folder: Path, inventory_text: str, settings_text: str, changing_text: str, wounds: list[tuple[float, int, str]]
) -> None:
    """A scenario with a matrix, changes and expectations, or the settings for them, with a few wounds."""
    path, inventory = folder / "damaged.yaml", folder / "inventory.yaml"
    path.write_text(damaged(changing_text, wounds))
    inventory.write_text(inventory_text + settings_text)
    survives(lambda: load_scenario(path))
    path.write_text(changing_text)
    assert problems_of(lambda: load_scenario(path)) is None
    inventory.write_text(inventory_text + damaged(settings_text, wounds))
    survives(lambda: load_scenario(path))


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
    survives(lambda: load_inventory(path))


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
        load_scenario(folder / "scenario.yaml")
    except ConfigError as exc:
        if not all(problem.text.isprintable() for problem in exc.problems):
            return "the message does not print"
        return "" if any(problem.line > 0 for problem in exc.problems) else "no problem names a line"
    return "it was accepted"


@pytest.mark.slow
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
    scenario, inventory = load_scenario(folder / "scenario.yaml")
    assert scenario.description == """<b>$(x)</b> "it's"; ../"""
    assert inventory.process.prefix == ("ip", "netns", "exec", "-c", "$(id); ls", "{host}")


SHIPPED = (*SHIPPED_INVENTORIES, *SHIPPED_BASELINES)


def read(tmp_path: Path, data: bytes) -> tuple[dict[str, document.Tree], list[str]]:
    """The tree, and the problems as "line: text"."""
    path = tmp_path / "file.yaml"
    path.write_bytes(data)
    problems = Problems("file.yaml")
    tree = read_document(path, problems, "a scenario")
    return tree, [f"{problem.line}: {problem.text}" for problem in problems.all()]


def test_every_scalar_is_text(tmp_path: Path) -> None:
    """What YAML 1.1 would turn into another type stays as it is written."""
    text = "a: 010\nb: on\nc: 22:22\nd: 1e-6\ne: 0x1f\nf: 1_000\ng: 2024-01-01\nh: '~'\ni: !\n".replace("i: !\n", "")
    tree, problems = read(tmp_path, text.encode())
    assert problems == []
    assert tree == {
        "a": "010",
        "b": "on",
        "c": "22:22",
        "d": "1e-6",
        "e": "0x1f",
        "f": "1_000",
        "g": "2024-01-01",
        "h": "~",
    }


def test_lines_are_known_for_every_path(tmp_path: Path) -> None:
    """Keys, list entries and values in flow style have the line they stand on."""
    path = tmp_path / "file.yaml"
    path.write_text("# note\na:\n  - x\n  - {b: 1,\n     c: 2}\nd: >-\n  long\n  text\n")
    problems = Problems("file.yaml")
    read_document(path, problems, "a scenario")
    assert problems.lines == {(): 1, ("a",): 2, ("a", 0): 3, ("a", 1): 4, ("a", 1, "b"): 4, ("a", 1, "c"): 5, ("d",): 6}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "1: the file is empty"),
        (b"# only a note\n", "1: the file is empty"),
        (b"- a\n", "1: expected 'key: value' lines"),
        (b"word\n", "1: expected 'key: value' lines"),
        (b"a: 1\nb: \xff\n", "2: not UTF-8 (byte 0xff)"),
        ("a: 1\n".encode("utf-16"), "1: not UTF-8"),
        (b"a: 1\nb: \x00\n", "2: control character U+0000"),
        ("a: 1\nb: x\u2028y\n".encode(), "2: control character U+2028"),
        (b"a: 1\n\tb: 2\n", "2: a tab cannot indent"),
        (b"a: {b: 1\n", "2: not readable as YAML"),
        (b"a: {to: spine[1-4]}\n", "; within { } put a set of names in quotes: 'spine[1-4]'"),
        (b"a: b: c\n", "1: not readable as YAML: mapping values are not allowed"),
        (b'a: "\\U00110000"\n', "not readable as YAML"),
        (b"%YAML 3.0\n---\na: 1\n", "not readable as YAML"),
        (b"a: 1\n--- \nb: 1\n", "2: a second document starts here"),
        (b"[" * 20_000, "1: nested deeper than 50 levels"),
        (b"- " * 20_000, "1: nested deeper than 50 levels"),
        (b"{a: " * 20_000, "1: nested deeper than 50 levels"),
        (b"a: " + b"x" * (1 << 20), "0: larger than 1048576 bytes"),
        (b"a: [" + b"x," * 210_000 + b"]", "1: more than 200000 values"),
    ],
)
def test_what_cannot_be_read_is_one_problem(tmp_path: Path, data: bytes, expected: str) -> None:
    """The reason is given with its line, once."""
    _, problems = read(tmp_path, data)
    assert len(problems) == 1
    assert expected in problems[0]


def test_what_is_no_file_is_explained(tmp_path: Path) -> None:
    """Absent, a folder, a pipe, a name with NUL: line 0 and the reason, and no waiting."""
    os.mkfifo(tmp_path / "pipe")
    cases = {"gone": "no such file", ".": "not a regular file", "pipe": "not a regular file", "a\0b": ""}
    for name, said in cases.items():
        problems = Problems("file")
        assert read_document(tmp_path / name, problems, "a scenario") == {}
        (problem,) = problems.all()
        assert problem.line == 0
        assert said in problem.text


def test_problems_have_an_end(tmp_path: Path) -> None:
    """A file that is wrong on every line is left after some hundred problems, and says so."""
    path = tmp_path / "file.yaml"
    path.write_text("a: 1\n" * 10_000)
    with pytest.raises(ConfigError) as caught:
        read_document(path, Problems("file.yaml"), "a scenario")
    assert len(caught.value.problems) == PROBLEMS_MOST + 1
    assert caught.value.problems[0].text == f"not read on after {PROBLEMS_MOST} problems"


@pytest.mark.parametrize("path", SHIPPED, ids=[path.name for path in SHIPPED])
def test_both_parsers_read_the_shipped_files_alike(path: Path) -> None:
    """Where PyYAML was built without libyaml, its own parser gives the same events on the same lines."""

    def events(loader: Any) -> list[tuple[str, object, object]]:
        found = yaml.parse(path.read_text(), Loader=loader)
        return [
            (type(event).__name__, getattr(event, "value", None), event.start_mark and event.start_mark.line)
            for event in found
            if isinstance(event, yaml.NodeEvent)
        ]

    assert events(yaml.SafeLoader) == events(getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder as a user has it."""
    for file in ("scenarios/self-check.yaml", "results/self-check/latest/run.json"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("scenarios/selfcheck.yaml", "scenarios/self-check.yaml"),
        ("scenario/self-check.yaml", "scenarios/self-check.yaml"),
        ("results/self-chek/latest", "results/self-check/latest"),
        ("results/self-chek/newest", "results/self-check"),
    ],
)
def test_the_part_that_is_misspelt_is_put_right(here: Path, wrong: str, meant: str) -> None:
    assert near_path(here / wrong) == f"; did you mean '{here / meant}'?"


def test_a_file_that_is_not_there_is_told_with_the_nearest(here: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such file; did you mean '.*/scenarios/self-check.yaml'"):
        load_inventory(here / "scenarios" / "self-chekc.yaml")


def test_a_file_of_another_kind_is_told_as_that_alone(folder: Path, scenario_text: str, inventory_text: str) -> None:
    """An inventory in place of a scenario, the reverse, and either as a baseline: not what every key of it is not."""
    scenario, inventory = folder / "scenario.yaml", folder / "inventory.yaml"
    scenario.write_text(scenario_text)
    inventory.write_text(inventory_text)
    for read, text in (
        (lambda: load_scenario(inventory), "this is an inventory (it has 'platforms'), not a scenario"),
        (
            lambda: load_scenario(scenario, inventory_path=scenario),
            "this is a scenario (it has 'phases'), not an inventory",
        ),
        (lambda: load_baseline(inventory), "this is an inventory (it has 'platforms'), not a baseline"),
        (
            lambda: load_inventory(SHIPPED_BASELINES[0]),
            "this is a baseline (it has 'limits'), not an inventory",
        ),
    ):
        problems = problems_of(read)
        assert problems is not None
        assert [problem.text for problem in problems] == [text]
        assert problems[0].line > 0
