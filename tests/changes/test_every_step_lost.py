"""
Every step of every kind of change goes wrong in every way that a transport or a host can make it go wrong.

A change is lived through once undisturbed, which counts its commands. Then it is lived through again and again, and
each time one command meets one mishap, or the host answers nothing from one command on. Whatever becomes of the change:
it says that it is over only when nothing of it is left, all of it takes a bounded time, the guard undoes what nobody
else does, and ``restore`` heals what is open.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import orjson
import pytest

from benchmarks.measured_rack import rack_topology
from fabric.changes import hold as hold_module
from fabric.changes.guard import Guarded
from fabric.changes.hold import Hold
from fabric.changes.kind import Context
from fabric.changes.procedure import Procedure, ask, carry_out
from fabric.changes.restore import intent_of, take_back
from fabric.errors import CommandTimeout, ExecutorError, HostUnreachable
from fabric.hosts.mock import MockExecutor
from fabric.model.change import Change, Lease, When
from fabric.model.inventory import MockSettings
from fabric.model.probe import Command, CommandResult
from fabric.model.topology import Switch, Uplinks
from fabric.ports import Ended, Happening, Lost, Ticket
from fabric.runs.journal import CLOSED
from fabric.sim.world import World
from tests.changes.played import MANAGED, change

BARE = rack_topology(4, parts=2)  # two rails: every life asks for the whole fabric, some of them often
RACK = replace(
    BARE,
    switches={**BARE.switches, "spine0": Switch("spine0", "spine")},
    uplinks=(Uplinks(tuple(BARE.switches), ("spine0",), 2, 400.0),),
)
SETTINGS = replace(MANAGED, lease=Lease(ttl_s=60.0, max_hold_s=600.0))
FOR = When(None, 20.0)
BER = {"effective": "1e-6"}
FLAP = {"by": "ibportstate", "down": 2.0, "count": 2, "period": 20.0}

CHANGES: Mapping[str, Change] = {
    "ber": change("ber", "gpu001/mlx5_0", hosts=("gpu001",), when=FOR, direction="both", **BER),
    "RNIC closed": change("link_down", "gpu001/mlx5_0", hosts=("gpu001",), when=FOR, by="mlxlink"),
    "flap": change("port_flap", "leaf1--spine0", **FLAP),
    "adaptive routing": change("adaptive_routing", "fabric", scope="fabric", when=FOR, on=True),
}

MOST_S = 1500.0
"""No life takes longer than this (simulated seconds): every command and every wait has a limit."""
AFTER_S = 200.0
"""The lease has run out by then, and the guard has tried again."""


@dataclass(frozen=True)
class Mishap:
    """What becomes of one command: whether (and when) the host carries it out, and what comes back of its answer."""

    happens: bool
    lost: str = ""
    garble: Callable[[CommandResult], CommandResult] = lambda result: result
    late_s: float | None = None


def _half(result: CommandResult) -> CommandResult:
    return replace(result, stdout=result.stdout[: len(result.stdout) // 2])


MISHAPS: Mapping[str, Mishap] = {
    "lost before delivery": Mishap(happens=False, lost="unreachable"),
    "timed out, and run": Mishap(happens=True, lost="timeout"),
    "lost, and run late": Mishap(happens=False, lost="unreachable", late_s=3.0),
    "garbled": Mishap(happens=True, garble=lambda result: replace(result, stdout="\x00\ufffd 3 x: ,,\n[")),
    "says nothing": Mishap(happens=True, garble=lambda result: replace(result, stdout="", stderr="")),
    "cut in half": Mishap(happens=True, garble=_half),
    "fails, not run": Mishap(happens=False, garble=lambda result: replace(result, exit_status=1)),
}
EVERY = ("timed out, and run", "lost, and run late", "garbled")
"""Of every kind in a default run too; the others of one kind."""
FOR_GOOD = ("lost before delivery", "timed out, and run")


class Unlucky:
    """The simulated executor, with a mishap for some of its commands."""

    def __init__(self, mishaps: Callable[[int], Mishap | None]) -> None:
        self.world = World(RACK, MockSettings(noise_cv=0.0), seed=1, subnet_managers=SETTINGS.subnet_managers)
        self._real = MockExecutor(self.world)
        self.mishaps = mishaps
        self.commands: list[Command] = []
        self._hit: dict[Ticket, tuple[Command, Mishap]] = {}
        self._made_up: list[tuple[float, Happening]] = []
        self._late: list[tuple[float, Command]] = []
        self._nobody = -1

    def now(self) -> float:
        """Simulated seconds."""
        return self._real.now()

    def start(self, command: Command) -> Ticket:
        """Begin a command, or what takes its place."""
        mishap = self.mishaps(len(self.commands))
        self.commands.append(command)
        if mishap is None:
            return self._real.start(command)
        if mishap.happens:
            ticket = self._real.start(command)
            self._hit[ticket] = (command, mishap)
            return ticket
        self._nobody -= 1
        self._make_up(self._nobody, command, mishap)
        if mishap.late_s is not None:
            self._late.append((self.now() + mishap.late_s, command))
        return self._nobody

    def _make_up(self, ticket: Ticket, command: Command, mishap: Mishap) -> None:
        now_s = self.now()
        if not mishap.lost:
            said = mishap.garble(CommandResult(command, 0, "", "", now_s, now_s))
            self._made_up.append((now_s, Ended(ticket, said)))
            return
        at_s, error = now_s + 0.1, HostUnreachable(command.host, "session", "connection reset")
        if mishap.lost == "timeout":
            at_s, error = now_s + command.timeout_s, CommandTimeout(command.host, command.timeout_s)
        self._made_up.append((at_s, Lost(ticket, error, at_s)))

    def wait(self, until_s: float) -> Sequence[Happening]:
        """What happened, with what was lost or garbled of it."""
        dues = [at_s for at_s, _ in (*self._made_up, *self._late)]
        found = [self._hurt(one) for one in self._real.wait(min([until_s, *dues]))]
        for due in [one for one in self._late if one[0] <= self.now()]:
            self._late.remove(due)
            self._real.start(due[1])
        for made_up in [one for one in self._made_up if one[0] <= self.now()]:
            self._made_up.remove(made_up)
            found.append(made_up[1])
        return [one for one in found if one is not None]

    def _hurt(self, one: Happening) -> Happening | None:
        command, mishap = self._hit.pop(one.ticket, (None, None))
        if command is None or mishap is None or not isinstance(one, Ended):
            return one
        if mishap.lost:
            self._make_up(one.ticket, command, mishap)
            return None
        return Ended(one.ticket, mishap.garble(one.result))

    def pass_by(self, seconds: float) -> None:
        """Let time pass; what late commands answer nobody hears."""
        until_s = self.now() + seconds
        while self.now() < until_s:
            self.wait(until_s)


def altered(world: World) -> list[str]:
    """What is not as it was, by the ports and files themselves and not by what anybody says."""
    rack = world.rack
    found = [f"{port.end} injects" for port in rack.ports.known if port.injection is not None]
    found += [f"{port.end} is closed" for port in rack.ports.known if not port.admin_up]
    files = rack.managers.files.items()
    found += [f"{place}: not as it was" for place, text in files if untouched().get(place) != text]
    return found


@cache
def untouched() -> Mapping[tuple[str, str], str]:
    """The managers' files before anything."""
    world = World(RACK, MockSettings(noise_cv=0.0), seed=1, subnet_managers=SETTINGS.subnet_managers)
    return dict(world.rack.managers.files)


