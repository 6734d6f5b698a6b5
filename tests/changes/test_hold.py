"""What a held change says of itself is true; links are seen to go down, each once; how much a counter may grow."""

import re
from collections.abc import Callable
from dataclasses import replace
from math import inf

import orjson
import pytest

from fabric.changes.hold import Hold
from fabric.changes.procedure import Pause
from fabric.changes.rails import Concurrency
from fabric.changes.watching import LOOK_S, Lookout, over, watch_cable, watch_host, watched_ports
from fabric.errors import CommandTimeout, ExecutorError, FabricError
from fabric.model.change import Change, ChangeSettings, Lease, When
from fabric.model.probe import Command, CommandResult
from tests.changes.guard_mishaps import kill_guard
from tests.changes.played import MANAGED, VIA, Played, change, topology


def held(
    rack: Played,
    asked: Change,
    *,
    on_pause: Callable[[Hold, Pause], float] | None = None,
    on_ask: Callable[[Hold, Command], ExecutorError | None] = lambda hold, step: None,
    due_s: float = inf,
) -> Hold:
    """
    Live a change through.

    *on_pause* says at what time a pause ends, instead of when it should; *on_ask* may say how a command is lost.
    """
    hold = begun(rack, asked)
    hold.due_s = due_s
    procedure, answer, error = hold.procedure(), None, None
    for _ in range(5000):
        try:
            step = procedure.send(answer) if error is None else procedure.throw(error)
        except StopIteration:
            return hold
        error = on_ask(hold, step) if isinstance(step, Command) else None
        if isinstance(step, Pause):
            answer = rack.wait(step.until_s if on_pause is None else on_pause(hold, step))
        elif error is None:
            answer = rack.ask(step.host, step.argv)
    raise AssertionError("it goes on for ever")


def begun(rack: Played, asked: Change, *, concurrency: Concurrency | None = None, number: int = 0) -> Hold:
    """A change of which nothing is done yet; what it records is in ``rack.entries``."""
    return Hold(
        asked,
        rack.context,
        owner="test/1",
        guard_id=f"t.{number}",
        allow=(),
        record=lambda state, fields: rack.entries.append((state, orjson.loads(orjson.dumps(fields)))),
        clock=lambda: rack.now_s,
        concurrency=concurrency,
    )


def verb(step: Command) -> str:
    """What a guard is told; empty for any other command."""
    return step.argv[5] if step.argv[3:4] == ("fabric-guard",) else ""


BER = {"effective": "1e-6", "direction": "up"}


def test_a_change_whose_lease_had_run_out_when_the_phase_ended_is_lost() -> None:
    rack = Played(VIA)

    def paused_too_long(hold: Hold, step: Pause) -> float:
        if hold.state != "in_force":
            return step.until_s
        hold.signal.stop = True
        return rack.now_s + 100.0

    hold = held(rack, change("ber", "gpu001/mlx5_0", hosts=("gpu001",), **BER), on_pause=paused_too_long)
    assert (hold.state, hold.reason.partition(":")[0]) == ("lost", "its guard took it back before its time")


def test_a_guard_that_was_dead_is_not_said_to_have_taken_a_change_back() -> None:
    """The run was paused beyond its lease; it undoes the change itself when it is back."""
    rack = Played(VIA)

    def paused_without_a_guard(hold: Hold, step: Pause) -> float:
        if hold.state != "in_force" or rack.now_s >= 100.0:
            return step.until_s
        kill_guard(rack.world.rack, "gpu001", "t.0.0")
        return rack.now_s + 100.0

    hold = held(rack, change("ber", "gpu001/mlx5_0", hosts=("gpu001",), **BER), on_pause=paused_without_a_guard)
    assert (hold.state, hold.reason.partition(":")[0]) == ("lost", "its lease ended before its time")


def test_what_is_so_already_has_no_lease_that_could_run_out() -> None:
    """Nothing is armed for it: late in a run, too, it was in force to the end."""
    rack = Played(ChangeSettings(), world=topology(link_layer="ethernet"))
    rack.now_s = 5000.0
    asked = change("retransmission", "gpu001", scope="host", hosts=("gpu001",), selective_repeat=False)

    def ends(hold: Hold, step: Pause) -> float:
        hold.signal.stop = True
        return step.until_s if step.until_s < 1e9 else rack.now_s

    assert held(rack, asked, on_pause=ends).state == "reverted"


