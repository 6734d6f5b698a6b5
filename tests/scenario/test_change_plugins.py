"""Kinds of changes that other packages bring by entry points of the group ``fabric.changes``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fabric.errors import MayBeLive
from fabric.runs.journal import JOURNAL, Journal, open_changes
from tests.scenario.test_restore import left, restored

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "tests" / "plugins" / "changes"
SCENARIO = """\
name: pulled
inventory: {inventory}
hosts: gpu[001-002]
phases:
  - name: during
    changes: [{change}]
    probes: [{{loopback: {{duration: 1s}}}}]
"""
GOOD = "{unplugged: {links: gpu001/mlx5_0, ticket: T-1, by: mlxlink, for: 5s}}"


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A package whose module cannot be imported."""
    folder = tmp_path / "broken"
    (folder / "fabric_broken-1.0.dist-info").mkdir(parents=True)
    (folder / "fabric_broken-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: fabric-broken\nVersion: 1.0\n"
    )
    (folder / "fabric_broken-1.0.dist-info" / "entry_points.txt").write_text(
        "[fabric.changes]\nsmoke = fabric_broken:Smoke\nber = fabric_broken:Smoke\n"
    )
    (folder / "fabric_broken.py").write_text("raise OSError('no such smoke')\n")
    return folder


def fabric(tmp_path: Path, change: str, plugins: Path, verb: str, *words: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of the program with a package on its path."""
    inventory = ROOT / "inventory" / "pod-64.yaml"
    (tmp_path / "pulled.yaml").write_text(SCENARIO.format(inventory=inventory, change=change))
    program = "from fabric.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", program, verb, str(tmp_path / "pulled.yaml"), *words],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{plugins}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def rewritten(journal: Path, **fields: object) -> None:
    """Another intent of the open change, as somebody else would have written it."""
    (one,) = open_changes(journal)
    journal.unlink()
    book = Journal(journal)
    book.record(one.change_id, "intent", {**one.intent, **fields})
    book.record(one.change_id, "in_force", {})
    book.close()


@pytest.mark.slow
def test_a_kind_of_another_package_is_planned_made_and_taken_back(tmp_path: Path) -> None:
    _, said, wrong = fabric(tmp_path, GOOD, PLUGINS, "run", "--results", str(tmp_path / "results"), "--yes")
    (journal,) = (tmp_path / "results").rglob(JOURNAL)
    assert not open_changes(journal), said + wrong
    states = [json.loads(line)["state"] for line in journal.read_text().splitlines() if '"state"' in line]
    assert states[-1] == "reverted", states
    assert "unplugged for T-1" in said


def test_what_a_missing_package_left_is_taken_back_by_the_journal_and_stays_open(tmp_path: Path) -> None:
    path = left(tmp_path, None)
    journal = path / JOURNAL
    rewritten(journal, kind="unplugged")
    found = restored(path, tmp_path / "inventory" / "pod-64.yaml")
    assert [one.certain for one in found] == [True, False]
    assert "its kind 'unplugged' is not known here" in found[1].said
    assert open_changes(journal)


def test_an_entry_of_another_version_is_refused_with_its_undo(tmp_path: Path) -> None:
    path = left(tmp_path, None)
    alterations = open_changes(path / JOURNAL)[0].intent["alterations"]
    rewritten(path / JOURNAL, alterations=[{**one, "prior": 5} for one in alterations])
    (one,) = restored(path, tmp_path / "inventory" / "pod-64.yaml")
    assert not one.certain
    assert re.search(r"is not as this version writes it .*its undo by hand: .*mlxreg", one.said), one.said
    with pytest.raises(MayBeLive, match=r"or undo them by hand: .*mlxreg"):
        restored(path)
