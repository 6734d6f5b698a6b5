"""A scenario file becomes the model, every mistake in it is said on its line; the command line overrides it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fabric.config.problems import Problems, report, valid
from fabric.config.resolved import from_resolved, resolved_document
from fabric.config.scenario import load_scenario
from fabric.errors import ConfigError
from fabric.model.sampling import SampleSettings, ZeroGrowth
from fabric.model.scenario import LocaliseSettings, Scenario
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from tests.places import INVENTORY

GIB = 1 << 30


def test_a_good_scenario_becomes_the_model(folder: Path) -> None:
    """Phases and probes are as written, a bare word is a probe with its defaults, hosts are resolved."""
    scenario, inventory = load_scenario(folder / "scenario.yaml")
    assert scenario.hosts == tuple(inventory.topology.hosts) == ("gpu1", "gpu2", "gpu3", "gpu4")
    assert scenario.inventory == inventory.source == str(folder / "inventory.yaml")
    inside, tor = scenario.phases
    assert inside.probes == (LoopbackSpec(), RnicToRnicSpec())
    assert tor.probes == (TorAllReduceSpec(sizes_bytes=(GIB, 2 * GIB, 4 * GIB)),)
    assert (inside.needs, tor.needs) == ((), ("inside",))
    assert scenario.judge.baseline is None


def test_every_setting_reaches_the_model(folder: Path, scenario_text: str) -> None:
    """No key of a probe is read and dropped."""
    probes = """      - loopback: {name: a, size: 1K, duration: 2m, queue_pairs: 4, repeat: 3}
      - rnic_to_rnic: {name: b, size: 4096, duration: 1h, queue_pairs: 8, repeat: 5}
      - all_to_all: {name: c, sizes: [1M, 4M], halves: false, iterations: 7, repeat: 9}
      - tor_all_reduce: {name: d, sizes: [2G], algorithm: TREE, launcher: srun, iterations: 11, repeat: 13}
