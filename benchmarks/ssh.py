"""
What reaching many hosts over SSH costs the orchestrator, against asyncssh with uvloop.

    sudo python benchmarks/ssh.py [--hosts 512] [--most 2048] [--rounds 3] [--skip NAME ...]

One real sshd in a network namespace of its own stands for all hosts: every address of 127.0.0.0/8 there is it. So the
hosts' cost shares this machine's cores, and wall times are the server's more than the client's; client CPU is the
figure to compare. It is that of the client's whole process tree (wait4), interpreter start included. asyncssh and
uvloop are installed into a throw-away environment; without a package index their rows are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

Figures = dict[str, float]
IDLE_S = 20.0


def addresses(count: int) -> dict[str, str]:
    """Host names and where they are."""
    return {f"host{n:04d}": f"127.0.{1 + n // 250}.{1 + n % 250}" for n in range(count)}


def cpu_s() -> float:
    """CPU seconds of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Fabric:
    """Our own executor, as ``fabric run`` uses it."""

    def __init__(self, folder: Path, count: int, *, plain: bool) -> None:
        from fabric.executors.ssh import SshExecutor
        from fabric.executors.ssh_plain import SshPlainExecutor
        from fabric.model.inventory import SshSettings

        known = (str(folder / "known_hosts"),)
        settings = SshSettings("root", 22, str(folder / "key"), agent=False, known_hosts=known, connect_timeout_s=60)
        self.hosts = tuple(addresses(count))
        self.executor = (SshPlainExecutor if plain else SshExecutor)(settings, addresses(count))

    def each(self, argv: tuple[str, ...], times: int = 1, *, timeout_s: float = 300, cap: int = 1 << 20) -> int:
        """Run a command so often on every host, one after the other on each; returns how many bytes were printed."""
        from fabric.model.command import Command
        from fabric.ports import Ended

        executor, printed = self.executor, 0
        left = {
            executor.start(Command(host, argv, timeout_s, output_cap_bytes=cap)): (host, times - 1)
            for host in self.hosts
        }
        while left:
            for one in executor.wait(executor.now() + 60):
                host, more = left.pop(one.ticket)
                assert isinstance(one, Ended), one
                assert one.result.exit_status == 0, one
                printed += len(one.result.stdout)
                if more:
                    left[executor.start(Command(host, argv, timeout_s, output_cap_bytes=cap))] = (host, more - 1)
        return printed

    def close(self) -> None:
        """Let go."""
        self.executor.close()


class Asyncssh:
    """The best peer: asyncssh on uvloop, AES-GCM first, 64 handshakes at once, strict host keys."""

    def __init__(self, folder: Path, count: int) -> None:
        import asyncssh  # type: ignore[import-not-found]
        import uvloop  # type: ignore[import-not-found]

        self._loop = uvloop.new_event_loop()
        self._ssh, self._addresses = asyncssh, addresses(count)
        self._known = asyncssh.read_known_hosts(str(folder / "known_hosts"))
        self._key = asyncssh.read_private_key(str(folder / "key"))
        self._connections: list[Any] = []

    def each(self, argv: tuple[str, ...], times: int = 1, **_: Any) -> int:
        """Run a command so often on every host."""
        return int(self._loop.run_until_complete(self._each(" ".join(argv), times)))

    async def _each(self, line: str, times: int) -> int:
        if not self._connections:
            gate = asyncio.Semaphore(64)
            self._connections = await asyncio.gather(*(self._connect(gate, one) for one in self._addresses.values()))
        return sum(await asyncio.gather(*(self._run(one, line, times) for one in self._connections)))

    async def _connect(self, gate: asyncio.Semaphore, address: str) -> Any:
        async with gate:
            return await self._ssh.connect(
                address,
                username="root",
                client_keys=[self._key],
                known_hosts=self._known,
                agent_path=None,
                config=None,
                encryption_algs=["aes128-gcm@openssh.com", "aes256-gcm@openssh.com"],
                login_timeout=60,
            )

    async def _run(self, connection: Any, line: str, times: int) -> int:
        printed = 0
        for _ in range(times):
            done = await connection.run(line)
            assert done.exit_status == 0, done
            printed += len(done.stdout)
        return printed

    def close(self) -> None:
        """Let go."""
        self._loop.run_until_complete(self._close())

    async def _close(self) -> None:
        for connection in self._connections:
            connection.close()
        await asyncio.gather(*(one.wait_closed() for one in self._connections))


