"""Whole runs in which the fabric is changed: what is asked for happens, and nothing of it stays."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from fabric.app.restore import restore
from fabric.errors import ConfigError, HostUnreachable, Interrupted, MayBeLive, StoreError
from fabric.model.command import Command
from fabric.model.outcome import Outcome
from fabric.runs.journal import JOURNAL, Journal, open_changes, read_journal
from fabric.wiring import BACKENDS
from tests.builders import Watcher
from tests.scenario.changing import BER, Watched, injecting, prepared, run


def states(path: str) -> list[str]:
    """The states of the journal, in order."""
    return [entry["state"] for entry in read_journal(Path(path) / JOURNAL)]


def verb(command: Command) -> str:
    """What a guard is told; empty for any other command."""
    return command.argv[5] if command.argv[3:4] == ("fabric-guard",) else ""


def test_the_undo_is_on_disk_before_anything_is_done_to_the_target(tmp_path: Path) -> None:
    seen: list[tuple[str, list[str]]] = []

    def look(command: Command) -> None:
        if verb(command):
            (journal,) = (tmp_path / "results").glob(f"drill/2*/{JOURNAL}")
            seen.append((verb(command), [entry["state"] for entry in read_journal(journal)]))

    run(tmp_path, on_start=look)
    assert seen[0] == ("arm", ["intent"])
    assert seen[1] == ("apply", ["intent", "armed"])
    (intent,) = (
        entry for entry in read_journal(next((tmp_path / "results").glob(f"drill/2*/{JOURNAL}"))) if entry["seq"] == 1
    )
    assert "error_type_admin=0" in " ".join(intent["alterations"][0]["undo"][0])


def test_a_change_that_a_rail_refuses_alters_nothing_and_nothing_is_measured_under_its_name(tmp_path: Path) -> None:
    commands: list[str] = []
    own_cable = "{link_down: {links: gpu001/mlx5_0}}"
    judged, _ = run(tmp_path, own_cable, via="gpu001", on_start=lambda command: commands.append(verb(command)))
    assert set(commands) == {""}
    assert judged.verdict.changes[0].state == "refused"
    assert judged.verdict.outcome is Outcome.ERROR


def test_a_change_that_cannot_be_seen_in_force_is_taken_back(tmp_path: Path) -> None:
    applied = False

    def unreadable(command: Command) -> HostUnreachable | None:
        nonlocal applied
        applied = applied or verb(command) == "apply"
        reads = applied and command.argv[0] == "mlxreg"
        return HostUnreachable(command.host, "reading PTER", "connection reset") if reads else None

    judged, executor = run(tmp_path, on_start=unreadable)
    assert judged.verdict.changes[0].state == "failed"
    assert not injecting(executor)
    assert states(judged.path)[-1] == "failed"


def test_what_cannot_be_seen_taken_back_is_said_to_be_live(tmp_path: Path) -> None:
    judged, executor = run(tmp_path, on_start=no_way_back)
    (result,) = judged.verdict.changes
    assert result.state == "open"
    assert "by hand: on gpu001: mlxreg" in result.reason
    assert judged.verdict.reasons[0].startswith("a change may still be live: ")
    assert [one.change_id for one in open_changes(Path(judged.path) / JOURNAL)] == ["during/ber.gpu001/mlx5_0"]
    assert injecting(executor)


def no_way_back(command: Command) -> HostUnreachable | None:
    """The host is gone whenever it is told to undo."""
    return HostUnreachable(command.host, "connect", "no route to host") if verb(command) == "revert" else None


def test_the_guard_takes_back_what_nobody_renews(tmp_path: Path) -> None:
    _, executor = run(tmp_path, on_start=no_way_back)
    until_s = executor.now() + 61.0
    while executor.now() < until_s:
        executor.wait(until_s)
    # The mock lets go of its world's processes when it is closed; the guard is the host's, not ours.
    executor.mock.world.advance(until_s)
    assert not injecting(executor)


def test_a_run_refuses_to_start_while_an_earlier_one_may_have_left_something(tmp_path: Path) -> None:
    judged, _ = run(tmp_path, on_start=no_way_back)
    with pytest.raises(MayBeLive, match=r"may have left changes behind.*fabric restore"):
        run(tmp_path)
    found = restore(Path(judged.path), results=tmp_path / "results", make_executor=mock)
    assert [one.certain for one in found] == [True]
    run(tmp_path)


def mock(backend: str, inventory: object) -> object:
    """A fresh world: what was left is gone with the old one, and restore must see that for itself."""
    return BACKENDS[backend](inventory, 1)


def test_a_host_that_cannot_be_reached_stays_open_after_restore(tmp_path: Path) -> None:
    judged, _ = run(tmp_path, on_start=no_way_back)

    def gone(backend: str, inventory: object) -> Watched:
        unreachable = HostUnreachable("gpu001", "connect", "no route to host")
        return Watched(BACKENDS[backend](inventory, 1), lambda command: unreachable)

    found = restore(None, results=tmp_path / "results", make_executor=gone)
    assert [one.certain for one in found] == [False]
    assert open_changes(Path(judged.path) / JOURNAL)


@pytest.mark.parametrize("times", [1, 3])
def test_an_interrupted_run_takes_everything_back_however_often_it_is_told(tmp_path: Path, times: int) -> None:
    watcher, worlds = Watcher(), []

    def interrupt(command: Command) -> None:
        during = ("ber", "in_force") in watcher.states
        if (during and not worlds) or (verb(command) == "revert" and len(worlds) < times):
            worlds.append(command)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        run(tmp_path, on_start=interrupt, watcher=watcher)
    assert watcher.states[-1] == ("ber", "reverted")
    assert watcher.interruptions[0] == (1, 1)
    assert not open_changes(next((tmp_path / "results").glob(f"drill/2*/{JOURNAL}")))


@pytest.mark.timeout(40)
def test_an_interruption_while_a_fault_waits_for_routing_ends_the_run(tmp_path: Path) -> None:
    """The routing change is taken back, and the fault that was to follow it is never begun nor waited for."""
    watcher, told = Watcher(), list[str]()

    def interrupt(command: Command) -> None:
        if ("adaptive_routing", "armed") in watcher.states and not told:
            told.append("")
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        run(tmp_path, "{adaptive_routing: on, scope: fabric}, " + BER, on_start=interrupt, watcher=watcher)
    assert watcher.states[-1] == ("adaptive_routing", "reverted")
    assert "ber" not in dict(watcher.states)


def test_an_interrupted_run_that_cannot_take_back_says_so_and_not_only_that_it_was_interrupted(tmp_path: Path) -> None:
    watcher = Watcher()

    def interrupt(command: Command) -> HostUnreachable | None:
        if ("ber", "in_force") in watcher.states and not watcher.interruptions:
            os.kill(os.getpid(), signal.SIGINT)
        return no_way_back(command)

    with pytest.raises(MayBeLive, match="fabric restore"):
        run(tmp_path, on_start=interrupt, watcher=watcher)


def test_more_than_the_blast_radius_is_refused_before_anything_is_planned(tmp_path: Path) -> None:
    links = "{ber: {links: {tier: access, count: 5}, effective: 1e-6}}"
    with pytest.raises(ConfigError, match=r"drill\.yaml:8: .*allow: \[blast_radius\]"):
        prepared(tmp_path, links)


def test_a_link_that_no_traffic_of_the_run_takes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no traffic between the hosts of this run can take"):
        prepared(tmp_path, "{ber: {links: su1-leaf3--spine02, effective: 1e-4}}")


def test_a_phase_that_takes_longer_than_a_change_is_held_is_refused(tmp_path: Path) -> None:
    long = LONG.replace("iterations: 2000", "iterations: 10000").replace("repeat: 3", "repeat: 9")
    with pytest.raises(ConfigError, match=r"long takes about .* max_hold"):
        prepared(tmp_path, BER, long)


def test_nothing_is_measured_once_a_change_is_lost(tmp_path: Path) -> None:
    """Its guard cannot be reached: it is taken back at once, and the phase is not what was asked for."""

    def silent(command: Command) -> HostUnreachable | None:
        return HostUnreachable(command.host, "renewing", "no answer") if verb(command) == "renew" else None

    long = BER.replace("direction: up", "direction: up, for: 10m")
    judged, executor = run(tmp_path, long, on_start=silent, more=LONG)
    assert judged.verdict.changes[-1].state == "failed"
    assert not injecting(executor)


LONG = """\
  - name: long
    changes: [{ber: {links: gpu001/mlx5_0, effective: 1e-6, direction: up}}]
    probes: [{group_all_reduce: {sizes: [8G], iterations: 2000, repeat: 3}}]
"""


def test_a_full_disk_takes_the_change_back_and_leaves_it_to_restore_to_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, executors = Journal.record, []

    def full(self: Journal, change_id: str, state: str, fields: Mapping[str, object]) -> None:
        if state not in ("intent", "armed"):
            raise StoreError("changes.jsonl: cannot write: No space left on device")
        real(self, change_id, state, fields)

    monkeypatch.setattr(Journal, "record", full)
    judged, executor = run(tmp_path)
    executors.append(executor)
    assert judged.verdict.changes[0].state == "open"  # nobody can prove from the disk that it is back
    assert not injecting(executor)
    assert open_changes(Path(judged.path) / JOURNAL)
