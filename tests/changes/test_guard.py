"""A guard's calls and answers; its contract against real sh and the simulated rack; where it keeps its undo."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.changes.guard import (
    GUARD,
    Guard,
    GuardCannotWrite,
    GuardMissingTool,
    GuardUnclear,
    LeaseGone,
    Listed,
    NotUndone,
    StepFailed,
    UnknownChange,
    checks_text,
    steps_text,
)
from fabric.errors import ChangeError, Refused
from fabric.model.change import Alteration, Argv, Check, Lease
from fabric.model.probe import Command, CommandResult
from tests.changes.guard_contract import GuardContract
from tests.changes.guard_target import RealTarget, SimulatedTarget, Target
from tests.places import INVENTORY

PLAIN = Guard("/run/fabric-guard")
WHAT = Alteration("h", (("a",),), (("port", "up"),), (Check(("port",), ("^up$",)),), "up", ("mlx5_0", "mlx5_1"))
WORDS = st.lists(st.text(st.characters(exclude_characters="\n\r\0")), max_size=5)


def _said(argv: tuple[str, ...], status: int, stdout: str, stderr: str = "") -> CommandResult:
    return CommandResult(Command("gpu001", argv, 20.0), status, stdout, stderr, 0.0, 1.0)


def test_values_arrive_beside_the_text_and_never_in_it() -> None:
    """One constant text, then the directory, the verb, and its arguments in the protocol's order."""
    argv = PLAIN.arm("x.1", owner="run", lease=Lease(2.5, 60), peer="192.0.2.7", what=WHAT)
    assert argv[:6] == ("sh", "-c", GUARD, "fabric-guard", "/run/fabric-guard", "arm")
    rest = ("x.1", "run", "2.50", "60.00", "192.0.2.7", "mlx5_0,mlx5_1", "port up", "'^up$' -- port", "")
    assert argv[6:] == rest


@given(st.lists(WORDS.map(lambda words: ("tool", *words)), max_size=4))
def test_steps_come_apart_again_as_they_were(steps: list[tuple[str, ...]]) -> None:
    """One line a step, whatever the words."""
    lines = steps_text(steps).split("\n") if steps else []
    assert [tuple(shlex.split(line)) for line in lines] == steps


@pytest.mark.parametrize("words", [("a\nb",), ("a", "b\0"), ("a", "\r"), (), ("",), ("", "x")])
def test_words_that_no_line_can_hold_are_refused(words: tuple[str, ...]) -> None:
    """Before anything is sent."""
    with pytest.raises(ValueError, match=r"line break|without a name"):
        steps_text([words])


@pytest.mark.parametrize("pattern", ["--", "", r"\d+", "(?i)up", "a*?", "up\n"])
def test_a_pattern_that_grep_would_read_otherwise_is_refused(pattern: str) -> None:
    """POSIX extended expressions only, and none that ends the list of patterns."""
    with pytest.raises(ValueError, match=r"pattern|line break"):
        checks_text([Check(("port",), (pattern,))])


@pytest.mark.parametrize("guard_id", ["", ".hidden", "a/b", "a b", "a\n", "é", "x" * 129, "-x;", "a:b"])
def test_a_name_that_is_no_folder_of_its_own_is_refused(guard_id: str) -> None:
    """It becomes a path on the target."""
    with pytest.raises(ValueError, match="guard's id"):
        PLAIN.revert(guard_id)


@pytest.mark.parametrize("owner", ["", "a b", "a\n", "x" * 256, "a'b"])
def test_an_owner_that_is_no_single_word_is_refused(owner: str) -> None:
    """It is a word of the list's lines."""
    with pytest.raises(ValueError, match="owner"):
        PLAIN.arm("x", owner=owner, lease=Lease(), peer="", what=WHAT)


@pytest.mark.parametrize("ttl_s", [0.0, -1.0, float("inf"), float("nan"), 1e6])
def test_a_lease_that_no_clock_can_keep_is_refused(ttl_s: float) -> None:
    """Seconds, more than none and less than a million."""
    with pytest.raises(ValueError, match="lease"):
        PLAIN.renew("x", ttl_s)


