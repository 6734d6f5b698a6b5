"""``fabric check`` and ``fabric inventory discover`` on the simulated rack, as a person calls them."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fabric.cli.main import main
from tests.checks.test_blueprint import as_planned
from tests.checks.test_wiring import looked
from tests.cli.command_line import called
from tests.places import INVENTORY, SCENARIOS
from tests.tools.samples import ufm_end

SCENARIO = str(SCENARIOS / "self-check.yaml")
HEALTHY = str(INVENTORY / "demo-rack-healthy.yaml")
KEYS = {
    "format", "scenario", "inventory", "backend", "hosts", "host_count", "elapsed_s", "exit_code", "counts", "findings",
}  # fmt: skip
FINDING_KEYS = {"check", "severity", "hosts", "host_count", "what", "why", "advice"}


def _run(*words: str) -> tuple[int, str]:
    result: Result = CliRunner().invoke(main, ["check", *words], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return int(result.return_value), result.output


def _document(*words: str) -> dict[str, Any]:
    code, output = _run(*words, "--json")
    document: dict[str, Any] = json.loads(output)
    assert document["exit_code"] == code
    return document


def _faulty(*faults: str) -> dict[str, Any]:
    return _document(SCENARIO, "--inventory", HEALTHY, *(f"--fault={fault}" for fault in faults))


def test_a_healthy_rack_is_ready() -> None:
    """Nothing is found, and that is exit code 0."""
    code, output = _run(SCENARIO, "--inventory", HEALTHY)
    assert code == 0
    assert output.startswith("READY  self-check on 8 hosts (gpu[001-008])")
    assert _document(SCENARIO, "--inventory", HEALTHY)["findings"] == []


@pytest.mark.parametrize(
    ("fault", "severity", "check", "words"),
    [
        ("gpu002/mlx5_3:broken", "problem", "rnics", "mlx5_3 is DOWN"),
        ("gpu002/mlx5_3:absent", "problem", "rnics", "no RNIC mlx5_3"),
        ("gpu002/gpu5:absent", "problem", "gpus", "7 GPUs, the inventory has 8"),
        ("gpu002/gpu5:broken", "problem", "gpus", "GPU is lost"),
        ("gpu002/gpu5:hanging", "unknown", "gpus", "no answer within 15 s"),
        ("gpu002:broken", "unknown", "reach", "No route to host"),
        ("gpu002:absent", "unknown", "reach", "Name or service not known"),
        ("gpu002:hanging", "unknown", "reach", "no answer within 15 s"),
        ("gpu002:garbage", "problem", "reach", "'true' printed"),
    ],
)
def test_a_fault_is_found_on_its_host(fault: str, severity: str, check: str, words: str) -> None:
    """The first finding says it, no other host is named, and the exit code fits."""
    document = _faulty(fault)
    first = document["findings"][0]
    assert (first["severity"], first["check"], first["hosts"]) == (severity, check, "gpu002")
    assert words in first["what"]
    assert {one["hosts"] for one in document["findings"]} == {"gpu002"}
    assert document["exit_code"] == {"problem": 1, "unknown": 3}[severity]


def test_the_same_fault_on_many_hosts_is_one_finding() -> None:
    """Hosts are folded, and a problem beats what is unknown."""
    document = _faulty("gpu002/mlx5_3:broken", "gpu003/mlx5_3:broken", "gpu004:broken")
    assert [one["hosts"] for one in document["findings"]] == ["gpu[002-003]", "gpu004"]
    assert document["counts"] == {"problem": 1, "unknown": 1}
    assert document["exit_code"] == 1


def test_the_document_has_these_keys() -> None:
    """Pipelines rely on them."""
    document = _faulty("gpu002/mlx5_3:broken")
    assert set(document) == KEYS
    assert set(document["findings"][0]) == FINDING_KEYS


def test_an_inventory_alone_can_be_checked() -> None:
    """Hosts, GPUs and links; ``--hosts`` chooses."""
    document = _document("--inventory", HEALTHY, "--hosts", "gpu[001-002]", "--fault=gpu001/mlx5_0:broken")
    assert (document["scenario"], document["host_count"], document["exit_code"]) == (None, 2, 1)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--inventory", HEALTHY, "--hosts", "gpu999"),
        ("--inventory", HEALTHY, "--backend", "carrier-pigeon"),
        ("--inventory", HEALTHY, "--hosts", "gpu[", "--json"),
        ("--inventory", HEALTHY, "--backend", "process", "--fault=gpu001:broken"),
        ("no-such-scenario.yaml",),
    ],
)
def test_bad_input_is_told_before_anything_is_asked(words: tuple[str, ...]) -> None:
    """ConfigError is exit code 2."""
    from fabric.errors import ConfigError

    with pytest.raises(ConfigError):
        _run(*words)


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
        (["--inventory", DEMO, "--links", "/"], "UFM in JSON: not a plain file (a directory)"),
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


def test_a_list_of_another_fabric_is_told(tmp_path: Path) -> None:
    """Or an inventory without a cable would look like what is there."""
    listed = tmp_path / "links.txt"
    listed.write_text("SW     9  2 0xe41d2d0300000100 4x SDR                                   'su0-leaf3'\n")
    words = ["discover", "gpu001", "--inventory", DEMO, "--links", str(listed), "--output", str(tmp_path / "new.yaml")]
    assert "of 1 ports none belongs to these hosts" in called(["inventory", *words]).stderr


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
    ends = [("b8599f0300001000_1", "gpu001 mlx5_0", "HCA-1/1"), ("e41d2d0300000100_1", "su0-leaf3:1/1/1", "1/1/1")]
    ends += [("e41d2d0300000100_2", "su0-leaf3:1/1/2", "1/1/2"), ("e41d2d0300000200_7", "spine00:1/4/1", "1/4/1")]
    told = [ufm_end(*one, which) for one, which in zip(ends, ["source", "destination"] * 2, strict=True)]
    (tmp_path / "links.txt").write_text(json.dumps([told[0] | told[1], told[2] | told[3]]))
    said = called(words)
    assert said.returncode == 1, said.stderr
    assert "gpu001/mlx5_0 is in su0-leaf3 port 1, and belongs in su0-leaf0" in " ".join(said.stdout.split())
    (tmp_path / "links.txt").write_text(json.dumps([told[0]]))
    refused = called(words)
    assert (refused.returncode, "UFM: no end of a link in destination_port_name" in refused.stderr) == (2, True)


def test_a_blueprint_tells_ports(tmp_path: Path) -> None:
    """As planned there is no finding; a bad file is told before anybody is asked."""
    plan, words = tmp_path / "plan.csv", ["check", "--inventory", DEMO, "--hosts", "gpu[001-004]"]
    cables = [
        f"{a.node},{a.port},{b.node},{b.port}" for a, b in ((c.a, c.b) for c in as_planned(looked(Path(DEMO))[1]))
    ]
    plan.write_text("\n".join(["a_node,a_port,b_node,b_port", *cables, ""]))
    assert called([*words, "--blueprint", str(plan)]).returncode == 0
    said = called([*words, "--blueprint", str(plan), "--fault", "gpu003/mlx5_2:port:swapped"])
    told = " ".join(said.stdout.split())
    assert (said.returncode, "are exchanged" in told, "belongs in su0-leaf2 port 3" in told) == (1, True, True)
    plan.write_text("a,b\n")
    said = called([*words, "--blueprint", str(plan)])
    assert (said.returncode, f"{plan}:1: expected the columns" in said.stderr) == (2, True)
