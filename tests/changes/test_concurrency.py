"""Changes that are fine alone and too much together; procedures that move on; ports that UFM isolates for our fault."""

import json
from collections.abc import Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fabric.changes.hold import Hold
from fabric.changes.kind import Context
from fabric.changes.procedure import Conductor, Pause, Procedure, ask, carry_out, pause
from fabric.changes.rails import HANDOVER_S, Concurrency
from fabric.changes.restore import intent_of, list_before, take_back, take_off_list
from fabric.engine.held_changes import Changing, HeldChanges
from fabric.engine.observer import Means
from fabric.errors import CommandTimeout, HostUnreachable, Refused, ToolError
from fabric.hosts.mock import MockExecutor
from fabric.model.change import BlastRadius, Change, ChangeSettings, When
from fabric.model.inventory import Fault, MockSettings
from fabric.model.probe import Command
from fabric.model.scenario import Phase
from fabric.plan import PhasePlan, schedule
from fabric.probes.loopback import LoopbackSpec
from fabric.runs.journal import JOURNAL, Journal
from fabric.sim.world import World
from tests.builders import Watcher
from tests.changes.played import MANAGED, VIA, Played, change, topology
from tests.changes.test_hold import begun, held
from tests.engine.scripted import Script, ScriptedExecutor

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
            if isinstance(step, Command):
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
        hold.due_s = hold.change.when.at_s or inf
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
    plan = PhasePlan(Phase("phase", (LoopbackSpec(),)), schedule([]), (), both)
    held = HeldChanges(plan, changing, Means(topology(), executor, directory, watcher), phase_number=1)
    held.begin()
    while not held.ready:
        for happening in executor.wait(min(held.next_s, executor.now() + 60.0)):
            held.take(happening)
        held.fire()
    assert "last active path" in held.trouble
    ports = world.rack.ports
    assert any(ports.of_adapter("gpu001", device).admin_up for device in ("mlx5_0", "mlx5_1"))
    held.rescue(())
    assert all(ports.of_adapter("gpu001", device).admin_up for device in ("mlx5_0", "mlx5_1"))


def said(text: str) -> Script:
    """Every command says this after a second."""
    return lambda command: (1.0, f"{text} {command.host}")


def test_a_timeout_says_what_the_command_said_last() -> None:
    """The last line of stderr often tells why nothing came."""
    queued = "srun: job 7 queued and waiting for resources\n\n"
    assert str(CommandTimeout("h", 60.0, "", queued)) == (
        "h: no answer within 60 s; its last words: srun: job 7 queued and waiting for resources"
    )


def test_each_procedure_gets_the_answers_of_its_own_commands() -> None:
    heard: list[str] = []

    def two(host: str) -> Procedure[None]:
        for _ in range(2):
            heard.append((yield from ask(host, ("say",))).stdout)

    carry_out([two("gpu001"), two("gpu002")], ScriptedExecutor(said("this is")))
    assert sorted(heard) == ["this is gpu001"] * 2 + ["this is gpu002"] * 2


def test_a_wake_ends_every_pause_at_once() -> None:
    conductor = Conductor(ScriptedExecutor(said("")))
    times: list[float] = []

    def wait() -> Procedure[None]:
        times.append((yield from pause(1e9)))

    conductor.begin(wait())
    conductor.wake()
    assert times == [0.0]
    assert not conductor.busy


def test_an_error_of_one_procedure_leaves_the_others_to_be_moved_on() -> None:
    executor = ScriptedExecutor(said(""))
    conductor = Conductor(executor)
    ended: list[str] = []

    def broken() -> Procedure[None]:
        yield from pause(1.0)
        raise ZeroDivisionError

    def sound() -> Procedure[None]:
        yield from pause(2.0)
        ended.append("sound")

    conductor.begin(broken())
    conductor.begin(sound())
    executor.wait(1.0)
    with pytest.raises(ZeroDivisionError):
        conductor.fire()
    executor.wait(2.0)
    conductor.fire()
    assert ended == ["sound"]
    assert not conductor.busy


def test_what_is_not_waited_for_any_more_is_cancelled_and_its_procedure_told() -> None:
    executor = ScriptedExecutor(lambda command: (0.0, None))
    conductor = Conductor(executor)
    caught: list[str] = []

    def waiting() -> Procedure[None]:
        try:
            yield from ask("gpu001", ("hang",))
        except CommandTimeout as exc:
            caught.append(str(exc))

    procedure = waiting()
    conductor.begin(procedure)
    conductor.give_up(procedure, CommandTimeout("gpu001", 3.0))
    assert caught == ["gpu001: no answer within 3 s"]
    assert not conductor.busy
    (late,) = executor.wait(1.0)
    assert not conductor.take(late)


def test_silence_begins_with_the_first_question_that_got_no_answer() -> None:
    executor = ScriptedExecutor(lambda command: (1.0, HostUnreachable("gpu001", "connect", "no route")))
    conductor = Conductor(executor)

    def stubborn() -> Procedure[None]:
        while True:
            try:
                yield from ask("gpu001", ("renew",))
            except HostUnreachable:
                yield from pause(executor.now() + 1.0)

    conductor.begin(stubborn())
    for _ in range(3):
        for happening in executor.wait(executor.now() + 1.0):
            conductor.take(happening)
        conductor.fire()
    (silence,) = conductor.silences
    assert (silence.since_s, silence.command.argv) == (0.0, ("renew",))
    assert executor.now() > 1.0


