"""
The clients that benchmarks/ssh.py compares: ours, libraries that keep connections, and tools that do not.

Each has ``each``: run a command so often on every host, one after the other on each; and ``close``.
"""

import asyncio
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

POOL = 64
"""Hosts dealt with at once by peers that need to be told; 64 was best or equal for all of them."""
SHARD = 32
"""Hosts to a process, as ROCm's cvs has it."""


def addresses(count: int) -> dict[str, str]:
    """Host names and where they are."""
    return {f"host{n:04d}": f"127.0.{1 + n // 250}.{1 + n % 250}" for n in range(count)}


class Fabric:
    """Our own executor, as ``fabric run`` uses it."""

    def __init__(self, folder: Path, count: int, *, plain: bool) -> None:
        from fabric.hosts.ssh import SshExecutor
        from fabric.model.inventory import SshSettings

        known = (str(folder / "known_hosts"),)
        settings = SshSettings("root", 22, str(folder / "key"), agent=False, known_hosts=known, connect_timeout_s=60)
        self.hosts = tuple(addresses(count))
        self.executor = SshExecutor(settings, addresses(count), agents=not plain)

    def each(
        self, argv: tuple[str, ...], times: int = 1, *, at_once: int = 1, timeout_s: float = 300, cap: int = 1 << 20
    ) -> int:
        """Run a command so often on every host, so many at once on each; returns how many bytes were printed."""
        from fabric.model.probe import Command
        from fabric.ports import Ended

        executor, printed = self.executor, 0
        todo, left = dict.fromkeys(self.hosts, times), {}

        def begin(host: str) -> None:
            if todo[host]:
                todo[host] -= 1
                left[executor.start(Command(host, argv, timeout_s, output_cap_bytes=cap))] = host

        for host in self.hosts:
            for _ in range(at_once):
                begin(host)
        while left:
            for one in executor.wait(executor.now() + 60):
                host = left.pop(one.ticket)
                assert isinstance(one, Ended), one
                assert one.result.exit_status == 0, one
                printed += len(one.result.stdout)
                begin(host)
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

    def each(self, argv: tuple[str, ...], times: int = 1, *, at_once: int = 1, **_: Any) -> int:
        """Run a command so often on every host, so many at once on each."""
        return int(self._loop.run_until_complete(self._each(" ".join(argv), times, at_once)))

    async def _each(self, line: str, times: int, at_once: int) -> int:
        if not self._connections:
            gate = asyncio.Semaphore(64)
            self._connections = await asyncio.gather(*(self._connect(gate, one) for one in self._addresses.values()))
        shares = [times // at_once + (n < times % at_once) for n in range(at_once)]
        runs = (self._run(one, line, share) for one in self._connections for share in shares if share)
        return sum(await asyncio.gather(*runs))

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


class Paramiko:
    """paramiko as most programs use it: a client a host, known_hosts loaded by each, a pool of threads."""

    def __init__(self, folder: Path, count: int) -> None:
        import paramiko

        self._ssh, self._folder, self._addresses = paramiko, folder, tuple(addresses(count).values())
        self._pool = ThreadPoolExecutor(POOL)
        self._clients: list[Any] = []

    def each(self, argv: tuple[str, ...], times: int = 1, **_: Any) -> int:
        """Run a command so often on every host."""
        if not self._clients:
            self._clients = list(self._pool.map(self._connect, self._addresses))
        return sum(self._pool.map(lambda one: self._run(one, " ".join(argv), times), self._clients))

    def _connect(self, address: str) -> Any:
        client = self._ssh.SSHClient()
        client.load_host_keys(str(self._folder / "known_hosts"))
        client.connect(
            address, username="root", key_filename=str(self._folder / "key"), allow_agent=False, look_for_keys=False
        )
        return client

    def _run(self, client: Any, line: str, times: int) -> int:
        printed = 0
        for _ in range(times):
            _, out, _ = client.exec_command(line)
            printed += len(out.read())
            assert out.channel.recv_exit_status() == 0
        return printed

    def close(self) -> None:
        """Let go."""
        for client in self._clients:
            client.close()
        self._pool.shutdown()


class ParallelSsh:
    """parallel-ssh on libssh2, connections kept; it checks no host key."""

    def __init__(self, folder: Path, count: int) -> None:
        self._client = _parallel_ssh(tuple(addresses(count).values()), str(folder / "key"))

    def each(self, argv: tuple[str, ...], times: int = 1, **_: Any) -> int:
        """Run a command so often on every host."""
        return sum(_answers(self._client, " ".join(argv)) for _ in range(times))

    def close(self) -> None:
        """It has no more to say."""


class Reconnecting:
    """What ROCm's cvs does with more than 32 hosts: new processes and new connections for every command."""

    def __init__(self, folder: Path, count: int) -> None:
        hosts = tuple(addresses(count).values())
        self._key = str(folder / "key")
        self._shards = [hosts[at : at + SHARD] for at in range(0, count, SHARD)]

    def each(self, argv: tuple[str, ...], times: int = 1, **_: Any) -> int:
        """Run a command so often on every host."""
        printed = 0
        for _ in range(times):
            with multiprocessing.get_context("spawn").Pool(len(self._shards)) as pool:
                printed += sum(
                    pool.starmap(_new_connections, [(shard, self._key, " ".join(argv)) for shard in self._shards])
                )
                pool.close()
                pool.join()
        return printed

    def close(self) -> None:
        """Nothing is kept."""


def _parallel_ssh(hosts: tuple[str, ...], key: str) -> Any:
    from pssh.clients import ParallelSSHClient  # type: ignore[import-not-found]

    return ParallelSSHClient(hosts, user="root", pkey=key, pool_size=POOL, allow_agent=False)


def _answers(client: Any, line: str) -> int:
    printed = 0
    for one in client.run_command(line):
        printed += sum(map(len, one.stdout)) + sum(map(len, one.stderr))
        assert one.exit_code == 0, one
    return printed


def _new_connections(hosts: tuple[str, ...], key: str, line: str) -> int:
    return _answers(_parallel_ssh(hosts, key), line)


class Tool:
    """pdsh or clush: one OpenSSH client process for every command and host."""

    def __init__(self, folder: Path, count: int, name: str) -> None:
        self._hosts = ",".join(addresses(count).values())
        options = f"-F /dev/null -i {folder / 'key'} -o UserKnownHostsFile={folder / 'known_hosts'}"
        if name == "pdsh":
            self._argv: tuple[str, ...] = ("pdsh", "-R", "ssh", "-S", "-f", str(POOL), "-l", "root", "-w", self._hosts)
            self._env = {**os.environ, "PDSH_SSH_ARGS_APPEND": options}
        else:
            clush = str(Path(sys.executable).with_name("clush"))
            found = clush if Path(clush).exists() else "clush"
            self._argv = (found, "-S", "-q", "-f", str(POOL), "-l", "root", "-o", options, "-w", self._hosts)
            self._env = dict(os.environ)

    def each(self, argv: tuple[str, ...], times: int = 1, **_: Any) -> int:
        """Run a command so often on every host."""
        printed = 0
        for _ in range(times):
            done = subprocess.run((*self._argv, *argv), env=self._env, stdout=subprocess.PIPE, check=True)
            printed += len(done.stdout)
        return printed

    def close(self) -> None:
        """Nothing is kept."""


PEERS: dict[str, Callable[[Path, int], Any]] = {
    "fabric": lambda folder, count: Fabric(folder, count, plain=False),
    "plain": lambda folder, count: Fabric(folder, count, plain=True),
    "asyncssh": Asyncssh,
    "paramiko": Paramiko,
    "parallel-ssh": ParallelSsh,
    "cvs's way": Reconnecting,
    "pdsh": lambda folder, count: Tool(folder, count, "pdsh"),
    "clush": lambda folder, count: Tool(folder, count, "clush"),
}
NEW_CONNECTIONS = ("cvs's way", "pdsh", "clush")
"""They connect anew for each command, so what they cost grows with the commands alone."""


def missing(python: str) -> dict[str, str]:
    """Peers that cannot be run here, and why."""
    found = {}
    for name, module in (("asyncssh", "asyncssh, uvloop"), ("paramiko", "paramiko"), ("parallel-ssh", "pssh")):
        if subprocess.run((python, "-c", f"import {module}"), capture_output=True, check=False).returncode != 0:
            found[name] = f"{module} cannot be installed"
    if "parallel-ssh" in found:
        found["cvs's way"] = found["parallel-ssh"]
    if shutil.which("pdsh") is None:
        found["pdsh"] = "not on PATH (package pdsh)"
    if shutil.which("clush") is None and not Path(python).with_name("clush").exists():
        found["clush"] = "not on PATH (package ClusterShell)"
    return found
