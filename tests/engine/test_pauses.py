"""A storm of pauses is told from pauses: all the time, and nothing moves; then the run is stopped in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fabric.engine.interruption import STOP
from fabric.engine.pauses import STORM_S, PauseStorms
from fabric.engine.watching import Beside
from fabric.errors import Interrupted
from fabric.ports import Executor, Sampled
from fabric.runs.events import read_events
from fabric.wiring import BACKENDS
from tests.builders import asked, on_mock
from tests.places import INVENTORY


def fed(*, paused: float, moves: bool, way: str = "rx_pfc_us", lasts_s: float = 2.0) -> str:
    """What is found of a port that is paused for this share of the time, read every 0.1 s."""
    storms = PauseStorms()
    for step in range(round(lasts_s / 0.1)):
        at_s = step * 0.1
        data = "port_xmit_data" if way == "rx_pfc_us" else "port_rcv_data"
        storms.take("gpu1", "mlx5_0", data, at_s, 1000 + (step if moves else 0))
        storms.take("gpu1", "mlx5_0", way, at_s, round(paused * at_s * 1e6))
        storms.take("gpu1", "mlx5_0", "np_cnp_sent", at_s, 5)
    return storms.found


def test_pause_without_progress_is_a_storm_either_way() -> None:
    """Which port it is, and whether it waits or has others wait; before STORM_S it is none."""
    assert fed(paused=1.0, moves=False).startswith("PFC storm: gpu1/mlx5_0 is told to wait all the time")
    assert "has the other end wait" in fed(paused=0.95, moves=False, way="tx_pfc_us")
    assert fed(paused=1.0, moves=False, lasts_s=STORM_S) == ""


@pytest.mark.parametrize(("paused", "moves"), [(1.0, True), (0.7, False), (0.0, False)])
def test_pauses_alone_are_no_storm(paused: float, moves: bool) -> None:
    """Something moves, or it waits for some of the time only."""
    assert fed(paused=paused, moves=moves) == ""


def test_what_is_not_known_to_stand_still_is_no_storm() -> None:
    """Nobody reads what moves, or it cannot be read."""
    storms = PauseStorms()
    for step in range(40):
        storms.take("gpu1", "mlx5_0", "port_xmit_data", step * 0.1, None)
        storms.take("gpu1", "mlx5_0", "rx_pfc_us", step * 0.1, step * 100_000)
    assert storms.found == ""


class Storming(Beside):
    """Samples of one host say that a port is paused all the time, and nothing is sent."""

    def __init__(self, executor: Executor) -> None:
        super().__init__(executor)
        self.samples = self._stormy

    def _stormy(self) -> Sequence[Sampled]:
        return [self._altered(one) for one in self._inner.samples()]

    def _altered(self, one: Sampled) -> Sampled:
        rows = []
        for at_s, row in zip(one.at_s, one.rows, strict=True):
            values: list[Any] = list(row)
            for place, name in enumerate(one.names):
                if "mlx5_0" in name and name.endswith("port_xmit_data"):
                    values[place] = 7
                elif name == "mlx5_0:rx_pfc_us":
                    values[place] = round(at_s * 1e6)
            rows.append(tuple(values))
        return replace(one, rows=tuple(rows))


def test_a_storm_stops_the_run_and_says_why(tmp_path: Path) -> None:
    """In order, as the file STOP does, which holds the reason; what was measured stays."""
    scenario = tmp_path / "s.yaml"
    text = f"name: s\ndescription: x\ninventory: {INVENTORY / 'roce-queues.yaml'}\nhosts: gpu[01-04]\n"
    phases = "phases: [{name: p, probes: [{pairwise: {rounds: 3, duration: 30s}}]}]\n"
    scenario.write_text(f"{text}sample: {{congestion: 50ms}}\n{phases}")

    def make(inventory: Any, seed: int) -> Storming:
        return Storming(BACKENDS["mock"](inventory, seed))

    with pytest.raises(Interrupted):
        on_mock(asked(scenario), tmp_path, make_executor=make)
    run = next((tmp_path / "s").glob("2*"))
    assert "PFC storm" in (run / STOP).read_text()
    reason = next(str(one["reason"]) for one in read_events(run / "events.jsonl") if one["event"] == "stop")
    assert "is there: PFC storm: gpu" in reason
