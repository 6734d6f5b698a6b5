"""
Every instant at which the orchestrator can die, with every state its disk can then be in.

One life of a change is recorded as a sequence of what reached the disk's cache, what was made durable, and what was
done on the target. For every prefix of it, for every content that the journal's file may have after a crash at that
point (what was synced is there; of the rest any prefix, torn anywhere; a file whose folder was not synced may be
missing), and whether the target's guard lives or has lost its memory: ``restore`` must leave no fault, and must have
known of it. The five common wrong orders are put in on purpose, and each must be caught.
"""

import json
import os as real_os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.changes.hold import Hold
from fabric.changes.kind import Context
from fabric.changes.procedure import carry_out
from fabric.changes.restore import intent_of, take_back
from fabric.hosts.mock import MockExecutor
from fabric.model.change import Change, ChangeSettings, Lease
from fabric.model.inventory import MockSettings
from fabric.model.probe import Command, CommandResult
from fabric.ports import Ended, Lost
from fabric.runs import plain_file
from fabric.runs.journal import Journal, open_changes
from fabric.sim.world import World
from tests.changes import guard_mishaps
from tests.changes.asked import ber

HOST, DEVICE = "gpu001", "mlx5_0"
SETTINGS = ChangeSettings(lease=Lease(ttl_s=60.0, max_hold_s=600.0))
CHANGE = Change(
    change_id="degraded/ber.gpu001-mlx5_0",
    phase="degraded",
    component=f"{HOST}/{DEVICE}",
    scope="port",
    spec=ber(f"{HOST}/{DEVICE}", effective="1e-6", direction="up", for_=5.0),
    hosts=(HOST,),
)

Record = Callable[[str, Mapping[str, Any]], None]


@dataclass
class Trace:
    """What happened, in order: ("ask", n) or a disk operation."""

    steps: list[tuple[str, Any]] = field(default_factory=list)


def make_world() -> World:
    """One rack, always the same."""
    return World(rack_topology(hosts=2), MockSettings(noise_cv=0.0), seed=1)


class Target:
    """A world and an executor on it; ``do`` runs one command to its end."""

    def __init__(self) -> None:
        self.world = make_world()
        self.executor = MockExecutor(self.world)

    def do(self, ask: Command) -> CommandResult:
        """One command."""
        ticket = self.executor.start(ask)
        while True:
            for happening in self.executor.wait(self.executor.now() + 100.0):
                if isinstance(happening, Ended) and happening.ticket == ticket:
                    return happening.result
                assert not isinstance(happening, Lost), happening

    def wait_until(self, until_s: float) -> None:
        """Let simulated time pass."""
        while self.executor.now() < until_s:
            self.executor.wait(until_s)

    @property
    def fault_is_live(self) -> bool:
        """What the port itself does, not what anybody says of it."""
        return self.world.rack.ports.of_adapter(HOST, DEVICE).injection is not None


def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str = "") -> tuple[Trace, list[Command | float]]:
    """Live one life through; the trace, and everything the target was asked, with the pauses between."""
    trace, asked, target = Trace(), [], Target()
    path = tmp_path / "life" / "changes.jsonl"
    path.parent.mkdir(exist_ok=True)
    monkeypatch.setattr(plain_file, "os", watched_os(trace, path, wrong))
    journal = Journal(path)
    hold = Hold(
        CHANGE,
        Context(rack_topology(hosts=2), SETTINGS),
        owner="test/1",
        guard_id="t.0",
        allow=("busy_hosts",),
        record=recorder(journal, trace, path, wrong),
        clock=target.executor.now,
    )
    procedure = hold.procedure()
    answer: Any = None
    while True:
        try:
            step = procedure.send(answer)
        except StopIteration:
            break
        if isinstance(step, Command):
            answer = target.do(step)
            asked.append(step)
            trace.steps.append(("ask", len(asked)))
        else:
            target.wait_until(step.until_s)
            asked.append(step.until_s)
            trace.steps.append(("ask", len(asked)))
            answer = target.executor.now()
    journal.close()
    assert hold.state == "reverted", hold.reason
    assert not target.fault_is_live
    return trace, asked


def watched_os(trace: Trace, path: Path, wrong: str) -> SimpleNamespace:
    """The os that the journal sees: notes what reaches the cache and what is made durable."""

    def write(fd: int, data: bytes) -> int:
        trace.steps.append(("write", bytes(data)))
        return real_os.write(fd, data)

    def fsync(fd: int) -> None:
        name = Path(f"/proc/self/fd/{fd}").readlink()
        if name == path and wrong != "no fsync":
            trace.steps.append(("sync", None))
        elif name == path.parent and wrong != "no folder fsync":
            trace.steps.append(("sync folder", None))

    return SimpleNamespace(**{**vars(real_os), "write": write, "fsync": fsync})


