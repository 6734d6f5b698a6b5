"""The same trouble of many hosts is one finding, also where it has the host's own name or address in it."""

from __future__ import annotations

from dataclasses import replace

from fabric.checks.pre_flight import made_equal
from fabric.model.finding import Finding, Severity, folded
from tests.conftest import rack_topology

HOSTS = {
    name: replace(host, address=f"10.0.0.{number}")
    for number, (name, host) in enumerate(rack_topology(12).hosts.items(), start=1)
}


def unresolved(name: str, reason: str = "does not resolve") -> Finding:
    """One host that cannot be reached by its address."""
    what = f"{HOSTS[name].address} {reason} (for {name})"
    return Finding("reach", Severity.UNKNOWN, (name,), what, "why", "advice")


def test_hosts_whose_addresses_do_not_resolve_are_one_finding() -> None:
    (row,) = folded(made_equal([unresolved(name) for name in HOSTS], HOSTS))
    assert row.hosts == tuple(HOSTS)
    assert row.what == "ADDRESS does not resolve (for HOST) (ADDRESS of gpu001: 10.0.0.1)"


def test_what_one_host_has_keeps_its_own_words() -> None:
    (row,) = made_equal([unresolved("gpu001")], HOSTS)
    assert row.what == "10.0.0.1 does not resolve (for gpu001)"


def test_a_name_within_another_one_is_not_replaced() -> None:
    one = Finding("reach", Severity.UNKNOWN, ("gpu001",), "gpu0011 and 10.0.0.12", "", "")
    other = replace(one, hosts=("gpu002",))
    assert [found.what for found in made_equal([one, other], HOSTS)] == ["gpu0011 and 10.0.0.12"] * 2
