"""
Guard and orchestrator gone together: what of a change on another device is left, and what the next run says of it.

    python benchmarks/power_loss.py [--times 60] [--seed 1]

- power loss: real guards of this machine over a port that is a file. At a random moment of arm, apply, renew, revert or
  of the guard's own undo everything of the target is killed (SIGKILL), its /run is emptied, its boot is another one;
  then the unit that the guard left behind is started as systemd would. Failed: the port is not as it was before, or
  something is left on the disk.
- the same without systemd: then ``list`` must tell it exactly where the port is closed, and ``revert`` undo it.
- a held change: a simulated pod in which another run's change lives, is lost in some way, or is over. Failed: nothing
  is told while the port is closed, or something of a port that nobody holds any more.

Prints class | tried | failed; exit status 1 when anything failed.
"""

import argparse
import contextlib
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fabric.changes.guard import Guard, LeaseGone  # noqa: E402
from fabric.checks.held import held_on, holders  # noqa: E402
from fabric.config.inventory import load_inventory  # noqa: E402
from fabric.hosts.mock import MockExecutor  # noqa: E402
from fabric.model.change import Alteration, Argv, Check, Lease  # noqa: E402
from fabric.model.inventory import MockSettings  # noqa: E402
from fabric.model.probe import Command, CommandResult  # noqa: E402
from fabric.ports import Ended  # noqa: E402
from fabric.sim.world import World  # noqa: E402
from tests.changes import guard_mishaps  # noqa: E402

POD = ROOT / "inventory" / "pod-64.yaml"
_PORT = """#!/bin/sh
case $1 in get) cat "{here}/state"; echo ;; set) sleep 0.2; printf '%s' "$2" >"{here}/state"; sleep 0.1 ;; esac
"""
_MOMENTS = ("arm", "apply", "applied", "renew", "revert", "own undo")


class Target:
    """A machine with one port, which is a file: whatever happens to its guards, it stays as it is."""

    def __init__(self, here: Path, *, systemd: bool) -> None:
        (here / "bin").mkdir(parents=True)
        (here / "units").mkdir()
        port = here / "bin" / "port"
        port.write_text(_PORT.format(here=here))
        port.chmod(0o755)
        (here / "state").write_text("up")
        self.here, self.guard = here, Guard(str(here / "run"))
        self.kept = Path(self.guard.kept_directory)
        self.env = {
            "PATH": f"{here / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin",
            "FABRIC_UNITS": str(here / "units"),
            "FABRIC_SYSTEMD": str(here if systemd else here / "no-systemd"),
        }
        self.what = Alteration(
            "h", (("port", "set", "down"),), (("port", "set", "up"),), (Check(("port", "get"), ("^up$",)),), "up",
            outlives=True,
        )  # fmt: skip

    def call(self, argv: Argv) -> CommandResult:
        """One call, to its end."""
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=120, check=False)
        return CommandResult(Command("h", argv, 60.0), done.returncode, done.stdout, done.stderr, 0.0, 0.0)

    def begin(self, argv: Argv) -> subprocess.Popen[bytes]:
        """Begin a call that the power loss may break off."""
        quiet = subprocess.DEVNULL
        return subprocess.Popen(argv, env=self.env, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)

    def arm(self, ttl_s: float) -> Argv:
        """The call that arms."""
        return self.guard.arm("one", owner="run/1", lease=Lease(ttl_s, 600.0), peer="", what=self.what)

    def lose_power(self) -> None:
        """Every process of it ends at once, and what lived in memory."""
        while found := self._processes():
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.guard.directory, ignore_errors=True)
        for boot in self.kept.glob("*/boot"):
            boot.write_text("00000000-0000-4000-8000-000000000000\n")

    def _processes(self) -> list[int]:
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"FABRIC_UNITS={self.env['FABRIC_UNITS']}".encode() in (place / "environ").read_bytes():
                    state = (place / "stat").read_text().rpartition(") ")[2][0]
                    found += [] if state == "Z" else [int(place.name)]
        return found

    def start_units(self) -> None:
        """What systemd does at boot with what is wanted then."""
        for unit in sorted((self.here / "units" / "multi-user.target.wants").glob("*")):
            lines = dict(line.partition("=")[::2] for line in unit.read_text().splitlines() if "=" in line)
            env = {**self.env, "PATH": lines["Environment"].removeprefix("PATH=")}
            subprocess.run(shlex.split(lines["ExecStart"]), env=env, timeout=120, check=False, capture_output=True)

    @property
    def is_back(self) -> bool:
        """The port is as it was."""
        return (self.here / "state").read_text() == "up"

    @property
    def on_disk(self) -> list[Path]:
        """What another start would undo once more, or a ``list`` tell."""
        kept = [path for path in self.kept.glob("[!.]*") if (path / "is-applied").exists()]
        live = [path for path in kept if not (path / "is-reverted").exists()]
        return [*live, *(self.here / "units" / "multi-user.target.wants").glob("*")]


