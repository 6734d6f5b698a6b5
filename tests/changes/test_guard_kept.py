"""A change of another device is undone after a restart of the target, by a unit that its guard left on the disk."""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.lab.lab import SLOWER
from fabric.changes.guard import Guard, GuardCannotWrite
from fabric.changes.hold import Leased, Signal
from fabric.errors import Refused
from fabric.model.change import Alteration, Change, ChangeSettings, Lease
from fabric.model.probe import Command, CommandResult
from tests.changes.guard_target import RealTarget, SimulatedTarget, until
from tests.changes.played import MANAGED, Played, change

LONG = Lease(600.0, 600.0)
ON_SWITCHES = ChangeSettings(via="gpu004")
WHAT = Alteration("h", (("a",),), (("port", "up"),), (), "up")


class Restarting(RealTarget):
    """This machine with a false systemd; ``restart`` is what a power loss leaves of a guard."""

    def __init__(self, here: Path, *, systemd: bool = True, outlives: bool = True) -> None:
        super().__init__(here)
        shutil.rmtree(self.place)
        self.place = Path(tempfile.mkdtemp(prefix="fabric-test-", dir=Path.home()))  # what is kept is beside it
        self.guard = Guard(str(self.place / "guards"))
        self.alteration = replace(self.alteration, outlives=outlives)
        self.units, self.kept = here / "units", Path(self.guard.kept_directory)
        self.units.mkdir()
        self.env |= {"FABRIC_UNITS": str(self.units), "FABRIC_SYSTEMD": str(here / "systemd")}
        if systemd:
            (here / "systemd").mkdir()

    def restart(self) -> None:
        """SIGKILL of the guard, /run is empty, another boot; what was closed stays closed."""
        self.kill_guard()
        shutil.rmtree(self.guard.directory)
        for boot in self.kept.glob("*/boot"):
            boot.write_text("00000000-0000-4000-8000-000000000000\n")

    def unit(self) -> Path:
        """The one unit, as it is wanted at boot."""
        (wanted,) = (self.units / "multi-user.target.wants").iterdir()
        return wanted

    def start_unit(self) -> int:
        """As systemd does at boot: ExecStart in the unit's own environment; its exit status."""
        lines = dict(line.partition("=")[::2] for line in self.unit().read_text().splitlines() if "=" in line)
        path = lines["Environment"].removeprefix("PATH=")
        env = {"PATH": path} | {name: text for name, text in self.env.items() if name.startswith("FABRIC_")}
        return subprocess.run(shlex.split(lines["ExecStart"]), env=env, timeout=60, check=False).returncode

    def left_on_disk(self) -> list[Path]:
        """Whatever of a change a restart would not take away."""
        return [*self.kept.glob("*"), *self.kept.glob(".new*"), *self.units.glob("*.service"), *self._wanted()]

    def _wanted(self) -> list[Path]:
        folder = self.units / "multi-user.target.wants"
        return list(folder.iterdir()) if folder.is_dir() else []


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Restarting]:
    """With a false systemd."""
    target = Restarting(tmp_path)
    yield target
    target.end()


def test_after_a_restart_the_unit_undoes_the_change_and_removes_itself(target: Restarting) -> None:
    """The power loss of a head node that is orchestrator and ``via`` both: nobody else is left to do it."""
    assert target.guard.read_armed(target.arm(lease=LONG)).kept == "unit"
    target.applied()
    target.restart()
    assert target.is_closed()
    assert target.start_unit() == 0
    assert not target.is_closed()
    assert [one.state for one in target.listed()] == ["reverted"]
    assert target.left_on_disk() == []


@pytest.mark.slow
def test_the_unit_tries_until_the_undo_works(target: Restarting) -> None:
    """At boot the tools may not work yet."""
    target.arm(lease=LONG)
    target.applied()
    target.restart()
    (target.here / "fails").write_text("2")
    assert target.start_unit() == 0
    assert not target.is_closed()
    assert target.left_on_disk() == []


