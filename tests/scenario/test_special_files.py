"""Commands on a results folder with special files in it; a short version of benchmarks/special_files.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.special_files import ENDED, KILLED, Case, make_base, try_one

CASES = [
    Case("FIFO", "else/run/changes.jsonl", "restore"),
    Case("-> secret", "else/run/changes.jsonl", "run"),
    Case("FIFO", f"{KILLED}/changes.jsonl", "resume"),
    Case("-> /dev/zero", f"{ENDED}/events.jsonl", "report"),
    Case("FIFO", f"{ENDED}/measurements.parquet", "history"),
]
pytestmark = pytest.mark.slow  # tests/runs/test_plain_file.py says it of every reader


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs that ended, and one that was killed with a change open."""
    folder = tmp_path_factory.mktemp("base")
    make_base(folder)
    return folder


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind} {Path(case.target).name} {case.command}")
def test_a_special_file_is_neither_waited_for_nor_read_nor_written(case: Case, base: Path) -> None:
    """The command ends, within its memory, and neither prints nor alters what lies elsewhere."""
    found = try_one(case, base)
    assert found.wrong == "", found.output
