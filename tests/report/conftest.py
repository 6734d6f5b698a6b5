"""One bad rack and one healthy one, measured once for all tests of reports."""

from pathlib import Path

import pytest

from fabric.app.analyze import reopened
from fabric.report.shown_run import ShownRun
from tests.report.shown import run_of


@pytest.fixture(scope="session")
def bad_rack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four hosts, RNIC mlx5_3 of gpu002 slow."""
    return run_of(tmp_path_factory.mktemp("results"), faults=("gpu002/mlx5_3:slow=0.6",))


@pytest.fixture(scope="session")
def bad_run(bad_rack: Path) -> ShownRun:
    """The same, read back."""
    return reopened(bad_rack)


@pytest.fixture(scope="session")
def changed_run(tmp_path_factory: pytest.TempPathFactory) -> ShownRun:
    """A scenario that changes the fabric: adaptive routing off and on under bit errors."""
    return reopened(run_of(tmp_path_factory.mktemp("changes"), scenario="ar-under-ber", hosts=None, reports=False))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A run of 512 GPUs takes its time: what looks at it is slow."""
    for item in items:
        if "changed_run" in getattr(item, "fixturenames", ()) or "changed_run" in item.name:
            item.add_marker(pytest.mark.slow)
