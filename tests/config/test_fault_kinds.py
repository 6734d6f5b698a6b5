"""Not every part can have every fault; what cannot be simulated is refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.config import load_inventory
from fabric.errors import ConfigError

FOLDER = Path(__file__).resolve().parents[2] / "inventory"
DEMO = FOLDER / "demo-rack-healthy.yaml"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gpu001/mlx5_0:garbage", "only a host can print garbage"),
        ("su0-leaf3:garbage", "only a host can print garbage"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    """The message names the option and says why."""
    with pytest.raises(ConfigError, match=reason) as caught:
        load_inventory(DEMO, extra_faults=(text,))
    assert caught.value.problems[0].file == "--fault"


def test_spines_are_not_simulated_yet() -> None:
    """A fault that would change nothing is refused."""
    with pytest.raises(ConfigError, match="no spine switches yet"):
        load_inventory(FOLDER / "hall-2048.yaml", extra_faults=("rail0-spine00:slow=0.5",))


@pytest.mark.parametrize("text", ["gpu001:garbage", "su0-leaf3:slow=0.5", "gpu001/gpu2:nvlink:slow=0.5"])
def test_accepted(text: str) -> None:
    """What the simulated rack can do is taken as it is."""
    assert load_inventory(DEMO, extra_faults=(text,)).mock.faults[0].component == text.rsplit(":", 1)[0]
