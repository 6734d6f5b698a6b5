"""Network namespaces joined by a bridge in one more: nothing of the machine's own network is touched."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_NET = "10.77.0"
_NUMBERS = iter(range(1, 1000))


class Namespaces:
    """
    One namespace for each of some hosts, one for the orchestrator, one for the switch between them.

    Their names hold this process's id, so that several labs can be on a machine; ``close`` removes these names only.
    """

    def __init__(self, hosts: tuple[str, ...]) -> None:
        self._prefix = f"fablab{os.getpid()}-{next(_NUMBERS)}"
        self._made: list[str] = []
        self.orchestrator = f"{self._prefix}-orch"
        self._switch = f"{self._prefix}-switch"
        self._namespaces = {host: f"{self._prefix}-{host}" for host in hosts}
        self.addresses = {host: f"{_NET}.{number}" for number, host in enumerate(hosts, start=1)}
        self.orchestrator_address = f"{_NET}.250"
        self.dead_address = f"{_NET}.254"  # nobody has it

    def make(self) -> None:
        """Create and join them all; call ``close`` even when this fails."""
        self._add(self._switch)
        ip("-n", self._switch, "link", "add", "br0", "type", "bridge")
        ip("-n", self._switch, "link", "set", "br0", "up")
        self._join(self.orchestrator, self.orchestrator_address, port="p0")
        for number, (host, namespace) in enumerate(self._namespaces.items(), start=1):
            self._join(namespace, self.addresses[host], port=f"p{number}")

    def of(self, host: str) -> str:
        """The namespace of a host."""
        return self._namespaces[host]

    def cable(self, host: str, interface: str) -> None:
        """One more interface of a host: up, without an address, its cable plugged into the switch."""
        port = f"c{list(self._namespaces).index(host) + 1}-{interface}"
        add = ("-n", self._switch, "link", "add", port, "type", "veth", "peer", "name", interface)
        ip(*add, "netns", self._namespaces[host])
        ip("-n", self._switch, "link", "set", port, "up")
        ip("-n", self._namespaces[host], "link", "set", interface, "up")

    def cut(self, host: str) -> None:
        """Take down a host's side of the switch: from now on its packets are lost without a word."""
        number = list(self._namespaces).index(host) + 1
        ip("-n", self._switch, "link", "set", f"p{number}", "down")

    def join(self, host: str) -> None:
        """Undo ``cut``."""
        number = list(self._namespaces).index(host) + 1
        ip("-n", self._switch, "link", "set", f"p{number}", "up")

    def close(self) -> None:
        """End every process inside, by its id, and remove every namespace made here."""
        for namespace in reversed(self._made):
            until_s = time.monotonic() + 5
            while (pids := _pids(namespace)) and time.monotonic() < until_s:
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.02)
            subprocess.run(("ip", "netns", "delete", namespace), check=False, capture_output=True, timeout=10)
        self._made.clear()

    def _add(self, namespace: str) -> None:
        self._made.append(namespace)
        ip("netns", "add", namespace)
        ip("-n", namespace, "link", "set", "lo", "up")

    def _join(self, namespace: str, address: str, *, port: str) -> None:
        self._add(namespace)
        ip("-n", self._switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        ip("-n", self._switch, "link", "set", port, "master", "br0", "up")
        ip("-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
        ip("-n", namespace, "link", "set", "eth0", "up")


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Put this thread, and threads and processes it starts, into a network namespace for a while."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    after = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        _set_namespace(after)
        yield
    finally:
        _set_namespace(before)
        os.close(before)
        os.close(after)


def ip(*words: str) -> str:
    """What iproute2's ip prints; raises with what it complained of."""
    done = subprocess.run(("ip", *words), check=False, capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def until(condition: Callable[[], bool], what: str, *, timeout_s: float = 15) -> None:
    """Wait for *condition*; raises TimeoutError naming *what* was waited for."""
    until_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until_s:
            raise TimeoutError(f"{what} within {timeout_s:g} s")
        time.sleep(0.02)


def is_in(namespace: str, pid: int) -> bool:
    """Whether a process has come into a namespace."""
    try:
        return Path(f"/proc/{pid}/ns/net").samefile(f"/run/netns/{namespace}")
    except OSError:  # it has just ended
        return False


def listens(pid: int, port: int) -> bool:
    """Whether somebody in a process's network namespace listens on a TCP port."""
    lines = Path(f"/proc/{pid}/net/tcp").read_text("ascii").splitlines()[1:]
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines)


def _set_namespace(fd: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _pids(namespace: str) -> list[int]:
    done = subprocess.run(("ip", "netns", "pids", namespace), check=False, capture_output=True, text=True, timeout=10)
    return [int(word) for word in done.stdout.split()]
