"""
Lets random accidents happen to guards whose orchestrator is dead, and counts the changes that are left.

    python benchmarks/guard_accidents.py [--accidents 200] [--at-once 8] [--seed 1]

Needs root and a pids cgroup. Every guard runs in dash, bash or busybox, none of which sees the others, on a file system
of its own, and its change closes a port that is a file. Nobody comes back for it. A change is left when its port is
still closed 20 s after its lease and its accident are over. Early: a lease that did not last although nothing ended it.
"""

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fabric.changes.guard import Guard
from fabric.model.change import Alteration, Check, Lease
from fabric.model.probe import Command, CommandResult

LEASE_S = 3.0
LATE_S = 20.0
SHELLS = ("dash", "bash", "busybox")
CGROUPS = Path("/sys/fs/cgroup/pids")
_PORT = '#!/bin/sh\n[ "$1" = get ] || printf %s "$2" >{here}/state\ncat {here}/state; echo\n'
_UNHEARD = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT, signal.SIGTERM}


def now_s() -> float:
    """The clock of a lease, /proc/uptime."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Victim:
    """A closed port, a guard that holds its undo, and nobody else."""

    def __init__(self, here: Path, shell: str) -> None:
        self.here, self.disk, self.bin = here, here / "disk", here / "bin"
        self.disk.mkdir()
        self.bin.mkdir()
        subprocess.run(
            ("mount", "-t", "tmpfs", "-o", "size=256k,nr_inodes=64,mode=700", "tmpfs", self.disk), check=True
        )
        self.stub("port", _PORT.format(here=here))
        for other in SHELLS:
            if other != shell:
                self.stub(other, "#!/bin/dash\nexit 127\n")
        words = f"{shutil.which(shell)} sh" if shell == "busybox" else shutil.which(shell)
        self.stub("sh", f'#!/bin/dash\nexec {words} "$@"\n')
        self.guard = Guard(str(self.disk / "guards"))
        self.folder = self.disk / "guards/one"
        closing, opening = (("port", "set", "down"),), (("port", "set", "up"),)
        what = Alteration("here", closing, opening, (Check(("port", "get"), ("^up$",)),), "up", ())
        lease = Lease(30.0, 60.0)
        self.guard.read_armed(self.ask(self.guard.arm("one", owner="bench", lease=lease, peer="", what=what)))
        self.guard.read_applied(self.ask(self.guard.apply("one", closing)))
        self.guard.read_renewed(self.ask(self.guard.renew("one", LEASE_S)))
        self.ends_s = int((self.folder / "lease").read_text()) / 100
        self.pid = int((self.folder / "pid").read_text())

    def stub(self, name: str, text: str) -> None:
        """A program in front of PATH."""
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def ask(self, argv: tuple[str, ...]) -> CommandResult:
        """One call of the guard."""
        path = f"{self.bin}:/usr/sbin:/usr/bin:/sbin:/bin"
        done = subprocess.run(argv, env={"PATH": path}, capture_output=True, text=True, timeout=60, check=False)
        return CommandResult(Command("here", argv, 60.0), done.returncode, done.stdout, done.stderr, 0.0, 0.0)

    @property
    def closed(self) -> bool:
        """The change is in force."""
        return (self.here / "state").read_text() != "up"

    @property
    def guarded(self) -> bool:
        """The guard's process is there."""
        with suppress(OSError):
            return str(self.folder.parent) in Path(f"/proc/{self.pid}/cmdline").read_text()
        return False


Accident = Callable[[Victim, random.Random], float]
"""Lets it happen, to its end; returns when the lease was over at the latest, seconds of the machine's clock."""


def no_fork(victim: Victim, dice: random.Random) -> float:
    """The guard may start no process: mostly for a moment, sometimes longer than bash tries by itself."""
    with cgroup() as group:
        with suppress(OSError):
            (group / "cgroup.procs").write_text(str(victim.pid))
        (group / "pids.max").write_text("0")
        time.sleep(dice.choice((0.3, 1.0, 3.0, 5.0, 25.0)))
    return victim.ends_s


def no_descriptor(victim: Victim, dice: random.Random) -> float:
    """It may open no file, or hardly any."""
    until_s = now_s() + dice.choice((0.3, 1.0, 3.0))
    most = dice.randrange(3, 14)
    while now_s() < until_s:
        with suppress(OSError):
            resource.prlimit(victim.pid, resource.RLIMIT_NOFILE, (most, 4096))
        time.sleep(0.2)
    with suppress(OSError):
        resource.prlimit(victim.pid, resource.RLIMIT_NOFILE, (1024, 4096))
    return victim.ends_s


def signals(victim: Victim, dice: random.Random) -> float:
    """All that a process can ignore, in any order, with a pause of the guard among them."""
    numbers = [number for number in range(1, 65) if number not in _UNHEARD | {32, 33}]
    for number in dice.sample(numbers, len(numbers)):
        send(victim, number)
        time.sleep(dice.choice((0.0, 0.01, 0.05)))
    send(victim, signal.SIGSTOP)
    time.sleep(dice.choice((0.1, 1.0, 4.0)))
    send(victim, signal.SIGCONT)
    return victim.ends_s


def terminated(victim: Victim, dice: random.Random) -> float:
    """What a shutdown sends."""
    for _ in range(dice.randrange(1, 4)):
        send(victim, signal.SIGTERM)
    return now_s()


def disk_full(victim: Victim, dice: random.Random) -> float:
    """Not a byte is free."""
    return filled(victim, dice, b"x" * 256)


def no_inode(victim: Victim, dice: random.Random) -> float:
    """No file can be made."""
    return filled(victim, dice, b"")


