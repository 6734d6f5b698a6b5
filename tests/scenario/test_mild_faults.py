"""Faults that meet every limit, or nearly so, on the simulated rack: named, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenario.test_self_check import HEALTHY, names, verdict

pytestmark = pytest.mark.slow

MILD = [
    ("gpu002/mlx5_3:slow=0.93", "gpu002/mlx5_3"),
    ("gpu002/mlx5_3:slow=0.97", "gpu002/mlx5_3"),
    ("gpu002/gpu4:slow=0.9", "gpu002/gpu4:pcie"),
    ("gpu002/gpu0:nvlink:slow=0.93", "gpu002/gpu0:nvlink"),
    ("gpu002/pcie1:slow=0.9", "gpu002/pcie1"),
    ("gpu002/numa1:slow=0.93", "gpu002/numa1"),
    ("su0-leaf3:slow=0.96", "su0-leaf3"),
]


@pytest.mark.parametrize(("fault", "suspected"), MILD, ids=[row[0] for row in MILD])
def test_a_mild_fault_is_one_suspect(tmp_path: Path, fault: str, suspected: str) -> None:
    """-3 to -10 %, with the noise of a seed of its own."""
    document = verdict("--inventory", HEALTHY, "--fault", fault, "--seed", "11", cwd=tmp_path)
    assert (document["outcome"], names(document)) == ("fail", [suspected])


def test_a_slow_path_is_measured_again_and_then_named(tmp_path: Path) -> None:
    """One RNIC to one GPU across the sockets, -10 % and above its limit."""
    document = verdict("--inventory", HEALTHY, "--fault", "gpu002/mlx5_1->gpu6:slow=0.9", cwd=tmp_path)
    assert (document["outcome"], document["exit_code"], names(document)) == ("fail", 1, ["gpu002/mlx5_1->gpu6"])
    assert "confirmed by others" in str(document)
