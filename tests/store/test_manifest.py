"""The source files of a run: what counts, and which changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.errors import StoreError
from fabric.store.manifest import SourceFile, differences, digest, manifest


def test_sources_count_and_what_is_derived_does_not(tmp_path: Path) -> None:
    for name in ("run.json", "verdict.json", "certificate.json", ".run.json.tmp", "raw/a/verdict.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    assert [one.path for one in manifest(tmp_path)] == ["raw/a/verdict.json", "run.json"]


def test_a_link_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "run.json").symlink_to("/etc/hostname")
    with pytest.raises(StoreError, match="not a plain file"):
        manifest(tmp_path)


def test_the_digest_is_that_of_the_lines_that_sha256sum_prints() -> None:
    from hashlib import sha256

    files = [SourceFile("b", 1, "1" * 64), SourceFile("a", 1, "2" * 64)]
    assert digest(files) == sha256(f"{'2' * 64}  a\n{'1' * 64}  b\n".encode()).hexdigest()
    assert digest(files) == digest(files[::-1])


def test_every_difference_is_told_once() -> None:
    a, b, c = (SourceFile(name, 1, "0" * 64) for name in "abc")
    assert differences([a, b], [SourceFile("a", 1, "1" * 64), c]) == ["a: changed", "b: missing", "c: was not there"]
    assert differences([a, b], [b, a]) == []
