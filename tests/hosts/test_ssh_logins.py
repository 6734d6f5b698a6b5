"""A switch is reached with its own account and port, a host with those of all hosts."""

from __future__ import annotations

import pytest

from fabric.errors import HostUnreachable
from fabric.hosts.ssh import connection
from fabric.hosts.ssh.executor import SshExecutor
from fabric.model.command import Command
from fabric.model.inventory import JumpHost, SshSettings
from fabric.model.topology import Login
from fabric.ports import run_once

SETTINGS = SshSettings(user="root", port=22, agent=False, known_hosts=())


class Silent:
    """Stands for the user's keys, for a socket, and for the connection over it: a server that shows no key."""

    def __init__(self, host: str, *_: object, **__: object) -> None:
        self.host = host

    def exchange_keys(self, *_: object, **__: object) -> None:
        """None."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[JumpHost]:
    """Whose keys would have been checked."""
    found: list[JumpHost] = []

    def check(known: object, shown: object, host: str, target: JumpHost, **_: object) -> None:
        found.append(target)
        raise HostUnreachable(host, "connecting", "not tried")

    for name in ("user_keys", "close_agent", "connected", "Connection"):
        monkeypatch.setattr(connection, name, Silent)
    monkeypatch.setattr(connection, "check_host_key", check)
    return found


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("gpu001", JumpHost("10.0.0.1", "root", 22)),
        ("leaf0", JumpHost("leaf0.mgmt", "cumulus", 2222)),
        ("leaf1", JumpHost("leaf1.mgmt", "root", 22)),
    ],
)
def test_each_goes_to_its_own_address_as_its_own_account(reached: list[JumpHost], name: str, target: JumpHost) -> None:
    logins = {"leaf0": Login("leaf0.mgmt", "nvue", "cumulus", 2222), "leaf1": Login("leaf1.mgmt", "nvue")}
    executor = SshExecutor(SETTINGS, {"gpu001": "10.0.0.1"}, logins)
    try:
        with pytest.raises(HostUnreachable, match="not tried"):
            run_once(executor, Command(name, ("true",), 5))
    finally:
        executor.close()
    assert reached == [target]
