"""The whole pre-flight: what many hosts have in common is one finding; other packages add checks."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.checks.kind import IN_FLIGHT_MOST, PER_HOST_MOST, TIMEOUTS_MOST, HostNeeds, ask_all
from fabric.checks.pre_flight import made_equal, pre_flight
from fabric.config.inventory import load_inventory
from fabric.errors import CommandTimeout, ExecutorError, HostUnreachable
from fabric.model.finding import Finding, Severity, merged
from fabric.model.probe import Command
from fabric.model.topology import Topology
from fabric.ports import Ticket
from fabric.wiring import BACKENDS
from tests.engine.scripted import ScriptedExecutor

HOSTS = {name: replace(host, address=f"{name}.mgmt") for name, host in rack_topology(8).hosts.items()}


def unresolved(command: Command) -> tuple[float, ExecutorError]:
    """No name resolves, and each reason has the host's own address in it."""
    cause = f"name does not resolve: {HOSTS[command.host].address}"
    return 0.1, HostUnreachable(command.host, "connecting", cause)


def test_hosts_whose_names_do_not_resolve_are_one_row() -> None:
    needs = {name: HostNeeds(ssh=True) for name in HOSTS}
    (row,) = merged(pre_flight(ScriptedExecutor(unresolved), Topology(HOSTS, {}), needs))
    assert row.hosts == tuple(HOSTS)
    assert row.what == (
        "cannot run 'true': connecting: name does not resolve: ADDRESS (ADDRESS of gpu001: gpu001.mgmt)"
    )


EQUAL_HOSTS = {
    name: replace(host, address=f"10.0.0.{number}")
    for number, (name, host) in enumerate(rack_topology(12).hosts.items(), start=1)
}


def unresolved_name(name: str, reason: str = "does not resolve") -> Finding:
    """One host that cannot be reached by its address."""
    what = f"{EQUAL_HOSTS[name].address} {reason} (for {name})"
    return Finding("reach", Severity.UNKNOWN, (name,), what, "why", "advice")


def test_hosts_whose_addresses_do_not_resolve_are_one_finding() -> None:
    (row,) = merged(made_equal([unresolved_name(name) for name in EQUAL_HOSTS], EQUAL_HOSTS))
    assert row.hosts == tuple(EQUAL_HOSTS)
    assert row.what == "ADDRESS does not resolve (for HOST) (ADDRESS of gpu001: 10.0.0.1)"


def test_what_one_host_has_keeps_its_own_words() -> None:
    (row,) = made_equal([unresolved_name("gpu001")], EQUAL_HOSTS)
    assert row.what == "10.0.0.1 does not resolve (for gpu001)"


def test_a_name_within_another_one_is_not_replaced() -> None:
    one = Finding("reach", Severity.UNKNOWN, ("gpu001",), "gpu0011 and 10.0.0.12", "", "")
    other = replace(one, hosts=("gpu002",))
    assert [found.what for found in made_equal([one, other], EQUAL_HOSTS)] == ["gpu0011 and 10.0.0.12"] * 2


HEALTHY = Path(__file__).resolve().parents[2] / "inventory" / "demo-rack-healthy.yaml"
PACKAGE = Path(__file__).with_name("another_package")


@pytest.fixture
def findings(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """The pre-flight of two hosts with the other package installed."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    inventory = load_inventory(HEALTHY, extra_faults=("gpu001/mlx5_0:absent",))
    needs = {name: HostNeeds() for name in ("gpu001", "gpu002")}
    return list(pre_flight(BACKENDS["mock"](inventory, 0), inventory.topology, needs))


def test_a_check_of_another_package_is_looked_at(findings: list[Finding]) -> None:
    found = [one for one in findings if one.check == "kernel"]
    assert [(one.severity, one.what) for one in found] == [(Severity.PROBLEM, "its kernel is Linux")] * 2
    assert [one.hosts for one in found] == [("gpu001",), ("gpu002",)]


def test_what_is_broken_is_told_and_the_rest_is_looked_at(findings: list[Finding]) -> None:
    """Each in one finding, which names it and says what was raised; it is not known then, so never a PASS."""
    told = {one.what for one in findings if "of another package" in one.what}
    assert told == {
        "the check absent (another_package:NOT_THERE) of another package cannot be loaded: "
        "AttributeError: module 'another_package' has no attribute 'NOT_THERE'",
        "the check no-check (another_package:NO_CHECK) of another package cannot be loaded: "
        "TypeError: expected a fabric.checks.kind.HostCheck, got int",
        "the check taken (another_package:TAKEN) of another package cannot be loaded: "
        "ValueError: there is a check 'rnics' already",
        "the check breaks of another package broke: KeyError: 'gpu001'",
        "the check string of another package broke: TypeError: expected commands as tuples of words, got 'uname -r'",
    }
    assert {one.severity for one in findings if one.what in told} == {Severity.UNKNOWN}
    assert "rnics" in {one.check for one in findings}  # ours are looked at all the same


ARGVS = [("say", str(number)) for number in range(8)]


class Counting(ScriptedExecutor):
    """Each command ends, or is lost by *error*, a moment later; keeps count of what is open."""

    def __init__(self, error: ExecutorError | None = None) -> None:
        super().__init__(lambda command: (0.1, error or command.argv[1]))
        self.most_open = self.most_per_host = 0

    def start(self, command: Command) -> Ticket:
        """Count it."""
        ticket = super().start(command)
        hosts = [one.host for one in self.open]
        self.most_open = max(self.most_open, len(hosts))
        self.most_per_host = max(self.most_per_host, hosts.count(command.host))
        return ticket


def test_bounds_are_kept() -> None:
    """A few at a time on one host, not too many in all."""
    executor = Counting()
    answers = ask_all(executor, {f"h{number}": ARGVS for number in range(200)})
    assert executor.most_open == IN_FLIGHT_MOST
    assert executor.most_per_host <= PER_HOST_MOST
    assert all(len(one) == len(ARGVS) for one in answers.values())


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (HostUnreachable("a", "connect", "refused"), PER_HOST_MOST),
        (CommandTimeout("a", 15.0), PER_HOST_MOST + TIMEOUTS_MOST - 1),
    ],
)
def test_a_host_that_is_gone_is_not_asked_on_and_on(error: ExecutorError, asked: int) -> None:
    """What was not asked is lost for the same reason, which does not name the host."""
    executor = Counting(error)
    answers = ask_all(executor, {"a": ARGVS})["a"]
    assert len(executor.commands) == asked
    assert set(answers) == set(ARGVS)
    assert all(one.lost and "a:" not in one.lost for one in answers.values())