@dataclass
class Life:
    """One change, lived through."""

    hold: Hold
    executor: Unlucky
    entries: list[tuple[str, Mapping[str, Any]]]

    @property
    def intent(self) -> Mapping[str, Any] | None:
        """What the journal says may be live; None when it says that nothing is."""
        intents = [fields for state, fields in self.entries if state == "intent"]
        return intents[-1] if intents and self.entries[-1][0] not in CLOSED else None


def live(kind: str, mishaps: Callable[[int], Mishap | None]) -> Life:
    """Live one change of a kind through."""
    asked, executor = CHANGES[kind], Unlucky(mishaps)
    entries: list[tuple[str, Mapping[str, Any]]] = []
    hold = Hold(
        asked,
        Context(RACK, SETTINGS),
        owner="test/1",
        guard_id="t.0",
        allow=(),
        record=lambda state, fields: entries.append((state, orjson.loads(orjson.dumps(fields)))),
        clock=executor.now,
    )
    life = Life(hold, executor, entries)
    carry_out([bounded(hold, executor)], executor)
    return life


def bounded(hold: Hold, executor: Unlucky) -> Any:
    """The life of a change, cut off where it takes too long."""
    procedure = hold.procedure()
    answer: Any = None
    error: ExecutorError | None = None
    while True:
        try:
            step = procedure.throw(error) if error is not None else procedure.send(answer)
        except StopIteration:
            return
        assert executor.now() < MOST_S, "it goes on for ever"
        assert len(executor.commands) < 2000, "it asks for ever"
        error = None
        try:
            answer = yield step
        except ExecutorError as exc:
            error = exc


