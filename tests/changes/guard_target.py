"""Something a guard can run on: this machine with stub tools, or a simulated host; the contract runs against both."""

import math
import os
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from benchmarks.lab.lab import SLOWER
from fabric.changes.guard import Guard, Listed
from fabric.model.change import Alteration, Argv, Check, Lease
from fabric.model.inventory import Fault, MockSettings
from fabric.model.probe import Command, CommandResult
from fabric.sim.hosts.timeline import Exited
from fabric.sim.world import World
from tests.changes import guard_mishaps
from tests.conftest import folder_of_this_user
from tests.sim.conftest import platform_like, topology_of

HOST = "gpu001"
PEER = "192.0.2.7"

_PORT = """#!/bin/sh
# port get | port set VALUE...: a port whose state is a file; it fails, hangs and is slow as other files say. With
# `race` it closes as soon as somebody has seen that it is open.
here={here}
case $1 in
get)
  cat "$here/state"; echo
  if [ -e "$here/race" ]; then
    rm "$here/race"; : >"$here/go"; until [ -e "$here/ended" ]; do sleep 0.02; done; sleep 0.3
  fi ;;
set)
  if [ "$2" = up ] && [ -s "$here/fails" ]; then
    read -r left <"$here/fails"
    if [ "$left" -gt 0 ]; then echo $((left - 1)) >"$here/fails"; echo "port: no answer" >&2; exit 3; fi
  fi
  if [ "$2" = up ] && [ -e "$here/hangs" ]; then rm "$here/hangs"; sleep 100; fi
  if [ "$2" = down ] && [ -e "$here/slow" ]; then : >"$here/began"; sleep "$(cat "$here/slow")"; fi
  if [ "$2" = down ] && [ -e "$here/race" ]; then : >"$here/began"; until [ -e "$here/go" ]; do sleep 0.02; done; fi
  shift; printf '%s' "$*" >"$here/state"; echo "set $*"; [ "$1" != down ] || : >"$here/ended" ;;
esac
"""
_IP = """#!/bin/sh
# ip -o route get PEER, ip -o -4|-6 route show default
case $* in
"-o route get {peer}") echo "{peer} via 192.0.2.1 dev $(cat {here}/session) src 192.0.2.2 uid 0 \\\\    cache" ;;
"-o -4 route show default")
  [ ! -s {here}/default ] || echo "default via 192.0.2.1 dev $(cat {here}/default) proto dhcp" ;;
"-o -6 route show default") ;;
*) echo "RTNETLINK answers: Network is unreachable" >&2; exit 2 ;;
esac
"""


def until(condition: Callable[[], bool], what: str, deadline_s: float = 20.0) -> None:
    """Wait for a condition; fails the test at the deadline, which a slow machine puts off."""
    end_s = time.monotonic() + deadline_s * SLOWER
    while not condition():
        assert time.monotonic() < end_s, f"not within {deadline_s} s: {what}"
        time.sleep(0.02)


class Target(ABC):
    """A host with one port that can be closed, and what the guard needs to close and open it."""

    guard: Guard
    close: tuple[Argv, ...]
    alteration: Alteration

    @abstractmethod
    def run(self, argv: Argv) -> CommandResult:
        """One command, to its end."""

    @abstractmethod
    def pass_time(self, seconds: float) -> None:
        """Let time pass on the target."""

    def passes(self, seconds: float, until_so: Callable[[], bool], *, step_s: float = 0.1) -> bool:
        """Let time pass until it is so, and at most so many seconds: whether it is."""
        for _ in range(math.ceil(seconds / step_s)):
            if until_so():
                return True
            self.pass_time(step_s)
        return until_so()

    @abstractmethod
    def is_closed(self) -> bool:
        """The port is closed now."""

    @abstractmethod
    def kill_guard(self) -> None:
        """SIGKILL of the guard of ``one``."""

    @abstractmethod
    def lose(self, name: str) -> None:
        """A file of the folder of ``one`` is lost: ``lease``, ``state``, ``undo`` or ``checks``."""

    @abstractmethod
    def forget(self) -> None:
        """All folders are lost and their guards dead, as after a restart; what was closed stays closed."""

    def arm(self, guard_id: str = "one", *, owner: str = "run-1", lease: Lease | None = None) -> CommandResult:
        """Arm the alteration."""
        lease = Lease(30.0, 60.0) if lease is None else lease
        return self.run(self.guard.arm(guard_id, owner=owner, lease=lease, peer=PEER, what=self.alteration))

    def applied(self, guard_id: str = "one") -> None:
        """Apply, and read the answer."""
        self.guard.read_applied(self.run(self.guard.apply(guard_id, self.close)))

    def listed(self) -> tuple[Listed, ...]:
        """What the target says it holds."""
        return self.guard.read_list(self.run(self.guard.list()))


