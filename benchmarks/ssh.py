"""
What reaching many hosts over SSH costs the orchestrator, against libraries and tools that others use.

    sudo python benchmarks/ssh.py [--hosts 512] [--commands 10] [--many 270] [--at-once 1 8] [--most 2048]
                                  [--rounds 3] [--peers NAME ...] [--python PATH] [--skip NAME ...]

One real sshd in a network namespace of its own stands for all hosts: every address of 127.0.0.0/8 there is it. So the
hosts' cost shares this machine's cores, and wall times are the server's more than the client's; client CPU is the
figure to compare. It is that of the client's whole process tree (wait4), interpreter start included. Each line also
says what the hosts' own processes took meanwhile: targets_cpu_s is sshd and all that it has begun (the commands, and
for us the agents), and targets_wall_s the same spread over all cores: so much of wall_s, at least, is not the
client's, and on real hosts would be divided by their number. Modules are compiled beforehand.

The long run (--many) is a self-check's: 270 commands a host. A self-check has about eight probes under way on a host at
any time, one for each RNIC, so that run is made with eight commands at once on each connection, and for comparison with
one after the other. With several at once it is a quarter of the hosts: thousands of processes at once on one machine
starve each other, which real hosts do not.

Python peers are installed into a throw-away environment, or are those of --python; a peer that is not here is named
and left out. Who connects anew for each command is measured with two of them, and the figures multiplied.
"""

import argparse
import compileall
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

from benchmarks.ssh_peers import NEW_CONNECTIONS, PEERS, addresses, missing  # noqa: E402

Figures = dict[str, float]
IDLE_S = 80.0  # longer than an idle agent is left without a word
_MEASURED = 2  # commands of who connects anew for each
# PR_SET_CHILD_SUBREAPER, which survives exec: what a session leaves behind becomes the listener's child, and counts.
_ADOPTING = "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
_GROWING = ("cpu_s", "wall_s", "targets_cpu_s", "targets_wall_s")  # with the commands
_OURS = ("fabric", "plain")


def cpu_s() -> float:
    """CPU seconds of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def client(kind: str, job: str, folder: Path, count: int, times: int, at_once: int) -> Figures:
    """In the child: one job; what it measured itself."""
    begun_s = time.monotonic()
    peer = PEERS[kind](folder, count)
    imported_s = cpu_s()
    peer.each(("true",))
    figures = {"connect_wall_s": time.monotonic() - begun_s, "connect_cpu_s": cpu_s() - imported_s}
    begun_s, begun_cpu_s = time.monotonic(), cpu_s()
    if job == "commands" and times == 1:
        pass  # connecting was all
    elif job == "commands":
        peer.each(("true",), times - 1, at_once=at_once)
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
    """One sshd in a namespace, and clients run beside it; *inside* is a command that becomes the server's."""

    def __init__(self, folder: Path, most: int, inside: tuple[str, ...] = ()) -> None:
        from benchmarks.lab.namespaces import Namespaces
        from benchmarks.lab.sshd import Sshd, make_key, public_key

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
            wrap=(*inside, sys.executable, "-c", _ADOPTING),
        )
        self.sshd.start()
        key = self.sshd.public_key()
        (folder / "known_hosts").write_text("".join(f"{one} {key}\n" for one in addresses(most).values()))

    def run(self, python: str, kind: str, job: str, count: int, times: int = 1, at_once: int = 1) -> Figures:
        """One client, from its start to its end."""
        argv = ("ip", "netns", "exec", self.namespaces.of("server"), python, __file__, "--client", kind, job)
        argv += (str(self.folder), str(count), str(times), str(at_once))
        begun_s, targets_s = time.monotonic(), self.sshd_cpu_s()
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
        figures["targets_cpu_s"] = self.sshd_cpu_s() - targets_s
        figures["targets_wall_s"] = figures["targets_cpu_s"] / len(os.sched_getaffinity(0))
        return figures

    def sshd_cpu_s(self) -> float:
        """CPU seconds of the listener and of all that it has waited for, from /proc (proc(5): utime to cstime)."""
        stat = Path(f"/proc/{self.sshd.pid}/stat").read_text()
        ticks = stat[stat.rindex(")") + 2 :].split()[11:15]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def settle(self) -> None:
        """Wait until the server has done with the last client."""
        from benchmarks.lab.namespaces import until

        until(lambda: not self.sshd.sessions(), "the server's sessions end", timeout_s=120)

    def close(self) -> None:
        """End the server and remove the namespace."""
        self.sshd.stop()
        self.namespaces.close()


