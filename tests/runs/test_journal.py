"""The journal stays readable whatever the disk does to one of its lines, and says so when somebody else wrote there."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from fabric.app.restore import restore
from fabric.errors import MayBeLive, StoreError
from fabric.runs import plain_file
from fabric.runs.journal import JOURNAL, Journal, open_changes, read_journal, refuse_while_open
from fabric.wiring import BACKENDS
from tests.runs.small_run import ended


def full_disk(monkeypatch: pytest.MonkeyPatch, *, at: str, call: int) -> None:
    """The n-th write is cut in the middle, or the n-th fsync of a file fails; everything else is as always."""
    calls = {"write": 0, "fsync": 0}

    def write(fd: int, data: bytes) -> int:
        calls["write"] += 1
        if at == "write" and calls["write"] == call:
            os.write(fd, bytes(data)[:20])
            raise OSError(28, "No space left on device")
        return os.write(fd, data)

    def fsync(fd: int) -> None:
        calls["fsync"] += not Path(f"/proc/self/fd/{fd}").readlink().is_dir()
        if at == "fsync" and calls["fsync"] == call:
            calls["fsync"] += 1
            raise OSError(5, "Input/output error")

    real = {name: getattr(os, name) for name in dir(os) if not name.startswith("__")}
    monkeypatch.setattr(plain_file, "os", SimpleNamespace(**real | {"write": write, "fsync": fsync}))


@pytest.mark.parametrize("at", ["write", "fsync"])
def test_a_line_that_could_not_be_written_spoils_no_later_one(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_disk(monkeypatch, at=at, call=2)
    journal = Journal(tmp_path / JOURNAL)
    journal.record("a", "intent", {})
    with pytest.raises(StoreError):
        journal.record("a", "armed", {})
    journal.record("a", "reverted", {})
    journal.record("b", "intent", {})
    journal.close()
    assert [(one["change"], one["state"]) for one in read_journal(tmp_path / JOURNAL)] == [
        ("a", "intent"),
        ("a", "reverted"),
        ("b", "intent"),
    ]


def test_a_journal_that_another_process_writes_is_not_written_on_the_second_try_either(tmp_path: Path) -> None:
    first, second = Journal(tmp_path / JOURNAL), Journal(tmp_path / JOURNAL)
    first.record("a", "intent", {})
    for _ in range(2):
        with pytest.raises(StoreError, match="another process"):
            second.record("a", "reverted", {})
    first.close()
    assert [one["state"] for one in read_journal(tmp_path / JOURNAL)] == ["intent"]


def damaged(results: Path, name: str) -> Path:
    """The journal of a run, with a foreign line in the middle."""
    path = results / name / "run" / JOURNAL
    path.parent.mkdir(parents=True)
    journal = Journal(path)
    journal.record("a", "intent", {})
    journal.close()
    path.write_bytes(b"somebody was here\n" + path.read_bytes())
    return path


def test_a_journal_that_cannot_be_read_counts_as_a_change_that_may_be_live(tmp_path: Path) -> None:
    path = damaged(tmp_path, "s")
    with pytest.raises(MayBeLive, match=str(path)):
        refuse_while_open(tmp_path)


def test_restore_goes_on_behind_a_journal_that_cannot_be_read(tmp_path: Path) -> None:
    damaged(tmp_path, "first")
    damaged(tmp_path, "second")
    found = restore(None, results=tmp_path, make_executor=lambda *_: pytest.fail("nothing to ask"))
    assert [(Path(one.run).parent.name, one.certain) for one in found] == [("first", False), ("second", False)]


def special(kind: str, path: Path) -> None:
    """Put something there that is no journal, and that nobody should wait for or read."""
    path.parent.mkdir(parents=True)
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "sparse":
        path.touch()
        os.truncate(path, 20 << 30)
    else:
        path.symlink_to(kind)


@pytest.mark.parametrize("kind", ["FIFO", "directory", "sparse", "/dev/zero", "/etc/passwd", "nowhere", JOURNAL])
def test_what_is_no_plain_file_counts_as_a_journal_that_cannot_be_read(kind: str, tmp_path: Path) -> None:
    """A change may be live where the journal's name is taken by something else, and nothing of that is printed."""
    special(kind, tmp_path / "s" / "run" / JOURNAL)
    found = restore(None, results=tmp_path, make_executor=lambda *_: pytest.fail("nothing to ask"))
    assert [one.certain for one in found] == [False]
    assert "not a plain file" in found[0].said or "larger than 1 GiB" in found[0].said
    assert "root:" not in found[0].said
    with pytest.raises(MayBeLive, match=JOURNAL):
        refuse_while_open(tmp_path)
    with pytest.raises(StoreError):
        Journal(tmp_path / "s" / "run" / JOURNAL).record("a", "intent", {})


def test_restore_takes_back_behind_a_fifo(tmp_path: Path) -> None:
    """The change of a dead run is taken back though the journal of another one is a FIFO, which is reported."""
    run = ended(tmp_path)
    lines = (run / JOURNAL).read_bytes().splitlines(keepends=True)
    (run / JOURNAL).write_bytes(b"".join(lines[: 1 + max(n for n, line in enumerate(lines) if b'"in_force"' in line)]))
    special("FIFO", tmp_path / "results" / "a" / "run" / JOURNAL)
    assert len(open_changes(run / JOURNAL)) == 1
    found = restore(
        None, results=tmp_path / "results", make_executor=lambda name, inventory: BACKENDS[name](inventory, 1)
    )
    assert [(Path(one.run).parent.name, one.certain) for one in found] == [("a", False), ("small", True)]
    assert open_changes(run / JOURNAL) == ()


def test_a_run_is_refused_with_every_journal_that_is_in_the_way(tmp_path: Path) -> None:
    """One that cannot be read does not hide another with an open change."""
    special("FIFO", tmp_path / "a" / "run" / JOURNAL)
    (tmp_path / "b" / "run").mkdir(parents=True)
    journal = Journal(tmp_path / "b" / "run" / JOURNAL)
    journal.record("ber.gpu001", "intent", {})
    journal.close()
    with pytest.raises(MayBeLive, match=r"a/run/changes\.jsonl.* may have left changes behind \(ber\.gpu001\)"):
        refuse_while_open(tmp_path)
