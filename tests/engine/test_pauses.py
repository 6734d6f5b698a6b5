"""A storm of pauses is told from pauses: all the time, and nothing moves; then the run is stopped in order."""

from pathlib import Path

import pytest

from fabric.engine.interruption import STOP
from fabric.engine.pauses import STORM_S, PauseStorms
from fabric.errors import Interrupted
from fabric.runs.events import read_events
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


@pytest.mark.slow
def test_a_port_that_pauses_for_ever_stops_the_run_and_is_named(tmp_path: Path) -> None:
    """In order, as the file STOP does, which holds the reason; what was measured stays."""
    scenario = tmp_path / "s.yaml"
    text = f"name: s\ndescription: x\ninventory: {INVENTORY / 'roce-queues.yaml'}\nhosts: gpu[01-04]\n"
    phases = "phases: [{name: p, probes: [{pairwise: {rounds: 3, duration: 30s}}]}]\n"
    scenario.write_text(f"{text}sample: {{congestion: 50ms}}\n{phases}")
    with pytest.raises(Interrupted):
        on_mock(asked(scenario, faults=("gpu03/mlx5_0:pausing",)), tmp_path)
    run = next((tmp_path / "s").glob("2*"))
    said = "PFC storm: gpu03/mlx5_0 has the other end wait all the time"
    assert (run / STOP).read_text().startswith(said)
    reason = next(str(one["reason"]) for one in read_events(run / "events.jsonl") if one["event"] == "stop")
    assert f"is there: {said}" in reason
