"""A change that a guard still holds is named before anything is measured, and nothing is measured beside it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from fabric.app.check import check
from fabric.changes.guard import Guard
from fabric.checks.held import GuardsAsked, findings, held_on, holders, in_words, refuse_held, unasked_note
from fabric.config.inventory import load_inventory
from fabric.errors import MayBeLive
from fabric.hosts.mock import MockExecutor
from fabric.hosts.process import ProcessExecutor
from fabric.model.change import Alteration, Argv, Check, Lease
from fabric.model.finding import Severity
from fabric.model.inventory import Fault, Inventory, MockSettings
from fabric.model.probe import Command, CommandResult
from fabric.ports import Ended, Executor
from fabric.sim.world import World
from tests.builders import on_mock
from tests.changes import guard_mishaps
from tests.changes.guard_target import RealTarget
from tests.scenario.changing import POD, prepared

GUARD = Guard()
CLOSE = ("ip", "link", "set", "ib3", "down")
CLOSED = Alteration(
    "gpu002", (CLOSE,), (("ip", "link", "set", "ib3", "up"),), (Check(("ip", "link", "show", "ib3"), ("UP",)),), "up"
)
OWNER = "drill/20260101-000000"


def told(executor: Executor, argv: Argv, host: str = "gpu002") -> CommandResult:
    """One command, to its end."""
    ticket = executor.start(Command(host, argv, 30.0))
    while True:
        for happening in executor.wait(executor.now() + 30.0):
            if isinstance(happening, Ended) and happening.ticket == ticket:
                return happening.result


def left_behind(inventory: Inventory, *, host: str = "gpu002", applied: bool = True, ttl_s: float = 60.0) -> Executor:
    """A simulated pod on which another run has armed a change, and applied it."""
    executor = MockExecutor(World(inventory.topology, MockSettings(faults=inventory.mock.faults), seed=1))
    what = replace(CLOSED, host=host)
    GUARD.read_armed(told(executor, GUARD.arm("x.1", owner=OWNER, lease=Lease(ttl_s, 600.0), peer="", what=what), host))
    if applied:
        GUARD.read_applied(told(executor, GUARD.apply("x.1", (CLOSE,)), host))
    return executor


def waited(executor: Executor, seconds: float) -> None:
    """Let simulated time pass."""
    until_s = executor.now() + seconds
    while executor.now() < until_s:
        executor.wait(until_s)


@pytest.fixture(scope="module")
def pod() -> Inventory:
    """The shipped pod of 64 hosts."""
    return load_inventory(POD)


def asked(executor: Executor, pod: Inventory, hosts: tuple[str, ...] = ("gpu001", "gpu002")) -> GuardsAsked:
    """What these hosts hold, and those that alter the fabric."""
    return held_on(executor, pod, holders(pod, hosts))


def test_a_change_in_force_is_named_with_its_host_owner_and_the_seconds_that_are_left(pod: Inventory) -> None:
    """Who holds it, and for how long."""
    (one,) = asked(left_behind(pod), pod).held
    assert one.host == "gpu002"
    assert in_words(one).startswith(f"change x.1 of {OWNER} is applied, 60 s left: its run goes on")


def test_a_run_refuses_to_measure_beside_a_change_and_says_how_to_take_it_back(tmp_path: Path, pod: Inventory) -> None:
    """MayBeLive is exit code 4; no directory of a run is made."""
    executor = left_behind(pod)
    rack = executor.world.rack  # type: ignore[attr-defined]
    guard_mishaps.kill_guard(rack, "gpu002", "x.1")
    plan = prepared(tmp_path, "")
    with pytest.raises(MayBeLive, match=r"gpu002: change x\.1 of drill.*dead.*fabric restore --all-hosts --inventory"):
        on_mock(plan, tmp_path / "results", make_executor=lambda inventory, seed: executor)
    assert not list(tmp_path.glob("results/drill/2*"))


def test_a_run_of_other_hosts_asks_whoever_alters_switches(pod: Inventory) -> None:
    """A change that ``via`` holds concerns every host of the fabric; one of a host that takes no part does not."""
    assert asked(left_behind(pod, host="gpu064"), pod).held
    assert not asked(left_behind(pod, host="gpu010"), pod).held


def test_check_tells_it_as_a_problem(pod: Inventory) -> None:
    """Our own closed port is not a bad link."""
    found = check(
        None,
        inventory_path=POD,
        hosts="gpu[001-004]",
        faults=(),
        backend="mock",
        make_executor=lambda backend, inventory: left_behind(inventory),
    )
    (one,) = [one for one in found.findings if one.check == "held"]
    assert (one.severity, one.hosts, found.exit_code) == (Severity.PROBLEM, ("gpu002",), 1)
    assert "x.1" in one.what
    assert OWNER in one.what


def _reverted(executor: MockExecutor) -> None:
    waited(executor, 70.0)


def _never_applied(executor: MockExecutor) -> None:
    guard_mishaps.kill_guard(executor.world.rack, "gpu002", "x.1")


def _rebooted(executor: MockExecutor) -> None:
    guard_mishaps.reboot(executor.world.rack, "gpu002", executor.now())


@pytest.mark.parametrize(("applied", "happens"), [(True, _reverted), (False, _never_applied), (True, _rebooted)])
def test_what_is_undone_or_was_never_done_is_not_told(
    pod: Inventory, applied: bool, happens: Callable[[MockExecutor], None]
) -> None:
    """A run need not wait for it."""
    executor = left_behind(pod, applied=applied)
    assert isinstance(executor, MockExecutor)
    happens(executor)
    assert asked(executor, pod) == GuardsAsked((), {})


def test_what_is_armed_only_is_another_run_at_work(pod: Inventory) -> None:
    """It is about to alter the fabric, and is told as a run that goes on."""
    said = asked(left_behind(pod, applied=False), pod)
    assert [one.running for one in said.held] == [True]
    with pytest.raises(MayBeLive, match=r"is armed, 60 s left: its run goes on.*wait for that run"):
        refuse_held(said, pod)


def test_torn_files_and_an_undo_that_fails_are_told(pod: Inventory) -> None:
    """Both may be live."""
    for lost, state in (("state", "torn"), ("undo", "applied")):
        executor = left_behind(pod)
        assert isinstance(executor, MockExecutor)
        guard_mishaps.lose_file(executor.world.rack, "gpu002", "x.1", lost, executor.now())
        guard_mishaps.kill_guard(executor.world.rack, "gpu002", "x.1")
        (one,) = asked(executor, pod).held
        assert one.state == state
        assert not one.running


def test_a_host_that_cannot_be_asked_refuses_no_run_and_is_told(pod: Inventory) -> None:
    """It is unknown to a check where a change is to be held there, and a warning elsewhere."""
    faults = (Fault("gpu001", "broken"), Fault("gpu002", "garbage"))
    said = asked(MockExecutor(World(pod.topology, MockSettings(faults=faults, noise_cv=0.003), seed=1)), pod)
    assert (said.held, set(said.unasked)) == ((), {"gpu001", "gpu002"})
    refuse_held(said, pod)
    assert "gpu[001-002]" in unasked_note(said)
    severities = {one.hosts[0]: one.severity for one in findings(said, pod, altering={"gpu001"})}
    assert severities == {"gpu001": Severity.UNKNOWN, "gpu002": Severity.WARNING}


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RealTarget]:
    """This machine, with stub tools."""
    target = RealTarget(tmp_path)
    yield target
    target.end()


def test_a_real_guard_is_asked_and_a_dead_one_is_told(real: RealTarget, pod: Inventory) -> None:
    """The same words by real sh: first the lease runs, then SIGKILL has ended the guard."""
    changes = replace(pod.changes, guard_directory=real.guard.directory, via=None, subnet_managers=())
    here = replace(pod, changes=changes)
    executor = ProcessExecutor(("env", *(f"{name}={value}" for name, value in real.env.items())))
    try:
        assert held_on(executor, here, ("gpu001",)) == GuardsAsked((), {})
        real.arm()
        real.applied()
        (one,) = held_on(executor, here, ("gpu001",)).held
        assert one.running
        assert 0 < one.left_s < inf
        real.kill_guard()
        (one,) = held_on(executor, here, ("gpu001",)).held
        assert (one.running, one.state) == (False, "applied")
        assert "its guard is dead" in in_words(one)
    finally:
        executor.close()
