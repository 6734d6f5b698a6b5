"""A resolved scenario comes back from JSON as it was, an inventory from what hosts say."""

import json
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.checks.found import discover
from fabric.config.inventory import load_inventory
from fabric.config.resolved import from_resolved, resolved_document
from fabric.config.scenario import load_scenario
from fabric.errors import ConfigError, UnreadableOutput
from fabric.model.found import FoundFabric
from fabric.model.inventory import Inventory
from fabric.model.sampling import SampleSettings, ZeroGrowth
from fabric.model.scenario import Scenario
from fabric.report.written import inventory_text
from fabric.tools.host_parts import GpuTopology, read_amd_numa
from fabric.wiring import make_executor
from tests.places import INVENTORY, SCENARIOS, SHIPPED_SCENARIOS

Resolved = tuple[Scenario, Inventory]


def again(resolved: Resolved) -> Resolved:
    """Through JSON text and back."""
    return from_resolved(json.loads(json.dumps(resolved_document(*resolved))))


@pytest.mark.slow
def test_who_reads_a_kept_run_alone_knows_every_kind() -> None:
    """In a process that has read no scenario file, as ``fabric compare`` is one."""
    asked = "import fabric.config.resolved; from fabric.model.scenario import PROBES; print(len(PROBES.models))"
    assert int(subprocess.run((sys.executable, "-c", asked), capture_output=True, check=True).stdout) > 10


def test_a_round_trip_loses_nothing(folder: Path, inventory_text: str) -> None:
    """Every part is equal and in the same order, with faults, jump hosts and explicit settings."""
    text = inventory_text.replace("  port: 22", "  port: 2222\n  jump: [{address: b.example.net, user: ops}]")
    (folder / "inventory.yaml").write_text(text)
    resolved = load_scenario(folder / "scenario.yaml", faults=("gpu1/mlx5_0->numa1:slow=0.25",))
    scenario, inventory = again(resolved)
    assert (scenario, inventory) == resolved
    assert list(inventory.topology.hosts) == list(resolved[1].topology.hosts)
    assert list(inventory.topology.switches) == list(resolved[1].topology.switches)
    first, *others = {id(host.platform) for host in inventory.topology.hosts.values()}
    assert others == []
    assert first


@pytest.mark.parametrize(
    ("row", "growth"),
    [
        (None, None),
        (
            {"criteria": ["pfc"], "pfc_paused": 0.05, "retransmits_per_hour": None},
            ZeroGrowth(("pfc",), pfc_paused=0.05),
        ),
    ],
)
def test_what_ports_may_not_count_is_read_from_older_runs(folder: Path, row: Any, growth: ZeroGrowth | None) -> None:
    """They keep the criteria and how much is too much in one."""
    document = json.loads(json.dumps(resolved_document(*load_scenario(folder / "scenario.yaml"))))
    document["scenario"]["judge"] = {"baseline": None, "marginal": 0.005, "zero_growth": row}
    assert from_resolved(document)[0].judge.growth == growth


def test_a_run_from_when_there_were_budgets_is_read_unless_it_had_one(folder: Path) -> None:
    resolved = load_scenario(folder / "scenario.yaml")
    document = json.loads(json.dumps(resolved_document(*resolved)))
    for phase in document["scenario"]["phases"]:
        phase["kept"] = None
    assert from_resolved(document) == resolved
    document["scenario"]["phases"][-1]["kept"] = [0, 2]
    with pytest.raises(ConfigError, match="within --budget"):
        from_resolved(document)


def test_a_run_from_when_light_was_sampled_is_read(folder: Path) -> None:
    document = json.loads(json.dumps(resolved_document(*load_scenario(folder / "scenario.yaml"))))
    document["scenario"]["sample"] = {"every_s": 10.0, "optics": True}
    assert from_resolved(document)[0].sample == SampleSettings()


@pytest.mark.parametrize("path", SHIPPED_SCENARIOS, ids=lambda path: path.stem)
def test_what_we_ship_comes_back(path: Path) -> None:
    """Changes, matrix values, rounds and expectations among it."""
    resolved = load_scenario(path)
    assert again(resolved) == resolved


