"""Another package brings a kind of probe by an entry point; one that cannot be used is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
