"""Folders that this process cannot look into, as another account's are."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    """A new folder that every account may enter; those of pytest are only for who runs it."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def shut(*paths: Path) -> Iterator[None]:
    """Nobody may read these meanwhile; root, who may read all, is somebody else meanwhile."""
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(0)
    root = os.geteuid() == 0
    try:
        if root:
            os.seteuid(NOBODY)
        yield
    finally:
        if root:
            os.seteuid(0)
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode)
