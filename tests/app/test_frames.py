"""A run as pandas frames: as documented, enough by themselves, and made again where there are none."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import fabric
from fabric.app.analyze import analyze
from fabric.app.frames import Run
from fabric.runs.tables import TABLES
from tests.places import ROOT


@pytest.fixture
def path(slow_rnic: Path) -> Path:
    return slow_rnic


@pytest.fixture
def copy(path: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(path, tmp_path / path.name))


@pytest.mark.parametrize("name", list(TABLES))
def test_frames_documents_and_docstring_agree(path: Path, name: str) -> None:
    """Columns in order, with type and unit."""
    columns = [(column, kind, unit) for column, (kind, unit) in TABLES[name].columns.items()]
    frame = getattr(fabric.load(path), name)
    assert [(column, str(kind)) for column, kind in frame.dtypes.items()] == [one[:2] for one in columns]
    section = (ROOT / "docs" / "data.md").read_text().partition(f"## `run.{name}`, {TABLES[name].file}\n")[2]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| .+ \|$", section.partition("\n## ")[0], re.MULTILINE)
    assert rows == columns
    told = (Run.__doc__ or "").partition(f"*{name}* ({TABLES[name].file})")[2].partition("=\n\n")[0]
    lines = [re.split(r" {2,}", line.strip()) for line in told.splitlines() if line.strip() and "=" not in line][1:]
    assert [(*line, "", "")[:3] for line in lines] == columns


def test_one_rnic_over_time_needs_no_id_and_no_other_file(path: Path) -> None:
    samples = fabric.load(path).samples
    one = samples[(samples.host == "gpu002") & (samples.rnic == "mlx5_3") & (samples.kind == "loopback")]
    assert len(one) == 10
    assert (one.share < 0.98).all()
    assert one["at"].is_monotonic_increasing
    assert set(one.outcome) == {"fail"}


@pytest.mark.parametrize("damage", ["none", "older"])
def test_tables_that_are_not_there_are_made_again_and_kept(path: Path, copy: Path, damage: str) -> None:
    """As of a run that an older version wrote."""
    before, verdict = fabric.load(path), (copy / "verdict.json").read_bytes()
    for table in TABLES.values():
        (copy / table.file).unlink()
    if damage == "older":
        pd.DataFrame({"probe_id": ["a"], "value": [1.0]}).to_parquet(copy / TABLES["samples"].file)
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(fabric.load(copy), name), getattr(before, name))
        assert (copy / TABLES[name].file).is_file()
    assert (copy / "verdict.json").read_bytes() == verdict


def test_rows_made_and_written_in_groups_are_one_table(path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group has texts of its own."""
    (copy / TABLES["parts"].file).unlink()
    monkeypatch.setattr("fabric.app.measured.AT_ONCE", 7)
    made, kept, before = fabric.load(copy), fabric.load(copy), fabric.load(path)
    for name in TABLES:
        expected = getattr(before, name).astype(object)
        for run in (made, kept):
            pd.testing.assert_frame_equal(getattr(run, name).astype(object), expected)


def test_a_run_whose_verdict_is_old_is_read_as_far_as_it_came(copy: Path) -> None:
    """It goes on, or was killed: nothing is written beside it."""
    lines = (copy / "events.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "events.jsonl").write_bytes(b"".join(lines[:400]))
    files = {file.name: file.stat().st_mtime_ns for file in copy.iterdir()}
    samples = fabric.load(copy).samples
    assert samples.gbps.isna().any()
    assert {file.name: file.stat().st_mtime_ns for file in copy.iterdir()} == files


def test_a_defect_in_a_table_does_not_cost_the_verdict(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> None:
        raise ValueError("no such column")

    (copy / "verdict.json").unlink()
    monkeypatch.setattr("fabric.app.analyze.tables_of", broken)
    analyze(copy, rewrite=True)
    assert (copy / "verdict.json").is_file()
    assert "tables could not be made: ValueError: no such column" in capsys.readouterr().err


def test_importing_fabric_is_light() -> None:
    code = "import sys, fabric; sys.exit(bool({'pandas', 'numpy', 'pyarrow', 'pydantic'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0
