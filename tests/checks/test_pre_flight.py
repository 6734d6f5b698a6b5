"""The whole pre-flight: what many hosts have in common is one finding."""

from __future__ import annotations

from dataclasses import replace

from fabric.checks.needs import HostNeeds
from fabric.checks.pre_flight import pre_flight
from fabric.errors import ExecutorError, HostUnreachable
from fabric.model.command import Command
from fabric.model.finding import folded
from tests.conftest import rack_topology
from tests.engine.scripted import ScriptedExecutor

HOSTS = {name: replace(host, address=f"{name}.mgmt") for name, host in rack_topology(8).hosts.items()}


def unresolved(command: Command) -> tuple[float, ExecutorError]:
    """No name resolves, and each reason has the host's own address in it."""
    cause = f"name does not resolve: {HOSTS[command.host].address}"
    return 0.1, HostUnreachable(command.host, "connecting", cause)


def test_hosts_whose_names_do_not_resolve_are_one_row() -> None:
    needs = {name: HostNeeds(ssh=True) for name in HOSTS}
    (row,) = folded(pre_flight(ScriptedExecutor(unresolved), HOSTS, needs))
    assert row.hosts == tuple(HOSTS)
    assert row.what == (
        "cannot run 'true': connecting: name does not resolve: ADDRESS (ADDRESS of gpu001: gpu001.mgmt)"
    )
