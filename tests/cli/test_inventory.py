"""``fabric inventory show`` checks a file and says what it describes, ``fabric plan`` what a run costs."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from fabric.cli.main import main
from fabric.errors import ConfigError
from tests.cli.command_line import called
from tests.places import INVENTORY, ROOT, SCENARIOS

DEMO = INVENTORY / "demo-rack.yaml"
ONE = """\
name: one
backend: mock
platforms:
  uno:
    baseline: fast
    link_layer: ethernet
    numa_nodes: 1
    gpus: [{index: 0, numa: 0}]
    rnics: [{device: mlx5_0, rail: 0, numa: 0, line_rate_gbps: 200}]
hosts:
  - {names: gpu1, platform: uno, leaves: tor0}
switches:
  - {names: tor0, tier: leaf}
"""
FAST = 'name: fast\nlimits: [{kind: rnic_to_rnic, at_least_gbps: 384, source: "x"}]\n'


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """One host of everything, and a baseline for RNICs twice as fast."""
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / "fast.yaml").write_text(FAST)
    (tmp_path / "one.yaml").write_text(ONE)
    return tmp_path / "one.yaml"


def show(*argv: str | Path) -> str:
    """What the command prints; a ConfigError comes through, as ``fabric`` itself catches it."""
    result = CliRunner().invoke(main, ["inventory", "show", *map(str, argv)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert result.return_value == 0
    return result.output


def test_one_of_everything_is_singular(one: Path) -> None:
    """1 host, 1 GPU, 1 switch, 1 group, 1 link; and what does not fit is a note."""
    assert show(one).splitlines() == [
        "one: 1 host, backend mock",
        "  uno: gpu1; 1 GPU, 1 RNIC, 1 NUMA node, ethernet, baseline fast",
        "  leaf: 1 switch (tor0)",
        "  1 group of hosts under one ToR",
        "    ToR tor0: gpu1",
        "  1 link",
        "note: platform uno, baseline fast: rnic_to_rnic: limit 384 Gb/s is "
        "above the line rate of 200 Gb/s: it judges nothing there",
    ]


def test_groups_are_folded() -> None:
    """Rail leaves and hosts of a group are one line."""
    assert "    ToR su0-leaf[0-7]: gpu[001-008]" in show(DEMO).splitlines()


def test_ten_groups_are_enough() -> None:
    """A hall of 64 groups shows ten of them and says how many more there are."""
    lines = show(INVENTORY / "hall-2048.yaml").splitlines()
    assert sum(line.startswith("    ToR ") for line in lines) == 10
    assert "    and 54 more" in lines


def test_json_says_the_same(one: Path) -> None:
    """One document with the platforms, groups and notes."""
    document = json.loads(show(one, "--json"))
    assert (document["name"], document["hosts"], document["links"]) == ("one", 1, 1)
    assert document["tor_groups"] == [{"leaves": "tor0", "count": 1, "hosts": "gpu1"}]
    assert document["platforms"][0]["rnics"] == [{"device": "mlx5_0", "rail": 0, "line_rate_gbps": 200.0}]
    assert len(document["notes"]) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FAST.replace("name: fast", "name: slow"), "expected 'fast', as the file is called"),
        (FAST.replace("384", "a lot"), "expected a number"),
        ("", "the file is empty"),
    ],
)
def test_a_broken_baseline_is_a_problem(one: Path, text: str, said: str) -> None:
    """The file that a platform names is read, and what is wrong with it is said with its line."""
    (one.parent / "baselines" / "fast.yaml").write_text(text)
    with pytest.raises(ConfigError, match=said) as caught:
        show(one)
    assert {Path(problem.file).name for problem in caught.value.problems} == {"fast.yaml"}


SELF_CHECK = str(SCENARIOS / "self-check.yaml")


def plan(*argv: str) -> str:
    """What the command prints."""
    result = CliRunner().invoke(main, ["plan", *argv], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert result.return_value == 0
    return result.output


def test_the_cost_is_said_for_people() -> None:
    said = plan(SELF_CHECK)
    assert "GPU-hours: 64 GPUs for" in said


def test_what_would_be_reserved_is_said_and_nobody_is_asked() -> None:
    """Its planned time and ten minutes."""
    assert "  reserved in Slurm: gpu[001-008] for 16 min, margin included" in plan(SELF_CHECK, "--reserve")
    assert json.loads(plan(SELF_CHECK, "--reserve", "--json"))["reservation"] == {
        "nodes": "gpu[001-008]",
        "minutes": 16,
    }


def test_a_plan_in_json_has_its_cost() -> None:
    whole = json.loads(plan(SELF_CHECK, "--json"))
    assert whole["cost"]["gpu_hours"] == pytest.approx(64 * whole["duration_s"] / 3600)


def test_the_stages_of_a_burn_in_and_what_they_cover_are_said(tmp_path: Path) -> None:
    path = tmp_path / "burn.yaml"
    text = f"name: burn\ndescription: x\ninventory: {ROOT / 'inventory' / 'pod-64.yaml'}\nhosts: all\n"
    path.write_text(f"{text}phases:\n  - name: burn\n    probes: [link_burn: {{routing: ftree, duration: 30m}}]\n")
    said = plan(str(path))
    assert "512 probes: 512 link_burn" in said
    assert "1 round, 30 min 02 s" in said
    assert "leaf to spine: 512 of 512 links at half their rate or more" in said


@pytest.mark.slow
def test_a_stage_runs_as_one_and_leaves_every_flow_its_rate(tmp_path: Path) -> None:
    """512 flows at once on the mock: no two in each other's way, and none waits for another."""
    inventory = tmp_path / "pod.yaml"
    text = (INVENTORY / "pod-64.yaml").read_text()
    inventory.write_text(text.replace("mock: {noise_cv: 0.003}", "mock: {noise_cv: 0.0, routing: ftree}"))
    shutil.copytree(INVENTORY / "baselines", tmp_path / "baselines")
    path = tmp_path / "burn.yaml"
    path.write_text(
        f"name: burn\ndescription: x\ninventory: {inventory}\nhosts: all\nphases:\n  - name: burn\n"
        "    probes: [link_burn: {routing: ftree, duration: 10s}]\n"
    )
    CliRunner().invoke(main, ["run", str(path), "--results", str(tmp_path / "results")], standalone_mode=False)
    (events,) = (tmp_path / "results" / "burn").glob("2*/events.jsonl")
    rows = [json.loads(line) for line in events.read_text().splitlines()]
    ended = [row for row in rows if row["event"] == "finished"]
    assert len(ended) == 512
    assert {row["started_s"] for row in ended} == {ended[0]["started_s"]}
    assert min(value for row in ended for _, value, *_ in row["measurements"]) > 0.95 * 400


def test_a_password_is_told_what_to_write_instead(tmp_path: Path) -> None:
    inventory = tmp_path / "rack.yaml"
    inventory.write_text("name: x\nbackend: ssh\nssh: {user: root, password: secret}\n")
    said = called(["inventory", "show", str(inventory)]).stderr
    assert "unknown key 'password'; there are no passwords here: name a key_file, or use the SSH agent" in said
    assert "secret" not in said


def test_without_a_key_it_is_said_how_to_name_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no inventory yet, ``ssh.key_file`` is nowhere to be set: the option is named, too."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    said = called(["inventory", "discover", "gpu001"])
    assert said.returncode == 2
    assert said.stderr.startswith(
        "the command line: ssh: no key: the agent has none, and there is no ~/.ssh/id_ed25519"
    )
    assert "set ssh.key_file in the inventory (fabric inventory discover: --key-file)" in said.stderr
