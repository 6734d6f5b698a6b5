"""A target without processes or file descriptors: the guard keeps its lease and undoes, in every sh."""

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from benchmarks.lab.lab import SLOWER
from fabric.model.change import Lease
from tests.changes.guard_target import PEER, RealTarget, until

pytestmark = pytest.mark.slow

TTL_S = 3.0 * SLOWER
AFTER_S = 20.0
"""bash waits up to 8 s between two tries to fork."""

CGROUPS = Path("/sys/fs/cgroup/pids")
SHELLS = {"dash": ("dash",), "bash": ("bash",), "busybox": ("busybox", "sh")}


@pytest.fixture(params=SHELLS)
def target(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RealTarget]:
    """A closed port whose guard runs in a shell that is the only one here."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not here")
    target = RealTarget(tmp_path, shell=SHELLS[request.param])
    for other in SHELLS.keys() - {request.param}:
        target.stub(other, "#!/bin/dash\nexit 127\n")
    target.guard.read_armed(target.arm(lease=Lease(30.0, 60.0)))
    target.applied()
    yield target
    target.end()


@contextmanager
def no_process(pid: int) -> Iterator[None]:
    """A process that can start no other."""
    if os.geteuid() != 0 or not (CGROUPS / "cgroup.procs").exists():
        pytest.skip("needs root and a pids cgroup")
    group = Path(tempfile.mkdtemp(prefix="fabric-test-", dir=CGROUPS))
    (group / "cgroup.procs").write_text(str(pid))
    (group / "pids.max").write_text("0")
    try:
        yield
    finally:
        (group / "pids.max").write_text("max")
        until(lambda: _emptied(group), "nobody is in the group")


def _emptied(group: Path) -> bool:
    """Whoever is in it goes back; dash, which may try at once, starts others meanwhile."""
    with suppress(OSError):
        for left in (group / "cgroup.procs").read_text().split():
            (CGROUPS / "cgroup.procs").write_text(left)
        group.rmdir()
    return not group.exists()


def _renewed(target: RealTarget) -> None:
    target.guard.read_renewed(target.run(target.guard.renew("one", TTL_S)))


@pytest.mark.parametrize(
    ("target", "beyond_s"), [("dash", 1.0), ("busybox", 1.0), ("bash", 1.0), ("bash", 18.0)], indirect=["target"]
)
def test_a_guard_that_cannot_fork_undoes_as_soon_as_it_can(target: RealTarget, beyond_s: float) -> None:
    """It waits without a fork; when its lease ends it cannot undo, for longer than bash tries by itself, and stays."""
    _renewed(target)
    with no_process(target.guard_pid()):
        target.pass_time(TTL_S + beyond_s)
        assert target.is_closed()
        assert target.is_guard(target.guard_pid())
    until(lambda: target.listed()[0].state == "reverted", "reverted by the guard", AFTER_S)
    assert not target.is_closed()


@pytest.mark.parametrize(
    ("target", "most"), [("dash", 3), ("dash", 9), ("dash", 11), ("busybox", 9), ("bash", 9)], indirect=["target"]
)
def test_a_guard_without_file_descriptors_keeps_its_lease(target: RealTarget, most: int) -> None:
    """What it cannot read it takes as it was; it undoes when the lease is over, and not before."""
    _renewed(target)
    resource.prlimit(target.guard_pid(), resource.RLIMIT_NOFILE, (most, 4096))
    target.pass_time(1.0)
    assert target.is_closed()
    assert target.listed()[0].alive
    until(lambda: target.listed()[0].state == "reverted", "reverted by the guard", AFTER_S)
    assert not target.is_closed()


_SYSTEMD = 'mount -t tmpfs none /run/systemd && mkdir /run/systemd/system && exec "$@"'
_SYSTEMD_RUN = """#!/bin/sh
case "$*" in *" -p Restart=on-failure "*) ;; *) exit 1 ;; esac
while [ "$1" != -- ]; do shift; done; shift
(until setsid "$@"; do sleep 0.2; done) </dev/null >/dev/null 2>&1 &
"""


@pytest.mark.lab
def test_a_killed_guard_is_begun_again_by_systemd(target: RealTarget) -> None:
    """It takes the change over from its predecessor, also when that had no time to say anything."""
    target.stub("systemd-run", _SYSTEMD_RUN)
    target.guard.read_reverted(target.run(target.guard.revert("one")))
    argv = target.guard.arm("one", owner="run-1", lease=Lease(30.0, 60.0), peer=PEER, what=target.alteration)
    target.guard.read_armed(target.run(argv, before=("unshare", "-m", "sh", "-c", _SYSTEMD, "sh")))
    target.applied()
    first = target.guard_pid()
    target.kill_guard()
    until(lambda: target.listed()[0].alive and target.guard_pid() != first, "another guard", AFTER_S)
    _renewed(target)
    until(lambda: target.listed()[0].state == "reverted", "reverted by the guard", AFTER_S)
    assert not target.is_closed()
    second = target.guard_pid()
    target.guard.read_reverted(target.run(target.guard.revert("one")))
    assert not target.is_guard(second)