def test_a_run_from_before_changes_can_still_be_judged(folder: Path) -> None:
    """What it does not say has the value that it had."""
    resolved = load_scenario(folder / "scenario.yaml")
    document = json.loads(json.dumps(resolved_document(*resolved)))
    for phase in document["scenario"]["phases"]:
        for key in ("changes", "env", "label", "where", "round"):
            del phase[key]
    del document["scenario"]["expect"], document["scenario"]["allow"], document["inventory"]["changes"]
    for key in ("shield", "sm_reroute_s", "ufm_isolates"):
        del document["inventory"]["mock"][key]
    assert from_resolved(document) == resolved


def test_a_hall_is_kept_compactly() -> None:
    """2,048 hosts take less than 100 bytes each, and their layout is written once."""
    resolved = load_scenario(SCENARIOS / "self-check.yaml", inventory_path=INVENTORY / "hall-2048.yaml")
    document = resolved_document(*resolved)
    assert len(document["inventory"]["platforms"]) == 1
    assert len(json.dumps(document)) < 2048 * 100
    assert again(resolved) == resolved


def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The way to every value of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner for key, each in items for inner in paths(each, (*path, key)))]


def document_of(name: str) -> dict[str, Any]:
    """What run.json keeps of a scenario that we ship."""
    resolved = load_scenario(SCENARIOS / f"{name}.yaml")
    return dict(json.loads(json.dumps(resolved_document(*resolved))))


DOCUMENT, CHANGING = document_of("self-check"), document_of("ar-under-ber")
PATHS = [(document, path) for document in (DOCUMENT, CHANGING) for path in paths(document)[1:]]


@given(st.sampled_from(PATHS), st.sampled_from([None, -1, 10**9, "x", [], {}, True, 0.5]))
def test_a_damaged_document_is_refused_or_read(place: tuple[dict[str, Any], tuple[str | int, ...]], value: Any) -> None:
    """A run.json that was tampered with never ends in anything but ConfigError."""
    document, path = json.loads(json.dumps(place[0])), place[1]
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with suppress(ConfigError):
        scenario, inventory = from_resolved(document)
        assert (type(scenario), type(inventory)) == (Scenario, Inventory)


@pytest.mark.parametrize("document", [{}, {"format": 1}, {**DOCUMENT, "format": 2}])
def test_another_document_is_refused(document: dict[str, Any]) -> None:
    """What is no resolved run, or one of another format, is a ConfigError."""
    with pytest.raises(ConfigError, match=r"run\.json"):
        from_resolved(document)


def looked(name: str, *faults: str) -> tuple[Inventory, FoundFabric]:
    """What the simulated hosts and switches say."""
    inventory = load_inventory(INVENTORY / name, extra_faults=faults)
    executor = make_executor("mock", inventory)
    try:
        return inventory, discover(executor, inventory.topology.hosts, inventory.changes)
    finally:
        executor.close()


def written(found: FoundFabric, folder: Path) -> tuple[str, Inventory]:
    """The file, and what it is read as."""
    shutil.copytree(INVENTORY / "baselines", folder / "baselines", dirs_exist_ok=True)
    text = inventory_text(found, name="found", backend="mock", address="{name}.mgmt")
    (folder / "found.yaml").write_text(text)
    return text, load_inventory(folder / "found.yaml")


@pytest.mark.parametrize("name", ["pod-64.yaml", "demo-rack-healthy.yaml"])
def test_the_shipped_inventories_come_back(name: str, tmp_path: Path) -> None:
    """Every link, switch, RNIC, GPU and PCIe switch, in fewer than 60 lines."""
    inventory, found = looked(name)
    text, made = written(found, tmp_path)
    assert set(map(str, made.topology.links())) == set(map(str, inventory.topology.links()))
    assert {one.name: one.tier for one in made.topology.switches.values()} == {
        one.name: one.tier for one in inventory.topology.switches.values()
    }
    for here, there in zip(made.topology.hosts.values(), inventory.topology.hosts.values(), strict=True):
        platform = there.platform
        named = replace(platform, name=here.platform.name, baseline=here.platform.baseline, mpirun_options=())
        assert here.platform == named
        assert (here.name, here.address, here.leaves) == (there.name, there.address, there.leaves)
    assert len(text.splitlines()) < 60


