"""The guard's contract against real sh (dash and busybox) and against the simulated rack."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.changes.guard_contract import GuardContract
from tests.changes.guard_target import RealTarget, SimulatedTarget, Target


@pytest.mark.slow  # real leases run out
class TestRealGuard(GuardContract):
    """All of it, with the sh of this machine."""


class TestRealGuardInShort:
    """What no default run leaves out: a change is made and taken back, by whoever lives."""

    test_applied_and_reverted = GuardContract.test_what_is_applied_is_in_force_until_it_is_reverted
    test_the_guard_undoes = GuardContract.test_a_lease_that_runs_out_undoes
    test_too_late = GuardContract.test_an_apply_that_comes_too_late_is_refused
    test_our_session = GuardContract.test_the_interface_of_the_session_is_never_touched


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
