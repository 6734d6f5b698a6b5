"""What a command line says is kept in run.json, and read again from there."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from fabric.app.prepare import Given

WORDS = (
    Given(Path("scenarios/s.yaml")),
    Given(Path("s.yaml"), Path("i.yaml"), "gpu[001-004]", ("gpu001:slow=0.5",), 3600.0, 60.0),
)


@pytest.mark.parametrize("given", WORDS)
def test_the_words_are_read_again_wherever_one_stands(
    given: Given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths are seen from the folder in which they were said."""
    monkeypatch.chdir(tmp_path)
    written = orjson.loads(orjson.dumps(given.document))
    monkeypatch.chdir("/")
    again = Given.of(written)
    inventory = given.inventory and tmp_path / given.inventory
    assert (again.scenario, again.inventory) == (tmp_path / given.scenario, inventory)
    assert (again.hosts, again.faults) == (given.hosts, given.faults)
    assert (again.lasts_s, again.budget_s) == (given.lasts_s, given.budget_s)


def test_that_nobody_was_asked_is_written_only_where_it_is_so() -> None:
    assert "yes" not in WORDS[0].document
    assert Given(Path("s.yaml"), yes=True).document["yes"] is True
