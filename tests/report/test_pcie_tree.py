"""The inside of a host: every part with its count, and no curve over what is written."""

from __future__ import annotations

import re
from dataclasses import replace

from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect
from fabric.report.html import pcie_tree
from fabric.report.shown_run import ShownRun

HOST = "gpu002"


def drawn(run: ShownRun, component: str, kind: str) -> str:
    """The tree of the host with one suspect in it."""
    suspect = Suspect(component, kind, Outcome.FAIL, 0.8, (), (), "", (HOST,))
    run = replace(run, judged=replace(run.judged, verdict=replace(run.judged.verdict, suspects=(suspect,))))
    return str(pcie_tree.draw(HOST, run.inventory.topology.hosts[HOST].platform, [suspect], run))


def test_the_suspected_part_has_its_count_too(bad_run: ShownRun) -> None:
    [box] = re.findall(r'<g><rect[^>]*class="part s-fail">.*?</g>', drawn(bad_run, f"{HOST}/mlx5_3", "rnic"))
    assert re.search(r">\d+/\d+<", box)


def test_a_bad_path_hangs_below_every_count_and_within_the_picture(bad_run: ShownRun) -> None:
    text = drawn(bad_run, f"{HOST}/mlx5_2->numa1-gpus", "path")
    counts = [float(y) for y in re.findall(r'<text x="[\d.]+" y="([\d.]+)"[^>]*class="tiny"', text)]
    numbers = [[float(one) for one in re.findall(r"[\d.]+", d)] for d in re.findall(r'd="(M[^"]*)" class="bad', text)]
    heights = [y for curve in numbers for y in curve[1::2]]
    assert len(numbers) == 4  # the four GPUs of that node
    assert counts
    assert min(heights) > max(counts)
    bottom = max(curve[1] + (curve[3] - curve[1]) * 3 / 4 for curve in numbers)
    found = re.search(r'viewBox="0 0 [\d.]+ ([\d.]+)"', text)
    assert found is not None
    assert bottom < float(found[1])


def test_a_bad_path_to_memory_ends_at_the_side_of_its_box(bad_run: ShownRun) -> None:
    """Its count stands in the middle."""
    text = drawn(bad_run, f"{HOST}/mlx5_2->numa1", "path")
    [d] = re.findall(r'd="(M[^"]*)" class="bad', text)
    end_x, end_y = (float(one) for one in re.findall(r"[\d.]+", d)[-2:])
    box = re.search(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"[^>]*><title>numa1:', text)
    assert box is not None
    x, y, _, height = map(float, box.groups())
    assert abs(end_x - x) < 0.1
    assert y < end_y < y + height


def test_probes_that_were_not_reached_are_not_counted(bad_run: ShownRun) -> None:
    """Of a run that was killed: 0 of 8 passed would look like a bad part."""
    kept = {name: result for name, result in bad_run.results.items() if not name.endswith("numa0")}
    killed = replace(bad_run, results=kept)
    assert "numa0" in pcie_tree.tallies(HOST, bad_run)
    assert "numa0" not in pcie_tree.tallies(HOST, killed)
