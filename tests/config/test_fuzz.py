"""Whatever a file holds, decoding it ends in the model or in a ConfigError whose every line prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
