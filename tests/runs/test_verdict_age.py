"""A verdict is of all that was measured when it rests on the whole history, wherever the files are copied to."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.runs.told_verdict import history_bytes, is_of_all


@pytest.mark.parametrize(
    ("judged_bytes", "of_all"), [(3, True), (2, False), (0, False), (None, True)], ids=["all", "less", "none", "unsaid"]
)
def test_a_verdict_of_less_than_there_is_is_not_of_all(tmp_path: Path, judged_bytes: int | None, of_all: bool) -> None:
    (tmp_path / "events.jsonl").write_bytes(b"abc")
    assert history_bytes(tmp_path) == 3
    assert is_of_all(tmp_path, judged_bytes) is of_all


def test_without_a_history_a_verdict_is_believed(tmp_path: Path) -> None:
    assert history_bytes(tmp_path) == 0
    assert is_of_all(tmp_path, 17)
