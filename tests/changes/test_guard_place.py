"""Where a guard keeps its undo: whoever else could write there could have anything run, so nothing is used there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fabric.changes.guard import GuardCannotWrite
from fabric.model.change import Argv
from tests.changes.guard_target import RealTarget
from tests.places import INVENTORY

STRANGER = 65534
AS_STRANGER = ("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a second user needs root")

_PLANT = """
mkdir "$1/planted" && cd "$1/planted" && : >lock && : >alive && : >is-applied && : >checks &&
echo "touch $2" >undo && echo 99999999 >lease && cat /proc/sys/kernel/random/boot_id >boot && ln -s "$2.arm" "$1/.arm"
"""
_INVENTORY = """\
name: one
backend: process
platforms:
  small:
    baseline: h100-ndr
    link_layer: infiniband
    numa_nodes: 1
    rnics:
      - {{device: mlx5_0, rail: 0, numa: 0, line_rate_gbps: 400}}
hosts:
  - {{names: gpu001, platform: small, leaves: [leaf1]}}
switches:
  - {{names: leaf1, tier: leaf}}
changes:
  guard_directory: {guards}
"""


def _calls(target: RealTarget) -> tuple[tuple[Argv, Callable[..., object]], ...]:
    guard = target.guard
    return (
        (guard.list(), guard.read_list),
        (guard.apply("one", target.close), guard.read_applied),
        (guard.renew("one", 5.0), guard.read_renewed),
        (guard.lift("one"), guard.read_lifted),
        (guard.revert("one"), guard.read_reverted),
        (guard.log("one"), guard.read_log),
    )


def _refused(target: RealTarget, why: str) -> None:
    """Every verb says why and does nothing."""
    with pytest.raises(GuardCannotWrite, match=why):
        target.guard.read_armed(target.arm("two"))
    for argv, read in _calls(target):
        with pytest.raises(GuardCannotWrite, match=why):
            read(target.run(argv))


@pytest.mark.parametrize(("mode", "above"), [(0o1777, True), (0o770, False)])
def test_a_directory_that_others_can_write_is_not_used(target: RealTarget, mode: int, above: bool) -> None:
    """Nor one below such a directory; sticky or not."""
    target.guard.read_armed(target.arm())
    directory = target.place if above else Path(target.guard.directory)
    directory.chmod(mode)
    _refused(target, f"others can write {directory}")
    directory.chmod(0o700)
    target.guard.read_reverted(target.run(target.guard.revert("one")))


def test_a_directory_that_is_none_or_a_link_is_not_used(target: RealTarget) -> None:
    """Whoever made the link decides where it leads."""
    directory = Path(target.guard.directory)
    directory.write_text("")
    _refused(target, "is not a directory of this user")
    directory.unlink()
    (target.place / "real").mkdir(mode=0o700)
    directory.symlink_to(target.place / "real")
    _refused(target, f"{directory} is a link")
    target.guard = type(target.guard)(f"{directory}/guards")
    _refused(target, f"{directory} is a link")


@pytest.mark.parametrize("inside", [".arm", "one/lease"])
def test_a_directory_with_a_link_or_a_file_for_all_in_it_is_not_used(target: RealTarget, inside: str) -> None:
    """From a time when others could write there."""
    place = Path(target.guard.directory, inside)
    place.parent.mkdir(mode=0o700, parents=True)
    place.symlink_to(target.here / "elsewhere")
    _refused(target, "or it holds a link")
    assert not (target.here / "elsewhere").exists()
    place.unlink()
    place.write_text("")
    place.chmod(0o602)
    _refused(target, "others own or can write something in")


@needs_root
@pytest.mark.parametrize("inside", ["..", "one/undo"])
def test_a_directory_of_another_user_is_not_used(target: RealTarget, inside: str) -> None:
    """Nor one in which something is."""
    target.guard.read_armed(target.arm())
    place = Path(target.guard.directory, inside)
    os.chown(place, STRANGER, 0)
    _refused(target, "is not a directory of this user" if inside in ("..", ".") else "others own or can write")
    os.chown(place, 0, 0)
    target.guard.read_reverted(target.run(target.guard.revert("one")))


@needs_root
@pytest.mark.parametrize("closed_again", [pytest.param(False, marks=pytest.mark.slow), True])
def test_nothing_that_another_user_planted_is_run(target: RealTarget, closed_again: bool) -> None:
    """Also when the directory was closed to others since: ``fabric restore --all-hosts`` says why and ends with 4."""
    directory, proof = Path(target.guard.directory), target.here / "pwned"
    target.here.chmod(0o777)
    target.place.chmod(0o755)
    directory.mkdir()
    directory.chmod(0o1777)
    words = ("sh", "-c", _PLANT, "sh", str(directory), str(proof))
    subprocess.run((*AS_STRANGER, *words), check=True, timeout=20)
    if closed_again:
        directory.chmod(0o700)
    inventory = target.here / "one.yaml"
    inventory.write_text(_INVENTORY.format(guards=directory))
    (target.here / "baselines").symlink_to(INVENTORY / "baselines")
    argv = (sys.executable, "-c", "from fabric.cli.main import run; run()", "restore", "--all-hosts")
    done = subprocess.run(
        (*argv, "--inventory", str(inventory)), capture_output=True, text=True, timeout=60, check=False, cwd=target.here
    )
    assert (done.returncode, "the guard cannot write" in done.stdout + done.stderr) == (4, True), done
    assert target.arm("two").exit_status == 74
    assert not proof.exists()
    assert not proof.with_name("pwned.arm").exists()
