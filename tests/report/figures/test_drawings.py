"""The inside of a host has every part with its count and no curve over it; the network hides no sign."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from matplotlib.figure import Figure
from matplotlib.text import Text

from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect
from fabric.report.figures import drawings, inside, network
from fabric.report.figures.drawings import Place
from fabric.report.run_figures import tallies
from fabric.report.shown_run import ShownRun

HOST = "gpu002"


def words(drawn: Figure | None) -> list[str]:
    """Every text of a figure."""
    assert drawn is not None
    return [text.get_text() for text in drawn.findobj(Text) if text.get_text()]


def test_the_suspected_part_and_every_other_have_their_counts(bad_run: ShownRun) -> None:
    suspect = Suspect(f"{HOST}/mlx5_3", "rnic", Outcome.FAIL, 0.8, (), (), "", (HOST,))
    platform = bad_run.inventory.topology.hosts[HOST].platform
    found = tallies(HOST, bad_run)
    said = words(inside(HOST, platform, found, [suspect]))
    assert {"mlx5_3", "gpu5", "numa1", f"{found['mlx5_3'].passed}/{found['mlx5_3'].ran}"} <= set(said)


def test_a_bad_path_hangs_below_every_count_and_within_the_picture(bad_run: ShownRun) -> None:
    """To memory it ends at the side of the box: the count stands in its middle."""
    places = drawings.tree_places(bad_run.inventory.topology.hosts[HOST].platform)
    curve = drawings.path_between(places["mlx5_2"], places["gpu5"])
    bottom_of_boxes = places["gpu5"][1] + drawings._BOX_H
    assert all(y >= bottom_of_boxes for _, y in curve)
    assert max(y for _, y in curve) * 3 / 4 + bottom_of_boxes / 4 <= bottom_of_boxes + drawings._DEEP
    end_x, end_y = drawings.path_between(places["mlx5_2"], places["numa1"])[-1]
    assert end_x == places["numa1"][0]
    assert places["numa1"][1] < end_y < places["numa1"][1] + drawings._BOX_H


def test_probes_that_were_not_reached_are_not_counted(bad_run: ShownRun) -> None:
    """Of a run that was killed: 0 of 8 passed would look like a bad part."""
    kept = {name: result for name, result in bad_run.results.items() if not name.endswith("numa0")}
    assert "numa0" in tallies(HOST, bad_run)
    assert "numa0" not in tallies(HOST, replace(bad_run, results=kept))


def test_a_suspected_cable_has_its_name_and_that_of_its_leaf(bad_run: ShownRun) -> None:
    """Who pulls the cable goes to both ends."""
    topology, hosts = bad_run.inventory.topology, bad_run.judged.scenario.hosts
    said = words(network(topology, hosts, bad_run.judged.verdict.suspects))
    assert {"gpu002/mlx5_3", topology.hosts[HOST].leaves[3], "hosts: 4"} <= set(said)
    assert "gpu002/mlx5_3" not in words(network(topology, hosts))


def test_no_mark_of_the_network_is_cut_at_its_edge() -> None:
    places = drawings.spread([f"gpu{number:04}" for number in range(2048)], 0.0).values()
    assert min(x for x, _ in places) >= drawings.MARGIN > 0
    assert max(x for x, _ in places) <= drawings.WIDTH - drawings.MARGIN


def test_the_sign_of_a_bad_cable_is_in_its_middle_and_not_on_a_switch() -> None:
    """On its ends it would say that leaf and spine are bad."""
    assert drawings.sign_place("su0-leaf3--spine02", (0.0, 100.0), (60.0, 0.0)) == (30.0, 50.0)
    assert drawings.sign_place("gpu002/mlx5_3:port", (0.0, 100.0), (60.0, 0.0)) == (30.0, 50.0)
    assert drawings.sign_place("gpu002/mlx5_3", (0.0, 100.0), (60.0, 0.0)) == (0.0, 100.0)


def test_no_sign_of_the_network_hides_another() -> None:
    """Two bad hosts of 2,048 are a pixel apart."""
    taken: list[Place] = []
    at = sorted(drawings.free_place((12.0 + number, 190.0), taken)[0] for number in range(4))
    assert all(right - left >= 17 for left, right in pairwise(at))