def filled(victim: Victim, dice: random.Random, text: bytes) -> float:
    """Write such files until no more can be written, and take them away after a while."""
    ballast = victim.disk / "ballast"
    with suppress(OSError):
        ballast.mkdir()
        with (ballast / "bytes").open("wb", buffering=0) as file:
            while text:
                file.write(text)
        for number in range(1000):
            (ballast / str(number)).touch()
    time.sleep(dice.choice((1.0, 5.0)))
    shutil.rmtree(ballast, ignore_errors=True)
    return victim.ends_s


def read_only(victim: Victim, dice: random.Random) -> float:
    """Nothing can be written."""
    subprocess.run(("mount", "-o", "remount,ro", victim.disk), check=False)
    time.sleep(dice.choice((1.0, 5.0)))
    subprocess.run(("mount", "-o", "remount,rw", victim.disk), check=False)
    return victim.ends_s


def folder_removed(victim: Victim, dice: random.Random) -> float:
    """Somebody cleans up."""
    shutil.rmtree(dice.choice((victim.folder, victim.folder.parent)), ignore_errors=True)
    return now_s()


def number_lost(victim: Victim, dice: random.Random) -> float:
    """The guard's own number is emptied, removed or nonsense."""
    with suppress(OSError):
        (victim.folder / "pid").write_text(dice.choice(("", "", "\n", "0\n", "12x\n", "-1\n")))
        if dice.random() < 0.3:
            (victim.folder / "pid").unlink()
    return victim.ends_s


ACCIDENTS: tuple[Accident, ...] = (
    no_fork, no_descriptor, signals, terminated, disk_full, no_inode, read_only, folder_removed, number_lost
)  # fmt: skip


def send(victim: Victim, number: int) -> None:
    """A signal, as long as there is somebody to hear it."""
    with suppress(OSError):
        if victim.guarded:
            os.kill(victim.pid, number)


def settle(victim: Victim) -> None:
    """Wait until the guard has done what it has to."""
    end_s = max(now_s(), victim.ends_s) + LATE_S
    while (victim.closed or victim.guarded) and now_s() < end_s:
        time.sleep(0.05)


@contextmanager
def cgroup() -> Iterator[Path]:
    """A pids cgroup of its own; at the end whoever is in it goes back."""
    group = Path(tempfile.mkdtemp(prefix="fabric-accident-", dir=CGROUPS))
    try:
        yield group
    finally:
        (group / "pids.max").write_text("max")
        while pids := (group / "cgroup.procs").read_text().split():
            for pid in pids:
                with suppress(OSError):
                    (CGROUPS / "cgroup.procs").write_text(pid)
        with suppress(OSError):
            group.rmdir()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one: *early*, open although its lease was not over; *late_s*, after lease and accident."""

    name: str
    left: bool
    early: bool
    late_s: float
    detail: str


def happens(number: int, seed: int) -> Outcome:
    """One accident at a random moment of a lease; the kinds and shells take turns."""
    dice = random.Random(f"{seed}/{number}")
    accident, shell = ACCIDENTS[number % len(ACCIDENTS)], SHELLS[number // len(ACCIDENTS) % len(SHELLS)]
    here = Path(tempfile.mkdtemp(prefix="fabric-accident-", dir="/run"))
    victim = Victim(here, shell)
    try:
        time.sleep(max(0.0, victim.ends_s + dice.uniform(-LEASE_S, 0.3) - now_s()))
        began_open = not victim.closed and now_s() < victim.ends_s
        with ThreadPoolExecutor(1) as one:
            ending = one.submit(accident, victim, dice)
            open_s = opened(victim, ending.done)
            due_s = ending.result()
        over_s = max(now_s(), due_s)
        if open_s is None:
            end_s = over_s + LATE_S
            while victim.closed and now_s() < end_s:
                time.sleep(0.02)
            open_s = now_s()
        left = victim.closed
        settle(victim)
        early = began_open or open_s < min(due_s, victim.ends_s) - 0.05
        return Outcome(accident.__name__, left, early, max(0.0, open_s - over_s), f"{number} {shell}")
    finally:
        send(victim, signal.SIGKILL)
        subprocess.run(("umount", "-l", victim.disk), check=False)
        shutil.rmtree(here, ignore_errors=True)


def opened(victim: Victim, over: Callable[[], bool]) -> float | None:
    """When the port was seen open while an accident lasted; None, not meanwhile."""
    while not over():
        if not victim.closed:
            return now_s()
        time.sleep(0.02)
    return None


def main() -> int:
    """Exit status 1 when anything was left or did not last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accidents", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if os.geteuid() or not (CGROUPS / "cgroup.procs").exists():
        sys.exit(f"needs root and {CGROUPS}")
    with ThreadPoolExecutor(asked.at_once) as threads:
        outcomes = list(threads.map(lambda number: happens(number, asked.seed), range(asked.accidents)))
    tried = Counter(outcome.name for outcome in outcomes)
    print("class | tried | left | early | worst, s after lease and accident")
    for name in tried:
        mine = [outcome for outcome in outcomes if outcome.name == name]
        left, early = sum(one.left for one in mine), sum(one.early for one in mine)
        print(f"{name} | {tried[name]} | {left} | {early} | {max(one.late_s for one in mine):.1f}")
    left, early = sum(one.left for one in outcomes), sum(one.early for one in outcomes)
    print(f"all | {len(outcomes)} | {left} | {early} | {max(one.late_s for one in outcomes):.1f}")
    for outcome in outcomes:
        if outcome.left or outcome.early:
            print(f"  {outcome}")
    return int(left + early > 0)


if __name__ == "__main__":
    sys.exit(main())
