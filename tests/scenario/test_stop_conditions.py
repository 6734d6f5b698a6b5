"""What ends every change of a phase before its time, in whole runs on the simulated rack."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fabric.engine.held_changes import guard_verb
from fabric.errors import HostUnreachable, Interrupted
from fabric.model.outcome import Outcome
from fabric.model.probe import Command
from fabric.model.verdict import JudgedRun
from fabric.ports import Ticket
from fabric.runs.events import read_events
from fabric.wiring import BACKENDS
from tests.builders import Watcher, on_mock
from tests.scenario.changing import Watched, injecting, prepared

BER = "{{ber: {{links: {links}, effective: {rate}, direction: up{more}}}}}"
LONG = """\
  - name: long
    changes: [{changes}]
    probes: [{{group_all_reduce: {{sizes: [8G], iterations: 400, repeat: 3}}}}]
"""
QUIET_S = 6.0
"""Longer than a link is looked at once."""

Act = Callable[[Watched], None]


class Staged(Watched):
    """Does *act* once, when a change has been in force for *after_s*; renewals are never answered when *deaf*."""

    def __init__(self, inner: Any, watcher: Watcher, act: Act, *, after_s: float, deaf: bool) -> None:
        super().__init__(inner, lambda command: None)
        self._watcher, self._act, self._after_s, self._deaf = watcher, act, after_s, deaf
        self._in_force_s: float | None = None
        self._acted = False

    def start(self, command: Command) -> Ticket:
        """Whatever is started, time has passed."""
        if self._in_force_s is None and any(state == "in_force" for _, state in self._watcher.states):
            self._in_force_s = self.now()
        if not self._acted and self._in_force_s is not None and self.now() >= self._in_force_s + self._after_s:
            self._acted = True
            self._act(self)
        if self._deaf and guard_verb(command) == "renew":
            self._ticket -= 1
            return self._ticket
        return super().start(command)


class Staging:
    """A run of a phase that is long, whose changes something happens to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.watcher = Watcher()
        self.made: list[Staged] = []

    def run(
        self, changes: str, act: Act = lambda executor: None, *, after_s: float = QUIET_S, deaf: bool = False
    ) -> JudgedRun:
        """The judged run."""

        def make(inventory: Any, seed: int) -> Staged:
            inner = BACKENDS["mock"](inventory, seed)
            self.made.append(Staged(inner, self.watcher, act, after_s=after_s, deaf=deaf))
            return self.made[0]

        asked = prepared(self.folder, "", LONG.format(changes=changes))
        return on_mock(asked, self.folder / "results", observer=self.watcher, make_executor=make)

    @property
    def run_folder(self) -> Path:
        """Of the one run."""
        return next((self.folder / "results" / "drill").glob("2*"))

    def events(self, name: str) -> list[dict[str, Any]]:
        """Of the run's history, those called so."""
        return [event for event in read_events(self.run_folder / "events.jsonl") if event["event"] == name]

    def since_s(self, state: str, name: str) -> float:
        """From a change's state until an event."""
        began_s = next(event["at_s"] for event in self.events("change") if event["state"] == state)
        return self.events(name)[0]["at_s"] - began_s


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    """Nothing happened yet."""
    return Staging(tmp_path)


def ber(links: str = "gpu001/mlx5_0", rate: str = "1e-6", more: str = "") -> str:
    """Bit errors that the host's end sends."""
    return BER.format(links=links, rate=rate, more=more)


def down(host: str, device: str) -> Act:
    """Take the link of an RNIC away."""

    def act(executor: Watched) -> None:
        ports = executor.mock.world.rack.ports
        ports.disable(ports.of_adapter(host, device), executor.now())

    return act


def stopped_for(judged: JudgedRun, reason: str) -> None:
    """Its change failed for that reason, so the phase was not measured, and nobody is blamed."""
    (result,) = judged.verdict.changes
    assert result.state == "failed"
    assert reason in result.reason
    assert judged.verdict.outcome is Outcome.ERROR
    assert any(reason in text for text in judged.verdict.lines)
    found = {verdict.outcome for verdict in judged.verdict.probes if verdict.probe_id.startswith("long/")}
    assert found == {Outcome.ERROR}
    assert not judged.verdict.suspects