def test_what_cannot_be_guarded_is_refused() -> None:
    """No undo, no device name, more than one argument can carry."""
    for what in (replace(WHAT, undo=()), replace(WHAT, devices=("",)), replace(WHAT, devices=("a,b",))):
        with pytest.raises(ValueError, match=r"undo|device"):
            PLAIN.arm("x", owner="run", lease=Lease(), peer="", what=what)
    with pytest.raises(ValueError, match="fit"):
        PLAIN.apply("x", (("echo", "x" * 130_000),))


ERRORS = [
    (71, "failed 1 port down", StepFailed, "a step ended with 1 port down"),
    (72, "unknown x", UnknownChange, "no change x is known here"),
    (73, "busy y owner other", Refused, "another change is held here: y owner other"),
    (74, "unwritable /d", GuardCannotWrite, "the guard cannot write: /d"),
    (75, "gone x", LeaseGone, "the lease of x is gone"),
    (76, "not-undone x", NotUndone, "x is not undone"),
    (77, "forbidden eth0 carries the session through eth0", Refused, "eth0 carries the session through eth0"),
    (78, "missing flock", GuardMissingTool, "there is no flock"),
]


@pytest.mark.parametrize(("status", "line", "kind", "text"), ERRORS)
def test_every_refusal_has_an_error_of_its_own(status: int, line: str, kind: type[ChangeError], text: str) -> None:
    """With the host, the words of the guard, and what the tools printed."""
    answer = _said(PLAIN.apply("x", (("a",),)), status, f"tool says\n\n{line}\n", "port: no answer\n")
    with pytest.raises(kind) as caught:
        PLAIN.read_applied(answer)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(f"gpu001: {text}")
    assert str(caught.value).endswith("port: no answer")


@pytest.mark.parametrize(
    ("status", "stdout"),
    [
        (0, ""),
        (0, "applied y\n"),
        (0, "reverted x\n"),
        (1, "applied x\n"),
        (127, "sh: not found\n"),
        (75, ""),
        (76, "gone x\n"),
    ],
)
def test_what_is_no_answer_of_the_guard_is_unclear(status: int, stdout: str) -> None:
    """Status and words must agree, and be about this change; nothing is guessed."""
    with pytest.raises(GuardUnclear, match=f"ended with {status}"):
        PLAIN.read_applied(_said(PLAIN.apply("x", (("a",),)), status, stdout))


def test_sudo_that_lets_no_guard_begin_is_told_with_where_to_look() -> None:
    command = Command("gpu001", Guard(sudo=True).list(), 10.0)
    refused = CommandResult(command, 1, "", "sudo: a password is required\n", 0.0, 1.0)
    with pytest.raises(GuardUnclear, match=r"said 'sudo: a password is required': .*fabric check SCENARIO"):
        PLAIN.read_list(refused)


def test_a_list_is_read_line_by_line() -> None:
    """Every field of an entry."""
    text = (
        "change a owner run/1 state applied left 12.30 guard alive boot same\n"
        "change b owner ? state torn left 0.00 guard dead boot other\n"
    )
    assert PLAIN.read_list(_said(PLAIN.list(), 0, text)) == (
        Listed("gpu001", "a", "run/1", "applied", 12.3, True, True),
        Listed("gpu001", "b", "?", "torn", 0.0, False, False),
    )
    assert PLAIN.read_list(_said(PLAIN.list(), 0, "")) == ()


@pytest.mark.parametrize("line", ["change a owner run state lost left 1.00 guard alive boot same", "hello", "change a"])
def test_a_line_of_a_list_that_is_none_is_unclear(line: str) -> None:
    """An entry that is skipped could be a change that is live."""
    with pytest.raises(GuardUnclear):
        PLAIN.read_list(_said(PLAIN.list(), 0, f"{line}\n"))


@pytest.mark.parametrize("left", ["abc", "nan", "-1.00", ""])
def test_a_renewal_that_does_not_say_how_long_is_unclear(left: str) -> None:
    """It is asked again while the lease lasts: the change is not taken back for it."""
    with pytest.raises(GuardUnclear):
        PLAIN.read_renewed(_said(PLAIN.renew("a", 5.0), 0, f"renewed a left {left}\n"))


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


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("closed_again", [False, True])
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
