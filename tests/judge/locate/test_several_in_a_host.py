"""Several slow parts whose probes overlap, in one host or of a leaf; and what says nothing of a part."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks import shapes
from benchmarks.measured_rack import NORMAL, judged, measured, probes_of, rack_topology
from fabric.app.prepare import Given, prepare
from fabric.judge.locate.candidates import components_of
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.verdict import Limit
from tests.builders import asked, on_mock, suspects
from tests.places import INVENTORY, SCENARIOS

RACK = rack_topology(4)
LIMITS = (
    Limit("loopback", 380.0, "a limit", min_size_bytes=1, link_class="pix"),
    Limit("loopback", 390.0, "a limit", min_size_bytes=1, link_class="mem_local"),
    Limit("loopback", 340.0, "a limit", min_size_bytes=1, link_class="mem_remote"),
    Limit("loopback", 340.0, "a limit", min_size_bytes=1, link_class="node"),
    Limit("loopback", 200.0, "a limit", min_size_bytes=1),
    Limit("rnic_to_rnic", 364.0, "a limit", min_size_bytes=1),
)


def named(left: Mapping[str, float]) -> set[str]:
    """Suspects where these parts pass on only so much of a line of 400 Gb/s."""

    def factor(probe: Probe) -> float:
        link_class = probe.params.get("link_class") if probe.kind == "loopback" else None
        normal = NORMAL[str(link_class) if link_class else None]
        passed = {one.name for one in components_of(probe, RACK)}
        return min([1.0, *(share * 400.0 / normal for name, share in left.items() if name in passed)])

    probes = probes_of(RACK)
    verdicts = judged(measured(probes, cv=0.003, seed=1, factor=factor), RACK, limits=LIMITS)
    return {one.component for one in suspects(probes, verdicts, topology=RACK, outcome=Outcome.FAIL)}


@pytest.mark.parametrize(
    "left",
    [
        {"gpu003/mlx5_1": 0.7, "gpu003/mlx5_0:port": 0.7},
        {"gpu003/pcie3": 0.7, "gpu003/numa1": 0.5},
        {"leaf3": 0.9, "gpu003/mlx5_3:port": 0.5},
        {"gpu003/numa0": 0.8, "gpu003/numa1": 0.9, "gpu003/mlx5_6": 0.5},
        {"gpu003/mlx5_6": 0.7, "gpu003/numa1": 0.7},
        {"gpu003/numa1": 0.8, "gpu003/mlx5_3": 0.7, "gpu003/numa0": 0.8},
        {"gpu003/pcie0": 0.9, "gpu003/gpu0": 0.8},
    ],
    ids=lambda left: "+".join(left),
)
def test_parts_whose_probes_overlap_are_each_named_and_no_other(left: Mapping[str, float]) -> None:
    """Neither a larger part around them, nor the smaller parts in one of them."""
    assert named(left) == set(left)


@pytest.mark.parametrize(
    "faults",
    [
        # All routes of the host, or the PCIe switch of both, would explain them with one part less, and not all.
        {"gpu003/mlx5_1": "slow=0.7", "gpu003/mlx5_0:port": "slow=0.7"},
        # What a hot GPU still carries is more than comes from the other socket: that it is not slow there is no sign.
        {"gpu003/mlx5_1": "slow=0.7", "gpu003/gpu2": "hot"},
        # Pairs through the switch have two losses: one that is as wide as both would leave nothing for the port.
        {"gpu003/pcie3": "slow=0.7", "gpu003/mlx5_6:port": "slow=0.5"},
        # The same of the NVLink of all GPUs and of two of them.
        {"gpu003/gpu0:nvlink": "slow=0.7", "gpu003/gpu7:nvlink": "slow=0.5", "gpu003/numa0": "slow=0.6"},
    ],
    ids=lambda faults: "+".join(faults),
)
def test_a_whole_self_check_names_them(faults: Mapping[str, str], tmp_path: Path) -> None:
    """With all-to-alls, and ways above the leaves."""
    wanted = asked(
        SCENARIOS / "self-check.yaml",
        inventory=INVENTORY / "demo-rack-healthy.yaml",
        hosts="gpu[001-004]",
        faults=[f"{name}:{kind}" for name, kind in faults.items()],
    )
    assert {one.component for one in on_mock(wanted, tmp_path).verdict.suspects} == set(faults)


def test_jobs_without_a_limit_and_without_their_like_do_not_speak_for_a_leaf(tmp_path: Path) -> None:
    """The hall's curve goes through the slow leaf, and nothing says what it should have been."""
    rack = shapes.inventory(shapes.SHAPES["mixed generations"], tmp_path, "clean")
    given = Given(SCENARIOS / "burn-in.yaml", inventory=rack, lasts_s=3600.0, faults=("su0-leaf1:slow=0.85",))
    verdict = on_mock(prepare(given), tmp_path / "results").verdict
    assert [one.component for one in verdict.suspects] == ["su0-leaf1"]


def test_the_same_part_of_many_hosts_is_as_sure_as_where_it_shows_best(tmp_path: Path) -> None:
    """On one host the port could be the cables above its leaf as well, on the others it could not."""
    wanted = asked(
        SCENARIOS / "self-check.yaml",
        inventory=INVENTORY / "demo-rack-healthy.yaml",
        faults=[f"gpu00{number}/mlx5_2:port:slow=0.7" for number in (1, 2, 3)],
    )
    (found,) = on_mock(wanted, tmp_path, seed=3).verdict.suspects
    assert (found.component, found.confidence, found.ambiguous_with) == ("gpu[001-003]/mlx5_2:port", 0.99, ())