def peer_python(folder: Path) -> str:
    """A Python with those peers that can be installed."""
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / "bin" / "python")
    for name in ("asyncssh", "uvloop", "paramiko", "parallel-ssh", "ClusterShell"):
        subprocess.run((python, "-m", "pip", "install", "-q", name), check=False)
    return python


def compared(site: Site, python: str, names: list[str], hosts: int, times: int, rounds: int, at_once: int = 1) -> None:
    """Hosts x commands: every client once a round, in turn; then the ratios of the medians."""
    runs: dict[str, list[Figures]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names:
            asked = min(times, _MEASURED) if name in NEW_CONNECTIONS else times
            figures = site.run(sys.executable if name in _OURS else python, name, "commands", hosts, asked, at_once)
            for one in _GROWING:
                figures[one] *= times / asked
            runs[name].append(figures)
            print(f"round {number + 1}: {_line(name, figures)}", flush=True)
    medians = {name: _medians(figures) for name, figures in runs.items()}
    print(f"\n{hosts} hosts x {times} commands, {at_once} at once on each, median of {rounds}:")
    for name, figures in medians.items():
        print(_line(name, figures))
    for name in [one for one in medians if one != "fabric"]:
        ratios = [f"{one} {medians['fabric'][one] / medians[name][one]:.3f}" for one in (*_GROWING[:3], "rss_mib")]
        print(f"  fabric / {name:12} " + "  ".join(ratios), flush=True)


def _medians(runs: list[Figures]) -> Figures:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def _line(kind: str, figures: Figures) -> str:
    return f"{kind:12}" + "  ".join(f"{name} {value:.2f}" for name, value in figures.items())


def options() -> argparse.Namespace:
    """What to measure, and how large."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=512)
    parser.add_argument("--commands", type=int, default=10)
    parser.add_argument("--many", type=int, default=270, help="commands of a long run")
    parser.add_argument("--at-once", type=int, nargs="*", default=[8, 1], help="so many of a long run on each host")
    parser.add_argument("--most", type=int, default=2048, help="hosts that are connected to and left idle")
    parser.add_argument("--rounds", type=int, default=3)
    peers = [one for one in PEERS if one not in _OURS]
    parser.add_argument("--peers", nargs="*", default=peers, choices=[*peers, "plain"])
    parser.add_argument("--python", help="a Python that has the peers; without it they are installed")
    parser.add_argument("--skip", nargs="*", default=[], choices=("commands", "many", "single", "sleep", "most"))
    return parser.parse_args()


def measured(asked: argparse.Namespace, site: Site, python: str, names: list[str]) -> None:
    """Everything, printed as it comes."""
    own = sys.executable
    if "commands" not in asked.skip:
        compared(site, python, names, asked.hosts, asked.commands, asked.rounds)
    if "single" not in asked.skip:
        for job in ("latency", "output"):
            print(_line(f"1 {job}", site.run(own, "fabric", job, 1)), flush=True)
    if "sleep" not in asked.skip:
        print(_line(f"{asked.hosts} x sleep 2", site.run(own, "fabric", "sleep", asked.hosts)), flush=True)
    if "most" not in asked.skip:
        print(_line(f"{asked.most} idle", site.run(own, "fabric", "idle", asked.most)), flush=True)
    if "many" not in asked.skip:
        both = [one for one in names if one in ("fabric", "asyncssh")]
        for at_once in asked.at_once:
            hosts = asked.hosts if at_once == 1 else max(1, asked.hosts // 4)
            compared(site, python, both, hosts, asked.many, 1, at_once)


def main() -> None:
    """Measure what is asked for."""
    asked = options()
    with tempfile.TemporaryDirectory(prefix="fabric-bench-") as name:
        folder = Path(name)
        python = asked.python or peer_python(folder)
        lacking = missing(python)
        for peer in [one for one in asked.peers if one in lacking]:
            print(f"{peer} is left out: {lacking[peer]}")
        for room in ("fabric", "benchmarks"):  # else the first round would compile, as pip has done for the peers
            compileall.compile_dir(ROOT / room, quiet=2)
        names = ["fabric", *(one for one in asked.peers if one not in lacking)]
        site = Site(folder, max(asked.hosts, asked.most))
        try:
            measured(asked, site, python, names)
        finally:
            site.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        kind, job, where, *numbers = sys.argv[2:8]
        print(json.dumps(client(kind, job, Path(where), *map(int, numbers))))
    else:
        main()
