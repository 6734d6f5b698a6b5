"""Probes of an earlier run measured again; probes of another package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.repair import Because, Evidence
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.probes.again import AgainSpec, shortened
from fabric.probes.collective import START_S
from fabric.probes.kinds import KINDS, expand_phase, left_out
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec


def phase(rack: Topology, *, repeat: int = 3) -> tuple[Phase, Phase]:
    """A phase, and one that repeats its first two probes."""
    first = Phase("intra", (LoopbackSpec(),))
    probes = expand_phase(first, rack, ["gpu001", "gpu002"])[:2]
    evidence = tuple(Evidence(probe, Outcome.FAIL, "") for probe in probes)
    because = Because("check/1", "/x", ("gpu001",), False, (), evidence)
    return first, Phase("evidence", (AgainSpec(repeat=repeat, because=because),))


def test_each_is_measured_so_often_with_a_port_and_an_id_of_its_own(rack: Topology) -> None:
    first, again = phase(rack)
    before = expand_phase(first, rack, ["gpu001", "gpu002"])[:2]
    found = expand_phase(again, rack, list(rack.hosts))
    assert [probe.probe_id for probe in found] == [
        f"evidence/{one.probe_id.partition('/')[2]}.r{number}" for one in before for number in (1, 2, 3)
    ]
    assert len({probe.params["port"] for probe in found}) == 6
    assert {(probe.kind, probe.claims, probe.hosts) for probe in found} == {
        (one.kind, one.claims, one.hosts) for one in before
    }
    assert all(KINDS[probe.kind].commands(probe, rack) for probe in found)


def test_what_needs_a_host_that_does_not_take_part_is_left_out(rack: Topology) -> None:
    _, again = phase(rack)
    assert expand_phase(again, rack, ["gpu002"]) == []


def test_evidence_is_said_to_be_missing_only_where_it_is(rack: Topology) -> None:
    _, again = phase(rack)
    assert left_out(again, list(rack.hosts), expand_phase(again, rack, list(rack.hosts)), rack) == []
    empty = Phase("evidence", (AgainSpec(),))
    assert "fabric run --because RUN" in left_out(empty, ["gpu001"], [], rack)[0]


def test_pairs_can_be_kept_to_some_hosts_and_the_others_miss_nothing(rack: Topology) -> None:
    pairs = Phase("pairs", (PairwiseSpec(only=("gpu002",)),))
    probes = expand_phase(pairs, rack, list(rack.hosts))
    assert probes
    assert all("gpu002" in probe.hosts for probe in probes)
    assert left_out(pairs, list(rack.hosts), probes, rack) == []


def collective(iterations: int, expected_s: float) -> Probe:
    """Of one host."""
    return Probe("soak/a/all_to_all", "all_to_all", "soak", ("a",), (), expected_s, {"iterations": iterations})


def test_fewer_iterations_take_less_time_but_for_the_start() -> None:
    found = shortened(collective(3995, START_S + 400.0), iterations=20, duration_s=5)
    assert found.params["iterations"] == 20
    assert START_S < found.duration_s < START_S + 5.0
    assert found.probe_id == "soak/a/all_to_all"


def test_traffic_by_the_second_is_cut_as_well() -> None:
    probe = Probe("p", "pairwise", "soak", ("a", "b"), (), 62.0, {"duration_s": 60, "size_bytes": 8})
    found = shortened(probe, iterations=20, duration_s=5)
    assert (found.params, found.duration_s) == ({"duration_s": 5, "size_bytes": 8}, 7.0)


ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tests" / "plugins" / "own_kind"
RACK = ROOT / "inventory" / "demo-rack-healthy.yaml"


BROKEN = {
    "called = own_kind:Missing": "AttributeError",
    "absent = no_such_module:Spec": "ModuleNotFoundError: No module named 'no_such_module'",
    "other = own_kind:HostnameSpec": "ValueError: its class calls itself 'called'",
    "pairwise = own_kind:HostnameSpec": "ValueError",
    "classless = own_kind:Probe": "TypeError: own_kind:Probe is no subclass of fabric.model.scenario.ProbeSpec",
}


def fabric(folder: Path, package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own that finds the package."""
    program = "from fabric.cli.main import run; run()"
    path = os.pathsep.join((str(package), str(ROOT)))
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def scenario(folder: Path, probe: str) -> str:
    path = folder / "own.yaml"
    path.write_text(f"name: own\ninventory: {RACK}\nphases:\n  - name: p\n    probes:\n      - {probe}\n")
    return str(path)


@pytest.mark.slow
def test_a_kind_of_another_package_is_planned_run_judged_and_judged_again(tmp_path: Path) -> None:
    ran = fabric(tmp_path, PACKAGE, "run", scenario(tmp_path, "called: {patience: 9}"), "--yes")
    assert (ran.returncode, ran.stderr.count("Traceback")) == (0, 0), ran.stdout + ran.stderr
    assert "8 probes" in ran.stdout
    latest = tmp_path / "results" / "own" / "latest"
    kept = json.loads((latest / "run.json").read_text())
    assert '["called", {' in json.dumps(kept)
    assert fabric(tmp_path, PACKAGE, "analyze", str(latest)).returncode == 0


@pytest.mark.slow
def test_its_keys_are_checked_and_described_as_our_own(tmp_path: Path) -> None:
    wrong = fabric(tmp_path, PACKAGE, "plan", scenario(tmp_path, "called: {patience: 99, patiense: 1}"))
    assert wrong.returncode == 2
    assert "own.yaml:6: expected a whole number from 1 to 60, got '99'" in wrong.stderr
    assert "own.yaml:6: unknown key 'patiense'; did you mean 'patience'?" in wrong.stderr


def test_a_broken_package_is_named(tmp_path: Path) -> None:
    """Exit 2 and no traceback, whatever the scenario asks for."""
    info = tmp_path / "broken" / "own_kind-1.2.dist-info"
    info.mkdir(parents=True)
    (info.parent / "own_kind.py").write_text((PACKAGE / "own_kind.py").read_text())
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-kind\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("\n".join(("[fabric.probes]", *BROKEN)))
    found = fabric(tmp_path, info.parent, "plan", scenario(tmp_path, "loopback"))
    assert found.returncode == 2
    for point, said in BROKEN.items():
        name, value = point.split(" = ")
        told = f"probe kind '{name}' of own-kind 1.2 (fabric.probes: {value}) cannot be used: {said}"
        assert told in found.stderr
    assert "Traceback" not in found.stderr
