"""``fabric inventory discover`` and ``fabric check --wiring`` on the simulated hosts, as a person calls them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.test_blueprint import as_planned
from tests.checks.test_wiring import looked
from tests.cli.command_line import called
from tests.places import INVENTORY

DEMO = str(INVENTORY / "demo-rack-healthy.yaml")


def test_what_is_found_is_written_once_and_next_is_told(tmp_path: Path) -> None:
    """A file that is there already is never written over."""
    new = tmp_path / "new.yaml"
    said = called(["inventory", "discover", "--inventory", DEMO, "--output", str(new)])
    assert (said.returncode, said.stdout) == (0, "")
    assert f"8 hosts, 128 cables; next: fabric inventory show {new}" in said.stderr
    assert f"before that: copy baselines/h100-ndr.yaml, which it names, to {tmp_path / 'baselines'}" in said.stderr
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
        (["gpu[1-2]", "--name", "a: b"], "--name: expected"),
        (["gpu[1-2]", "--user", "a\nb: c"], "--user: expected a user name"),
        (["gpu[1-2]", "--address", '{name}"x'], "expected an address with {name} in it"),
        (["--inventory", DEMO, "--output", "/nowhere/x.yaml"], "there is no folder /nowhere"),
        (["--inventory", DEMO, "--links", "/"], "prints: not a plain file (a directory)"),
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


def test_cables_may_come_from_a_file(tmp_path: Path) -> None:
    """Who runs the subnet manager may list them for who has no root on the hosts; any other file is refused."""
    ports = (
        "CA   134  1 0xb8599f0300001000 4x NDR - SW     9  1 0xe41d2d0300000100 ( 'gpu001 mlx5_0' - 'su0-leaf3' )\n"
        "SW     9  1 0xe41d2d0300000100 4x NDR - CA   134  1 0xb8599f0300001000 ( 'su0-leaf3' - 'gpu001 mlx5_0' )\n"
        "SW     9  2 0xe41d2d0300000100 4x SDR                                   'su0-leaf3'\n"
    )
    (tmp_path / "links.txt").write_text(ports)
    words = ["check", "--inventory", DEMO, "--hosts", "gpu001", "--links", str(tmp_path / "links.txt")]
    said = called(words)
    assert said.returncode == 1
    assert "gpu001/mlx5_0 is in su0-leaf3 port 1, and belongs in su0-leaf0" in " ".join(said.stdout.split())
    (tmp_path / "links.txt").write_text("hello\n")
    refused = called(words)
    assert (refused.returncode, "expected what iblinkinfo -l or ibnetdiscover -p prints" in refused.stderr) == (2, True)


def test_a_blueprint_tells_ports(tmp_path: Path) -> None:
    """As planned there is no finding; a bad file is told before anybody is asked."""
    plan, words = tmp_path / "plan.csv", ["check", "--inventory", DEMO, "--hosts", "gpu[001-004]"]
    cables = [
        f"{a.node},{a.port},{b.node},{b.port}" for a, b in ((c.a, c.b) for c in as_planned(looked(Path(DEMO))[1]))
    ]
    plan.write_text("\n".join(["a_node,a_port,b_node,b_port", *cables, ""]))
    assert called([*words, "--blueprint", str(plan)]).returncode == 0
    said = called([*words, "--blueprint", str(plan), "--fault", "gpu003/mlx5_2:port:swapped"])
    assert (said.returncode, "are exchanged" in said.stdout, "belongs in su0-leaf2 port 3" in said.stdout) == (
        1,
        True,
        True,
    )
    plan.write_text("a,b\n")
    said = called([*words, "--blueprint", str(plan)])
    assert (said.returncode, f"{plan}:1: expected the columns" in said.stderr) == (2, True)
