"""SSH without a lab: servers that are none or too weak, shared connections, and the index over known_hosts files."""

import base64
import hmac
import inspect
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import HostRefused, HostUnreachable, JumpHostUnreachable
from fabric.hosts.ssh import SshExecutor, any_shell
from fabric.hosts.ssh.connection import Connection, HostConnections, strong
from fabric.hosts.ssh.keys import HostKey, KnownHosts
from fabric.model.inventory import JumpHost, SshSettings
from fabric.model.probe import Command
from fabric.ports import run_once


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    """An RSA key of the user's own; made without ssh-keygen, which may be absent."""
    path = tmp_path / "key"
    paramiko.RSAKey.generate(2048).write_private_key_file(str(path))
    return str(path)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A TCP port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def reaching(port: int, key_file: str, *, timeout_s: float = 1.0) -> SshExecutor:
    """An executor whose one host is a port of this machine."""
    settings = SshSettings("root", port, key_file, agent=False, known_hosts=(), connect_timeout_s=timeout_s)
    return SshExecutor(settings, {"h": "127.0.0.1"})


def why(executor: SshExecutor) -> str:
    """How a command is lost."""
    with pytest.raises(HostUnreachable) as caught:
        run_once(executor, Command("h", ("true",), 5))
    executor.close()
    assert [one for one in threading.enumerate() if isinstance(one, paramiko.Transport)] == []
    return str(caught.value)


def test_silent_server(listener: socket.socket, key_file: str):
    """A port that accepts and says nothing is told from a host that is down."""
    assert why(reaching(listener.getsockname()[1], key_file)) == (
        "h: exchanging keys: TCP connects but no SSH banner within 1 s"
    )


def test_server_that_hangs_up_is_tried_three_times(listener: socket.socket, key_file: str):
    """sshd drops connections beyond MaxStartups; that is worth another try, and is worded as what it is."""
    seen: list[int] = []

    def hang_up() -> None:
        for number in range(3):
            listener.accept()[0].close()
            seen.append(number)

    server = threading.Thread(target=hang_up)
    server.start()
    said = why(reaching(listener.getsockname()[1], key_file, timeout_s=5.0))
    server.join(10)
    assert seen == [0, 1, 2]
    assert said.startswith("h: exchanging keys: the server hung up before its SSH banner")


def test_closed_port_and_missing_key(listener: socket.socket, key_file: str):
    """What is refused says by whom; what is missing says what."""
    port = listener.getsockname()[1]
    assert "the-key does not exist" in why(reaching(port, "/nowhere/the-key"))
    listener.close()
    assert f"connection refused by 127.0.0.1 port {port}; is sshd running there?" in why(reaching(port, key_file))


def test_a_dead_jump_host_says_nothing_of_the_host(key_file: str) -> None:
    """It is the jump host that has to be mended."""
    jump = (JumpHost(address="127.0.0.1", user="root", port=1),)
    settings = SshSettings("root", 22, key_file, agent=False, jump=jump, known_hosts=(), connect_timeout_s=1.0)
    executor = SshExecutor(settings, {"h": "127.0.0.1"})
    with pytest.raises(JumpHostUnreachable, match=r"h: connecting, jump host 127\.0\.0\.1: connection refused"):
        run_once(executor, Command("h", ("true",), 5))
    executor.close()


def test_locked_key_says_what_to_do(listener: socket.socket, tmp_path: Path):
    """A key with passphrase belongs into the agent."""
    path = tmp_path / "locked"
    paramiko.RSAKey.generate(2048).write_private_key_file(str(path), password="secret words")
    said = why(reaching(listener.getsockname()[1], str(path)))
    assert "is locked by a passphrase; add it to ssh-agent" in said


def test_paramiko_still_has_the_attributes_we_rely_on():
    """Public, but not documented: a release without them fails here."""
    channel = paramiko.Channel(0)
    assert hasattr(channel.in_buffer, "set_event")
    assert hasattr(channel.in_stderr_buffer, "set_event")
    assert "self.clear_to_send = threading.Event()" in inspect.getsource(paramiko.Transport.__init__)


def test_waiting_commands_share_a_failure():
    """Twelve commands for a dead host cost one attempt, and the next command one more."""
    tried: list[int] = []
    together = threading.Barrier(12)
    release = threading.Event()

    def opener() -> Connection:
        tried.append(1)
        release.wait(5)
        raise HostUnreachable("h", "connecting", "no answer")

    host = HostConnections("h", opener)
    said: list[str] = []

    def acquire() -> None:
        together.wait(5)
        try:
            host.acquire()
        except HostUnreachable as exc:
            said.append(exc.cause)

    threads = [threading.Thread(target=acquire) for _ in range(12)]
    for thread in threads:
        thread.start()
    threads[0].join(0.5)  # all wait by then; who does not would be a second attempt
    release.set()
    for thread in threads:
        thread.join(10)
    assert (said, len(tried)) == (["no answer"] * 12, 1)
    with pytest.raises(HostUnreachable):
        host.acquire()
    assert len(tried) == 2


def test_refusal_is_remembered():
    """After a refused key or login the host is not asked again."""
    tried: list[int] = []

    def opener() -> Connection:
        tried.append(1)
        raise HostRefused("h", "authenticating", "authentication failed")

    host = HostConnections("h", opener)
    for _ in range(5):
        with pytest.raises(HostRefused, match="authentication failed"):
            host.acquire()
    assert len(tried) == 1