def until_lost(target: Target, moment: str, chance: random.Random) -> None:
    """Go on as a run would until the power is lost in the middle of *moment*."""
    ttl_s = 3.0 if moment == "own undo" else 60.0
    calls = {"arm": target.arm(ttl_s), "apply": target.guard.apply("one", target.what.apply)}
    if moment != "arm":
        target.guard.read_armed(target.call(calls["arm"]))
    if moment not in ("arm", "apply"):
        with contextlib.suppress(LeaseGone):  # on a slow machine a short lease may be over
            target.guard.read_applied(target.call(calls["apply"]))
    calls |= {"renew": target.guard.renew("one", 60.0), "revert": target.guard.revert("one")}
    if moment in calls:
        target.begin(calls[moment])
    time.sleep(chance.uniform(1.0, 4.0) if moment == "own undo" else chance.uniform(0.0, 1.0))
    target.lose_power()


def power_loss(chance: random.Random, folder: Path, times: int, *, systemd: bool) -> int:
    """How many of so many accidents leave something."""
    failed = 0
    for number in range(times):
        moment = _MOMENTS[number % len(_MOMENTS)]
        target = Target(folder / str(number), systemd=systemd)
        until_lost(target, moment, chance)
        told = target.guard.read_list(target.call(target.guard.list()))
        closed = not target.is_back
        target.start_units()
        if not systemd and told:
            target.guard.read_reverted(target.call(target.guard.revert(told[0].guard_id)))
        left = target.on_disk
        wrong = not target.is_back or (closed and not told) or bool(left)
        if wrong:
            print(f"  {moment}: port back {target.is_back}, was closed {closed}, told {told}, left {left}", flush=True)
        failed += wrong
        target.lose_power()
    return failed


def held(chance: random.Random, times: int) -> int:
    """How often what is told of a simulated pod is not so."""
    pod, failed = load_inventory(POD), 0
    for _ in range(times):
        host, apply, life = f"gpu{chance.randint(1, 64):03d}", chance.random() < 0.8, chance.choice(_LIVES)
        executor = MockExecutor(World(pod.topology, MockSettings(noise_cv=0.0), seed=chance.randint(1, 999)))
        _act(executor, host, apply=apply, life=life, chance=chance)
        said = held_on(executor, pod, holders(pod, tuple(pod.topology.hosts)))
        closed = "UP" not in _told(executor, host, ("ip", "link", "show", "ib1")).stdout.partition(">")[0]
        named = [one.host for one in said.held if not one.running or apply]
        wrong = bool(said.unasked) or (closed and named != [host]) or (not closed and apply and bool(named))
        if wrong:
            print(f"  {host} applied {apply}, {life}: closed {closed}, told {said}", flush=True)
        failed += wrong
    return failed


_LIVES = ("lives", "killed", "over", "lease torn", "host restarted", "reverted")


def _act(executor: MockExecutor, host: str, *, apply: bool, life: str, chance: random.Random) -> None:
    guard, down = Guard(), ("ip", "link", "set", "ib1", "down")
    undo, show = ("ip", "link", "set", "ib1", "up"), ("ip", "link", "show", "ib1")
    what = Alteration(host, (down,), (undo,), (Check(show, ("<([^>]*,)?UP[,>]",)),), "up")
    _told(executor, host, guard.arm("one", owner="run/1", lease=Lease(60.0, 600.0), peer="", what=what))
    if apply:
        _told(executor, host, guard.apply("one", (down,)))
    rack, now_s = executor.world.rack, executor.now()
    if life == "killed":
        guard_mishaps.kill_guard(rack, host, "one")
    elif life == "lease torn":
        guard_mishaps.kill_guard(rack, host, "one")
        guard_mishaps.lose_file(rack, host, "one", "lease", now_s)
    elif life == "host restarted":
        guard_mishaps.reboot(rack, host, now_s)
    elif life == "reverted":
        _told(executor, host, guard.revert("one"))
    until_s = executor.now() + (90.0 if life == "over" else chance.uniform(0.0, 30.0))
    while executor.now() < until_s:
        executor.wait(until_s)


def _told(executor: MockExecutor, host: str, argv: Argv) -> CommandResult:
    ticket = executor.start(Command(host, argv, 60.0))
    while True:
        for happening in executor.wait(executor.now() + 60.0):
            if isinstance(happening, Ended) and happening.ticket == ticket:
                return happening.result


def main() -> None:
    """Each class, and what failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=60, help="of each class")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    bad = 0
    print("class | tried | failed")
    with tempfile.TemporaryDirectory(prefix="fabric-bench-", dir=Path.home()) as name:
        for systemd in (True, False):
            chance = random.Random(asked.seed)
            failed = power_loss(chance, Path(name) / str(systemd), asked.times, systemd=systemd)
            told = "undone by the unit at boot" if systemd else "told by list, undone by revert"
            print(f"guard and run lost together with the target, {told} | {asked.times} | {failed}", flush=True)
            bad += failed
    failed = held(random.Random(asked.seed), asked.times * 5)
    print(f"a change that is still held is named before a run (simulated pod) | {asked.times * 5} | {failed}")
    sys.exit(1 if bad + failed else 0)


if __name__ == "__main__":
    main()
