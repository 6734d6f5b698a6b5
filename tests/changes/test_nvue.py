"""Adaptive routing of RoCE switches: a whole life, and what is left of it when somebody dies on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.changes.guard import Guard
from fabric.changes.nvue import CONFIRM_MIN
from fabric.changes.rails import blast_problems
from fabric.errors import NotInForce, Refused
from fabric.model.change import ChangeSettings, Lease
from fabric.report.output import visible
from tests.changes.played import Played, change, topology
from tests.changes.roce import SWITCHES, of, roce, routed, values
from tests.changes.test_hold import held, verb

SETTINGS = ChangeSettings()
OFF = dict.fromkeys(SWITCHES, None)
ON = dict.fromkeys(SWITCHES, "on")


@pytest.fixture
def rack() -> Played:
    """Adaptive routing is off on every switch."""
    return Played(SETTINGS, world=roce())


def armed(rack: Played, *, ttl_s: float = 60.0) -> list[str]:
    """Guards armed on every switch, as a run would; their names."""
    guard = Guard(SETTINGS.guard_directory)
    names = []
    for number, one in enumerate(rack.prepare(routed())):
        argv = guard.arm(f"t.{number}", owner="test/1", lease=Lease(ttl_s, 600.0), peer="", what=one)
        guard.read_armed(rack.ask(one.host, argv))
        names.append(f"t.{number}")
    return names


def test_every_switch_is_switched_seen_and_put_back(rack: Played) -> None:
    hold = held(rack, routed())
    assert hold.state == "reverted", hold.reason
    assert values(rack.world) == OFF
    assert [one[:6] for one in of(rack, "leaf0").commits] == ["fabric", "fabric"]
    assert all(of(rack, name).waits is None and not of(rack, name).staged for name in SWITCHES)


def test_what_was_set_explicitly_is_set_again_and_not_left_to_its_default(rack: Played) -> None:
    for name in SWITCHES:
        of(rack, name).applied["router adaptive-routing enable"] = "off"
    held(rack, routed())
    assert values(rack.world) == dict.fromkeys(SWITCHES, "off")


def test_what_is_so_already_is_not_done(rack: Played) -> None:
    assert rack.prepare(routed(on=False)) == ()


def test_whoever_dies_between_the_commit_and_the_confirmation_leaves_nothing(rack: Played) -> None:
    for name, one in zip(armed(rack), rack.prepare(routed()), strict=True):
        rack.ask(one.host, Guard(SETTINGS.guard_directory).apply(name, one.apply[:3]))
    assert values(rack.world) == ON
    rack.wait(rack.now_s + 62.0)  # the guard's lease is the first to run out
    assert values(rack.world) == OFF
    assert of(rack, "leaf0").waits is None
    assert of(rack, "leaf0").commits[-1].endswith("undone")


def test_where_the_guard_is_dead_too_the_switch_rolls_back_by_its_own_timer(rack: Played) -> None:
    for name, one in zip(armed(rack), rack.prepare(routed()), strict=True):
        rack.ask(one.host, Guard(SETTINGS.guard_directory).apply(name, one.apply[:3]))
    for kept in rack.world.rack.guards.values():
        for guard in kept.values():
            guard.alive = False
    rack.wait(rack.now_s + CONFIRM_MIN * 60.0 - 5.0)
    assert values(rack.world) == ON
    rack.wait(rack.now_s + 6.0)
    assert values(rack.world) == OFF


def test_a_commit_is_not_confirmed_unless_the_switch_is_seen_to_route_so(rack: Played) -> None:
    (name, *_), (one, *_) = armed(rack), rack.prepare(routed())
    lying = list(one.apply)
    lying[1] = ("nv", "set", "system", "hostname", "other")  # in place of what was to be set
    answer = rack.ask(one.host, Guard(SETTINGS.guard_directory).apply(name, tuple(lying)))
    assert "failed 1" in answer.stdout
    assert of(rack, one.host).waits is not None


def test_a_guard_that_is_killed_ends_the_change_and_it_is_put_back(rack: Played) -> None:
    def kill(hold, step) -> float:
        if hold.state == "in_force":
            for kept in rack.world.rack.guards.values():
                for guard in kept.values():
                    guard.alive = False
        return step.until_s

    hold = held(rack, routed(for_s=100.0), on_pause=kill)
    assert hold.state == "lost", hold.reason
    assert values(rack.world) == OFF


def test_what_somebody_else_commits_in_between_stays(rack: Played) -> None:
    def commit(hold, step) -> float:
        if hold.state == "in_force" and "motd" not in of(rack, "leaf1").applied:
            rack.ask("leaf1", ("nv", "set", "motd", "message", "maintenance"))
            assert rack.ask("leaf1", ("nv", "config", "apply", "-y")).exit_status == 0
        return step.until_s

    hold = held(rack, routed(), on_pause=commit)
    assert hold.state == "reverted", hold.reason
    assert values(rack.world) == OFF
    assert of(rack, "leaf1").applied["motd message"] == "maintenance"


def test_what_somebody_else_commits_before_ours_is_confirmed_stays_though_everybody_of_ours_dies(rack: Played) -> None:
    for name, one in zip(armed(rack), rack.prepare(routed()), strict=True):
        rack.ask(one.host, Guard(SETTINGS.guard_directory).apply(name, one.apply[:3]))
    rack.ask("leaf1", ("nv", "set", "motd", "message", "maintenance"))
    rack.ask("leaf1", ("nv", "config", "apply", "-y"))
    rack.wait(rack.now_s + 300.0)
    assert values(rack.world) == OFF
    assert of(rack, "leaf1").applied["motd message"] == "maintenance"


def test_edits_that_somebody_has_not_applied_are_never_carried_along(rack: Played) -> None:
    def edit(hold, step) -> float:
        if hold.state == "in_force":
            rack.ask("leaf1", ("nv", "set", "system", "hostname", "half-done"))
        return step.until_s

    hold = held(rack, routed(), on_pause=edit)
    assert hold.state == "open"
    assert "this account has edits that were not applied" in visible(hold.reason)
    assert hold.reason.startswith(
        "by hand: on leaf1: nv unset router adaptive-routing enable && nv config apply -y; why"
    )
    assert of(rack, "leaf1").applied["system hostname"] == "leaf1"
    rack.ask("leaf1", ("nv", "config", "detach"))
    rack.wait(rack.now_s + 100.0)  # the guard tries again until it can
    assert values(rack.world) == OFF


def test_edits_made_after_the_look_stop_the_commit(rack: Played) -> None:
    (name, *_), (one, *_) = armed(rack), rack.prepare(routed())
    rack.ask(one.host, ("nv", "set", "system", "hostname", "half-done"))
    answer = rack.ask(one.host, Guard(SETTINGS.guard_directory).apply(name, one.apply))
    assert (answer.exit_status, "would be applied with ours" in answer.stderr) == (71, True)
    assert of(rack, one.host).commits == []


def test_edits_of_somebody_else_on_a_switch_that_was_not_altered_leave_nothing_open(rack: Played) -> None:
    def edit(hold, step):
        if verb(step) == "apply" and step.host == "leaf1":
            rack.ask("leaf1", ("nv", "set", "system", "hostname", "half-done"))

    hold = held(rack, routed(), on_ask=edit)
    assert hold.state == "failed", hold.reason
    assert "this account has edits that were not applied" in visible(hold.reason)
    assert values(rack.world) == OFF


def test_when_one_switch_of_three_fails_the_others_are_put_back(rack: Played) -> None:
    of(rack, "leaf1").failing = True
    hold = held(rack, routed())
    assert hold.state == "failed"
    assert "Failure during apply" in hold.reason or "nv config apply" in hold.reason
    of(rack, "leaf1").failing = False
    assert values(rack.world) == OFF


def test_a_fabric_of_which_one_switch_is_not_reached_is_refused() -> None:
    with pytest.raises(Refused, match="'leaf1': of RoCE switches each is told for itself"):
        Played(SETTINGS, world=roce(mute=("leaf1",))).prepare(routed())


def test_without_an_interface_that_may_do_it_switching_it_on_is_refused(rack: Played) -> None:
    of(rack, "leaf0").applied.pop("interface swp1-4 router adaptive-routing enable")
    with pytest.raises(Refused, match="leaf0: no interface has adaptive routing on"):
        rack.prepare(routed())


def test_an_interface_that_does_not_follow_is_not_in_force(rack: Played) -> None:
    alterations = rack.prepare(routed())
    with pytest.raises(NotInForce, match="leaf0: adaptive routing is enable off"):
        rack.confirm(routed(), alterations)
    rack.apply(alterations)
    rack.confirm(routed(), alterations)
    of(rack, "leaf0").applied["interface swp2 router adaptive-routing enable"] = "off"
    with pytest.raises(NotInForce, match="leaf0: adaptive routing of swp2 is enable off"):
        rack.confirm(routed(), alterations)


def test_more_switches_than_a_lease_is_long_enough_for_are_refused(rack: Played) -> None:
    short = Played(replace(SETTINGS, lease=Lease(ttl_s=10.0, max_hold_s=600.0)), world=roce())
    with pytest.raises(Refused, match=r"3 switches one after the other take about 30 s, and the lease lasts 10 s"):
        short.prepare(routed())
    assert rack.prepare(routed())


def test_of_a_roce_fabric_no_subnet_manager_is_asked_for() -> None:
    assert blast_problems([routed()], roce(), SETTINGS, ()) == []
    (said,) = blast_problems([routed()], topology(), SETTINGS, ())
    assert "no subnet managers" in said
    shield = change("shield", "fabric", scope="fabric", on=True)
    assert "no subnet managers" in blast_problems([shield], roce(), SETTINGS, ())[0]
