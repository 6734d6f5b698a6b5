"""Fixtures of the lab: real sshd servers in network namespaces; without root or sshd its tests are skipped."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lab.change_rack import ChangeRack
from benchmarks.lab.lab import Lab
from benchmarks.lab.namespaces import inside
from benchmarks.lab.rack import Rack
from benchmarks.lab.sshd import SSHD
from fabric.model.inventory import SshSettings

LONGEST = ("test_changes", "test_box", "test_kills", "test_ibsim", "test_killed_runs", "test_chaos")
"""The files that take a minute or more: they begin first, so that nobody is left waiting for one alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In the order in which they are handed out."""
    places = {f"{name}.py": place for place, name in enumerate(LONGEST)}
    lab = Path(__file__).parent
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)) if lab in item.path.parents else len(LONGEST))


def missing() -> str | None:
    """Why there can be no lab on this machine, None when there can."""
    if os.geteuid() != 0:
        return "the lab needs root"
    if not SSHD.exists() or shutil.which("ssh-keygen") is None:
        return "the lab needs sshd (openssh-server)"
    return None if shutil.which("ip") is not None else "the lab needs ip (iproute2)"


@pytest.fixture(scope="session")
def root() -> None:
    """Skip unless this machine can have a lab."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def lab(root: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three hosts with sshd, shared by all tests, which must leave them as they were."""
    with Lab(tmp_path_factory.mktemp("lab"), hosts=("h1", "h2", "h3")) as made:
        yield made


@pytest.fixture
def orchestrator(lab: Lab) -> Iterator[Lab]:
    """The lab, seen from the orchestrator's namespace: this test's own sockets are in it."""
    with inside(lab.namespaces.orchestrator):
        yield lab


@pytest.fixture
def settings(lab: Lab) -> SshSettings:
    """How the lab's hosts are reached."""
    return lab.settings()


@pytest.fixture
def rack(root: None, tmp_path: Path) -> Iterator[Callable[..., Rack]]:
    """Makes racks: ``rack(hosts=4, parts=2, faults=(), seed=1, speed=100.0)``; they end with the test."""
    with contextlib.ExitStack() as stack:

        def _rack(**wanted: Any) -> Rack:
            folder = tmp_path / f"rack{next(numbers)}"
            folder.mkdir()
            return stack.enter_context(Rack(folder, **wanted))

        numbers = itertools.count()
        yield _rack


@pytest.fixture(scope="session")
def change_rack(root: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChangeRack]:
    """A rack whose links are real ones, shared by all tests, which must leave its hosts as they were."""
    folder = tmp_path_factory.mktemp("changes") / "rack"
    folder.mkdir()
    with ChangeRack(folder, hosts=8) as made:
        yield made
