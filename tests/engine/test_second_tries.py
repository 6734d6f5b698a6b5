"""A probe whose session was lost under it is run once more; whatever else went wrong is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.measured_rack import rack_topology
from fabric.errors import ExecutorError, SessionLost
from fabric.model.command import Command
from fabric.model.outcome import Outcome
from fabric.model.scenario import Phase
from fabric.probes.loopback import LoopbackSpec
from fabric.runs.events import read_events
from tests.engine.scripted import Script
from tests.engine.test_run_plan import good, run

LOOPBACK = Phase("intra-host", (LoopbackSpec(),))
LOST = SessionLost("gpu002", "waiting for ib_write_bw", "connection lost")
NAME = "intra-host/gpu002/loopback.mlx5_0.numa0"


def failing(error: ExecutorError, times: int, on: Callable[[Command], bool] = lambda command: True) -> Script:
    """The first so many commands of gpu002 (of those *on* says) are lost after a second; all else is good."""
    left = [times]

    def script(command: Command) -> tuple[float, str | ExecutorError]:
        if command.host == "gpu002" and left[0] and on(command):
            left[0] -= 1
            return 1.0, error
        return good(command)

    return script


def is_client(command: Command) -> bool:
    """Not the server, which has a port to listen on."""
    return command.ready_port is None


def attempts(tmp_path: Path, name: str) -> list[tuple[int, str]]:
    """Attempt and outcome of every end of a probe, as the history tells."""
    events = read_events(tmp_path / "t" / "latest" / "events.jsonl")
    return [(e["attempt"], e["outcome"]) for e in events if e["event"] == "finished" and e["probe"] == name]


def test_a_lost_session_costs_one_more_attempt(tmp_path: Path) -> None:
    """The result is the second's, the history has both, and the host stays in the run."""
    results, _, watcher = run(tmp_path, rack_topology(2), [LOOPBACK], failing(LOST, 1, is_client))
    assert watcher.out == []
    assert all(result.outcome is None for result in results.values())
    (again,) = (name for name, result in results.items() if result.attempt == 2)
    assert attempts(tmp_path, again) == [(1, "error"), (2, "measured")]


def test_a_host_that_loses_every_session_is_out_after_the_second_attempt(tmp_path: Path) -> None:
    results, executor, watcher = run(tmp_path, rack_topology(2), [LOOPBACK], failing(LOST, 10_000))
    assert watcher.out == ["gpu002"]
    assert {r.outcome for name, r in results.items() if "gpu002" in name} == {Outcome.ERROR}
    assert max(result.attempt for result in results.values()) == 2
    assert sum(command.host == "gpu002" for command in executor.commands) <= 48
    assert all(result.outcome is None for name, result in results.items() if "gpu001" in name)


def test_a_second_attempt_that_is_not_made_leaves_the_first_to_tell(tmp_path: Path) -> None:
    """The host goes out at the same moment: the result says what ran, not that nothing did."""
    hanging = failing(LOST, 1)

    def script(command: Command) -> tuple[float, str | ExecutorError | None]:
        after_s, answer = hanging(command)
        if command.host != "gpu002":
            return after_s, answer
        return (25.0, answer) if isinstance(answer, ExecutorError) else (0.0, None)

    results, _, watcher = run(tmp_path, rack_topology(2), [LOOPBACK], script)
    assert watcher.out == ["gpu002"]
    lost = [result for result in results.values() if "connection lost" in result.reason]
    assert [result.attempt for result in lost] == [1]
    assert all(len(attempts(tmp_path, name)) == 1 for name in results if "gpu002" in name)


def test_nothing_is_tried_again_where_the_tool_answered(tmp_path: Path) -> None:
    """The client has failed by itself; that the server's session was lost afterwards changes nothing."""

    def script(command: Command) -> tuple[float, str | ExecutorError]:
        if command.host == "gpu002":
            return (4.0, "fatal") if is_client(command) else (5.0, LOST)
        return good(command)

    results, _, _ = run(tmp_path, rack_topology(2), [LOOPBACK], script)
    assert max(result.attempt for result in results.values()) == 1
    assert results[NAME].outcome is Outcome.ERROR
