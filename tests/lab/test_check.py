"""The pre-flight over real SSH: what is missing, who talks, who is gone."""

from __future__ import annotations

import pytest

from benchmarks.lab.lab import Lab
from benchmarks.measured_rack import dgx_platform
from fabric.checks.kind import HostNeeds
from fabric.checks.pre_flight import pre_flight
from fabric.hosts.ssh import SshExecutor
from fabric.model.finding import Severity, merged
from fabric.model.topology import Host, Topology

pytestmark = pytest.mark.lab

NEEDS = HostNeeds(programs=("ib_write_bw", "no_such_program"), pinned_bytes=1, ssh=True)


def test_real_hosts_are_looked_at(orchestrator: Lab) -> None:
    """A host that is nowhere is unknown, programs that are not there are problems, and its machine is known."""
    names = ("h1", "h2", "dead")
    hosts = {name: Host(name, dgx_platform(), name, None, ()) for name in names}
    executor = SshExecutor(orchestrator.settings(connect_timeout_s=3), orchestrator.addresses)
    try:
        found = merged(pre_flight(executor, Topology(hosts, {}), dict.fromkeys(names, NEEDS)))
    finally:
        executor.close()
    by_what = {one.what: one for one in found}
    missing = by_what["no_such_program is not there"]
    assert (missing.severity, missing.hosts) == (Severity.PROBLEM, ("h1", "h2"))
    silent = [one for one in found if one.check == "reach" and one.severity is Severity.UNKNOWN]
    assert [one.hosts for one in silent] == [("dead",)]
    # This machine is root's: whatever its limit is, root is not held to it.
    assert not {"memlock"} & {one.check for one in found}
