"""When a phase begins with its changes, and what is left of them when the run itself dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import Watcher, on_mock
from tests.scenario.changing import Watched, injecting, prepared, run, watched


class Fragile(Watcher):
    """Raises whenever a change ends: a defect of whoever watches."""

    def change_state(self, change: object, state: str, reason: str) -> None:
        """Die."""
        if state in ("in_force", "reverted", "failed"):
            raise RuntimeError(state)


def test_a_change_that_is_already_over_does_not_begin_a_phase_whose_other_changes_are_not_in_force(
    tmp_path: Path,
) -> None:
    short = "{ber: {links: gpu001/mlx5_0, effective: 1e-6, direction: up, for: 1s}}"
    judged, _ = run(tmp_path, f"{short}, {{link_down: {{links: su0-leaf3--spine05}}}}")
    assert [result.state for result in judged.verdict.changes] == ["reverted", "reverted"]
    assert judged.verdict.changes[1].windows


def test_every_change_is_taken_back_though_whoever_watches_raises_each_time(tmp_path: Path) -> None:
    both = ", ".join(
        f"{{ber: {{links: {name}, effective: 1e-6, direction: up}}}}" for name in ("gpu001/mlx5_0", "gpu002/mlx5_1")
    )
    made: list[Watched] = []
    with pytest.raises(RuntimeError):
        on_mock(prepared(tmp_path, both), tmp_path / "results", observer=Fragile(), make_executor=watched(made))
    assert not injecting(made[0])
    assert not injecting(made[0], "gpu002", "mlx5_1")
