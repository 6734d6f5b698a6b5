"""A DGX-like rack for tests: 8 GPUs, 8 RNICs, 4 PCIe switches, 2 NUMA nodes a host; one leaf a rail."""

import gc
import os
import signal
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from benchmarks.measured_rack import dgx_platform as dgx_platform
from benchmarks.measured_rack import rack_topology as rack_topology
from fabric.model.topology import Topology
from tests.places import ROOT

# Everywhere else new examples are tried each time, so a quarter of the usual number (a choice); what must be green is
# the same each time. How long an example takes says more about the machine than about it: no limit of its own.
settings.register_profile("anywhere", deadline=None, max_examples=25)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "anywhere")

if sys.dont_write_bytecode:
    # Else every worker, and every process that a test starts, compiles the whole project for itself: half of a run's
    # time. Whoever wants no files beside the sources has them in the folder of pytest's cache.
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(ROOT / ".pytest_cache" / "pycache")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so a shell begins what it runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


gc.disable()  # until all is imported and collected, of which hardly anything is garbage


LONGEST = ("test_install_line_on_a_fresh_checkout", "test_known_runs_say_what_they_said")
"""Each takes a minute or more, and begins first, so that nobody is left waiting for it alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In the order in which they are handed out."""
    items.sort(key=lambda item: item.name not in LONGEST)


def pytest_collection_finish() -> None:
    """Keep the collector from walking what stays for good: every module and every collected test, again and again."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def nobody_cuts_the_power() -> Iterator[None]:
    """
    An fsync of a file or a folder returns at once: what it is for shows only when the power goes, which no test can do.

    A whole run waits longer for the disk than for anything else. Which calls are made, and in which order, is tested
    with an ``os`` of the tests' own (test_crash_states); what a kill leaves behind does not depend on it.
    """
    to_disk = os.fsync

    def fsync(fd: int) -> None:
        mode = os.fstat(fd).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            to_disk(fd)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        yield


def folder_of_this_user() -> Path:
    """A new folder that nobody else can write, nor one above it: a guard uses no other. Whoever asks removes it."""
    of_a_user = os.environ.get("XDG_RUNTIME_DIR") or Path.home()
    return Path(tempfile.mkdtemp(prefix="fabric-test-", dir="/run" if os.geteuid() == 0 else of_a_user))


@pytest.fixture
def rack() -> Topology:
    """Four hosts under one ToR group."""
    return rack_topology(4)
