"""
What ``fabric monitor`` costs, on hosts and on the orchestrator: 0.5 % of a core a host and one core for all is asked.

    sudo python benchmarks/monitor.py [--hosts 16] [--seconds 60] [--fleet 2048] [--skip ssh rows mock]

- *ssh*: real agents over a real sshd, which stands for all hosts as in ``benchmarks/ssh.py``. They read files of eight
  RNICs on tmpfs, so what a driver takes to ask its firmware for a counter is not in it. One more host hangs (an address
  that nobody answers on). Printed: CPU of an agent with its sshd, and of the orchestrator, each as share of a core.
- *rows*: the lines that so many agents would send, decoded and judged here, without SSH: what the orchestrator does.
- *mock*: the command itself on the simulated hall; the simulation's own time is in it.

Figures of one machine; others' load moves wall times, not CPU.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fabric.app.monitor import Alarm, Monitor  # noqa: E402
from fabric.config.inventory import load_inventory  # noqa: E402
from fabric.hosts.agent.protocol import LineDecoder, Rows  # noqa: E402
from fabric.model.inventory import Inventory  # noqa: E402
from fabric.ports import Happening, Sampled, Source, Ticket  # noqa: E402

HALL = ROOT / "inventory" / "hall-2048.yaml"
COUNTERS = (
    *("symbol_error", "link_downed", "link_error_recovery", "port_rcv_errors", "port_xmit_discards"),
    *("port_xmit_data", "port_rcv_data"),
)
DEVICES = 8


def cpu_s() -> float:
    """CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Lines:
    """An executor that only samples: the lines that agents would have sent are decoded as real ones."""

    def __init__(self) -> None:
        self._now_s, self._rows = 0.0, list[Sampled]()
        self._names: dict[Ticket, tuple[str, ...]] = {}
        self._decoders: dict[Ticket, LineDecoder] = {}
        self.line_bytes, self.made_s = 0, 0.0

    def now(self) -> float:
        """Seconds."""
        return self._now_s

    def go_on(self, at_s: float) -> None:
        """Not used."""

    def wake(self) -> None:
        """Nobody blocks."""

    start = go_on

    def start_sampling(self, host: str, sources: Sequence[Source], period_s: float, batch_s: float) -> Ticket:
        """What is read often is sent, five seconds at once; the rest never."""
        del host, batch_s
        ticket = len(self._names) + 1
        self._names[ticket] = tuple(one.path for one in sources) if period_s == 1.0 else ()
        self._decoders[ticket] = LineDecoder("x")
        self._decoders[ticket].feed(b'fabric-agent-x {"e":"hello","t":0.0}\n')
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """No more of it."""
        self._names[ticket] = ()

    def wait(self, until_s: float) -> list[Happening]:
        """A second goes by."""
        self._now_s = max(self._now_s, min(until_s, self._now_s + 1.0))
        begun_s = cpu_s()
        bytes_of, now = {}, int(self._now_s)
        for ticket, names in self._names.items():
            if not names or (now + ticket) % 5:
                continue
            at = range(max(1, now - 4), now + 1)
            rows = ",".join(
                "[" + ",".join(str(second * 1_562_500_000 + ticket) if _counts(one) else "0" for one in names) + "]"
                for second in at
            )
            times = ",".join(map(str, at))
            bytes_of[ticket] = f'{{"e":"rows","id":1,"part":0,"at":[{times}],"rows":[{rows}]}}\n'.encode()
        self.line_bytes = max(map(len, bytes_of.values()), default=0)
        self.made_s += cpu_s() - begun_s
        for ticket, data in bytes_of.items():
            for message in self._decoders[ticket].feed(data):
                assert isinstance(message, Rows)
                rows = tuple(map(tuple, message.rows))
                self._rows.append(Sampled(ticket, self._names[ticket], tuple(message.at), rows, 0))
        return []

    def samples(self) -> list[Sampled]:
        """What has come."""
        found, self._rows = self._rows, []
        return found

    def close(self) -> None:
        """Nothing is open."""


def _counts(path: str) -> bool:
    return path.endswith("_data")


def rows(hosts: int, seconds: int) -> None:
    """The orchestrator without SSH."""
    inventory = load_inventory(HALL)
    names = tuple(inventory.topology.hosts)[:hosts]
    lines = Lines()
    with closing(Monitor(inventory, names, lines, every_s=1.0, say=print)) as monitor:  # type: ignore[arg-type]
        begun_s = cpu_s()
        seen = monitor.run(float(seconds))
        used_s = cpu_s() - begun_s - lines.made_s
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"rows   {seen.hosts:,} hosts, {seen.ports:,} ports, {seconds} s of lines of {lines.line_bytes} bytes: "
        f"{used_s:.1f} CPU s, {used_s / seconds:.1%} of a core; peak {peak} MiB"
    )


