"""The whole pre-flight: what many hosts have in common is one finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fabric.checks.needs import HostNeeds
from fabric.checks.pre_flight import pre_flight
from fabric.errors import HostUnreachable
from fabric.model.finding import folded
from fabric.ports import Happening, Lost
from tests.checks.test_ask import Scripted
from tests.conftest import rack_topology

HOSTS = {name: replace(host, address=f"{name}.mgmt") for name, host in rack_topology(8).hosts.items()}


class Unresolved(Scripted):
    """No name resolves, and each reason has the host's own address in it."""

    def wait(self, until_s: float) -> Sequence[Happening]:
        """The oldest is lost."""
        del until_s
        ticket = next(iter(self.open))
        host = self.open.pop(ticket).host
        cause = f"name does not resolve: {HOSTS[host].address}"
        return [Lost(ticket, HostUnreachable(host, "connecting", cause), self.now())]


def test_hosts_whose_names_do_not_resolve_are_one_row() -> None:
    needs = {name: HostNeeds(ssh=True) for name in HOSTS}
    (row,) = folded(pre_flight(Unresolved(), HOSTS, needs))
    assert row.hosts == tuple(HOSTS)
    assert row.what == (
        "cannot run 'true': connecting: name does not resolve: ADDRESS (ADDRESS of gpu001: gpu001.mgmt)"
    )
