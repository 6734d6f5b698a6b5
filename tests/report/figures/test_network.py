"""The network names what is suspected, and marks a cable in its middle."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matplotlib.figure import Figure
from matplotlib.path import Path as Outline

from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect
from fabric.report.figures import network
from fabric.report.shown_run import ShownRun
from tests.report.figures.seen import texts

HOST = "gpu002"


def crosses(drawn: Figure | None) -> list[tuple[float, float]]:
    """Where suspects are marked."""
    assert drawn is not None
    marked = [line for line in drawn.axes[0].lines if line.get_marker() == "x"]
    return [(x, y) for line in marked for x, y in line.get_xydata()]


def test_a_suspected_rnic_has_its_name_at_its_host(bad_run: ShownRun) -> None:
    topology, hosts = bad_run.inventory.topology, bad_run.judged.scenario.hosts
    drawn = network(topology, hosts, bad_run.judged.verdict.suspects)
    assert drawn is not None
    assert {"gpu002/mlx5_3", "hosts: 4", "suspect"} <= texts(drawn)
    assert crosses(drawn) == [(1.5 / 4, 2.0)]
    bare = network(topology, hosts)
    assert bare is not None
    assert "gpu002/mlx5_3" not in texts(bare)
    assert network(replace(topology, switches={}), hosts) is None


@pytest.mark.parametrize(("cable", "level"), [("su0-leaf3--spine2", 0.5), ("gpu002/mlx5_3:port", 1.5)])
def test_the_sign_of_a_bad_cable_is_in_its_middle_and_not_on_a_switch(
    bad_run: ShownRun, cable: str, level: float
) -> None:
    """On its ends it would say that leaf and spine are bad."""
    one = Suspect(cable, "link", Outcome.FAIL, 0.8, (), (), "", ())
    ((_, y),) = crosses(network(bad_run.inventory.topology, bad_run.judged.scenario.hosts, [one]))
    assert y == level


def test_many_cables_are_one_line(bad_run: ShownRun) -> None:
    drawn = network(bad_run.inventory.topology, bad_run.judged.scenario.hosts)
    assert drawn is not None
    assert Outline(drawn.axes[0].lines[0].get_xydata()).vertices.shape[0] > 90