class RealTarget(Target):
    """Real sh and real processes of this machine; the tools are stubs in *here*, in front of PATH."""

    def __init__(self, here: Path, *, shell: tuple[str, ...] = ()) -> None:
        self.here = here
        self.bin = here / "bin"
        self.bin.mkdir(parents=True)
        self.place = folder_of_this_user()
        self.guard = Guard(str(self.place / "guards"))
        self.close = (("port", "set", "down"),)
        self.alteration = Alteration(
            HOST, self.close, (("port", "set", "up"),), (Check(("port", "get"), ("^up$",)),), "up", ("mlx5_0",)
        )
        self.stub("port", _PORT.format(here=here))
        self.stub("ip", _IP.format(here=here, peer=PEER))
        if shell:
            self.stub("sh", f'#!/bin/dash\nexec {" ".join(shell)} "$@"\n')
        (here / "state").write_text("up")
        (here / "session").write_text("eth0")
        self.sysfs = here / "sys"
        self.card("eth0", "0000:00:03.0")
        self.card("ib0", "0000:18:00.0", rdma="mlx5_0")
        self.env = {
            "PATH": f"{self.bin}:/usr/bin:/bin:/usr/sbin:/sbin",
            "FABRIC_SYSFS": str(self.sysfs),
            "HOME": str(here),
        }

    def log(self) -> str:
        """What the guard of ``one`` wrote down."""
        return Path(self.guard.directory, "one", "log").read_text()

    def stub(self, name: str, text: str) -> None:
        """Put a program in front of PATH."""
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def card(self, interface: str, address: str, *, rdma: str | None = None) -> None:
        """A network interface in the false sysfs, on a PCI function."""
        function = self.sysfs / "devices/pci0000:00" / address
        (function / "net" / interface).mkdir(parents=True)
        self._link(self.sysfs / "bus/pci/devices" / address, function)
        self._link(self.sysfs / "class/net" / interface, function / "net" / interface)
        self._link(function / "net" / interface / "device", function)
        if rdma is not None:
            (function / "infiniband" / rdma).mkdir(parents=True)
            self._link(self.sysfs / "class/infiniband" / rdma, function / "infiniband" / rdma)
            self._link(function / "infiniband" / rdma / "device", function)

    def stacked(self, upper: str, *lowers: str) -> None:
        """A virtual interface (bond, VLAN, bridge) on top of others."""
        place = self.sysfs / "class/net" / upper
        place.mkdir(parents=True)
        for lower in lowers:
            self._link(place / f"lower_{lower}", self.sysfs / "class/net" / lower)

    @staticmethod
    def _link(name: Path, to: Path) -> None:
        name.parent.mkdir(parents=True, exist_ok=True)
        name.symlink_to(to)

    def run(self, argv: Argv, *, before: tuple[str, ...] = ()) -> CommandResult:
        """One command, to its end; *before* leads it."""
        done = subprocess.run((*before, *argv), env=self.env, capture_output=True, timeout=60, check=False)
        stdout, stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        return CommandResult(Command(HOST, argv, 60.0), done.returncode, stdout, stderr, 0.0, 0.0)

    def begin(self, argv: Argv) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own, to be killed by the test."""
        quiet = subprocess.DEVNULL
        return subprocess.Popen(argv, env=self.env, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)

    def pass_time(self, seconds: float) -> None:
        """Wait for the machine's clock."""
        end_s = time.monotonic() + seconds
        until(lambda: time.monotonic() >= end_s, "time", seconds + 5.0)

    @property
    def state(self) -> str:
        """What the port is set to."""
        return (self.here / "state").read_text()

    def is_closed(self) -> bool:
        """The port is not as it was before."""
        return self.state != "up"

    def guard_pid(self, guard_id: str = "one") -> int:
        """The process of a guard."""
        return int(Path(self.guard.directory, guard_id, "pid").read_text())

    def kill_guard(self) -> None:
        """By its number."""
        self._kill(self.guard_pid())

    def _kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        until(lambda: not self.is_guard(pid), "the guard is gone")

    def lose(self, name: str) -> None:
        """The state is the name of a file."""
        folder = Path(self.guard.directory, "one")
        for file in folder.glob("is-*") if name == "state" else [folder / name]:
            file.unlink()

    def forget(self) -> None:
        """Guard first, else it would end by itself and not be dead."""
        self.kill_guard()
        shutil.rmtree(self.guard.directory)

    def end(self) -> None:
        """A guard whose folder is gone undoes, and goes on until it could; so they are killed first."""
        for entry in Path("/proc").glob("[0-9]*"):
            if self.is_guard(int(entry.name)):
                self._kill(int(entry.name))
        shutil.rmtree(self.place, ignore_errors=True)

    def is_guard(self, pid: int) -> bool:
        """A process of this number runs a guard of this target."""
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
            return state != "Z" and self.guard.directory in Path(f"/proc/{pid}/cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False


class SimulatedTarget(Target):
    """The first host of a simulated rack; its port is the interface of its first RNIC."""

    def __init__(self, faults: tuple[Fault, ...] = (), *, directory: str = "/run/fabric-guard") -> None:
        self.world = World(topology_of(2, platform_like()), MockSettings(faults=faults, noise_cv=0.0), seed=1)
        self.now_s = 0.0
        self.guard = Guard(directory)
        self.close = (("ip", "link", "set", "ib0", "down"),)
        undo, show = ("ip", "link", "set", "ib0", "up"), ("ip", "link", "show", "ib0")
        self.alteration = Alteration(
            HOST, self.close, (undo,), (Check(show, ("<([^>]*,)?UP[,>]",)),), "up", ("mlx5_0",)
        )

    def run(self, argv: Argv) -> CommandResult:
        """One command, to its end."""
        pid = self.world.start(HOST, argv, {}, self.now_s)
        for _ in range(1000):
            for happened in self.world.advance(self.now_s):
                if isinstance(happened, Exited) and happened.pid == pid:
                    command = Command(HOST, argv, 60.0)
                    status, out, err = happened.exit_status, happened.stdout, happened.stderr
                    return CommandResult(command, status, out, err, 0.0, self.now_s)
            next_s = self.world.next_s()
            assert next_s is not None, "the command never ends"
            self.now_s = max(self.now_s, next_s)
        raise AssertionError("the command never ends")

    def pass_time(self, seconds: float) -> None:
        """Simulated seconds."""
        self.now_s += seconds
        self.world.advance(self.now_s)

    def is_closed(self) -> bool:
        """The kernel's switch of the interface is off."""
        return "UP" not in self.run(("ip", "link", "show", "ib0")).stdout.partition(">")[0]

    def kill_guard(self) -> None:
        """In the simulated rack."""
        guard_mishaps.kill_guard(self.world.rack, HOST, "one")

    def lose(self, name: str) -> None:
        """In the simulated rack."""
        guard_mishaps.lose_file(self.world.rack, HOST, "one", name, self.now_s)

    def forget(self) -> None:
        """In the simulated rack."""
        self.world.rack.guards.clear()

    def reboot(self) -> None:
        """The host starts anew."""
        guard_mishaps.reboot(self.world.rack, HOST, self.now_s)
