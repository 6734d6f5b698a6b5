"""What the tools printed survives a dead process and a full disk, entry by entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.errors import StoreError
from fabric.model.command import Command, CommandResult
from fabric.model.probe import ProbeResult
from fabric.runs import plain_file
from fabric.runs.run_directory import RawOutput, raw_entries
from tests.runs.full_disk import full_disk


def keep(raw: RawOutput, probe: str, attempt: int, text: str) -> None:
    """One command's output."""
    output = CommandResult(Command("h", ("tool",), 1.0), 0, text, "", 0.0, 1.0)
    raw.keep(ProbeResult(probe, attempt, (), None, "", 0.0, 1.0), [output])


def test_an_entry_behind_a_torn_one_begins_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "raw" / "a").mkdir(parents=True)
    (tmp_path / "raw" / "a" / "h.out").write_text("=== a/h/p attempt 1\n$ [h] to")
    raw = RawOutput(tmp_path)
    keep(raw, "a/h/p", 2, "good\n")
    raw.flush()
    lines = (tmp_path / "raw" / "a" / "h.out").read_text().splitlines()
    assert lines[1:3] == ["$ [h] to", "=== a/h/p attempt 2"]
    assert "good" in raw_entries(tmp_path, "a/h/p")


@pytest.mark.parametrize("failing", ["write", "short write"])
def test_after_a_full_disk_each_entry_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    raw = RawOutput(tmp_path)
    keep(raw, "a/h/p", 1, "one\n")
    raw.flush()
    with monkeypatch.context() as patch:
        patch.setattr(plain_file, "os", full_disk(failing))
        keep(raw, "a/h/q", 1, "two\n")
        with pytest.raises(StoreError, match="No space left"):
            raw.flush()
    raw.flush()
    text = (tmp_path / "raw" / "a" / "h.out").read_text()
    assert (text.count("one"), text.count("two"), text.count("===")) == (1, 1, 2)


def test_what_was_flushed_is_there_before_it_is_durable(tmp_path: Path) -> None:
    """Whoever looks at a run that goes on, or was killed, finds it."""
    raw = RawOutput(tmp_path)
    keep(raw, "a/h/p", 1, "one\n")
    raw.flush()
    assert "one" in raw_entries(tmp_path, "a/h/p")


def test_a_transcript_that_cannot_be_made_durable_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = RawOutput(tmp_path)
    keep(raw, "a/h/p", 1, "one\n")
    raw.flush()
    with monkeypatch.context() as patch:
        patch.setattr(plain_file, "os", full_disk("fsync"))
        with pytest.raises(StoreError, match="No space left"):
            raw.settle()
    raw.settle()
