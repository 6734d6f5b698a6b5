"""Files are read as text with line numbers, within bounds, or refused with the reason."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from fabric.config import document, load_inventory
from fabric.config.document import near_path, read_document
from fabric.config.problems import PROBLEMS_MOST, Problems
from fabric.errors import ConfigError
from tests.places import SHIPPED_BASELINES, SHIPPED_INVENTORIES

SHIPPED = (*SHIPPED_INVENTORIES, *SHIPPED_BASELINES)


def read(tmp_path: Path, data: bytes) -> tuple[dict[str, document.Tree], list[str]]:
    """The tree, and the problems as "line: text"."""
    path = tmp_path / "file.yaml"
    path.write_bytes(data)
    problems = Problems("file.yaml")
    tree = read_document(path, problems)
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
    read_document(path, problems)
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
        assert read_document(tmp_path / name, problems) == {}
        (problem,) = problems.all()
        assert problem.line == 0
        assert said in problem.text


def test_problems_have_an_end(tmp_path: Path) -> None:
    """A file that is wrong on every line is left after some hundred problems, and says so."""
    path = tmp_path / "file.yaml"
    path.write_text("a: 1\n" * 10_000)
    with pytest.raises(ConfigError) as caught:
        read_document(path, Problems("file.yaml"))
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
