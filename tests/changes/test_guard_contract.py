"""The guard's contract against real sh (dash and busybox) and against the simulated rack."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.changes.guard_contract import GuardContract
from tests.changes.guard_target import RealTarget, SimulatedTarget, Target


class TestRealGuard(GuardContract):
    """The sh of this machine."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> Iterator[Target]:
        """Stub tools in a folder of the test."""
        target = RealTarget(tmp_path)
        yield target
        target.end()


@pytest.mark.lab  # the same once more: not in every default run
@pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is not here")
class TestBusyboxGuard(GuardContract):
    """Another sh: busybox's."""

    @pytest.fixture
    def target(self, tmp_path: Path) -> Iterator[Target]:
        """The same, with a ``sh`` that is busybox."""
        target = RealTarget(tmp_path, shell=("busybox", "sh"))
        yield target
        target.end()


class TestSimulatedGuard(GuardContract):
    """A host of the simulated rack."""

    @pytest.fixture
    def target(self) -> Target:
        """A fresh world."""
        return SimulatedTarget()
