"""Adaptive routing of RoCE switches: a whole life, and what is left of it when somebody dies on the way."""

from dataclasses import replace

import pytest

from fabric.changes.guard import Guard
from fabric.changes.nvue import CONFIRM_MIN
from fabric.changes.rails import blast_problems
from fabric.errors import NotInForce, Refused
from fabric.model.change import ChangeSettings, Lease
from fabric.model.inventory import Fault
from fabric.report.output import visible
from tests.changes.played import Played, change, topology
from tests.changes.roce import LOSSLESS, QOS, SWITCHES, TOLD, Told, of, roce
from tests.changes.test_hold import held, verb

SETTINGS = ChangeSettings()
OFF = dict.fromkeys(SWITCHES, None)
ROUTING = TOLD["adaptive routing"]


def world(**more) -> Played:
    """Every key is as it is by default; one class is lossless."""
    return Played(SETTINGS, world=roce(), lossless_class=LOSSLESS, **more)


@pytest.fixture
def rack() -> Played:
    """Adaptive routing is off on every switch, ECN and PFC are on."""
    return world()


@pytest.fixture(params=TOLD)
def told(request: pytest.FixtureRequest) -> Told:
    """What is switched."""
    return TOLD[request.param]


def on(told: Told) -> dict[str, str]:
    """Every switch as it becomes."""
    return dict.fromkeys(SWITCHES, told.becomes)


def armed(rack: Played, told: Told, *, ttl_s: float = 60.0) -> list[str]:
    """Guards armed on every switch, as a run would; their names."""
    guard = Guard(SETTINGS.guard_directory)
    names = []
    for number, one in enumerate(rack.prepare(told.change())):
        argv = guard.arm(f"t.{number}", owner="test/1", lease=Lease(ttl_s, 600.0), peer="", what=one)
        guard.read_armed(rack.ask(one.host, argv))
        names.append(f"t.{number}")
    return names


def test_every_switch_is_switched_seen_and_put_back(rack: Played, told: Told) -> None:
    hold = held(rack, told.change())
    assert hold.state == "reverted", hold.reason
    assert told.values(rack.world) == OFF
    assert [one[:6] for one in of(rack, "leaf0").commits] == ["fabric", "fabric"]
    assert all(of(rack, name).waits is None and not of(rack, name).staged for name in SWITCHES)


def test_what_was_set_explicitly_is_set_again_and_not_left_to_its_default(rack: Played, told: Told) -> None:
    for name in SWITCHES:
        of(rack, name).applied |= dict.fromkeys(told.keys, told.was)
    held(rack, told.change())
    assert told.values(rack.world) == dict.fromkeys(SWITCHES, told.was)


def test_what_is_so_already_is_not_done(rack: Played, told: Told) -> None:
    assert rack.prepare(told.change(back=True)) == ()


def test_whoever_dies_between_the_commit_and_the_confirmation_leaves_nothing(rack: Played, told: Told) -> None:
    for name, one in zip(armed(rack, told), rack.prepare(told.change()), strict=True):
        rack.ask(one.host, Guard(SETTINGS.guard_directory).apply(name, one.apply[: 2 + len(told.keys)]))
    assert told.values(rack.world) == on(told)
    rack.wait(rack.now_s + 62.0)  # the guard's lease is the first to run out
    assert told.values(rack.world) == OFF
    assert of(rack, "leaf0").waits is None
    assert of(rack, "leaf0").commits[-1].endswith("undone")


def test_where_the_guard_is_dead_too_the_switch_rolls_back_by_its_own_timer(rack: Played, told: Told) -> None:
    for name, one in zip(armed(rack, told), rack.prepare(told.change()), strict=True):
        rack.ask(one.host, Guard(SETTINGS.guard_directory).apply(name, one.apply[: 2 + len(told.keys)]))
    for kept in rack.world.rack.guards.values():
        for guard in kept.values():
            guard.alive = False
    rack.wait(rack.now_s + CONFIRM_MIN * 60.0 - 5.0)
    assert told.values(rack.world) == on(told)
    rack.wait(rack.now_s + 6.0)
    assert told.values(rack.world) == OFF


def test_a_commit_is_not_confirmed_unless_the_switch_is_seen_to_route_so(rack: Played, told: Told) -> None:
    (name, *_), (one, *_) = armed(rack, told), rack.prepare(told.change())
    lying = list(one.apply)
    lying[1 : 1 + len(told.keys)] = [("nv", "set", "system", "hostname", "other")]  # in place of what was to be set
    answer = rack.ask(one.host, Guard(SETTINGS.guard_directory).apply(name, tuple(lying)))
    assert "failed 1" in answer.stdout
    assert of(rack, one.host).waits is not None


