"""A rack behind real SSH whose hosts can be frozen, killed, cut off, made to lie, and made well again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.lab.lab import Lab
from benchmarks.lab.rack import Rack

HOSTS = 16
LIES = ("garbage", "truncated", "flood")

_HERE = Path(__file__).parent
_DISKS = ("/var/tmp", "/dev/shm")


class ChaosRack(Rack):
    """A rack whose hosts can be befallen and healed."""

    program = _HERE / "chaos_server.py"

    def __init__(self, folder: Path, *, hosts: int = HOSTS, speed: float = 10.0) -> None:
        super().__init__(folder, hosts=hosts, parts=2, speed=speed)
        self._trouble = folder / "trouble"
        self._trouble.mkdir()
        told = {"FABRIC_LAB_SOCKET": str(folder / "rack.socket"), "FABRIC_LAB_TROUBLE": str(self._trouble)}
        self.lab = Lab(folder, hosts=self.hosts, tools=folder / "tools", environment=told)
        stub = folder / "tools" / ".stub"
        shebang, _, truth = stub.read_text().partition("\n")
        stub.write_text(f"{shebang}\n{(_HERE / 'lying_stub.py').read_text()}\n{truth}")
        self._begin: dict[str, Callable[[str], None]] = {
            "freeze": self._freeze,
            "die": self._die,
            "cut": lambda host: self.lab.namespaces.cut(host),
            "full disk": self._fill,
            **{lie: partial(self._lie, lie) for lie in LIES},
        }

    def strike(self, host: str, kind: str) -> None:
        """Let it come over a host."""
        self._begin[kind](host)

    def heal(self, host: str) -> None:
        """Make a host well again, whatever it had; what runs on it stays, as on a host that comes back."""
        for pid in self.pids(host):
            _send(pid, signal.SIGCONT)
        (self._trouble / host).unlink(missing_ok=True)
        self._tell(host, None)
        self.lab.namespaces.join(host)
        server = self.lab.sshd[host]
        try:
            pid = server.pid
        except OSError:
            server.start()
            pid = server.pid
        for disk in _DISKS:
            subprocess.run(
                ("nsenter", f"--target={pid}", "--mount", "umount", "--quiet", disk), check=False, timeout=10
            )

    def pids(self, host: str) -> list[int]:
        """Every process of a host."""
        argv = ("ip", "netns", "pids", self.lab.namespaces.of(host))
        return [int(word) for word in subprocess.run(argv, check=True, capture_output=True, timeout=10).stdout.split()]

    def tools(self, host: str) -> list[str]:
        """Command lines of what runs on a host and is neither sshd nor an agent without work."""
        lines = ((pid, _command_line(pid)) for pid in self.pids(host))
        return [f"{host}: {line}" for _, line in lines if line and "sshd" not in line and "fabric-agent" not in line]

    def end_sessions(self, host: str) -> None:
        """End what is left on a host but its listener, so that the next run finds it as new."""
        for pid in self.pids(host):
            if pid != self.lab.sshd[host].pid:
                _send(pid, signal.SIGKILL)

    def _freeze(self, host: str) -> None:
        self._tell(host, "hanging")
        for pid in self.pids(host):
            _send(pid, signal.SIGSTOP)

    def _die(self, host: str) -> None:
        self.lab.namespaces.cut(host)
        self._tell(host, "broken")
        self.lab.sshd[host].stop()
        while pids := self.pids(host):
            for pid in pids:
                _send(pid, signal.SIGKILL)

    def _lie(self, lie: str, host: str) -> None:
        (self._trouble / host).write_text(lie)

    def _fill(self, host: str) -> None:
        fill = "; ".join(
            f"mount -t tmpfs -o size=64k fab {disk} && head -c 1m /dev/zero >{disk}/full" for disk in _DISKS
        )
        argv = ("nsenter", f"--target={self.lab.sshd[host].pid}", "--mount", "sh", "-c", fill)
        subprocess.run(argv, check=False, capture_output=True, timeout=10)

    def _tell(self, host: str, kind: str | None) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            server.settimeout(10)
            server.connect(str(self.folder / "rack.socket"))
            server.sendall(json.dumps({"befall": host, "kind": kind}).encode() + b"\n")
            server.recv(16)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""
