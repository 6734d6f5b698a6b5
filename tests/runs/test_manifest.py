"""The source files of a run: what counts, and which changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fabric.errors import StoreError
from fabric.runs.manifest import MOST_DIFFERENCES, SourceFile, differences, digest, leftovers, manifest


def _files(run: Path, *names: str) -> None:
    for name in names:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(name)


def test_sources_count_and_what_is_derived_does_not(tmp_path: Path) -> None:
    _files(tmp_path, "run.json", "verdict.json", "certificate.json", "raw/a/verdict.json")
    assert [one.path for one in manifest(tmp_path)] == ["raw/a/verdict.json", "run.json"]


def test_figures_have_a_folder_of_their_own_and_nothing_else_may_lie_there(tmp_path: Path) -> None:
    _files(tmp_path, "run.json", "figures/course.png", "figures/course.svg")
    files = manifest(tmp_path)
    assert [one.path for one in files] == ["run.json"]
    _files(tmp_path, "figures/notes.txt", "pictures/course.png")
    assert differences(files, tmp_path) == ["figures/notes.txt: was not there", "pictures/course.png: was not there"]


@pytest.mark.parametrize("name", ["run.json", "verdict.json", "raw/a.out"])
def test_a_link_is_no_source_and_nothing_derived_either(tmp_path: Path, name: str) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / name).symlink_to("/etc/hostname")
    with pytest.raises(StoreError, match="not a plain file"):
        manifest(tmp_path)


def test_a_fifo_is_no_source_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "events.jsonl")
    with pytest.raises(StoreError, match="not a plain file"):
        manifest(tmp_path)
    assert differences([SourceFile("events.jsonl", 0, "")], tmp_path) == ["events.jsonl: not a plain file"]


def test_an_empty_folder_should_not_be_there_but_where_a_run_leaves_one(tmp_path: Path) -> None:
    for name in ("tickets", "raw/phase", "a/b"):
        (tmp_path / name).mkdir(parents=True)
    assert differences([], tmp_path) == ["a/b/: an empty folder"]


def test_the_digest_is_that_of_the_lines_that_sha256sum_prints() -> None:
    from hashlib import sha256

    files = [SourceFile("b", 1, "1" * 64), SourceFile("a", 1, "2" * 64)]
    assert digest(files) == sha256(f"{'2' * 64}  a\n{'1' * 64}  b\n".encode()).hexdigest()
    assert digest(files) == digest(files[::-1])


def test_every_difference_is_told_once(tmp_path: Path) -> None:
    _files(tmp_path, "a", "b", "c")
    stated = manifest(tmp_path)
    assert differences(stated[::-1], tmp_path) == []
    (tmp_path / "a").write_text("A")
    (tmp_path / "b").unlink()
    _files(tmp_path, "d", ".e.tmp")
    killed = ".e.tmp: was not there (a writer that is killed leaves such a file)"
    assert differences(stated, tmp_path) == [killed, "a: changed", "b: missing", "d: was not there"]


def test_a_file_of_another_size_is_not_read(tmp_path: Path) -> None:
    """A file of 1 TB without content would keep whoever reads it for many minutes."""
    (tmp_path / "a").touch()
    os.truncate(tmp_path / "a", 1 << 40)
    assert differences([SourceFile("a", 1, "")], tmp_path) == ["a: changed"]


def test_of_very_many_differences_only_some_are_told(tmp_path: Path) -> None:
    _files(tmp_path, *(str(number) for number in range(MOST_DIFFERENCES + 50)))
    lines = differences([], tmp_path)
    assert len(lines) == MOST_DIFFERENCES + 2
    assert lines[-1] == "and perhaps more: it was not looked further"


def test_what_killed_writers_left_is_known_and_nothing_else_is(tmp_path: Path) -> None:
    """Neither what is not ours, nor what lies elsewhere."""
    _files(tmp_path, ".verdict.json.tmp", ".STOP.tmp", ".other.tmp", "tickets/.a.md.tmp", "tickets/a.md")
    there = {path.relative_to(tmp_path).as_posix() for path in leftovers(tmp_path) if path.exists()}
    assert there == {".verdict.json.tmp", ".STOP.tmp", "tickets/.a.md.tmp"}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "tickets").symlink_to(tmp_path / "tickets")
    assert not any(path.exists() for path in leftovers(tmp_path / "run"))
