"""A run that many tests of what people ask for look at."""

from pathlib import Path

import pytest

from tests.report.shown import run_of


@pytest.fixture(scope="session")
def slow_rnic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-check of four hosts, RNIC mlx5_3 of gpu002 slow: its directory, of which only copies are altered."""
    return run_of(tmp_path_factory.mktemp("slow-rnic"), faults=("gpu002/mlx5_3:slow=0.6",), reports=False)