"""
    old = "      - loopback: {size: 8M, duration: 5s}\n      - rnic_to_rnic\n"
    (folder / "scenario.yaml").write_text(scenario_text.replace(old, probes))
    scenario, _ = load_scenario(folder / "scenario.yaml")
    assert scenario.phases[0].probes == (
        LoopbackSpec(name="a", size_bytes=1024, duration_s=120, queue_pairs=4, repeat=3),
        RnicToRnicSpec(name="b", size_bytes=4096, duration_s=3600, queue_pairs=8, repeat=5),
        AllToAllSpec(name="c", sizes_bytes=(1 << 20, 4 << 20), halves=False, iterations=7, repeat=9),
        TorAllReduceSpec(name="d", sizes_bytes=(2 * GIB,), algorithm="TREE", launcher="srun", iterations=11, repeat=13),
    )


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ("all", ["gpu1", "gpu2", "gpu3", "gpu4"]),
        ("gpu[3-4]", ["gpu3", "gpu4"]),
        ("gpu4,gpu1", ["gpu1", "gpu4"]),
        ('["gpu[1-2]", gpu2, gpu4]', ["gpu1", "gpu2", "gpu4"]),
        ("{rack: r1}", ["gpu3", "gpu4"]),
        ("{tor: leaf1}", ["gpu1", "gpu2", "gpu3", "gpu4"]),
    ],
)
def test_hosts_can_be_said_in_five_ways(folder: Path, scenario_text: str, hosts: str, names: list[str]) -> None:
    """However hosts are named, they come once each in inventory order."""
    (folder / "scenario.yaml").write_text(scenario_text.replace("hosts: all", f"hosts: {hosts}"))
    scenario, _ = load_scenario(folder / "scenario.yaml")
    assert list(scenario.hosts) == names


def test_the_command_line_overrides_the_file(folder: Path, scenario_text: str, inventory_text: str) -> None:
    """--inventory, --hosts and --fault win over what the file says, even when that is wrong."""
    other = folder / "other.yaml"
    other.write_text(inventory_text.replace("gpu[1-4]", "node[1-4]").replace("gpu3", "node3"))
    text = scenario_text.replace("inventory: inventory.yaml\n", "").replace("hosts: all", "hosts: gpu9")
    (folder / "scenario.yaml").write_text(text)
    scenario, inventory = load_scenario(
        folder / "scenario.yaml", inventory_path=other, hosts="node[2-3]", faults=("node1:absent",)
    )
    assert scenario.hosts == ("node2", "node3")
    assert scenario.inventory == str(other)
    assert [fault.component for fault in inventory.mock.faults] == ["node3", "node1"]


def test_both_files_are_checked_at_once(folder: Path, scenario_text: str, inventory_text: str) -> None:
    """A mistake in the inventory does not hide one in the scenario."""
    (folder / "scenario.yaml").write_text(scenario_text.replace("8M", "8Q"))
    (folder / "inventory.yaml").write_text(inventory_text.replace("port: 22", "port: x"))
    with pytest.raises(ConfigError) as caught:
        load_scenario(folder / "scenario.yaml", faults=("x:y",))
    files = [problem.file for problem in caught.value.problems]
    assert files == ["--fault", str(folder / "inventory.yaml"), str(folder / "scenario.yaml")]


Explained = Callable[[Callable[[], object], list[str]], None]

# (what it shows, text in the valid file, what stands there instead, all problems: "line: part of the message")
BAD = [
    ("unknown key", "description: A", "descriptoin: A", ["2: unknown key 'descriptoin'; did you mean 'description'?"]),
    (
        "unknown probe kind",
        "- rnic_to_rnic",
        "- rnic_to_nic",
        ["9: unknown probe 'rnic_to_nic'; did you mean 'rnic_to_rnic'?"],
    ),
    ("changes of no phase", "hosts: all", "changes: []", ["4: unknown key 'changes'"]),
    (
        "one thing twice",
        "- rnic_to_rnic",
        "- group_all_reduce: {hosts: 4, gpus: 16}",
        ["9: 'hosts', 'gpus' and 'scaling' say the same thing: leave out all but one"],
    ),
    (
        "an order that is lost",
        "- rnic_to_rnic",
        "- group_all_reduce: {order: random, launcher: srun}",
        ["9: order random needs launcher mpirun"],
    ),
    (
        "no probes",
        "      - loopback: {size: 8M, duration: 5s}\n      - rnic_to_rnic\n",
        "      []\n",
        ["7: expected at least 1 entry, got 0"],
    ),
    (
        "probe name twice",
        "- rnic_to_rnic",
        "- loopback: {size: 1M}",
        ["9: two probes named 'loopback' in this phase: give one another 'name'"],
    ),
    (
        "phase name twice",
        "- name: tor",
        "- name: inside",
        ["10: phase 'inside' is there twice", "11: phase 'inside' does not come before this one"],
    ),
    ("unknown need", "needs: [inside]", "needs: [insid]", ["11: no phase 'insid'; did you mean 'inside'?"]),
    (
        "later need",
        "  - name: inside\n",
        "  - name: inside\n    needs: [tor]\n",
        ["7: phase 'tor' does not come before this one"],
    ),
    ("unknown host", "hosts: all", "hosts: gpu[1-5]", ["4: host is not in the inventory: 'gpu5' (/"]),
    ("unknown rack", "hosts: all", "hosts: {rack: r7}", ["4: no host has rack 'r7'"]),
    ("unknown group", "hosts: all", "hosts: {rak: r1}", ["4: unknown key 'rak'; did you mean 'rack'?"]),
    ("no inventory key", "inventory: inventory.yaml\n", "", ["1: 'inventory' is required here, or --inventory"]),
]


@pytest.mark.parametrize(("old", "new", "expected"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_bad_scenario_is_explained(
    folder: Path, scenario_text: str, explained: Explained, old: str, new: str, expected: list[str]
) -> None:
    """Each mistake gives exactly its problems, on its line."""
    assert scenario_text.count(old) == 1
    path = folder / "scenario.yaml"
    path.write_text(scenario_text.replace(old, new))
    explained(lambda: load_scenario(path), expected)


def test_an_unknown_host_is_told_with_the_inventory_and_its_hosts(folder: Path, scenario_text: str) -> None:
    path = folder / "scenario.yaml"
    path.write_text(scenario_text)
    with pytest.raises(ConfigError) as caught:
        load_scenario(path, hosts="gpu5")
    text = f"host is not in the inventory: 'gpu5' ({folder}/inventory.yaml has gpu[1-4]); did you mean 'gpu4'?"
    assert [(one.file, one.text) for one in caught.value.problems] == [("--hosts", text)]


RACK = Path(__file__).parents[2] / "inventory" / "demo-rack-healthy.yaml"
SCENARIO = f"""\
name: repaired
inventory: {RACK}
phases:
  - name: evidence
    probes:
      - loopback
      - again: {{repeat: 5}}
    changes:
      - {{ber: {{links: gpu001/mlx5_0, effective: 1e-7, for: 20s}}}}
  - {{name: more, probes: [again]}}
