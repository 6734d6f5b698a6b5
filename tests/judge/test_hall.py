"""The scaling curve of a hall: the bound of its inventory, what is told, and what a limit judges."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measured_rack import dgx_platform
from fabric.app.prepare import Given, prepare
from fabric.judge.hall import BISECTION, HallBounds, hall_of
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.scenario import Phase
from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.model.verdict import HallPoint, JudgedRun, ProbeVerdict
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.group_all_reduce import GroupAllReduceSpec, GroupAllToAllSpec
from fabric.probes.kinds import expand_phase
from fabric.report.verdict_json import hall_document, hall_from, shown_hall
from tests.builders import on_mock
from tests.places import INVENTORY

CURVE = (GroupAllReduceSpec(scaling=True), GroupAllToAllSpec(scaling=True), ConcurrentRingsSpec(told=True))


def hall(spines: int) -> Topology:
    """Two units of four hosts, two rails; each leaf has a cable to each spine."""
    platform = dgx_platform(parts=2)
    names = [f"h{number}" for number in range(8)]
    leaves = [tuple(f"u{number // 4}-leaf{rail}" for rail in range(2)) for number in range(8)]
    hosts = {name: Host(name, platform, name, None, on) for name, on in zip(names, leaves, strict=True)}
    lower = tuple(dict.fromkeys(leaf for on in leaves for leaf in on))
    upper = tuple(f"spine{number}" for number in range(spines))
    switches = {name: Switch(name, "leaf") for name in lower} | {name: Switch(name, "spine") for name in upper}
    return Topology(hosts, switches, (Uplinks(lower, upper, 1, 400.0),))


def asked(topology: Topology) -> list[Probe]:
    """All points of the curve."""
    return expand_phase(Phase("hall", CURVE), topology, tuple(topology.hosts))


def bounds(spines: int) -> dict[tuple[str, int], float]:
    """By kind and number of hosts the most that is possible."""
    topology = hall(spines)
    nothing = {one.probe_id: ProbeVerdict(one.probe_id, Outcome.INCONCLUSIVE, "") for one in asked(topology)}
    found = hall_of(asked(topology), nothing, topology)
    assert found is not None
    return {(point.kind, point.hosts): round(point.bound_gbps or 0.0, 1) for point in found.points}


def test_the_bound_is_that_of_lines_where_there_are_cables_enough() -> None:
    """Two rails of 400 Gb/s; half of the hosts sends to the other half at the line; two GPUs a host."""
    found = bounds(4)
    assert {found["group_all_reduce", count] for count in (2, 4, 8)} == {800.0}
    assert found["group_all_to_all", 2] == 400 * 3 / 2
    assert found["group_all_to_all", 8] == round(400 * 15 / 14, 1)
    assert found[BISECTION, 8] == 4 * 800.0


def test_the_bound_knows_tapered_leaves() -> None:
    """One cable up for four RNICs: a ring crosses it once, a bisection four times, an all-to-all 16/7 times."""
    found = bounds(1)
    assert found["group_all_reduce", 8] == 800.0
    assert found["group_all_to_all", 4] == round(400 * 7 / 6, 1)
    assert found["group_all_to_all", 8] == round(400 * 15 / 14 * 7 / 16, 1)
    assert found[BISECTION, 8] == 800.0


def test_nothing_is_known_where_the_fabric_is_not_described() -> None:
    """Leaves without uplinks: no bound beyond them."""
    topology = hall(1)
    bare = Topology(topology.hosts, topology.switches)
    probes = {(probe.kind, len(probe.hosts)): probe for probe in asked(bare)}
    known = HallBounds(bare)
    assert known.bus_gbps(probes["group_all_reduce", 4]) == 800.0
    assert known.bus_gbps(probes["group_all_reduce", 8]) is None


TEXT = """\
name: hall
description: x
inventory: {inventory}
hosts: all
{judge}
phases:
  - name: inside
    probes: [rnic_to_rnic: {{duration: 1s}}]
  - name: hall
    probes:
      - group_all_reduce: {{scaling: true, sizes: [8G]}}
      - group_all_to_all: {{scaling: true, sizes: [8G]}}
  - name: bisection
    probes: [concurrent_rings: {{told: true}}]
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> JudgedRun:
    """Eight hosts that nothing is wrong with, and no limit for any of it."""
    folder = tmp_path_factory.mktemp("hall")
    path = folder / "hall.yaml"
    path.write_text(TEXT.format(inventory=INVENTORY / "demo-rack-healthy.yaml", judge=""))
    return on_mock(prepare(Given(path)), folder)


