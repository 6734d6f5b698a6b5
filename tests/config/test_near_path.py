"""The path that may be meant by one that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.config import load_inventory
from fabric.config.document import near_path
from fabric.errors import ConfigError


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
