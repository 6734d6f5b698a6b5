"""Host keys of real servers: known, unknown, changed, revoked, hashed, and on the way through jump hosts."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.lab.lab import Lab
from benchmarks.lab.processes import until
from benchmarks.lab.sshd import make_key, public_key
from fabric.errors import HostUnreachable
from fabric.hosts.ssh import SshExecutor
from fabric.model.inventory import JumpHost, SshSettings
from fabric.model.probe import Command
from fabric.ports import Ended, run_once

pytestmark = pytest.mark.lab

Reach = Callable[..., SshExecutor]


@pytest.fixture
def reach(orchestrator: Lab, tmp_path: Path) -> Iterator[Reach]:
    """Makes executors that trust a known_hosts file with the given text."""
    made: list[SshExecutor] = []

    def _reach(known_hosts: str, *, jump: tuple[JumpHost, ...] = ()) -> SshExecutor:
        path = tmp_path / f"known_hosts{len(made)}"
        path.write_text(known_hosts)
        made.append(SshExecutor(orchestrator.settings(known_hosts=path, jump=jump), orchestrator.addresses))
        return made[-1]

    yield _reach
    for executor in made:
        executor.close()


def hello(executor: SshExecutor, host: str = "h1") -> str:
    """What a host answers to ``echo hello``."""
    return run_once(executor, Command(host, ("echo", "hello"), 10)).stdout


def test_unknown_key_is_refused_with_what_to_do(reach: Reach, orchestrator: Lab) -> None:
    """The message shows the fingerprint that ssh-keygen shows, and the command that would add the key."""
    server = orchestrator.sshd["h1"]
    executor = reach(orchestrator.sshd["h2"].known_hosts_line())
    with pytest.raises(HostUnreachable) as caught:
        hello(executor)
    argv = ("ssh-keygen", "-l", "-f", str(server.folder / "host_key.pub"))
    fingerprint = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=10).stdout.split()[1]
    assert caught.value.step == "checking the host key"
    assert f"{server.address} is not in known_hosts; it shows ssh-ed25519 {fingerprint}" in caught.value.cause
    assert f"ssh-keyscan -p 22 -t ed25519 {server.address} >> " in caught.value.cause
    assert hello(executor, "h2") == "hello\n"


def test_the_advised_scan_makes_a_host_known(reach: Reach, orchestrator: Lab) -> None:
    """What ssh-keyscan prints, as advised, is enough."""
    argv = ("ssh-keyscan", "-p", "22", "-t", "ed25519", orchestrator.sshd["h1"].address)
    scanned = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=20).stdout
    assert hello(reach(scanned)) == "hello\n"


def test_changed_key_is_refused_and_not_tried_again(reach: Reach, orchestrator: Lab, tmp_path: Path) -> None:
    """A host that shows another key than before is refused for the whole run."""
    make_key(tmp_path / "other")
    server = orchestrator.sshd["h1"]
    executor = reach(server.known_hosts_line(key=public_key(tmp_path / "other")))
    with pytest.raises(HostUnreachable, match="shows another key than known_hosts has for it: ssh-ed25519 SHA256:"):
        hello(executor)
    (tmp_path / "known_hosts0").write_text(server.known_hosts_line())
    with pytest.raises(HostUnreachable, match=f"ssh-keygen -R '{server.address}'"):
        hello(executor)


def test_revoked_key_is_refused_even_if_known(reach: Reach, orchestrator: Lab) -> None:
    """A revoked key counts for nobody."""
    server = orchestrator.sshd["h1"]
    executor = reach(f"{server.known_hosts_line()}@revoked * {server.public_key()}\n")
    with pytest.raises(HostUnreachable, match="marks as revoked"):
        hello(executor)


def test_hashed_names_are_understood(reach: Reach, orchestrator: Lab, tmp_path: Path) -> None:
    """A file that ssh-keygen -H has hashed works as before."""
    path = tmp_path / "plain"
    path.write_text("".join(server.known_hosts_line() for server in orchestrator.sshd.values()))
    subprocess.run(("ssh-keygen", "-q", "-H", "-f", str(path)), check=True, capture_output=True, timeout=10)
    assert "|1|" in path.read_text()
    assert orchestrator.sshd["h1"].address not in path.read_text()
    assert hello(reach(path.read_text())) == "hello\n"


def test_jump_hosts_carry_commands(reach: Reach, orchestrator: Lab) -> None:
    """Through two jump hosts a third answers."""
    jump = tuple(JumpHost(orchestrator.sshd[name].address) for name in ("h1", "h2"))
    executor = reach("".join(server.known_hosts_line() for server in orchestrator.sshd.values()), jump=jump)
    result = run_once(executor, Command("h3", ("sh", "-c", "echo $FABRIC_LAB_HOST $SSH_CLIENT"), 10))
    assert result.stdout.split()[:2] == ["h3", orchestrator.sshd["h2"].address]


def test_jump_hosts_key_is_checked(reach: Reach, orchestrator: Lab) -> None:
    """A jump host that is not known is refused, and the message says which hop."""
    jump = (JumpHost(orchestrator.sshd["h1"].address),)
    executor = reach(orchestrator.sshd["h2"].known_hosts_line(), jump=jump)
    with pytest.raises(HostUnreachable, match=f"jump host {orchestrator.sshd['h1'].address}.*is not in known_hosts"):
        hello(executor, "h2")


def test_key_behind_a_jump_host_is_checked(reach: Reach, orchestrator: Lab) -> None:
    """The last host's key is checked as well; the advice goes through the jump host."""
    first = orchestrator.sshd["h1"]
    executor = reach(first.known_hosts_line(), jump=(JumpHost(first.address),))
    with pytest.raises(HostUnreachable, match=f"ssh {first.address} ssh-keyscan -p 22 -t ed25519"):
        hello(executor, "h2")