"""


def test_probes_and_changes_have_their_lines_with_settings_or_without(tmp_path: Path) -> None:
    path = tmp_path / "repaired.yaml"
    path.write_text(SCENARIO)
    resolved = load_scenario(path)
    assert resolved[0].lines == (
        ("changes", "evidence", 8),
        ("loopback", "evidence", 6),
        ("again", "evidence", 7),
        ("again", "more", 10),
    )
    kept = from_resolved(resolved_document(*resolved))
    assert (kept, kept[0].lines) == (resolved, ())


HEAD = "name: pairs\ninventory: inventory.yaml\nphases:\n  - name: p\n"


def loaded(folder: Path, body: str) -> Scenario:
    """The scenario with this phase."""
    path = folder / "scenario.yaml"
    path.write_text(HEAD + body)
    return load_scenario(path)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auto", LocaliseSettings()),
        ("{rounds: 8, budget: 5m}", LocaliseSettings(rounds=8, budget_s=300.0)),
        ("{paths: static}", LocaliseSettings(paths="static")),
    ],
)
def test_a_phase_localises(folder: Path, text: str, expected: LocaliseSettings) -> None:
    phase = loaded(folder, f"    localise: {text}\n    probes: [pairwise]\n").phases[0]
    assert (phase.localise, phase.probes) == (expected, (PairwiseSpec(),))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("    localise: auto\n    probes: [loopback]\n", "5: it needs a pairwise probe in this phase"),
        ("    localise: yes\n    probes: [pairwise]\n", "5: expected auto, or a mapping with rounds and budget"),
        ("    localise: {round: 8}\n    probes: [pairwise]\n", "5: unknown key 'round'; did you mean 'rounds'?"),
        ("    localise: {paths: fixed}\n    probes: [pairwise]\n", "5: expected unknown or static, got 'fixed'"),
        ("    localise: {budget: 5}\n    probes: [pairwise]\n", "5: expected a duration"),
    ],
)
def test_what_is_wrong_is_said(folder: Path, explained: Explained, body: str, problem: str) -> None:
    explained(lambda: loaded(folder, body), [problem])


def test_it_is_decoded_with_its_defaults() -> None:
    """What is left out is on, but for what is dear."""
    entry = valid(SampleSettings, {"every": "60s"})
    assert entry is not None
    assert entry == SampleSettings(every_s=60.0, counters=True, temperatures=True)


@pytest.mark.parametrize("tree", [{"every": "0s"}, {"every": "2h"}, {"counters": "yes"}, {"evry": "10s"}])
def test_what_is_wrong_is_refused(tree: dict[str, str]) -> None:
    """One problem each."""
    problems = Problems("s.yaml")
    report(SampleSettings, tree, problems)
    assert len(problems.all()) == 1


TEXT = """\
name: burn
inventory: {inventory}
{sample}
judge: {judge}
phases:
  - name: soak
    probes: [loopback]
"""


def watched(folder: Path, judge: str, sample: str = "sample: {every: 5m}") -> Path:
    """A scenario on the demonstration rack."""
    path = folder / "s.yaml"
    path.write_text(TEXT.format(inventory=INVENTORY / "demo-rack.yaml", judge=judge, sample=sample))
    return path


def test_it_is_decoded_and_kept_in_the_run(tmp_path: Path) -> None:
    judge = "{zero_growth: [link_downed, pfc], allowed_growth: {pfc_paused: 0.05}}"
    scenario, inventory = load_scenario(watched(tmp_path, judge))
    assert scenario.judge.growth == ZeroGrowth(("link_downed", "pfc"), pfc_paused=0.05)
    assert scenario.sample is not None
    assert scenario.sample.pfc
    assert from_resolved(resolved_document(scenario, inventory))[0] == scenario


@pytest.mark.parametrize(
    ("judge", "sample", "says"),
    [
        ("{zero_growth: [link_downs]}", "sample: {}", "did you mean 'link_downed'"),
        ("{zero_growth: [pfc]}", "sample: {}", "allowed_growth: {pfc_paused: ...}"),
        ("{zero_growth: [retransmits]}", "sample: {}", "allowed_growth: {retransmits_per_hour: ...}"),
        ("{zero_growth: [link_downed, link_downed]}", "sample: {}", "is there twice"),
        ("{allowed_growth: {pfc_paused: 0.1}}", "sample: {}", "'zero_growth' does not have pfc"),
        ("{zero_growth: [link_downed]}", "", "must be read for it"),
        ("{zero_growth: [link_downed]}", "sample: {counters: false}", "it needs the counters of 'sample:'"),
        ("{zero_growth: [pfc], allowed_growth: {pfc_paused: 2}}", "sample: {}", "0 to 1"),
        ("{zero_growth: [link_downed], allowed_growth: {pfc: 1}}", "sample: {}", "unknown key 'pfc'"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, judge: str, sample: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_scenario(watched(tmp_path, judge, sample))
    found = [problem for problem in caught.value.problems if says in problem.text]
    assert len(found) == 1, caught.value.problems
    assert found[0].line in (3, 4)