def client(kind: str, job: str, folder: Path, count: int, times: int) -> Figures:
    """In the child: one job; what it measured itself."""
    begun_s = time.monotonic()
    peer: Any = Asyncssh(folder, count) if kind == "asyncssh" else Fabric(folder, count, plain=kind == "plain")
    imported_s = cpu_s()
    peer.each(("true",))
    figures = {"connect_wall_s": time.monotonic() - begun_s, "connect_cpu_s": cpu_s() - imported_s}
    begun_s, begun_cpu_s = time.monotonic(), cpu_s()
    if job == "commands":
        peer.each(("true",), times - 1)
    else:
        _JOBS[job](peer, figures)
    figures["job_wall_s"], figures["job_cpu_s"] = time.monotonic() - begun_s, cpu_s() - begun_cpu_s
    begun_s = time.monotonic()
    peer.close()
    figures["close_wall_s"] = time.monotonic() - begun_s
    return figures


def _sleep(peer: Any, figures: Figures) -> None:
    begun_s = time.monotonic()
    peer.each(("sleep", "2"))
    figures["sleep_s"] = time.monotonic() - begun_s


def _latency(peer: Any, figures: Figures) -> None:
    waits = []
    for _ in range(200):
        begun_s = time.monotonic()
        peer.each(("true",))
        waits.append(time.monotonic() - begun_s)
    figures["latency_ms"] = 1000 * statistics.median(waits)


def _output(peer: Any, figures: Figures) -> None:
    size = 10 << 20
    begun_s = time.monotonic()
    text = f"yes 'rx_bytes: 123456789' | head -c {size}"
    assert peer.each(("sh", "-c", text), cap=2 * size) == size
    figures["output_mb_s"] = size / 1e6 / (time.monotonic() - begun_s)


def _idle(_: Any, figures: Figures) -> None:
    begun_cpu_s = cpu_s()
    time.sleep(IDLE_S)  # what is measured is what it costs to do nothing
    figures["idle_percent"] = 100 * (cpu_s() - begun_cpu_s) / IDLE_S


_JOBS: dict[str, Callable[[Any, Figures], None]] = {
    "sleep": _sleep,
    "latency": _latency,
    "output": _output,
    "idle": _idle,
}


class Site:
    """One sshd in a namespace, and clients run beside it."""

    def __init__(self, folder: Path, most: int) -> None:
        from tests.lab.namespaces import Namespaces
        from tests.lab.sshd import Sshd, make_key, public_key

        self.folder = folder
        self.namespaces = Namespaces(("server",))
        self.namespaces.make()
        make_key(folder / "key")
        (folder / "authorized_keys").write_text(public_key(folder / "key") + "\n")
        (folder / "home").mkdir()
        self.sshd = Sshd(
            folder / "server",
            namespace=self.namespaces.of("server"),
            address="0.0.0.0",
            authorized_keys=folder / "authorized_keys",
            environment={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder / "home")},
            more="MaxStartups 4000\nMaxSessions 100\nLoginGraceTime 300",
        )
        self.sshd.start()
        key = self.sshd.public_key()
        (folder / "known_hosts").write_text("".join(f"{one} {key}\n" for one in addresses(most).values()))

    def run(self, python: str, kind: str, job: str, count: int, times: int = 1) -> Figures:
        """One client, from its start to its end."""
        argv = ("ip", "netns", "exec", self.namespaces.of("server"), python, __file__, "--client", kind, job)
        argv += (str(self.folder), str(count), str(times))
        begun_s = time.monotonic()
        with (self.folder / "figures.json").open("wb") as out:
            child = subprocess.Popen(argv, stdout=out)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise SystemExit(f"{kind} {job}: the client ended with {child.returncode}")
        figures: Figures = json.loads((self.folder / "figures.json").read_text())
        figures["wall_s"] = time.monotonic() - begun_s
        figures["cpu_s"] = usage.ru_utime + usage.ru_stime
        figures["rss_mib"] = usage.ru_maxrss / 1024
        self.settle()
        return figures

    def settle(self) -> None:
        """Wait until the server has done with the last client."""
        from tests.lab.namespaces import until

        until(lambda: not self.sshd.sessions(), "the server's sessions end", timeout_s=120)

    def close(self) -> None:
        """End the server and remove the namespace."""
        self.sshd.stop()
        self.namespaces.close()


