"""``fabric inventory discover`` and ``fabric check --wiring`` on the simulated hosts, as a person calls them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import called
from tests.places import INVENTORY

DEMO = str(INVENTORY / "demo-rack-healthy.yaml")


def test_what_is_found_is_written_once_and_next_is_told(tmp_path: Path) -> None:
    """A file that is there already is never written over."""
    new = tmp_path / "new.yaml"
    said = called(["inventory", "discover", "--inventory", DEMO, "--output", str(new)])
    assert (said.returncode, said.stdout) == (0, "")
    assert f"8 hosts, 128 cables; next: fabric inventory show {new}" in said.stderr
    again = called(["inventory", "discover", "--inventory", DEMO, "--output", str(new)])
    assert (again.returncode, "is there already" in again.stderr) == (2, True)


def test_hosts_that_told_nothing_are_left_out_and_told() -> None:
    """Not all of what was asked for is there: exit code 3."""
    said = called(["inventory", "discover", "gpu[001-003]", "--inventory", DEMO, "--fault", "gpu002:hanging"])
    assert said.returncode == 3
    assert "told nothing, left out: gpu002" in said.stderr
    assert 'names: "gpu[001,003]"' in said.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "expected hosts such as gpu[001-064], or --inventory FILE"),
        (["gpu[1-2"], "HOSTS: "),
        (["gpu[1-2]", "--address", "10.0.0.1"], "expected an address with {name} in it, got '10.0.0.1'"),
        (["gpu[1-99999]"], "expected 1 to 20,000 hosts, got 99,999"),
        (["gpu9", "--inventory", DEMO], "gpu9"),
    ],
)
def test_wrong_words_are_refused(words: list[str], expected: str) -> None:
    """Exit code 2, and what was expected."""
    said = called(["inventory", "discover", *words])
    assert (said.returncode, expected in said.stderr) == (2, True), said.stderr


def test_wiring_is_a_check_of_its_own() -> None:
    """Without ``--wiring`` nobody looks at the cables."""
    words = ["check", "--inventory", DEMO, "--fault", "gpu003/mlx5_2:port:swapped"]
    assert called(words).returncode == 0
    said = called([*words, "--wiring"])
    assert said.returncode == 1
    assert "swap gpu003/mlx5_2 and gpu003/mlx5_3" in said.stdout