def test_a_guard_that_is_killed_ends_the_change_and_it_is_put_back(rack: Played, told: Told) -> None:
    def kill(hold, step) -> float:
        if hold.state == "in_force":
            for kept in rack.world.rack.guards.values():
                for guard in kept.values():
                    guard.alive = False
        return step.until_s

    hold = held(rack, told.change(for_s=100.0), on_pause=kill)
    assert hold.state == "lost", hold.reason
    assert told.values(rack.world) == OFF


def test_what_somebody_else_commits_in_between_stays(rack: Played, told: Told) -> None:
    def commit(hold, step) -> float:
        if hold.state == "in_force" and "motd" not in of(rack, "leaf1").applied:
            rack.ask("leaf1", ("nv", "set", "motd", "message", "maintenance"))
            assert rack.ask("leaf1", ("nv", "config", "apply", "-y")).exit_status == 0
        return step.until_s

    hold = held(rack, told.change(), on_pause=commit)
    assert hold.state == "reverted", hold.reason
    assert told.values(rack.world) == OFF
    assert of(rack, "leaf1").applied["motd message"] == "maintenance"


def test_what_somebody_else_commits_before_ours_is_confirmed_stays_though_everybody_of_ours_dies(
    rack: Played, told: Told
) -> None:
    for name, one in zip(armed(rack, told), rack.prepare(told.change()), strict=True):
        rack.ask(one.host, Guard(SETTINGS.guard_directory).apply(name, one.apply[: 2 + len(told.keys)]))
    rack.ask("leaf1", ("nv", "set", "motd", "message", "maintenance"))
    rack.ask("leaf1", ("nv", "config", "apply", "-y"))
    rack.wait(rack.now_s + 300.0)
    assert told.values(rack.world) == OFF
    assert of(rack, "leaf1").applied["motd message"] == "maintenance"


def test_edits_that_somebody_has_not_applied_are_never_carried_along(rack: Played, told: Told) -> None:
    def edit(hold, step) -> float:
        if hold.state == "in_force":
            rack.ask("leaf1", ("nv", "set", "system", "hostname", "half-done"))
        return step.until_s

    hold = held(rack, told.change(), on_pause=edit)
    assert hold.state == "open"
    assert "this account has edits that were not applied" in visible(hold.reason)
    by_hand = " && ".join(f"nv unset {key}" for key in told.keys)
    assert hold.reason.startswith(f"by hand: on leaf1: {by_hand} && nv config apply -y; why")
    assert of(rack, "leaf1").applied["system hostname"] == "leaf1"
    rack.ask("leaf1", ("nv", "config", "detach"))
    rack.wait(rack.now_s + 100.0)  # the guard tries again until it can
    assert told.values(rack.world) == OFF


def test_edits_made_after_the_look_stop_the_commit(rack: Played, told: Told) -> None:
    (name, *_), (one, *_) = armed(rack, told), rack.prepare(told.change())
    rack.ask(one.host, ("nv", "set", "system", "hostname", "half-done"))
    answer = rack.ask(one.host, Guard(SETTINGS.guard_directory).apply(name, one.apply))
    assert (answer.exit_status, "would be applied with ours" in answer.stderr) == (71, True)
    assert of(rack, one.host).commits == []


def test_edits_of_somebody_else_on_a_switch_that_was_not_altered_leave_nothing_open(rack: Played, told: Told) -> None:
    def edit(hold, step):
        if verb(step) == "apply" and step.host == "leaf1":
            rack.ask("leaf1", ("nv", "set", "system", "hostname", "half-done"))

    hold = held(rack, told.change(), on_ask=edit)
    assert hold.state == "failed", hold.reason
    assert "this account has edits that were not applied" in visible(hold.reason)
    assert told.values(rack.world) == OFF


def test_when_one_switch_of_three_fails_the_others_are_put_back(rack: Played, told: Told) -> None:
    of(rack, "leaf1").failing = True
    hold = held(rack, told.change())
    assert hold.state == "failed"
    assert "Failure during apply" in hold.reason or "nv config apply" in hold.reason
    of(rack, "leaf1").failing = False
    assert told.values(rack.world) == OFF


def test_a_fabric_of_which_one_switch_is_not_reached_is_refused(told: Told) -> None:
    with pytest.raises(Refused, match="'leaf1': of RoCE switches each is told for itself"):
        Played(SETTINGS, world=roce(mute=("leaf1",)), lossless_class=LOSSLESS).prepare(told.change())


def test_without_an_interface_that_may_do_it_switching_it_on_is_refused(rack: Played) -> None:
    of(rack, "leaf0").applied.pop("interface swp1-4 router adaptive-routing enable")
    with pytest.raises(Refused, match="leaf0: no interface has adaptive routing on"):
        rack.prepare(ROUTING.change())