def peer_python(folder: Path) -> str | None:
    """A Python with asyncssh and uvloop, None when they cannot be installed."""
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / "bin" / "python")
    done = subprocess.run((python, "-m", "pip", "install", "-q", "asyncssh", "uvloop"), check=False)
    return python if done.returncode == 0 else None


def compared(site: Site, python: str | None, hosts: int, times: int, rounds: int) -> None:
    """Hosts x commands: every client once a round, in turn."""
    kinds = {"fabric": sys.executable, **({"asyncssh": python} if python else {})}
    runs: dict[str, list[Figures]] = {kind: [] for kind in kinds}
    for number in range(rounds):
        for kind, interpreter in kinds.items():
            runs[kind].append(site.run(interpreter, kind, "commands", hosts, times))
            print(f"round {number + 1}: {_line(kind, runs[kind][-1])}", flush=True)
    medians = {kind: _medians(figures) for kind, figures in runs.items()}
    print(f"\n{hosts} hosts x {times} commands, median of {rounds}:")
    for kind, figures in medians.items():
        print(_line(kind, figures))
    for kind in [one for one in medians if one != "fabric"]:
        for name in ("cpu_s", "wall_s", "rss_mib"):
            print(f"  fabric / {kind} {name}: {medians['fabric'][name] / medians[kind][name]:.2f}")


def _medians(runs: list[Figures]) -> Figures:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def _line(kind: str, figures: Figures) -> str:
    return f"{kind:12}" + "  ".join(f"{name} {value:.2f}" for name, value in figures.items())


def main() -> None:
    """Measure everything, print as it comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=512)
    parser.add_argument("--most", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--skip", nargs="*", default=[], choices=("commands", "many", "single", "sleep", "most"))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fabric-bench-") as name:
        folder = Path(name)
        python = None if "commands" in asked.skip else peer_python(folder)
        if python is None:
            print("asyncssh and uvloop are not here: no comparison")
        site = Site(folder, max(asked.hosts, asked.most))
        own = sys.executable
        try:
            if "commands" not in asked.skip:
                compared(site, python, asked.hosts, 10, asked.rounds)
            if "single" not in asked.skip:
                for job in ("latency", "output"):
                    print(_line(f"1 {job}", site.run(own, "fabric", job, 1)), flush=True)
            if "sleep" not in asked.skip:
                print(_line(f"{asked.hosts} x sleep 2", site.run(own, "fabric", "sleep", asked.hosts)), flush=True)
            if "most" not in asked.skip:
                print(_line(f"{asked.most} idle", site.run(own, "fabric", "idle", asked.most)), flush=True)
            if "many" not in asked.skip:
                figures = site.run(own, "fabric", "commands", asked.hosts, 270)
                print(_line(f"{asked.hosts} x 270", figures), flush=True)
        finally:
            site.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        kind, job, where, count, times = sys.argv[2:7]
        print(json.dumps(client(kind, job, Path(where), int(count), int(times))))
    else:
        main()