def recorder(journal: Journal, trace: Trace, path: Path, wrong: str) -> Record:
    """The journal as a change uses it, or one of the wrong ways."""
    held_back: list[tuple[str, Mapping[str, Any]]] = []

    def late(state: str, fields: Mapping[str, Any]) -> None:
        held_back.append((state, fields))
        if state in ("in_force", "reverted", "failed"):
            for entry in held_back:
                journal.record(CHANGE.change_id, *entry)
            held_back.clear()

    def in_place(state: str, fields: Mapping[str, Any]) -> None:
        """One document, rewritten whole: gone while it is being written."""
        trace.steps.append(("truncate", None))
        held_back.append((state, fields))
        for number, entry in enumerate(held_back, start=1):
            trace.steps.append(("write", journal_line(number, *entry)))
        trace.steps.append(("sync", None))
        trace.steps.append(("sync folder", None))

    def early(state: str, fields: Mapping[str, Any]) -> None:
        """Says that it is over as soon as it begins to be."""
        journal.record(CHANGE.change_id, state, fields)
        if state == "in_force":
            journal.record(CHANGE.change_id, "reverted", {})

    def right(state: str, fields: Mapping[str, Any]) -> None:
        journal.record(CHANGE.change_id, state, fields)

    return {"late intent": late, "in place": in_place, "early end": early}.get(wrong, right)


def journal_line(number: int, state: str, fields: Mapping[str, Any]) -> bytes:
    """One whole line as the journal writes it."""
    import zlib

    import orjson

    body = orjson.dumps({"seq": number, "change": CHANGE.change_id, "state": state, **fields})
    return b'%s,"crc32":%d}\n' % (body[:-1], zlib.crc32(body))


def disks(steps: list[tuple[str, Any]]) -> Iterator[bytes | None]:
    """Every content the file may have after a crash here; None: no file."""
    synced, cached, named = b"", b"", False
    older: bytes | None = None  # what was durable before a truncation that is not
    for what, value in steps:
        if what == "truncate":
            older, synced, cached = synced, b"", b""
        elif what == "write":
            cached += value
        elif what == "sync":
            synced, cached, older = synced + cached, b"", None
        elif what == "sync folder":
            named = True
    if not named:
        yield None
    if older is not None:
        yield older
    cuts = sorted({0, 1, len(cached) // 2, max(0, len(cached) - 1), len(cached)}) if cached else [0]
    for cut in cuts:
        yield synced + cached[:cut]


def rebuilt(asked: list[Command | float], count: int) -> Target:
    """The target after so many of the steps."""
    target = Target()
    for step in asked[:count]:
        if isinstance(step, Command):
            target.do(step)
        else:
            target.wait_until(step)
    return target


def crash_states(tmp_path: Path, trace: Trace, asked: list[Command | float]) -> Iterator[str]:
    """What is wrong with each state that a crash can leave; empty for a good one."""
    for cut in range(len(trace.steps) + 1):
        steps = trace.steps[:cut]
        count = sum(what == "ask" for what, _ in steps)
        for disk in set(disks(steps)):
            for memory in MEMORIES:
                wrong = after_crash(tmp_path, rebuilt(asked, count), disk, memory)
                yield f"after {cut} of {len(trace.steps)} steps, {memory}: {wrong}" if wrong else ""


MEMORIES = ("guard lives", "guard forgotten", "guard killed", "lease torn", "state torn", "host restarted")


def mishap(target: Target, memory: str) -> None:
    """What became of the guard; forgotten: process and folder are gone, and the fault is still there."""
    rack, now_s = target.world.rack, target.executor.now()
    names = [guard_id for folder in rack.guards.values() for guard_id in folder]
    if memory == "guard forgotten":
        rack.guards.clear()
    elif memory == "host restarted":
        guard_mishaps.reboot(rack, HOST, now_s)
    elif memory == "guard killed":
        for name in names:
            guard_mishaps.kill_guard(rack, HOST, name)
    elif memory.endswith(" torn"):
        for name in names:
            guard_mishaps.lose_file(rack, HOST, name, memory.removesuffix(" torn"), now_s)


def after_crash(tmp_path: Path, target: Target, disk: bytes | None, memory: str) -> str:
    """Restore from what the disk holds; what is wrong with the result, empty when nothing is."""
    path = tmp_path / "crash.jsonl"
    path.unlink(missing_ok=True)
    if disk is not None:
        path.write_bytes(disk)
    was_live = target.fault_is_live
    mishap(target, memory)
    known = open_changes(path) if path.exists() else ()
    if was_live and not known:
        return "a fault is live, and the journal does not know of it"
    told: list[tuple[Any, ...]] = []
    for change in known:
        lefts = intent_of(change.intent).guarded
        carry_out((take_back(left, lambda *said: told.append(said)) for left in lefts), target.executor)
    if target.fault_is_live:
        return f"a fault is live after restore: {told}"
    if not all(said[-1] for said in told):
        return f"restore is not certain: {told}"
    return ""


def test_no_crash_leaves_a_fault_that_restore_does_not_take_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, asked = recorded(tmp_path, monkeypatch)
    monkeypatch.undo()
    seen = list(crash_states(tmp_path, trace, asked))
    bad = [wrong for wrong in seen if wrong]
    assert not bad, json.dumps(bad, indent=1)
    assert len(seen) > 60


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [
        "late intent",
        "no fsync",
        "early end",
        "no folder fsync",
        "in place",
    ],
)
def test_a_wrong_order_is_caught(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, asked = recorded(tmp_path, monkeypatch, wrong)
    monkeypatch.undo()
    assert any("does not know" in wrong for wrong in crash_states(tmp_path, trace, asked))