URL = "https://ufm.example"
UFM = replace(VIA, ufm_url=URL, ufm_ca="/etc/pki/ufm.pem")
FAULT = change("ber", "leaf1--spine0", for_=300.0, effective="1e-6", direction="up")


@pytest.fixture
def rack() -> Played:
    """UFM isolates, a minute after the first errors."""
    return Played(UFM, ufm_isolates=True)


def listed(rack: Played) -> list[str]:
    """What is on UFM's list."""
    return [entry["UnhealthyPort"] for entry in json.loads(rack.world.rack.ufm.listing())]


def list_by_hand(rack: Played) -> str:
    """Somebody else isolates a port of another cable; its name."""
    ports = rack.world.rack.ports
    node = next(one for one in ports.cabling.nodes.values() if one.name == "leaf3")
    number = next(end[1] for end in ports.cabling.ends(node) if ports.has_link(end))
    name = f"{node.guid:016x}_{number}"
    assert rack.world.rack.ufm.put(json.dumps({"ports": [name], "ports_policy": "UNHEALTHY"}), rack.now_s) is None
    return name


@pytest.mark.parametrize("hurry", [False, True])
def test_it_is_given_back_when_the_run_stops_in_order_or_in_a_hurry(rack: Played, hurry: bool) -> None:
    theirs = list_by_hand(rack)
    seen: list[list[str]] = []

    def stop(hold: Hold, step: Pause) -> float:
        if hold.in_force and rack.now_s > 80.0 and not hold.signal.stop:
            seen.append(listed(rack))
            hold.signal.stop, hold.signal.hurry = True, hurry
        return min(step.until_s, rack.now_s + 5.0)

    hold = held(rack, FAULT, on_pause=stop)
    assert hold.state == "reverted", hold.reason
    assert len(seen[0]) == 2
    assert listed(rack) == [theirs]


@pytest.mark.parametrize(("times", "state"), [(4, "reverted"), (5, "open")])
def test_a_list_that_cannot_be_read_is_asked_again_before_it_is_open(rack: Played, times: int, state: str) -> None:
    unread: list[tuple[str, ...]] = []

    def curl(words: tuple[str, ...]) -> tuple[str, str, int] | None:
        if rack.entries and rack.entries[-1][0] == "in_force" and len(unread) < times:
            unread.append(words)
            return "garbage", "", 0
        return None

    rack.answers["gpu004 curl"] = curl
    hold = held(rack, replace(FAULT, spec=FAULT.spec.model_copy(update={"for_s": 20.0})))
    assert (hold.state, len(unread)) == (state, times), hold.reason
    if state == "open":
        ends = [end for end in rack.entries[0][1]["unhealthy"]["ends"] if end in hold.reason]
        assert len(ends) == 2
        assert hold.reason.startswith("by hand: on gpu004: curl ")
        assert "PUT" in hold.reason
        assert "PTER" not in hold.reason


def killed(rack: Played) -> Mapping[str, Any]:
    """The orchestrator is gone after 80 s, the guard takes the fault back; what the journal's intent says."""
    procedure, answer = begun(rack, FAULT).procedure(), None
    while rack.now_s < 80.0:
        step = procedure.send(answer)
        answer = rack.ask(step.host, step.argv) if isinstance(step, Command) else rack.wait(step.until_s)
    rack.wait(rack.now_s + 120.0)
    (intent,) = (fields for state, fields in rack.entries if state == "intent")
    return intent


def restored(rack: Played, intent: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """What ``fabric restore`` does with it."""
    told: list[tuple[str, str, bool]] = []
    for left in intent_of(intent).guarded:
        rack.run(take_back(left, lambda *said: told.append(said)))
    rack.run(take_off_list(intent_of(intent).list_was, lambda *said: told.append(said)))
    return told


def test_restore_gives_it_back_after_the_guard_has_taken_the_fault_back(rack: Played) -> None:
    theirs = list_by_hand(rack)
    intent = killed(rack)
    assert len(listed(rack)) == 2
    told = restored(rack, intent)
    assert listed(rack) == [theirs]
    assert ("gpu004", True) in [(host, certain) for host, said, certain in told if "taken off UFM's list" in said]


def test_restore_says_so_when_the_list_cannot_be_asked(rack: Played) -> None:
    intent = killed(rack)
    rack.answers["gpu004 curl"] = ("", "curl: (7) Failed to connect\n", 7)
    assert [certain for _, said, certain in restored(rack, intent) if "isolated still" in said] == [False]


def test_what_a_person_has_put_on_the_list_meanwhile_stays_on_it(rack: Played) -> None:
    intent = killed(rack)
    (name,) = listed(rack)
    ufm, now_s = rack.world.rack.ufm, rack.now_s
    for policy in ("HEALTHY", "UNHEALTHY"):
        assert ufm.put(json.dumps({"ports": [name], "ports_policy": policy}), now_s) is None
    restored(rack, intent)
    assert listed(rack) == [name]


def asked_before(settings: ChangeSettings) -> tuple[str, ...]:
    """How UFM is asked for its list before a change."""
    rack = Played(settings, ufm_isolates=True)
    rack.run(list_before(FAULT, rack.context))
    return next(argv for _, argv in rack.asked if argv[0] == "curl")


def test_ufm_with_its_own_certificate_is_asked_when_the_inventory_says_whom_to_believe() -> None:
    """As UFM is shipped: without a word of it nothing is altered, and the reason names the key."""
    with pytest.raises(ToolError, match=r"exit 60.*ufm_ca under changes"):
        asked_before(replace(UFM, ufm_ca=None))
    assert "-k" in asked_before(replace(UFM, ufm_ca=None, ufm_insecure=True))
