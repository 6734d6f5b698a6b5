"""The same seed gives the same history, byte for byte, whatever goes wrong on the way."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.places import ROOT
from tests.sim.determined import history

pytestmark = pytest.mark.slow


def test_the_same_seed_gives_the_same_bytes(tmp_path) -> None:
    """Twice here, and in a process whose sets and dictionaries are ordered otherwise; another seed differs."""
    first = history(tmp_path / "first", seed=5)
    assert first.count(b'"finished"') > 300
    assert len({line.split(b'"outcome":')[1][:8] for line in first.splitlines() if b'"outcome":' in line}) >= 2
    assert history(tmp_path / "second", seed=5) == first
    assert history(tmp_path / "other", seed=6) != first
    for hash_seed in ("1", "77"):
        found = subprocess.run(
            [sys.executable, "-m", "tests.sim.determined", str(tmp_path / hash_seed)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        assert found.stdout == first
