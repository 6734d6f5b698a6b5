"""Known runs, one or two of each sort, still say what they said; ``benchmarks/golden.py --check`` runs all."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.places import ROOT

PROGRAM = ROOT / "benchmarks" / "golden.py"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_known_runs_say_what_they_said() -> None:
    """Exit codes, console text and verdicts are those that are kept."""
    names = ("diagnose", "shipped/self-check", "shipped/ring", "post-repair/accepted", "two-levels/clean")
    names += (
        "two-levels/gpu002_mlx5_3",
        "three-level/u1-leaf0_slow",
        "two-rails-a-leaf/leaf2--spine0_slow",
        "roce/tor1",
    )
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--check", *names], capture_output=True, text=True, timeout=550, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
