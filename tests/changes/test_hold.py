"""What a held change says of itself is true: in force while its guard holds it, lost when the lease had run out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fabric.changes.hold import Hold
from fabric.changes.kinds import KINDS
from fabric.changes.procedure import Ask, Pause
from fabric.changes.rails import managed
from fabric.model.change import Change, Lease, When
from tests.changes.played import MANAGED, VIA, Played, change


def held(rack: Played, asked: Change, *, on_pause: Callable[[Hold, Pause], float] | None = None) -> Hold:
    """Live a change through; *on_pause* says at what time a pause ends, instead of when it should."""
    states: list[str] = []
    hold = Hold(
        asked,
        KINDS[asked.kind],
        rack.context,
        owner="test/1",
        guard_id="t.0",
        allow=(),
        record=lambda state, fields: states.append(state),
        clock=lambda: rack.now_s,
    )
    procedure, answer = hold.procedure(), None
    for _ in range(5000):
        try:
            step = procedure.send(answer)
        except StopIteration:
            return hold
        if isinstance(step, Ask):
            answer = rack.ask(step.host, step.argv)
        else:
            answer = rack.wait(step.until_s if on_pause is None else on_pause(hold, step))
    raise AssertionError("it goes on for ever")


BER = {"errors": "effective", "mantissa": 1, "exponent": 6, "direction": "up"}


def test_a_change_whose_lease_had_run_out_when_the_phase_ended_is_lost() -> None:
    rack = Played(VIA)

    def paused_too_long(hold: Hold, step: Pause) -> float:
        if hold.state != "in_force":
            return step.until_s
        hold.signal.stop = True
        return rack.now_s + 100.0

    hold = held(rack, change("ber", "gpu001/mlx5_0", hosts=("gpu001",), **BER), on_pause=paused_too_long)
    assert hold.state == "lost"


def test_a_lease_shorter_than_the_settling_of_routes_is_renewed_meanwhile() -> None:
    rack = Played(replace(MANAGED, lease=Lease(ttl_s=10.0, max_hold_s=600.0)))
    asked = change("adaptive_routing", "fabric", scope="fabric", is_fault=False, when=When(None, 40.0), on=1)
    hold = held(rack, asked)
    assert hold.state == "reverted", hold.reason


def test_routes_get_their_time_to_settle_though_the_end_of_the_phase_wakes_everybody() -> None:
    rack = Played(VIA)
    pauses: list[float] = []

    def woken(hold: Hold, step: Pause) -> float:
        if hold.signal.stop and step.until_s > rack.now_s + 5.0:
            pauses.append(step.until_s)
            return rack.now_s + 1.0
        hold.signal.stop = hold.state == "in_force"
        return step.until_s

    asked = change("link_down", "leaf1--spine0", when=When(None, 5.0), by="ibportstate")
    hold = held(rack, asked, on_pause=woken)
    assert hold.state == "reverted", hold.reason
    assert rack.now_s > pauses[0] - 6.0
    assert len(pauses) > 10


@pytest.mark.parametrize(
    "asked", [("ber", BER), ("ber", {**BER, "direction": "both"}), ("link_down", {"by": "mlxlink"})]
)
def test_the_cable_through_which_switches_are_reached_is_refused(asked: tuple[str, dict]) -> None:
    kind, params = asked
    hold = held(Played(VIA), change(kind, "gpu004/mlx5_0", hosts=("gpu004",), **params))
    assert hold.state == "refused"
    assert "through this very cable" in hold.reason


@pytest.mark.parametrize("name", ["leaf1--spine0", "spine0--leaf1", "LEAF1", "Spine0--Leaf1"])
def test_a_name_for_management_protects_however_it_is_written(name: str) -> None:
    asked = change("link_down", "leaf1--spine0", by="ibportstate", switches=("leaf1", "spine0"))
    assert managed(asked, (), replace(VIA, management=(name,))) == name