def test_a_lease_shorter_than_the_settling_of_routes_is_renewed_meanwhile() -> None:
    rack = Played(replace(MANAGED, lease=Lease(ttl_s=10.0, max_hold_s=600.0)))
    asked = change("adaptive_routing", "fabric", scope="fabric", for_=40.0, on=True)
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

    asked = change("link_down", "leaf1--spine0", for_=5.0, by="ibportstate")
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


LONG_BER = change("ber", "gpu001/mlx5_0", hosts=("gpu001",), for_=400.0, **BER)


@pytest.mark.parametrize(("losses", "state"), [(1, "reverted"), (2, "failed")])
def test_a_lost_setting_anew_of_the_devices_timer_is_tried_once_more(losses: int, state: str) -> None:
    rack = Played(replace(VIA, lease=Lease(60.0, 600.0)))
    lost: list[float] = []

    def lose(hold: Hold, step: Command) -> ExecutorError | None:
        if verb(step) == "apply" and hold.state == "in_force" and len(lost) < losses:
            lost.append(rack.now_s)
            rack.wait(rack.now_s + step.timeout_s)
            return CommandTimeout(step.host, step.timeout_s)
        return None

    hold = held(rack, LONG_BER, on_ask=lose)
    assert (hold.state, len(lost)) == (state, losses), hold.reason
    assert rack.world.rack.ports.of_adapter("gpu001", "mlx5_0").injection is None


def test_a_setting_anew_that_comes_after_the_devices_own_end_fails() -> None:
    rack = Played(replace(VIA, lease=Lease(300.0, 600.0)))

    def late(hold: Hold, step: Command) -> ExecutorError | None:
        if verb(step) == "apply" and hold.state == "in_force":
            rack.wait(rack.now_s + 500.0)
            return CommandTimeout(step.host, step.timeout_s)
        return None

    assert held(rack, LONG_BER, on_ask=late).state in ("failed", "lost")


@pytest.mark.parametrize(
    ("stop_s", "said"), [(3.0, "cut off after 0 of 3"), (30.0, "cut off after 1 of 3"), (999.0, "")]
)
def test_a_flap_that_is_cut_off_says_after_how_many_cycles(stop_s: float, said: str) -> None:
    rack = Played(VIA)
    flap = change("port_flap", "leaf1--spine0", by="ibportstate", down=8.0, count=3, period=40.0)

    def stop(hold: Hold, step: Pause) -> float:
        hold.signal.stop = hold.signal.stop or rack.now_s >= stop_s
        return min(step.until_s, rack.now_s + 1.0)

    hold = held(rack, flap, on_pause=stop)
    assert (hold.state, hold.reason) == ("reverted", f"{said} cycles" if said else "")


AT = change("link_down", "gpu001/mlx5_0", hosts=("gpu001",), at=30.0, for_=10.0, by="mlxlink")


def used_by_somebody(rack: Played) -> None:
    """A training job on its GPUs."""
    rack.answers["gpu001 nvidia-smi"] = ("4711, /usr/bin/python3\n", "", 0)


def scheduled(rack: Played) -> None:
    """A job of the batch system."""
    rack.answers["gpu001 squeue"] = ("1201\n", "", 0)


def closed_by_somebody(*numbers: int) -> Callable[[Played], None]:
    """RNICs of its host."""

    def close(rack: Played) -> None:
        ports = rack.world.rack.ports
        for number in numbers:
            ports.disable(ports.of_adapter("gpu001", f"mlx5_{number}"), rack.now_s)

    return close


@pytest.mark.parametrize(
    ("meanwhile", "reason"),
    [
        (used_by_somebody, r"GPUs are in use \(processes 4711\)"),
        (scheduled, "jobs run there"),
        (closed_by_somebody(1, 2, 3, 4, 5, 6, 7), "no other active RNIC"),
        (closed_by_somebody(0), "is not in the fabric|down already"),
    ],
)
def test_a_change_of_the_time_line_is_looked_at_again_when_it_is_due(
    meanwhile: Callable[[Played], None], reason: str
) -> None:
    rack = Played(VIA)
    rack.answers["gpu001 nvidia-smi"] = ("", "", 0)

    def later(hold: Hold, step: Pause) -> float:
        meanwhile(rack)
        return step.until_s

    hold = held(rack, AT, on_pause=later, due_s=30.0)
    assert hold.state == "refused", hold.reason
    assert re.search(reason, hold.reason), hold.reason
    assert not any(argv[5:6] == ("arm",) for _, argv in rack.asked)