@pytest.mark.slow
def test_2048_hosts_are_64_lines(tmp_path: Path) -> None:
    """Eight subnets, one a rail; a line the hosts on the same leaves."""
    inventory, found = looked("hall-2048.yaml")
    text, made = written(found, tmp_path)
    assert text.count("leaves: [") == 64
    assert set(map(str, made.topology.links())) == set(map(str, inventory.topology.links()))


def test_a_slow_or_lost_link_does_not_change_the_platform(tmp_path: Path) -> None:
    """What most hosts have at a place is what the place has; the leaf that nobody can see is said to be unknown."""
    _, found = looked("pod-64.yaml", "gpu011/mlx5_4:port:half_width", "gpu007/mlx5_1:broken")
    text, made = written(found, tmp_path)
    assert len({host.platform for host in made.topology.hosts.values()}) == 1
    assert made.topology.hosts["gpu011"].leaves[4] == "su0-leaf4"
    assert "which leaves they are on was not said" in next(line for line in text.splitlines() if '"gpu007"' in line)


def test_odd_answers_still_make_a_file_that_can_be_read(tmp_path: Path) -> None:
    """Memory nodes that a host denies, cables between switches whose rate nobody knows."""
    _, found = looked("demo-rack-healthy.yaml")
    hosts = {name: replace(host, numa_nodes=1) for name, host in found.hosts.items()}
    rateless = tuple(cable if "/" in cable.a.node else replace(cable, rate_gbps=None) for cable in found.cables)
    text, made = written(replace(found, hosts=hosts, cables=rateless), tmp_path)
    assert {host.platform.numa_nodes for host in made.topology.hosts.values()} == {2}
    assert {uplinks.line_rate_gbps for uplinks in made.topology.uplinks} == {400.0}
    assert "guess: the rate of these cables was not said" in text


def test_what_nobody_said_is_left_out_and_told(tmp_path: Path) -> None:
    """A host that hangs."""
    _, found = looked("demo-rack-healthy.yaml", "gpu003:hanging")
    text, made = written(found, tmp_path)
    assert "gpu003" not in made.topology.hosts
    assert "# not read: gpu003: no answer" in text


def test_words_of_a_host_stay_in_their_comment(tmp_path: Path) -> None:
    """A line break in an error would begin a key of the file."""
    _, found = looked("demo-rack-healthy.yaml")
    text, _ = written(replace(found, unread=("bad\nbackend: ssh",)), tmp_path)
    assert "# not read: bad backend: ssh\n" in text


def test_gpus_of_amd_are_told_by_rocm_smi(tmp_path: Path) -> None:
    """Their number and memory nodes; how far they are from RNICs it does not say."""
    inventory, found = looked("mi300x.yaml")
    text, made = written(found, tmp_path)
    assert "not read" not in text
    for name, host in made.topology.hosts.items():
        there = inventory.topology.hosts[name].platform.gpus
        assert (host.platform.gpu_maker, host.platform.baseline) == ("amd", "mi300x-400")
        assert [(gpu.index, gpu.numa) for gpu in host.platform.gpus] == [(gpu.index, gpu.numa) for gpu in there]
    warned = (
        'WARNING: low-power state\n{"card1": {"(Topology) Numa Node": "-1"}, "card0": {"(Topology) Numa Node": "1"}}'
    )
    assert read_amd_numa(warned) == GpuTopology(("GPU0", "GPU1"), {}, {"GPU0": 1})
    for text in ("", "{}", '{"card0": {}}', '{"card0": {"(Topology) Numa Node": "x"}}', "[1]", '{"card0": 1}'):
        with pytest.raises(UnreadableOutput):
            read_amd_numa(text)