def wrong_with(life: Life) -> str:
    """Which promise is broken; empty when none is."""
    world, state = life.executor.world, life.hold.state
    if not life.hold.ended:
        return f"{state} is no end"
    if state in CLOSED and altered(world):
        return f"{state} ({life.hold.reason}), and {altered(world)}"
    if state in CLOSED and life.intent is not None:
        return f"{state}, and the journal ends with {life.entries[-1][0]}"
    if state == "open" and life.intent is None:
        return "open, and the journal does not know"
    if state == "open" and "by hand: " not in life.hold.reason:
        return f"no way by hand is told: {life.hold.reason}"
    return ""


def not_healed(life: Life) -> str:
    """What is wrong after the host answers again: by ``restore`` first; else by the guard alone."""
    told: list[tuple[str, bool]] = []
    life.executor.mishaps = lambda number: None
    if life.intent is not None:
        carry_out(
            [take_back(left, lambda *said: told.append(said)) for left in intent_of(life.intent).guarded], life.executor
        )
        if altered(life.executor.world):
            return f"restore leaves {altered(life.executor.world)}: {told}"
    life.executor.pass_by(AFTER_S)
    return "; ".join(altered(life.executor.world))


@cache
def commands_of(kind: str) -> int:
    """How many commands the undisturbed life of a kind takes."""
    life = live(kind, lambda number: None)
    assert life.hold.state == "reverted", life.hold.reason
    return len(life.executor.commands)


def each_step(kind: str, mishap: Mishap, *, onwards: bool) -> list[str]:
    """What is wrong with the lives in which the mishap strikes at each of the steps."""
    found = []
    for struck in range(commands_of(kind)):

        def mishaps(number: int, struck: int = struck) -> Mishap | None:
            return mishap if number == struck or (onwards and number > struck) else None

        life = live(kind, mishaps)
        wrong = wrong_with(life) or not_healed(life)
        if wrong:
            found.append(f"at {struck} ({' '.join(life.executor.commands[struck].argv)[-60:]}): {wrong[:300]}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "mishap"),
    [
        pytest.param(kind, mishap, marks=() if kind == "RNIC closed" or mishap in EVERY else pytest.mark.slow)
        for kind in CHANGES
        for mishap in MISHAPS
    ],
)
def test_a_change_is_never_said_to_be_over_while_it_is_live_whatever_happens_to_one_command(
    kind: str, mishap: str
) -> None:
    assert each_step(kind, MISHAPS[mishap], onwards=False) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("mishap", FOR_GOOD)
def test_a_change_is_never_said_to_be_over_while_it_is_live_though_nothing_answers_from_one_command_on(
    kind: str, mishap: str
) -> None:
    assert each_step(kind, MISHAPS[mishap], onwards=True) == []


def test_a_change_that_takes_a_lost_undo_for_done_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def trusting(one: Guarded) -> Procedure[tuple[str, bool]]:
        with suppress(ExecutorError):
            yield from ask(one.alteration.host, one.guard.revert(one.guard_id))
        return "", True

    monkeypatch.setattr(hold_module, "revert", trusting)
    assert any("injects" in wrong for wrong in each_step("ber", MISHAPS["lost before delivery"], onwards=False))