def test_a_link_that_is_no_target_and_goes_down_ends_the_change(staging: Staging) -> None:
    judged = staging.run(ber(), down("gpu002", "mlx5_3"))
    stopped_for(judged, "gpu002/mlx5_3 went down (DOWN), which is no target of long/ber.gpu001/mlx5_0")
    assert not injecting(staging.made[0])
    assert staging.since_s("in_force", "stop") < 30.0


def test_bit_errors_that_take_their_own_link_away_are_ended(staging: Staging) -> None:
    judged = staging.run(ber(rate="1e-3"))
    stopped_for(judged, "gpu001/mlx5_0 went down (DOWN): long/ber.gpu001/mlx5_0 was to make errors")
    assert not injecting(staging.made[0])


def _with_start(staging: Staging, changes: str, act: Callable[[Command], None]) -> JudgedRun:
    """Run with *act* before each command."""
    original = Staged.start

    def start(self: Staged, command: Command) -> Ticket:
        act(command)
        return original(self, command)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Staged, "start", start)
        return staging.run(changes)


def test_a_host_of_a_guard_that_does_not_answer_ends_the_change_long_before_a_renewal(staging: Staging) -> None:
    lost: list[Command] = []

    def act(executor: Watched) -> None:
        def unreachable(command: Command) -> HostUnreachable | None:
            if command.argv[0] == "cat" and command.host == "gpu001" and not lost:
                lost.append(command)
                return HostUnreachable(command.host, "reading", "connection reset")
            return None

        executor.on_start = unreachable

    judged = staging.run(ber(), act, after_s=0.0)
    stopped_for(judged, "the host of its guard does not answer: gpu001: reading: connection reset")
    assert staging.since_s("in_force", "stop") < 10.0


def test_a_renewal_that_is_never_answered_ends_the_change_when_half_the_lease_is_over(staging: Staging) -> None:
    judged = staging.run(ber(), deaf=True)
    stopped_for(judged, "its lease on gpu001 could not be renewed for half its time")
    assert staging.since_s("armed", "stop") == pytest.approx(30.0, abs=1.0)
    assert staging.since_s("armed", "stop") < 60.0
    assert not injecting(staging.made[0])


def test_a_counter_that_grows_above_its_limit_ends_the_change(staging: Staging) -> None:
    judged = staging.run(ber(rate="1e-4", more=", stop_above: {link_error_recovery: 5}"))
    stopped_for(judged, "link_error_recovery grew by")
    assert not injecting(staging.made[0])


def test_nothing_is_altered_when_a_limit_is_on_a_counter_that_nobody_counts(staging: Staging) -> None:
    judged = staging.run("{link_down: {links: gpu001/mlx5_0, by: ip, stop_above: {raw_errors: 5}}}")
    assert not staging.watcher.states
    assert judged.verdict.outcome is Outcome.ERROR
    assert (
        "raw_errors (stop_above) is not counted there; counted are link_downed" in staging.events("stop")[0]["reason"]
    )


def stop(staging: Staging) -> Act:
    """Make the file STOP in the run's directory, and say when."""

    def act(executor: Watched) -> None:
        (staging.run_folder / "STOP").touch()
        (staging.folder / "when").write_text(str(executor.now()))

    return act


def test_the_file_stop_ends_a_run_in_order_within_a_second(staging: Staging) -> None:
    with pytest.raises(Interrupted):
        staging.run(ber(), stop(staging))
    (event,) = staging.events("stop")
    assert event["at_s"] - float((staging.folder / "when").read_text()) <= 1.0
    assert str(staging.run_folder / "STOP") in event["reason"]
    assert staging.watcher.states[-1] == ("ber", "reverted")
    assert staging.watcher.interruptions == [(1, 1)]
    assert not injecting(staging.made[0])


def test_the_file_stop_ends_a_run_without_changes(staging: Staging) -> None:
    when_s: list[float] = []

    def act(command: Command) -> None:
        if "400" in command.argv and not when_s:
            when_s.append(staging.made[0].now())
            (staging.run_folder / "STOP").touch()

    with pytest.raises(Interrupted):
        _with_start(staging, "", act)
    assert staging.events("stop")[0]["at_s"] - when_s[0] <= 1.0
    assert staging.events("run_interrupted")[0]["at_s"] - when_s[0] < 5.0
