"""``fabric restore`` of runs whose files are lost in part."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fabric.app.restore import Restored, restore
from fabric.cli.status import restore_command as command
from fabric.errors import MayBeLive
from fabric.runs.journal import JOURNAL, open_changes
from tests.scenario.changing import run
from tests.scenario.test_changes import mock, no_way_back


def left(tmp_path: Path, document: str | None) -> Path:
    """A run that has left its change behind, with this run.json (None: with none)."""
    judged, _ = run(tmp_path, on_start=no_way_back)
    path = Path(judged.path)
    if document is None:
        (path / "run.json").unlink()
    else:
        (path / "run.json").write_text(document)
    return path


def restored(path: Path, inventory: Path | None = None) -> list[Restored]:
    """All that was told."""
    return restore(path, results=path, make_executor=mock, inventory_path=inventory)


@pytest.mark.parametrize("document", [None, '{"format": 1, "run_', '{"format": 1}'])
def test_a_run_without_its_document_is_taken_back_by_its_journal_and_an_inventory(
    tmp_path: Path, document: str | None
) -> None:
    path = left(tmp_path, document)
    with pytest.raises(MayBeLive, match=rf"run\.json cannot be read.*{JOURNAL} says .*ber\.gpu001.*--inventory FILE"):
        restored(path)
    assert open_changes(path / JOURNAL)
    found = restored(path, tmp_path / "inventory" / "pod-64.yaml")
    assert [one.certain for one in found] == [True]
    assert not open_changes(path / JOURNAL)


def test_a_host_that_the_given_inventory_lacks_stays_open(tmp_path: Path) -> None:
    path = left(tmp_path, None)
    inventory = tmp_path / "inventory" / "pod-64.yaml"
    inventory.write_text(inventory.read_text().replace("gpu[001-004,", "gpu[002-004,"))
    (one,) = restored(path, inventory)
    assert (one.host, one.said, one.certain) == ("gpu001", "the inventory has no such host", False)
    assert open_changes(path / JOURNAL)


def test_with_neither_document_nor_journal_both_are_named(tmp_path: Path) -> None:
    path = left(tmp_path, "{")
    (path / JOURNAL).write_bytes(b"nonsense\n" + (path / JOURNAL).read_bytes())
    with pytest.raises(MayBeLive, match=rf"neither can be read: .*{JOURNAL}:1: .*run\.json.*--all-hosts"):
        restored(path, tmp_path / "inventory" / "pod-64.yaml")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--all-hosts"], "needs --inventory"),
        (["--inventory", "x.yaml"], "needs a RUN, or --all-hosts"),
        (["run", "--backend", "mock"], "--backend needs --inventory"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(words: list[str], complaint: str) -> None:
    said = CliRunner().invoke(command, words)
    assert (said.exit_code, complaint in said.output) == (2, True), said.output