def mock(hosts: int, seconds: int) -> None:
    """The command on the simulated hall."""
    argv = ("-c", "from fabric.cli.main import run; run()")
    words = ("monitor", "--inventory", str(HALL), "--hosts", f"gpu[0001-{hosts:04}]", "--for", f"{seconds}s")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *argv, *words], capture_output=True, text=True, check=False, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"mock   {done.stdout.strip()}; exit {done.returncode}; {used_s:.1f} CPU s with the simulation itself")


def fake_sysfs(folder: Path) -> None:
    """Eight RNICs that have counted."""
    for number in range(DEVICES):
        counters = folder / f"mlx5_{number}" / "ports" / "1" / "counters"
        counters.mkdir(parents=True)
        for name in COUNTERS:
            (counters / name).write_text("123456789012\n" if name.endswith("_data") else "0\n")


def ssh(hosts: int, seconds: int) -> None:
    """Real agents; the last host does not answer."""
    from benchmarks.ssh import Site

    with tempfile.TemporaryDirectory(prefix="fabric-bench-") as name:
        folder = Path(name)
        fake_sysfs(folder / "infiniband")
        inside = 'mount -t tmpfs none /sys/class && cp -r "$1" /sys/class/infiniband && shift && exec "$@"'
        site = Site(folder, hosts, ("sh", "-c", inside, "sh", str(folder / "infiniband")))
        try:
            words = (sys.executable, __file__, "--client", str(folder), str(hosts), str(seconds))
            subprocess.run(("ip", "netns", "exec", site.namespaces.of("server"), *words), check=True)
        finally:
            site.close()


def client(folder: Path, hosts: int, seconds: int) -> None:
    """In the namespace: the monitor over SSH, and what all processes of the server took meanwhile."""
    from benchmarks.ssh_peers import addresses
    from fabric.hosts.ssh import SshExecutor
    from fabric.model.inventory import SshSettings

    inventory: Inventory = load_inventory(HALL)
    names = tuple(inventory.topology.hosts)[: hosts + 1]
    reached = dict(zip(names, (*addresses(hosts).values(), "192.0.2.1"), strict=True))
    settings = SshSettings(
        user="root", connect_timeout_s=5.0, key_file=str(folder / "key"), known_hosts=(str(folder / "known_hosts"),)
    )
    said: list[Alarm] = []
    marks: list[tuple[float, float, float]] = []
    executor = SshExecutor(settings, reached)
    with closing(Monitor(inventory, names, executor, every_s=1.0, say=said.append)) as monitor:
        monitor.run(25.0)  # every agent has begun, and the compilers of both sides are done
        marks.append((time.monotonic(), cpu_s(), agents_cpu_s()))
        seen = monitor.run(25.0 + seconds)
        marks.append((time.monotonic(), cpu_s(), agents_cpu_s()))
    took_s, ours_s, theirs_s = (after - before for before, after in zip(*marks, strict=True))
    print(
        f"ssh    {seen.hosts} hosts read, {len(seen.silent)} silent, {took_s:.0f} s: "
        f"{theirs_s / took_s / hosts:.2%} of a core a host (agent and sshd), "
        f"orchestrator {ours_s / took_s:.1%} of a core, {ours_s / took_s / hosts:.3%} a host; "
        f"2,048 at that rate: {2048 * ours_s / took_s / hosts:.0%}"
    )
    for one in said:
        print(f"       {one.outcome.name} {one.parts} {one.said}")


def agents_cpu_s() -> float:
    """CPU seconds of every agent and of the sshd processes that serve them, of this namespace alone (proc(5))."""
    sum_s, here = 0.0, Path("/proc/self/ns/net").readlink()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text, line = stat.read_text(), (stat.parent / "cmdline").read_bytes()
            apart = (stat.parent / "ns" / "net").readlink() != here
        except OSError:
            continue
        if apart:
            continue
        if b"sshd" in line or (b"python3" in line and b"--client" not in line and b"-c" in line):
            sum_s += sum(map(int, text[text.rindex(")") + 2 :].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return sum_s


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--fleet", type=int, default=2048)
    parser.add_argument("--skip", nargs="*", default=[], choices=("ssh", "rows", "mock"))
    asked = parser.parse_args()
    if "rows" not in asked.skip:
        rows(asked.fleet, asked.seconds)
    if "mock" not in asked.skip:
        mock(asked.fleet, asked.seconds)
    if "ssh" not in asked.skip:
        ssh(asked.hosts, asked.seconds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        client(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