def test_importing_the_wiring_does_not_import_paramiko():
    """paramiko takes half a second to import; only runs over SSH pay for it."""
    program = "import sys, fabric.wiring; sys.exit('paramiko' in sys.modules)"
    assert subprocess.run((sys.executable, "-c", program), check=False, timeout=60).returncode == 0


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
        return connection.exchange_keys((), timeout_s=30).get_name()
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


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "ksh", "tcsh", "fish"])
def test_any_login_shell_becomes_the_command(shell: str) -> None:
    """In one line, without what csh and fish read in quotes: csh has no multi-line text, ``!`` is its history."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    words = ("two\nlines", "it's", "!!", "\\\\n", "\\'", "%b $HOME `id`", "ends\n", "\udcff")
    line = any_shell(("printf", "[%s]", *words))
    assert [mark for mark in ("\n", "!", "\\\\", "\\'") if mark in line] == []
    told = subprocess.run((shell, "-c", line), capture_output=True, check=True, timeout=20).stdout
    assert told.decode("utf-8", "surrogateescape") == "".join(f"[{word}]" for word in words)


def test_a_line_that_all_shells_read_alike_stays_as_it_is() -> None:
    assert any_shell(("cat", "a b", "$HOME")) == "exec cat 'a b' '$HOME'"


def test_a_server_that_takes_no_keys_is_told_from_one_that_refuses_ours(
    keys: Path, servers: list[Server], key_file: str
) -> None:
    servers.append(Server(keys, "PubkeyAuthentication no", "PasswordAuthentication yes"))
    connection = Connection("gpu001", servers[0].sock)
    try:
        connection.exchange_keys((), timeout_s=30)
        with pytest.raises(HostRefused, match="the server takes no keys from user root, only password"):
            connection.authenticate("root", [(key_file, paramiko.RSAKey.from_private_key_file(key_file))])
    finally:
        connection.close()


ED, OTHER_ED = HostKey("ssh-ed25519", b"first"), HostKey("ssh-ed25519", b"second")
RSA = HostKey("ssh-rsa", b"third")


def line(names: str, key: HostKey) -> str:
    """A line of the file."""
    return f"{names} {key.key_type} {base64.b64encode(key.blob).decode()} a comment"


def hashed(name: str) -> str:
    """A name as ``ssh-keygen -H`` writes it."""
    salt = b"12345678901234567890"
    digest = hmac.digest(salt, name.encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def test_plain_names_with_and_without_port():
    """A name stands for port 22, ``[name]:port`` for another, and neither for the other."""
    known = KnownHosts([line("gpu1,10.0.0.1", ED), line("[gpu1]:2222", OTHER_ED)])
    assert known.standing("gpu1", 22, ED) == "known"
    assert known.standing("10.0.0.1", 22, ED) == "known"
    assert known.standing("GPU1", 22, ED) == "known"
    assert known.standing("gpu1", 2222, OTHER_ED) == "known"
    assert known.standing("gpu1", 22, OTHER_ED) == "changed"
    assert known.standing("gpu2", 22, ED) == "unknown"


def test_key_of_another_type_is_unknown_not_changed():
    """Only another key of the same type is a change."""
    assert KnownHosts([line("gpu1", RSA)]).standing("gpu1", 22, ED) == "unknown"


def test_hashed_names():
    """Hashed names are found, with and without port."""
    known = KnownHosts([line(hashed("gpu1"), ED), line(hashed("[gpu1]:2222"), RSA)])
    assert known.standing("gpu1", 22, ED) == "known"
    assert known.standing("gpu1", 2222, RSA) == "known"
    assert known.standing("gpu2", 22, ED) == "unknown"


def test_wildcards_and_exceptions():
    """Wildcards match as the shell's do; a negated name excludes; brackets stand for themselves."""
    known = KnownHosts([line("gpu*,!gpu13,[rack?]:2222", ED)])
    assert known.standing("gpu1", 22, ED) == "known"
    assert known.standing("gpu13", 22, ED) == "unknown"
    assert known.standing("rack1", 2222, ED) == "known"
    assert known.standing("k", 2222, ED) == "unknown"


def test_revoked_key_is_worse_than_all():
    """A revoked key is refused even where it is on record."""
    known = KnownHosts([line("gpu1", ED), "@revoked " + line("*", ED)])
    assert known.standing("gpu1", 22, ED) == "revoked"


def test_authorities_comments_and_broken_lines_vouch_for_nobody():
    """What is not understood is passed over."""
    broken = [
        "# " + line("gpu1", ED),
        "",
        "gpu1 ssh-ed25519",
        "gpu1 ssh-ed25519 !!!",
        "|1|x gpu1 AAAA",
        "|1|!|! a AAAA",
    ]
    known = KnownHosts([*broken, "@cert-authority " + line("*", ED), "@other " + line("gpu1", ED)])
    assert known.standing("gpu1", 22, ED) == "unknown"


def test_missing_file_is_empty_and_unreadable_one_is_said(tmp_path: Path):
    """A file that is not there holds nothing; one that cannot be read is an error."""
    (tmp_path / "here").write_text(line("gpu1", ED))
    known = KnownHosts.load([str(tmp_path / "missing"), str(tmp_path / "here")])
    assert known.standing("gpu1", 22, ED) == "known"
    with pytest.raises(HostUnreachable, match="reading known_hosts"):
        KnownHosts.load([str(tmp_path)])


@given(st.lists(st.text(max_size=60), max_size=20))
def test_any_text_is_survived(lines: list[str]):
    """No file makes it fail, or makes an unknown key known."""
    assert KnownHosts(lines).standing("gpu1", 22, ED) != "known"
