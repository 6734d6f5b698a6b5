"""One real sshd in a network namespace: own host key, own configuration, all of it in one folder."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from benchmarks.lab.namespaces import is_in, listens, until
from fabric.lab.layout import sshd_config

SSHD = Path("/usr/sbin/sshd")


class Sshd:
    """
    A server that was started; ``stop`` ends it and every session it holds.

    *wrap* is a command that becomes the command it is given (``env``, ``sh -c '... exec "$@"' sh``).
    """

    def __init__(
        self,
        folder: Path,
        *,
        namespace: str,
        address: str,
        authorized_keys: Path,
        environment: Mapping[str, str],
        more: str = "",
        wrap: tuple[str, ...] = (),
    ) -> None:
        folder.mkdir()
        self.folder, self.address, self._namespace = folder, address, namespace
        self.new_host_key()
        words = " ".join(f"{name}={value}" for name, value in environment.items())
        text = sshd_config(
            address,
            key=f"{folder}/host_key",
            pid=f"{folder}/pid",
            authorized=str(authorized_keys),
            environment=words,
        )
        (folder / "config").write_text(f"{more}\n{text}")
        server = (str(SSHD), "-D", "-e", "-f", str(folder / "config"))
        self._argv = ("ip", "netns", "exec", namespace, *wrap, *server)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, port: int = 22) -> None:
        """Start it and wait until it listens on the port of its configuration."""
        Path("/run/sshd").mkdir(exist_ok=True)  # where sshd's unprivileged half is confined; it must be there
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._process = process
        # "ip netns exec" becomes the server itself, so its pid is the server's; before that it still is in the
        # namespace of this machine, whose own sshd listens on the same port.
        until(lambda: process.poll() is not None or self._listens(port), f"sshd of {self.folder.name} listens")
        if process.poll() is not None:
            raise OSError(f"sshd ended: {(self.folder / 'log').read_text()}")

    def _listens(self, port: int) -> bool:
        return is_in(self._namespace, self.pid) and listens(self.pid, port)

    def new_host_key(self) -> None:
        """Give it another identity; takes effect at the next start."""
        make_key(self.folder / "host_key")

    def known_hosts_line(self, *, key: str | None = None) -> str:
        """Its line for known_hosts, or that of another public key."""
        return f"{self.address} {key or self.public_key()}\n"

    def public_key(self) -> str:
        """Type and key, as in a .pub file."""
        return public_key(self.folder / "host_key")

    def sessions(self) -> list[int]:
        """Processes that serve connections, not the listener: the listener's children."""
        return children(self.pid)

    @property
    def pid(self) -> int:
        """The listener's process id."""
        if self._process is None:
            raise OSError(f"sshd of {self.folder.name} is not running")
        return self._process.pid

    def freeze(self) -> None:
        """Stop it and all its sessions, as a machine that hangs: TCP still answers, nobody else does."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Undo ``freeze``."""
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        for pid in (self.pid, *self.sessions()):
            with contextlib.suppress(ProcessLookupError):  # a session that is just ending
                os.kill(pid, number)

    def stop(self) -> None:
        """End the server; sessions end with their connections, or with the namespace."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=10)
            self._process = None


def make_key(path: Path) -> None:
    """A new ed25519 key without passphrase at *path* and *path*.pub."""
    path.unlink(missing_ok=True)
    argv = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path))
    subprocess.run(argv, check=True, timeout=20)


def public_key(path: Path) -> str:
    """Type and key of the public half of *path*."""
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


def children(pid: int) -> list[int]:
    """Child processes of a process."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
