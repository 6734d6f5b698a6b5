"""The README and docs keep their word: their commands and notebooks are run, and what they print is what is printed."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from fabric.app.prepare import Given, prepare
from tests import builders
from tests.places import INVENTORY, ROOT, SCENARIOS

README = (ROOT / "README.md").read_text()
PRINTED = (ROOT / "docs" / "self-check.md").read_text().partition("## What it prints")[2]


def test_every_file_of_the_tour_is_there() -> None:
    """docs/whats-here.md names files below fabric/; the walks are as short as they shall be."""
    tour = (ROOT / "docs" / "whats-here.md").read_text()
    walks = tour.partition("Three walks")[2].partition("\n## ")[0]
    named = [re.findall(r"`([a-z_/]+\.(?:py|sh))`", one) for one in walks.split("\n- ")[1:]]
    assert [len(files) <= most for files, most in zip(named, (6, 9, 8), strict=True)] == [True] * 3
    assert [one for files in named for one in files if not (ROOT / "fabric" / one).is_file()] == []


def blocks(language: str, text: str = README) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def settled(text: str) -> str:
    """Output without what differs from run to run: the run's own name."""
    return re.sub(r"\d{8}-\d{6}(-\d+)?", "RUN", text).strip()


def run_line(line: str, folder: Path, fabric: str) -> subprocess.CompletedProcess[str]:
    """Run a README line with this *fabric*, in a copy of what the line reads."""
    script = re.sub(r"(^|\s)\S*fabric(?= run)", rf"\1{fabric}", line)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, env=env, timeout=110, check=False
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files a user has, without results."""
    for name in ("scenarios", "inventory"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def fabric(tmp_path: Path) -> str:
    """The command as installed, without installing it."""
    script = tmp_path / "fabric-here"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from fabric.cli.main import run; run()" "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.mark.slow
def test_first_command_prints_what_the_readme_prints(checkout: Path, fabric: str) -> None:
    """The run part of the install line prints what docs/self-check.md shows, letter by letter, with exit code 1."""
    line = blocks("console")[0].removeprefix("$ ").strip().split(" && ")[-1]
    done = run_line(line, checkout, fabric)
    assert done.returncode == 1
    assert settled(done.stdout) == settled(blocks("text", PRINTED)[0])


@pytest.mark.slow
def test_the_run_lines_that_plant_faults_work(checkout: Path, fabric: str) -> None:
    """Each ends with a verdict: exit code 1."""
    text = (ROOT / "docs" / "resilience.md").read_text()
    lines = [line.removeprefix("$ ") for block in blocks("console", text) for line in block.splitlines()]
    ran = [run_line(line, checkout, fabric) for line in lines if "fabric run" in line]
    assert [done.returncode for done in ran] == [1, 1]


def test_exactly_two_commands_do_all_set_up() -> None:
    """One line installs and runs the main job, one passes the tests; there is no third set-up line."""
    lines = [line for block in blocks("console") for line in block.splitlines()]
    assert [line for line in lines if "pip install" in line or "make" in line] == [
        "$ python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/fabric run scenarios/self-check.yaml",
        "$ make check",
    ]


def test_every_linked_file_is_there() -> None:
    """No link in the README, or in the list of documents, points at nothing."""
    for folder in (ROOT, ROOT / "docs"):
        links = re.findall(r"\]\(([^)#]+)", (folder / "README.md").read_text())
        assert [link for link in links if not link.startswith("http") and not (folder / link).exists()] == []


@pytest.mark.install
@pytest.mark.timeout(900)
def test_install_line_on_a_fresh_checkout(tmp_path: Path) -> None:
    """The README's first line, as it stands, on a fresh copy of the committed files."""
    subprocess.run(["git", "checkout-index", "-a", f"--prefix={tmp_path}/"], cwd=ROOT, check=True)
    line = blocks("console")[0].removeprefix("$ ").strip()
    env = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, env=env, timeout=600, check=False
    )
    assert done.returncode == 1, done.stderr
    assert settled(done.stdout) == settled(blocks("text", PRINTED)[0])


@pytest.mark.slow
def test_the_page_is_as_its_script_would_write_it() -> None:
    """Four inventories, each without and with what one has to set."""
    text = (ROOT / "docs" / "first-hour.md").read_text()
    made = runpy.run_path(str(ROOT / "docs" / "first_hour.py"))["made"]
    assert made(text) == text, "run python docs/first_hour.py"
    assert (text.count("\nPROBLEMS "), text.count("\nREADY ")) == (4, 4)


NOTEBOOK = json.loads((ROOT / "docs" / "notebook.ipynb").read_text("utf-8"))


@pytest.mark.slow
def test_it_finds_the_cable_that_cannot_bear_warmth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = prepare(
        Given(
            SCENARIOS / "burn-in.yaml",
            inventory=INVENTORY / "demo-rack-healthy.yaml",
            faults=("gpu004/mlx5_4:heat_sick=0.8",),
            lasts_s=43_200.0,
        )
    )
    builders.on_mock(wanted, tmp_path / "results", seed=101)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in NOTEBOOK["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["part"] == "gpu004/mlx5_4"
    assert names["found"].loc["gpu004/mlx5_4", "with_warmth"] < -0.5
    assert all(isinstance(names[one], Figure) for one in ("course", "hosts", "timeline"))


def test_it_is_kept_without_what_it_printed() -> None:
    """Else every run of it is a change of the file."""
    assert all(not cell.get("outputs") for cell in NOTEBOOK["cells"])
