"""Others' flows on cables between switches: they take their share and no more, and leave the cables well."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from fabric.model.inventory import Fault, TimedFault
from tests.builders import asked, on_mock, with_timed
from tests.places import INVENTORY

UP = tuple(f"su0-leaf0->spine{number}" for number in range(8))
"""All ways up from the leaf of gpu01."""


def pairs(folder: Path, *faults: Fault, congestion: str = "dcqcn", timed: bool = False) -> Mapping[str, float]:
    """What gpu01 and gpu09 reach on the first rail in either direction, by who sends, each alone."""
    (folder / "baselines").symlink_to(INVENTORY / "baselines")
    text = (INVENTORY / "roce-queues.yaml").read_text().replace("congestion: dcqcn", f"congestion: {congestion}")
    (folder / "roce.yaml").write_text(text)
    phases = "phases: [{name: p, probes: [{pairwise: {rounds: 2, size: 8M, duration: 5s, queue_pairs: 1}}]}]\n"
    scenario = folder / "pairs.yaml"
    scenario.write_text(f"name: pairs\ndescription: x\ninventory: roce.yaml\nhosts: gpu01,gpu09\n{phases}")
    texts = [] if timed else [f"{one.component}:{one.kind}={one.factor:g}" for one in faults]
    wanted = asked(scenario, faults=texts)
    if timed:
        wanted = with_timed(wanted, *(TimedFault(0.0, 1000.0, one) for one in faults))
    found = on_mock(wanted, folder).verdict.probes
    first = [one for one in found if "mlx5_0" in one.probe_id]
    return {one.probe_id.split("/")[1].split("+")[0]: one.value_gbps or 0.0 for one in first}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("congestion", "timed"), [("dcqcn", False), ("max_min", False), ("dcqcn", True), ("max_min", True)]
)
def test_a_flow_gets_what_tenants_leave(tmp_path: Path, congestion: str, timed: bool) -> None:
    """One way; the other way of the same cables has all its bandwidth."""
    found = pairs(tmp_path, *(Fault(one, "tenant", 0.5) for one in UP), congestion=congestion, timed=timed)
    assert found["gpu01"] == pytest.approx(200.0, rel=0.05)
    assert found["gpu09"] > 380.0


@pytest.mark.slow
def test_more_flows_leave_less(tmp_path: Path) -> None:
    """A third is left beside two of them."""
    found = pairs(tmp_path, *(Fault(one, "tenant", 0.333) for one in UP))
    assert found["gpu01"] == pytest.approx(133.0, rel=0.06)
