"""Changes of one phase that are fine alone and too much together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fabric.changes.hold import Hold
from fabric.changes.kind import Context
from fabric.changes.procedure import Ask, Procedure
from fabric.changes.rails import HANDOVER_S, Concurrency
from fabric.engine.held_changes import Changing, HeldChanges
from fabric.errors import Refused
from fabric.hosts.mock import MockExecutor
from fabric.model.change import BlastRadius, Change, When
from fabric.model.inventory import Fault, MockSettings
from fabric.runs.journal import JOURNAL, Journal
from fabric.sim.world import World
from tests.builders import Watcher
from tests.changes.played import MANAGED, VIA, Played, change, topology
from tests.changes.test_hold import begun

WIDE = replace(VIA, blast_radius=BlastRadius(8, 8, 8, 1.0))


def closed(device: str, when: When | None = None, *, host: str = "gpu001", leaf: str = "leaf0") -> Change:
    """An RNIC's link closed."""
    return change("link_down", f"{host}/{device}", hosts=(host,), switches=(leaf,), by="mlxlink", when=when)


def paths(*devices: str) -> frozenset[str]:
    """RNICs that were seen active."""
    return frozenset(devices)


def alternating(rack: Played, holds: list[Hold], *, most_s: float = 400.0) -> None:
    """Carry several out, one step of each in turn; what pauses waits."""
    running: dict[Hold, tuple[Procedure[None], object]] = {one: (one.procedure(), None) for one in holds}
    waiting: dict[Hold, float] = {}
    while running and rack.now_s < most_s:
        for one in list(running):
            procedure, answer = running[one]
            if one in waiting:
                if rack.now_s < waiting[one]:
                    continue
                del waiting[one]
                answer = rack.now_s
            try:
                step = procedure.send(answer)
            except StopIteration:
                del running[one]
                continue
            if isinstance(step, Ask):
                running[one] = (procedure, rack.ask(step.host, step.argv))
            else:
                waiting[one] = step.until_s
        if waiting and set(waiting) == set(running):
            rack.wait(max(rack.now_s, min(waiting.values())))


def test_two_links_that_are_a_hosts_last_paths_are_not_closed_both() -> None:
    """Each sees the other active; all the others are down already, which no plan knows."""
    rack = Played(WIDE)
    ports = rack.world.rack.ports
    for number in range(2, 8):
        ports.disable(ports.of_adapter("gpu001", f"mlx5_{number}"), 0.0)
    concurrency = Concurrency(rack.context, ())
    until = When(None, 20.0)
    one, two = (begun(rack, closed(f"mlx5_{n}", until), concurrency=concurrency, number=n) for n in (0, 1))
    alternating(rack, [one, two])
    assert sorted([one.state, two.state]) == ["refused", "reverted"]
    assert "last active path" in (one.reason or two.reason)


def test_a_cable_that_is_closed_again_as_soon_as_it_was_opened_is_looked_at_when_it_is_back() -> None:
    rack = Played(WIDE)
    concurrency = Concurrency(rack.context, ())
    two = [
        begun(
            rack,
            replace(closed("mlx5_0", When(at_s, 2.0)), change_id=f"phase/{at_s}"),
            concurrency=concurrency,
            number=number,
        )
        for number, at_s in enumerate((25.0, 27.0))
    ]
    for hold in two:
        hold.due_s = hold.change.when.at_s
    alternating(rack, two)
    assert [hold.state for hold in two] == ["reverted", "reverted"], [hold.reason for hold in two]


@pytest.mark.parametrize(("second", "too_much"), [(When(5.0, 10.0), True), (When(10.0, 10.0), False)])
def test_changes_that_overlap_only_partly_in_time_are_held_against_each_other(second: When, too_much: bool) -> None:
    concurrency = Concurrency(Context(topology(), WIDE), ())
    concurrency.join(closed("mlx5_0", When(0.0, 10.0)), paths("mlx5_1"))
    if not too_much:
        concurrency.join(closed("mlx5_1", second), paths("mlx5_0"))
        return
    with pytest.raises(Refused, match=r"together with phase/link_down\.gpu001/mlx5_0: gpu001 would lose"):
        concurrency.join(closed("mlx5_1", second), paths("mlx5_0"))


@pytest.mark.parametrize(
    ("radius", "reason"),
    [(BlastRadius(8, 1, 8, 1.0), "at switch leaf0"), (BlastRadius(8, 8, 8, 0.001), "links at the same time")],
)
def test_the_numbers_of_the_blast_radius_hold_for_all_together(radius: BlastRadius, reason: str) -> None:
    concurrency = Concurrency(Context(topology(), replace(VIA, blast_radius=radius)), ())
    concurrency.join(closed("mlx5_0"), paths("mlx5_1"))
    with pytest.raises(Refused, match=reason):
        concurrency.join(closed("mlx5_0", host="gpu002"), paths("mlx5_1"))


def test_a_change_waits_for_one_that_is_taken_back_late_and_is_refused_when_that_stays() -> None:
    rack = Played(VIA)
    concurrency = Concurrency(rack.context, ())
    late = closed("mlx5_0", When(0.0, 10.0), host="gpu002")
    concurrency.join(late, paths("mlx5_1"))
    assert concurrency.begin(late, paths("mlx5_1")) == ""
    waits = begun(rack, closed("mlx5_0", When(10.0, 5.0)), concurrency=concurrency)
    waits.due_s = 10.0
    alternating(rack, [waits])
    assert waits.state == "refused"
    assert "not taken back yet" in waits.reason
    assert HANDOVER_S <= rack.now_s < HANDOVER_S + 20.0
    concurrency.leave(late)
    again = begun(rack, closed("mlx5_0", When(10.0, 5.0)), concurrency=concurrency)
    again.due_s = rack.now_s
    alternating(rack, [again])
    assert again.state == "reverted", again.reason


def test_two_changes_of_one_key_of_the_managers_file_are_refused() -> None:
    settings = replace(MANAGED, shield_on={"routing_engine": "x"})
    concurrency = Concurrency(Context(topology(), settings), ())
    concurrency.join(change("adaptive_routing", "fabric", scope="fabric", on=True), None)
    with pytest.raises(Refused, match="sets routing_engine of the same file"):
        concurrency.join(change("shield", "fabric", scope="fabric", on=True), None)


def test_the_changes_of_a_phase_know_each_other(tmp_path: Path) -> None:
    """Two links of a host whose other links are down: the phase is not what was asked for, and one link stays open."""
    down = tuple(Fault(f"gpu001/mlx5_{number}", "broken") for number in range(2, 8))
    world = World(topology(), MockSettings(faults=down, noise_cv=0.0), seed=1)
    executor, watcher = MockExecutor(world), Watcher()
    changing = Changing(Context(topology(), WIDE), Journal(tmp_path / JOURNAL), owner="test/1", token="t")
    directory: Any = SimpleNamespace(events=SimpleNamespace(append=lambda event, at_s, fields: None))
    both = (closed("mlx5_0"), closed("mlx5_1"))
    held = HeldChanges(both, changing, phase_number=1, executor=executor, directory=directory, observer=watcher)
    held.begin()
    while not held.ready:
        for happening in executor.wait(min(held.next_s, executor.now() + 60.0)):
            held.take(happening)
        held.fire()
    assert "last active path" in held.trouble
    ports = world.rack.ports
    assert any(ports.of_adapter("gpu001", device).admin_up for device in ("mlx5_0", "mlx5_1"))
    held.rescue()
    assert all(ports.of_adapter("gpu001", device).admin_up for device in ("mlx5_0", "mlx5_1"))
