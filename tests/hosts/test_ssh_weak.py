"""What OpenSSH's client refuses, we refuse: servers with weak algorithms only, one real sshd for each of them."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fabric.hosts.ssh.connection import Connection, strong
from fabric.hosts.ssh.keys import HostRefused

SSHD = Path("/usr/sbin/sshd")
GOOD = ("KexAlgorithms curve25519-sha256@libssh.org", "Ciphers aes256-ctr", "MACs hmac-sha2-256")
_CONFIG = "HostKey {folder}/{key}\nUsePAM no\nStrictModes no\nPidFile none\nLogLevel ERROR\n"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a host key of each of two types."""
    if not SSHD.exists():
        pytest.skip("no sshd here")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # root's sshd confines its unprivileged half there
    folder = tmp_path_factory.mktemp("sshd")
    for kind in ("ed25519", "rsa"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", kind, "-b", "2048", "-N", "", "-f", str(folder / kind)], check=True, timeout=60
        )
    return folder


class Server:
    """sshd at the other end of a pair of sockets; of its configuration the first line of a kind counts: *lines*."""

    def __init__(self, keys: Path, *lines: str, key: str = "ed25519") -> None:
        config = keys / "config"
        config.write_text("\n".join((*lines, *GOOD)) + "\n" + _CONFIG.format(folder=keys, key=key))
        self.sock, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [str(SSHD), "-i", "-e", "-f", str(config)], stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL
        )
        theirs.close()

    def stop(self) -> None:
        """End it."""
        self.sock.close()
        self._process.kill()
        self._process.wait()


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    """Those that a test started; they are ended."""
    started: list[Server] = []
    yield started
    for one in started:
        one.stop()


def exchanged(server: Server) -> str:
    """The type of host key that is shown once keys are exchanged with it."""
    connection = Connection("gpu001", server.sock)
    try:
        return connection.exchange_keys((), timeout_s=30).key_type
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("line", "lacking"),
    [
        ("Ciphers 3des-cbc", "ciphers"),
        ("Ciphers aes128-cbc,aes192-cbc,aes256-cbc", "ciphers"),
        ("MACs hmac-md5", "macs"),
        ("MACs hmac-md5-96,hmac-sha1-96", "macs"),
        ("KexAlgorithms diffie-hellman-group1-sha1", "kex algorithm"),
        ("KexAlgorithms diffie-hellman-group16-sha512", "kex algorithm"),
        ("Ciphers chacha20-poly1305@openssh.com", "ciphers"),
    ],
)
def test_a_server_with_weak_algorithms_only_is_refused(
    keys: Path, servers: list[Server], line: str, lacking: str
) -> None:
    """By a message that says what is lacking, and where to look."""
    servers.append(Server(keys, line))
    with pytest.raises(HostRefused, match=f"no acceptable {lacking}.*: only what ssh takes by default is taken"):
        exchanged(servers[0])


def test_a_host_key_that_signs_by_sha_1_is_refused(keys: Path, servers: list[Server]) -> None:
    servers.append(Server(keys, "HostKeyAlgorithms ssh-rsa", key="rsa"))
    with pytest.raises(HostRefused, match=r"no acceptable host key.*: only what ssh takes by default is taken"):
        exchanged(servers[0])


@pytest.mark.parametrize(
    "line",
    ["Ciphers aes128-ctr", "MACs hmac-sha1", "MACs hmac-sha2-512-etm@openssh.com", "KexAlgorithms ecdh-sha2-nistp256"],
)
def test_what_ssh_takes_is_taken(keys: Path, servers: list[Server], line: str) -> None:
    servers.append(Server(keys, line))
    assert exchanged(servers[0]) == "ssh-ed25519"


@pytest.mark.skipif(not Path("/usr/bin/ssh").exists(), reason="no ssh here")
@pytest.mark.parametrize("query", ["cipher", "mac", "kex", "HostKeyAlgorithms"])
def test_weak_is_what_this_machines_ssh_refuses(query: str) -> None:
    """Of all that it could speak, what it does not by default; sntrup and the like it only adds."""
    option = {"cipher": "ciphers", "mac": "macs", "kex": "kexalgorithms", "HostKeyAlgorithms": "hostkeyalgorithms"}
    known = _printed("ssh", "-Q", query).split()
    settings = dict(line.split(" ", 1) for line in _printed("ssh", "-F", "none", "-G", "host").splitlines())
    taken = settings[option[query]].split(",")
    assert [name for name in taken if name not in strong(taken)] == []
    assert [name for name in strong(known) if name not in taken and "webauthn" not in name] == []


def _printed(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=20).stdout
