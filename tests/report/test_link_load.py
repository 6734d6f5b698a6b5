"""The load of cables between switches, as far as the simulation knows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.app.analyze import reopened
from fabric.model.inventory import Fault
from fabric.report.link_load import FULL, LinkLoads, folded, link_loads
from fabric.report.shown_run import ShownRun
from tests.report.shown import run_of


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> ShownRun:
    """32 rings at the same time, adaptive routing off and on."""
    return reopened(run_of(tmp_path_factory.mktemp("rings"), scenario="ring-contention", hosts=None))


def test_static_routes_fill_some_cables_and_adaptive_routing_none(rings: ShownRun) -> None:
    off, on = link_loads(rings)
    assert (off.name, on.name) == ("adaptive_routing=off", "adaptive_routing=on")
    assert max(off.shares.values()) == pytest.approx(1.0, abs=0.01)
    assert min(off.shares.values()) < 0.5
    assert max(on.shares.values()) < FULL
    assert (off.rings, on.rings) == (32, 32)


def test_bytes_are_the_same_on_either_side_of_a_leaf(rings: ShownRun) -> None:
    """Adaptive routing spreads what a leaf sends evenly over its uplinks."""
    _, on = link_loads(rings)
    for leaf in {low for low, _ in on.shares}:
        own = [share for (low, _), share in on.shares.items() if low == leaf]
        assert max(own) - min(own) < 0.01


def test_a_ring_that_the_network_limits_fills_its_worst_cable(changed_run: ShownRun) -> None:
    """The run also makes bit errors: only phases without them are shown."""
    off, on = link_loads(changed_run)
    assert 0.9 < max(off.shares.values()) <= 1.0
    assert max(on.shares.values()) < max(off.shares.values())


def test_where_nothing_is_simulated_nothing_is_known(rings: ShownRun) -> None:
    assert link_loads(replace(rings, judged=replace(rings.judged, backend="ssh"))) == []


def test_where_rings_stay_below_their_leaves_nothing_is_shown(bad_run: ShownRun) -> None:
    assert link_loads(bad_run) == []


def test_where_faults_come_by_chance_nothing_is_known(rings: ShownRun) -> None:
    mock = replace(rings.inventory.mock, faults=(Fault("gpu001", "lemon"),))
    assert link_loads(replace(rings, inventory=replace(rings.inventory, mock=mock))) == []


def test_configurations_that_were_alike_are_one_picture() -> None:
    """A sweep over bit error rates has a healthy phase for each: four times the same."""
    busy = {("leaf0", "spine0"): 0.95, ("leaf0", "spine1"): 0.2}
    noisy = {pair: share - 0.01 for pair, share in busy.items()}
    other = {**busy, ("leaf0", "spine1"): 0.3}
    names = [
        one.name
        for one in folded(
            [
                LinkLoads(name, 1, shares)
                for name, shares in (("rate=1", busy), ("rate=2", noisy), ("rate=3", other), ("rate=4", busy))
            ]
        )
    ]
    assert names == ["rate=1; rate=2; rate=4", "rate=3"]


def test_other_numbers_of_rings_are_other_pictures() -> None:
    shares = {("leaf0", "spine0"): 0.5}
    assert len(folded([LinkLoads("a", 1, shares), LinkLoads("b", 2, shares)])) == 2