def test_an_interface_that_does_not_follow_is_not_in_force(rack: Played) -> None:
    alterations = rack.prepare(ROUTING.change())
    with pytest.raises(NotInForce, match="leaf0: adaptive routing is enable off"):
        rack.confirm(ROUTING.change(), alterations)
    rack.apply(alterations)
    rack.confirm(ROUTING.change(), alterations)
    of(rack, "leaf0").applied["interface swp2 router adaptive-routing enable"] = "off"
    with pytest.raises(NotInForce, match="leaf0: adaptive routing of swp2 is enable off"):
        rack.confirm(ROUTING.change(), alterations)


def test_more_switches_than_a_lease_is_long_enough_for_are_refused(rack: Played, told: Told) -> None:
    short = Played(replace(SETTINGS, lease=Lease(ttl_s=10.0, max_hold_s=600.0)), world=roce(), lossless_class=LOSSLESS)
    with pytest.raises(Refused, match=r"3 switches one after the other take about 30 s, and the lease lasts 10 s"):
        short.prepare(told.change())
    assert rack.prepare(told.change())


def test_of_a_roce_fabric_no_subnet_manager_is_asked_for(told: Told) -> None:
    assert blast_problems([told.change()], roce(), SETTINGS, ()) == []
    (said,) = blast_problems([ROUTING.change()], topology(), SETTINGS, ())
    assert "no subnet managers" in said
    shield = change("shield", "fabric", scope="fabric", on=True)
    assert "no subnet managers" in blast_problems([shield], roce(), SETTINGS, ())[0]


@pytest.mark.parametrize("told", [TOLD["ecn"], TOLD["switch_pfc"]], ids=["ecn", "switch_pfc"])
def test_ports_with_profiles_of_their_own_are_not_reached_and_refused(told: Told) -> None:
    other = world(faults=(Fault("gpu001/mlx5_0:port", "ecn_off" if told.kind == "ecn" else "pfc_off"),))
    with pytest.raises(Refused, match=r"leaf0: .*swp[0-9]+.* profiles of their own, not default-global"):
        other.prepare(told.change())


@pytest.mark.parametrize("told", [TOLD["ecn"], TOLD["switch_pfc"]], ids=["ecn", "switch_pfc"])
def test_where_the_switch_shows_otherwise_than_it_is_configured_it_is_neither_altered_nor_in_force(
    rack: Played, told: Told
) -> None:
    shown = rack.ask("leaf0", ("nv", "show", "qos", "roce"))
    alterations = rack.prepare(told.change())
    rack.apply(alterations)
    rack.answers["leaf0 nv"] = lambda words: (shown.stdout, "", 0) if words[1:] == ("show", "qos", "roce") else None
    with pytest.raises(NotInForce, match="is set to disable, and nv show qos roce says True"):
        rack.confirm(told.change(), alterations)
    with pytest.raises(Refused, match="is set to disable, and nv show qos roce says True"):
        rack.prepare(told.change())
    del rack.answers["leaf0 nv"]
    of(rack, "leaf1").applied.pop(told.keys[-1])
    with pytest.raises(NotInForce, match=f"leaf1: .* is {told.keys[-1].split()[-1]} enable"):
        rack.confirm(told.change(), alterations)


@pytest.mark.parametrize(
    ("told", "line", "why"),
    [
        (TOLD["ecn"], {QOS[0].replace("3", "0,3"): "enable"}, "default-global sets traffic-class 0,3 together"),
        (replace(TOLD["switch_pfc"], more={"priority": 4}), {}, "leaf0 has PFC on priority 3, not on 4 alone"),
    ],
)
def test_what_cannot_be_switched_alone_is_refused(rack: Played, told: Told, line: dict[str, str], why: str) -> None:
    of(rack, "leaf0").applied |= line
    with pytest.raises(Refused, match=why):
        rack.prepare(told.change())


def test_switches_without_roce_are_refused() -> None:
    with pytest.raises(Refused, match="leaf0: RoCE is not enabled there"):
        Played(SETTINGS, world=roce()).prepare(TOLD["ecn"].change())


@pytest.mark.parametrize("other", [one for one in TOLD if one != "ecn"])
def test_a_phase_has_one_change_that_switches_commit(other: str) -> None:
    """Else the commit of one takes along what the other has set, and neither knows what it confirms."""
    planned = [TOLD["ecn"].change(), TOLD[other].change()]
    (said,) = blast_problems(planned, roce(), SETTINGS, ())
    assert "phase/ecn.fabric is committed on the same switches at the same time" in said
    assert blast_problems([planned[0], replace(planned[1], phase="later")], roce(), SETTINGS, ()) == []
