"""A few hosts, each a namespace with a real sshd, and what an orchestrator needs to reach them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from benchmarks.lab.namespaces import Namespaces
from benchmarks.lab.sshd import Sshd, make_key, public_key
from fabric.model.inventory import JumpHost, SshSettings

ROOT = Path(__file__).resolve().parents[2]


def _slower(cpu_s: float = 0.05) -> float:
    """How many times longer than it works a busy loop takes: less than the load says where others are nicer."""
    began_s, from_s = time.monotonic(), time.thread_time()
    while time.thread_time() - from_s < cpu_s:
        pass
    return (time.monotonic() - began_s) / cpu_s


SLOWER = min(3.0, max(1.0, _slower()))
"""How many times longer than usual things take here: others want the same processors."""

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BIND = 'while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit 1; shift 2; done; shift; exec "$@"'


class Lab:
    """
    Use it in a with statement; what it started ends there, whatever happened between.

    *private*: folders of which each host sees one of its own (``own``) at the same path.
    """

    def __init__(
        self,
        folder: Path,
        *,
        hosts: tuple[str, ...],
        tools: Path | None = None,
        environment: Mapping[str, str] | None = None,
        private: tuple[Path, ...] = (),
    ) -> None:
        self.folder = folder
        self.namespaces = Namespaces(hosts)
        self.key_file, self.known_hosts = folder / "user_key", folder / "known_hosts"
        self.sshd: dict[str, Sshd] = {}
        self._hosts, self._tools, self._environment = hosts, tools, dict(environment or {})
        self._private = private
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Lab:
        with contextlib.ExitStack() as stack:
            stack.callback(self.namespaces.close)
            self.namespaces.make()
            make_key(self.key_file)
            (self.folder / "authorized_keys").write_text(public_key(self.key_file) + "\n")
            (self.folder / "home").mkdir()
            for host in self._hosts:
                server = self.sshd[host] = self.server(host)
                stack.callback(server.stop)
                server.start()
            self.known_hosts.write_text("".join(server.known_hosts_line() for server in self.sshd.values()))
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def server(self, host: str, *, name: str | None = None, more: str = "") -> Sshd:
        """A host's sshd, made and not started; a login shell there reads no start-up files of this machine's root."""
        path = _PATH if self._tools is None else f"{self._tools}:{_PATH}"
        environment = {"PATH": path, "HOME": str(self.folder / "home"), "FABRIC_LAB_HOST": host, **self._environment}
        return Sshd(
            self.folder / (name or host),
            namespace=self.namespaces.of(host),
            address=self.namespaces.addresses[host],
            authorized_keys=self.folder / "authorized_keys",
            environment=environment,
            more=more,
            wrap=self._bound(host),
        )

    def own(self, path: Path, host: str) -> Path:
        """Where a host's own version of a private folder really is."""
        return path.with_name(f"{path.name}-{host}")

    def _bound(self, host: str) -> tuple[str, ...]:
        """A command that puts a host's own folders in the places of the private ones, in its own mount namespace."""
        words: list[str] = []
        for path in self._private:
            own = self.own(path, host)
            path.mkdir(exist_ok=True)
            own.mkdir(mode=0o700, exist_ok=True)
            words += [str(own), str(path)]
        return ("sh", "-c", _BIND, "sh", *words, "--") if words else ()

    @property
    def addresses(self) -> dict[str, str]:
        """Where each host is, and ``dead``, which is nowhere."""
        return {**self.namespaces.addresses, "dead": self.namespaces.dead_address}

    def settings(
        self, *, known_hosts: Path | None = None, jump: tuple[JumpHost, ...] = (), connect_timeout_s: float = 15
    ) -> SshSettings:
        """SSH settings that reach the hosts as root with the lab's key."""
        return SshSettings(
            user="root",
            key_file=str(self.key_file),
            agent=False,
            jump=jump,
            known_hosts=(str(known_hosts or self.known_hosts),),
            connect_timeout_s=connect_timeout_s,
        )


def own_environment() -> dict[str, str]:
    """This process's environment, for children that need to find the package."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