def test_numbers_without_a_limit_are_told_and_judge_nothing(run: JudgedRun) -> None:
    """PASS, with every number of the curve at nine tenths or more of what is possible."""
    verdict = run.verdict
    assert (verdict.outcome, verdict.lines) == (Outcome.PASS, ())
    assert verdict.hall is not None
    kinds = [(point.kind, point.hosts) for point in verdict.hall.points]
    assert kinds == [(kind, n) for kind in ("group_all_reduce", "group_all_to_all") for n in (2, 4, 8)] + [
        (BISECTION, 8)
    ]
    assert all(0.9 < (point.gbps or 0.0) / (point.bound_gbps or 1.0) < 1 for point in verdict.hall.points)
    assert [(pairs.kind, pairs.count) for pairs in verdict.hall.pairs] == [("rnic_to_rnic", 8 * 56)]


def test_the_table_says_where_bounds_come_from(run: JudgedRun) -> None:
    """One row a point and a kind beside it; words for the bound, and that nothing of it is judged."""
    assert run.verdict.hall is not None
    lines = shown_hall(run.verdict.hall).lines
    assert len(lines) == 1 + 7 + 1 + 2
    assert lines[0].split() == ["what", "hosts", "GPUs", "Gb/s", "at", "most", "share", "limit"]
    assert "by the inventory" in lines[-2]
    assert lines[-1].startswith("No limit: told, not judged")
    document = hall_document(run.verdict.hall)
    assert document is not None
    assert document["points"][-1]["kind"] == BISECTION


def test_a_limit_of_the_house_judges(run: JudgedRun, tmp_path: Path) -> None:
    """Where the baseline asks for more than was reached the run FAILs, and the row says it."""
    folder = INVENTORY / "baselines"
    text = (folder / "h100-ndr.yaml").read_text().replace("name: h100-ndr", "name: strict")
    limit = '  - {kind: group_all_reduce, at_least_gbps: 3190, source: "house limit: no published number"}\n'
    for name in ("demo-rack-healthy.yaml",):
        (tmp_path / name).write_text((INVENTORY / name).read_text())
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / "strict.yaml").write_text(text + limit)
    (tmp_path / "baselines" / "h100-ndr.yaml").write_text((folder / "h100-ndr.yaml").read_text())
    path = tmp_path / "hall.yaml"
    path.write_text(TEXT.format(inventory="demo-rack-healthy.yaml", judge="judge: {baseline: strict}"))
    judged = on_mock(prepare(Given(path)), tmp_path / "results").verdict
    assert judged.outcome is Outcome.FAIL
    assert judged.hall is not None
    rows = shown_hall(judged.hall).rows
    assert [row[6] for row in rows[:4]] == ["3,190.0", "3,190.0", "3,190.0", ""]
    assert "at least 3190 required" in rows[0][-1]


def test_a_pair_that_was_not_measured_leaves_no_bisection() -> None:
    """A sum over what is left would be too small, and a mean would be a guess."""
    topology = hall(4)
    probes = [probe for probe in asked(topology) if probe.kind == "concurrent_rings"]
    verdicts = {p.probe_id: ProbeVerdict(p.probe_id, Outcome.INCONCLUSIVE, "", 780.0) for p in probes}
    verdicts[probes[0].probe_id] = ProbeVerdict(probes[0].probe_id, Outcome.ERROR, "lost")
    found = hall_of(probes, verdicts, topology)
    assert found is not None
    (point,) = found.points
    assert isinstance(point, HallPoint)
    assert (point.gbps, point.outcome, point.reason) == (None, Outcome.ERROR, "1 of 4 pairs were not measured")


def test_the_certificate_shows_the_same_table(run: JudgedRun) -> None:
    """Its rows are made of the document alone."""
    assert run.verdict.hall is not None
    document = hall_document(run.verdict.hall)
    assert document is not None
    assert hall_from(document) == run.verdict.hall