def test_our_own_probes_on_the_gpus_keep_no_change_of_the_time_line_out() -> None:
    rack = Played(VIA)
    rack.answers["gpu001 nvidia-smi"] = lambda words: (
        ("9, /opt/nccl-tests/all_reduce_perf\n", "", 0) if "process_name" in words[1] else ("", "", 0)
    )
    assert held(rack, AT, due_s=30.0).state == "reverted"


AT_THE_END = [
    change("link_down", "leaf1--spine0", by="ibportstate"),
    change("link_down", "leaf1--spine0", by="ibportstate", for_=20.0),
    change("link_down", "gpu001/mlx5_0", hosts=("gpu001",), by="mlxlink"),
    change("link_down", "gpu001/mlx5_0", hosts=("gpu001",), by="mlxlink"),
    change("ber", "gpu001/mlx5_0", hosts=("gpu001",), **BER),
    change("adaptive_routing", "fabric", scope="fabric", on=True),
]


@pytest.mark.parametrize("asked", AT_THE_END, ids=lambda one: str(one.spec))
@pytest.mark.parametrize("somebody", [True, False], ids=["taken back", "left alone"])
def test_a_change_that_somebody_took_back_is_failed_and_says_so(asked: Change, somebody: bool) -> None:
    rack = Played(MANAGED)
    there, undone = rack.prepare(asked), []

    def taken_back(hold: Hold, step: Pause) -> float:
        if hold.state == "in_force":
            if somebody and not undone:
                undone.append(there)
                rack.undo(there)
            hold.signal.stop = asked.when.for_s is None
        return min(step.until_s, rack.now_s + 10.0)

    hold = held(rack, asked, on_pause=taken_back)
    assert hold.state == ("failed" if somebody else "reverted"), hold.reason
    assert hold.reason.startswith("was not in force at the end: ") == somebody
    assert "the firmware keeps it" not in hold.reason  # that is said of one that never came into force


def test_a_last_look_that_nobody_answers_says_nothing() -> None:
    rack = Played(VIA)
    lost: list[Command] = []

    def lose(hold: Hold, step: Command) -> ExecutorError | None:
        if hold.state == "in_force" and "PTER" in step.argv and not verb(step):
            lost.append(step)
            return CommandTimeout(step.host, step.timeout_s)
        return None

    asked = change("ber", "gpu001/mlx5_0", hosts=("gpu001",), for_=20.0, **BER)
    hold = held(rack, asked, on_ask=lose)
    assert hold.state == "reverted", hold.reason
    assert len(lost) == 1


HOST = "gpu001"
UP, DOWN = "4: ACTIVE\n", "1: DOWN\n"


class Watching:
    """A host with two ports that is looked at until no *answers* are left; *last* of them belong to the last look."""

    def __init__(self, *answers: str, last: int = 1) -> None:
        self.played = Played(VIA)
        self.down: list[tuple[str, str, float]] = []
        self.unreadable: list[str] = []
        self.lookout = Lookout(lambda: self.played.now_s, LOOK_S, self._went_down, self._unreadable)
        self._left, self._last = list(answers), last
        self.played.answers[f"{HOST} cat"] = self._cat
        self.lookout.ended = len(answers) == 1
        self.played.run(watch_host(HOST, [("mlx5_0", 1), ("mlx5_1", 1)], self.lookout))

    def _went_down(self, link: str, state: str, seen_s: float) -> None:
        self.down.append((link, state, seen_s))

    def _unreadable(self, host: str, error: FabricError) -> None:
        self.unreadable.append(f"{host}: {error}")

    def _cat(self, argv: tuple[str, ...]) -> tuple[str, str, int]:
        del argv
        text = self._left.pop(0)
        self.lookout.ended = len(self._left) <= self._last
        return text, "", 0 if text.count("\n") == 2 else 1