def test_dead_host_behind_a_jump_host_says_so(reach: Reach, orchestrator: Lab) -> None:
    """What the jump host could not reach is told as such, and the jump host stays usable."""
    first = orchestrator.sshd["h1"]
    known = "".join(server.known_hosts_line() for server in orchestrator.sshd.values())
    executor = reach(known, jump=(JumpHost(first.address),))
    with pytest.raises(HostUnreachable, match=f"dead: connecting: jump host {first.address} could not connect to"):
        hello(executor, "dead")
    assert hello(executor, "h2") == "hello\n"


def test_a_jump_host_that_hangs_is_not_said_to_have_tried(orchestrator: Lab, settings: SshSettings) -> None:
    """Its silence is that of a host behind it that is silent; the two are told as one."""
    first = orchestrator.sshd["h1"]
    through = dataclasses.replace(settings, jump=(JumpHost(first.address, user="root"),), connect_timeout_s=2)
    executor = SshExecutor(through, orchestrator.addresses)
    try:
        assert hello(executor, "h2") == "hello\n"
        first.freeze()
        with pytest.raises(HostUnreachable, match=f"jump host {first.address}, or .* behind it, did not answer in 2 s"):
            hello(executor, "h3")
    finally:
        first.thaw()
        executor.close()


def test_hosts_that_are_down_behind_a_jump_host_hold_up_nobody(orchestrator: Lab, settings: SshSettings) -> None:
    """Eight that nobody answers for are asked for first; one that is there answers before any of them is given up."""
    jump = (JumpHost(orchestrator.sshd["h1"].address),)
    down = {f"down{number}": f"10.77.0.{200 + number}" for number in range(8)}
    through = dataclasses.replace(settings, jump=jump)
    executor = SshExecutor(through, {**orchestrator.addresses, **down})
    try:
        for host in down:
            executor.start(Command(host, ("true",), 10))
        assert until(lambda: looks_for(orchestrator, len(down)))
        last = executor.start(Command("h2", ("true",), 10))
        (first,) = executor.wait(executor.now() + 30)[:1]
        assert (first.ticket, type(first)) == (last, Ended)
    finally:
        executor.close()


def looks_for(lab: Lab, hosts: int) -> bool:
    """Whether the jump host h1 is looking for so many hosts that do not answer."""
    argv = ("ip", "-n", lab.namespaces.of("h1"), "neighbour", "show")
    shown = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=10).stdout
    return sum("INCOMPLETE" in line or "FAILED" in line for line in shown.splitlines()) >= hosts