@pytest.mark.slow
def test_until_then_a_restart_is_told_and_nobody_else_may_arm(target: Restarting) -> None:
    """``list`` and the lock of the target know what is kept, without a word from the unit."""
    target.arm(lease=LONG)
    target.applied()
    target.restart()
    (one,) = target.listed()
    assert (one.guard_id, one.owner, one.state, one.alive, one.same_boot) == ("one", "run-1", "applied", False, False)
    with pytest.raises(Refused, match="one owner run-1"):
        target.guard.read_armed(target.arm("two", owner="run-2"))
    assert [one.state for one in target.listed()] == ["applied"]


@pytest.mark.parametrize("systemd", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_revert_undoes_what_is_kept(tmp_path: Path, systemd: bool) -> None:
    """So does ``fabric restore`` where there is no systemd."""
    target = Restarting(tmp_path, systemd=systemd)
    assert target.guard.read_armed(target.arm(lease=LONG)).kept == ("unit" if systemd else "folder")
    target.applied()
    target.restart()
    target.guard.read_reverted(target.run(target.guard.revert("one")))
    assert not target.is_closed()
    assert target.left_on_disk() == []
    assert target.listed() == ()
    target.end()


@pytest.mark.slow
def test_an_ordinary_revert_leaves_nothing_on_the_disk(target: Restarting) -> None:
    """Neither a folder nor a unit."""
    target.arm(lease=LONG)
    target.applied()
    assert len(target.left_on_disk()) == 3
    target.guard.read_reverted(target.run(target.guard.revert("one")))
    assert target.left_on_disk() == []


@pytest.mark.slow
def test_a_guard_that_undoes_leaves_nothing_on_the_disk(target: Restarting) -> None:
    """Its lease has run out, and nobody asks."""
    target.arm(lease=Lease(1.5 * SLOWER, 60.0))
    target.applied()
    until(lambda: not target.is_closed(), "undone")
    until(lambda: target.left_on_disk() == [], "forgotten")


@pytest.mark.slow
def test_what_was_never_applied_is_not_undone_after_a_restart(target: Restarting) -> None:
    """Somebody may have altered the port since, on purpose."""
    target.arm(lease=LONG)
    target.restart()
    (target.here / "state").write_text("closed by somebody")
    assert target.listed() == ()
    assert target.start_unit() == 0
    assert target.state == "closed by somebody"
    assert target.left_on_disk() == []


@pytest.mark.slow
def test_a_change_that_ends_with_the_target_is_not_kept(tmp_path: Path) -> None:
    """A restart resets the target's own ports."""
    target = Restarting(tmp_path, outlives=False)
    assert target.guard.read_armed(target.arm()).kept == "none"
    target.applied()
    assert target.left_on_disk() == []
    target.end()


def test_a_kept_folder_that_is_a_link_or_cannot_be_made_is_not_used(tmp_path: Path) -> None:
    """Whoever could write there would be root at the next start."""
    target = Restarting(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    target.kept.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GuardCannotWrite, match="is a link"):
        target.guard.read_armed(target.arm())
    with pytest.raises(GuardCannotWrite, match="is a link"):
        target.listed()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    target.kept.unlink()
    target.end()


@pytest.mark.slow
def test_what_is_kept_is_not_passed_over_because_others_can_write_there(target: Restarting) -> None:
    """Nobody says that nothing is held, and nobody arms another change on top."""
    target.arm(lease=LONG)
    target.applied()
    target.restart()
    assert [one.state for one in target.listed()] == ["applied"]
    target.kept.chmod(0o770)
    with pytest.raises(GuardCannotWrite, match="others can write"):
        target.listed()
    with pytest.raises(GuardCannotWrite, match="others can write"):
        target.guard.read_armed(target.arm("two"))
    target.kept.chmod(0o700)
    assert target.start_unit() == 0
    assert not target.is_closed()


@pytest.mark.slow
def test_the_unit_leaves_a_change_alone_whose_guard_lives(target: Restarting) -> None:
    """Another target of systemd starts it, or a person: nothing went down."""
    target.arm(lease=LONG)
    target.applied()
    assert target.start_unit() == 0
    assert target.is_closed()
    assert [(one.state, one.alive) for one in target.listed()] == [("applied", True)]


def test_nothing_is_applied_that_cannot_be_noted_as_applied(target: Restarting) -> None:
    """Else a restart would throw it away as never applied."""
    target.arm(lease=LONG)
    shutil.rmtree(target.kept)
    result = target.run(target.guard.apply("one", target.close))
    assert (result.exit_status, target.is_closed()) == (74, False)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_takes_the_unit(target: Restarting) -> None:
    """Every line of it."""
    target.arm(lease=LONG)
    unit = next(target.units.glob("*.service"))
    said = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


def test_a_simulated_restart_undoes_what_is_kept() -> None:
    """The simulated rack has systemd."""
    target = SimulatedTarget()
    target.alteration = replace(target.alteration, outlives=True, undo=(("ip", "link", "set", "ib1", "up"),), checks=())
    target.close = (("ip", "link", "set", "ib1", "down"),)
    assert target.guard.read_armed(target.arm()).kept == "unit"
    target.applied()
    target.reboot()
    target.pass_time(5.0)
    assert [one.state for one in target.listed()] == ["reverted"]


ALTERING = [
    (ON_SWITCHES, change("link_down", "gpu001/mlx5_0", by="ibportstate"), True),
    (ON_SWITCHES, change("link_down", "gpu001/mlx5_0", by="mlxlink"), False),
    (ON_SWITCHES, change("ber", "leaf1--spine0", effective="1e-6", direction="up"), True),
    (ON_SWITCHES, change("ber", "gpu001/mlx5_0", effective="1e-6", direction="up"), False),
]


@pytest.mark.parametrize(
    ("settings", "asked", "outlives"), ALTERING, ids=lambda value: value.kind if isinstance(value, Change) else ""
)
def test_what_is_done_to_another_device_outlives_its_target(
    settings: ChangeSettings, asked: Change, outlives: bool
) -> None:
    """What is in the target's own registers ends with it."""
    assert {one.outlives for one in Played(settings).prepare(asked)} == {outlives}


def test_a_file_of_a_subnet_manager_outlives_its_restart() -> None:
    """Adaptive routing and SHIELD are lines of it."""
    for kind in ("adaptive_routing", "shield"):
        toggles = [change(kind, "fabric", scope="fabric", on=on) for on in (0, 1)]
        assert {one.outlives for toggle in toggles for one in Played(MANAGED).prepare(toggle)} == {True}


def arming(boot_id: str, kept: str, *, allowed: bool = False, outlives: bool = True) -> None:
    """Arm one alteration on a target of this boot that answers so."""
    what = replace(WHAT, outlives=outlives)
    own = "" if allowed else "our-boot"
    leased = Leased(Guard(), LONG, signal=Signal(), clock=lambda: 0.0, own_boot_id=own)
    leased.name("x", [what])
    steps = leased.arm("run/1")
    asked = next(steps)
    assert isinstance(asked, Command)
    asked = steps.send(_answered(asked, 1, ""))
    assert isinstance(asked, Command)
    with pytest.raises(StopIteration):
        steps.send(_answered(asked, 0, f"armed x.0 ttl 600.00 boot {boot_id} kept {kept}\n"))


def _answered(asked: Command, status: int, stdout: str) -> CommandResult:
    return CommandResult(asked, status, stdout, "", 0.0, 0.0)


@pytest.mark.parametrize("kept", ["folder", "no"])
def test_what_a_power_loss_of_this_machine_would_leave_is_refused(kept: str) -> None:
    """The run, its journal's reader and the guard end together, and nothing begins the guard anew."""
    with pytest.raises(Refused, match=r"this machine.*allow: \[power_loss\]"):
        arming("our-boot", kept)
    arming("our-boot", kept, allowed=True)
    arming("another-boot", kept)


def test_with_a_unit_or_on_a_device_of_its_own_this_machine_is_as_good_as_any() -> None:
    """It is undone at the next start, or by it."""
    arming("our-boot", "unit")
    arming("our-boot", "none", outlives=False)