def test_a_link_that_was_up_and_is_not_any_more_is_told_with_when_it_was_last_seen_up() -> None:
    watching = Watching(UP + UP, UP + UP, UP + DOWN, UP + DOWN)
    assert watching.down == [("gpu001/mlx5_1", "DOWN", LOOK_S)]


def test_a_link_that_was_down_from_the_beginning_is_not_told() -> None:
    assert Watching(UP + DOWN, UP + DOWN).down == []


def test_the_end_looks_once_more() -> None:
    assert [link for link, _, _ in Watching(UP + UP, DOWN + UP).down] == ["gpu001/mlx5_0"]


def test_a_device_that_is_gone_is_told_by_its_name() -> None:
    watching = Watching(UP + UP, UP, "", UP, last=3)
    assert [(link, state) for link, state, _ in watching.down] == [("gpu001/mlx5_0", "gone")]


def test_what_cannot_be_read_is_told_and_is_no_link_that_went_down() -> None:
    watching = Watching(UP + UP, "what\nelse\n", UP + DOWN)
    assert len(watching.unreadable) == 1
    assert watching.down == [("gpu001/mlx5_1", "DOWN", 0.0)]


def test_a_cable_between_switches_is_seen_to_go_down() -> None:
    played = Played(VIA)
    down: list[str] = []

    def closed(link: str, state: str, seen_s: float) -> None:
        del state, seen_s
        down.append(link)

    lookout = Lookout(lambda: played.now_s, LOOK_S, closed, lambda host, error: None)
    watch = watch_cable(change("ber", "leaf0--spine0", raw="1e-6"), played.context, lookout)
    closing = change("link_down", "leaf0--spine0", by="ibportstate")
    _until_paused(played, watch)
    played.apply(played.prepare(closing))
    lookout.ended = True
    played.run(_rest(played, watch))
    assert down == ["leaf0--spine0"]


def _until_paused(played: Played, watch) -> None:
    """Carry it out until it pauses."""
    step = next(watch)
    while hasattr(step, "argv"):
        step = watch.send(played.ask(step.host, step.argv))


def _rest(played: Played, watch):
    """What is left of a procedure that pauses."""
    step = watch.send(played.now_s)
    try:
        while True:
            step = watch.send((yield step))
    except StopIteration:
        return


def test_the_ports_of_cables_that_are_to_be_closed_are_not_watched_and_those_with_errors_are() -> None:
    context = Played(VIA).context
    both = [change("link_down", "gpu001/mlx5_0"), change("ber", "gpu001/mlx5_1", raw="1e-6")]
    watched = [device for device, _ in watched_ports(HOST, both, context)]
    assert "mlx5_0" not in watched
    assert "mlx5_1" in watched


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (5.0, 15.0, []),
        (5.0, 16.0, ["leaf0:1.symbol_errors grew by 11, more than 10 (stop_above)"]),
        (None, 1.0, ["symbol_errors (stop_above) could not be read before it was applied"]),
    ],
)
def test_more_than_the_limit_names_the_end_and_both_numbers(before: float | None, now: float, said: list[str]) -> None:
    limited = change("ber", "gpu001/mlx5_0", raw="1e-6", when=When(stop_above=(("symbol_errors", 10.0),)))
    known = {} if before is None else {"leaf0:1.symbol_errors": before}
    assert list(over(limited, known, {"leaf0:1.symbol_errors": now})) == [
        f"phase/ber.gpu001/mlx5_0: {text}" for text in said
    ]


def test_where_no_guard_can_keep_anything_nothing_is_altered_and_nothing_is_open() -> None:
    """Such as ``/run`` that others can write: the guard says so when it is armed, and when it is asked to undo."""
    rack = Played(VIA)
    simulated = rack.ask

    def unwritable(host: str, argv: tuple[str, ...]) -> CommandResult:
        said = simulated(host, argv)
        if argv[3:4] != ("fabric-guard",):
            return said
        return replace(said, stdout="unwritable /run\n", stderr="", exit_status=74)

    rack.ask = unwritable  # type: ignore[method-assign]
    hold = held(rack, change("link_down", "leaf1--spine0", for_=5.0, by="ibportstate"))
    assert (hold.state, "nothing was altered: " in hold.reason) == ("failed", True), hold.reason
