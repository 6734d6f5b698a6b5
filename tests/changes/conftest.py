"""What several files of tests of the guard begin with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.changes.guard_target import RealTarget


@pytest.fixture
def target(tmp_path: Path) -> Iterator[RealTarget]:
    """Stub tools in a folder of the test."""
    target = RealTarget(tmp_path)
    yield target
    target.end()
