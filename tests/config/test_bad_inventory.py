"""Every mistake in an inventory file is said on its line; what cannot be simulated is refused with the reason."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fabric.config.inventory import load_inventory
from fabric.errors import ConfigError
from fabric.model.inventory import FAULT_KIND, PARTIAL
from tests.places import INVENTORY, ROOT

Explained = Callable[[Callable[[], object], list[str]], None]

# (what it shows, text in the valid file, what stands there instead, all problems: "line: part of the message")
BAD = [
    ("unknown key", "  port: 22", "  prot: 22", ["29: unknown key 'prot'; did you mean 'port'?"]),
    (
        "unknown word",
        "backend: mock",
        "backend: mok",
        ["2: expected mock, ssh, slurm or process, got 'mok'; did you mean 'mock'?"],
    ),
    (
        "word of others: RoCE",
        "link_layer: infiniband",
        "link_layer: RoCE",
        ["6: expected infiniband or ethernet, got 'RoCE'; 'RoCE' is written 'ethernet' here"],
    ),
    (
        "text for a mapping",
        "mock:\n  noise_cv: 0.003\n  faults:\n    - {component: gpu3, kind: hanging}",
        "mock: loud",
        ["34: expected a mapping (key: value), got 'loud'"],
    ),
    ("text for a list", 'prefix: [ip, netns, exec, "{host}"]', "prefix: sudo", ["33: expected a list, got 'sudo'"]),
    (
        "sexagesimal",
        "  port: 22",
        "  port: 22:22",
        ["29: expected a whole number from 1 to 65535, got '22:22' (plain digits"],
    ),
    ("nothing", "agent: true", "agent:", ["30: expected a value, got nothing"]),
    ("required", "name: small\n", "", ["1: 'name' is required here"]),
    ("bad host name", 'names: "gpu[1-4]"', 'names: "-gpu[1-4]"', ["18: '-gpu1' is not a name"]),
    ("name twice in a set", 'names: "gpu[1-4]"', 'names: "gpu[1-4],gpu2"', ["18: 1 of the 5 names are there twice"]),
    (
        "host twice",
        "\nswitches:\n",
        "\n  - {names: gpu3, platform: duo}\nswitches:\n",
        ["24: hosts named twice: 'gpu3'"],
    ),
    (
        "host is a switch",
        'names: "spine[0-1]", tier',
        'names: "spine[0-1],gpu2", tier',
        ["24: 'gpu2' names a host and a switch"],
    ),
    (
        "dangling platform",
        "platform: duo",
        "platform: due",
        ["19: no platform 'due' under platforms:; did you mean 'duo'?"],
    ),
    (
        "leaf is a spine",
        'leaves: "leaf{rail}"',
        'leaves: "spine{rail}"',
        ["23: expected switches of tier leaf, got 'spine0', a spine"],
    ),
    (
        "uplink to its own tier",
        'to: "spine[0-1]"',
        'to: "leaf[0-1]"',
        ["25: expected switches of another tier, got leaf again"],
    ),
    (
        "cables listed at both ends",
        "tier: spine",
        'tier: spine, uplinks: {to: "leaf[0-1]", count: 2, line_rate_gbps: 400}',
        ["26: the cables between leaf0 and spine0 are listed at their other end, too"],
    ),
    (
        "leaves and rails",
        'leaves: "leaf{rail}"',
        "leaves: [leaf0, leaf1, leaf0]",
        ["23: expected 2 leaves, one for each rail, got 3; one alone is that of all rails"],
    ),
    ("an adapter of AWS", "device: mlx5_1", "device: rdmap16s27", ["16: 'rdmap16s27' is no RNIC that can be measured"]),
    ("RNIC twice", "device: mlx5_1", "device: mlx5_0", ["16: RNIC 'mlx5_0' is there twice"]),
    ("GPU twice", "index: 1, numa", "index: 0-1, numa", ["13: GPU index 0 is there twice"]),
    ("PCIe switch twice", "name: pcie1", "name: pcie0", ["10: PCIe switch 'pcie0' is there twice"]),
    ("PCIe switch like a GPU", "name: pcie1", "name: gpu1", ["10: 'gpu1' cannot name a PCIe switch"]),
    (
        "dangling PCIe switch",
        "index: 0, pcie_switch: pcie0",
        "index: 0, pcie_switch: pci0",
        ["12: no PCIe switch 'pci0' in this platform; did you mean 'pcie0'?"],
    ),
    ("dangling GPU", "nearest_gpus: [1]", "nearest_gpus: [1, 7]", ["16: no GPU with index 7 in this platform"]),
    (
        "dangling NUMA node",
        "name: pcie1, numa: 1",
        "name: pcie1, numa: 2",
        ["10: no NUMA node 2: expected 0 or 1 (numa_nodes)"],
    ),
    (
        "NUMA node disagrees",
        "index: 0, pcie_switch: pcie0",
        "index: 0, numa: 1, pcie_switch: pcie0",
        ["12: expected numa 0, that of 'pcie0'; got '1'"],
    ),
    ("no place", "index: 1, numa: 1", "index: 1", ["13: 'numa' or 'pcie_switch' is required here"]),
    ("rail gap", "rail: 1", "rail: 3", ["16: rail 3 is used and rail 1 is not", "23: no switch 'leaf[2-3]'"]),
    (
        "no RNICs",
        "    rnics:\n",
        "    rnics: []\n    gone:\n",
        ["15: unknown key 'gone'"],
    ),
    (
        "no hosts",
        '  - names: "gpu[1-4]"\n    platform: duo\n    address: "{name}.mgmt"\n'
        '    rack: "r{rack}"\n    hosts_per_rack: 2\n    leaves: "leaf{rail}"\n',
        "  []\n",
        ["17: expected at least 1 entry, got 0"],
    ),
    ("no counter", "    hosts_per_rack: 2\n", "", ["21: {rack} needs 'hosts_per_rack'"]),
    ("bad address", 'address: "{name}.mgmt"', 'address: "{name};ls"', ["20: expected letters, digits"]),
    (
        "no baseline",
        "baseline: h100-ndr",
        "baseline: h100-ndx",
        ["5: no baseline 'h100-ndx': there is no 'baselines/h100-ndx.yaml' beside the inventory; did you"],
    ),
    ("fault without factor", "kind: hanging", "kind: slow", ["37: 'factor' is required with kind slow"]),
    (
        "factor without slow",
        "kind: hanging",
        "kind: hanging, factor: 0.5",
        ["37: 'factor' goes with kind slow, not with hanging"],
    ),
    ("faulty host", "component: gpu3", "component: gpu9", ["37: no host or switch 'gpu9'"]),
    (
        "faulty path",
        "component: gpu3",
        "component: gpu3/mlx5_1->numa7",
        ["37: 'mlx5_1->numa7' is not a part of gpu3; did you mean 'mlx5_1->numa1'"],
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_bad_inventory_is_explained(
    folder: Path, inventory_text: str, explained: Explained, old: str, new: str, expected: list[str]
) -> None:
    """Each mistake gives exactly its problems, on its line."""
    assert inventory_text.count(old) == 1
    path = folder / "inventory.yaml"
    path.write_text(inventory_text.replace(old, new))
    explained(lambda: load_inventory(path), expected)


POD = INVENTORY / "pod-64.yaml"
DEMO = INVENTORY / "demo-rack-healthy.yaml"
DOCUMENTED = (ROOT / "docs" / "inventory.md").read_text().partition("### Faults of the simulated rack\n")[2]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gpu001/mlx5_0:garbage", "a rnic cannot be 'garbage'; it can be slow"),
        ("gpu001/gpu1:nvlink:absent", "NVLink is part of its GPU"),
        ("gpu001/mlx5_2:swapped", "a rnic cannot be 'swapped'; it can be slow"),
        ("gpu001:swapped", "a host cannot be 'swapped'"),
        ("gpu001/gpu1:half_width", "a gpu cannot be 'half_width'"),
        ("su0-leaf3:dirty", "a leaf cannot be 'dirty'"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    """The message names the option and says why."""
    with pytest.raises(ConfigError, match=reason) as caught:
        load_inventory(DEMO, extra_faults=(text,))
    assert caught.value.problems[0].file == "--fault"


@pytest.mark.parametrize(
    "text", ["spine02:slow=0.5", "spine02:broken", "su0-leaf3--spine02:broken", "spine02->su0-leaf3:slow=0.25"]
)
def test_above_the_leaves(text: str) -> None:
    """Switches and cables above the leaves can be slow or broken, and one direction of a cable slow."""
    fault = load_inventory(POD, extra_faults=(text,)).mock.faults[0]
    assert f"{fault.component}:{fault.kind}" == text.partition("=")[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("spine02:hanging", "a switch or cable above the leaves cannot be 'hanging'; it can be slow, .*, swapped"),
        ("su0-leaf3->spine02:broken", "a cable breaks in both directions: write su0-leaf3--spine02"),
        ("spine02:swapped", "only a cable is swapped"),
        ("su0-leaf3->spine02:swapped", "only a cable is swapped"),
        ("su0-leaf3--spin02:broken", "no switch 'spin02'; did you mean 'spine02'"),
        ("su0-leaf3--su0-leaf4:broken", "no cable between su0-leaf3 and su0-leaf4"),
        ("spine02--gpu001:slow=0.5", "no switch 'gpu001'"),
        ("spine99:broken", "no host or switch 'spine99'; did you mean 'spine09'"),
    ],
)
def test_refused_above_the_leaves(text: str, reason: str) -> None:
    """The message says what is there, or what such a part can be."""
    with pytest.raises(ConfigError, match=reason):
        load_inventory(POD, extra_faults=(text,))


def irregular(folder: Path, mock: str) -> Path:
    """A pod of which one leaf has fewer uplinks than the others."""
    text = POD.read_text().replace("su[0-3]-leaf[0-7]", "su[0-3]-leaf[0-6],su[0-2]-leaf7")
    text = text.replace(
        "\nswitches:\n",
        '\nswitches:\n  - {names: su3-leaf7, tier: leaf, uplinks: {to: "spine[00-07]", line_rate_gbps: 400}}\n',
    )
    (folder / "baselines").symlink_to(INVENTORY / "baselines")
    path = folder / "irregular.yaml"
    path.write_text(text.replace("mock: {noise_cv: 0.003}", mock))
    return path


def test_an_irregular_network_has_no_routing(tmp_path: Path) -> None:
    """Without a regular network nothing above the leaves is simulated: asking for it is an error."""
    path = irregular(tmp_path, "mock: {noise_cv: 0.003}")
    assert load_inventory(path).mock.routing is None
    with pytest.raises(ConfigError, match="no regular Clos network"):
        load_inventory(path, extra_faults=("spine02:broken",))
    path.write_text(path.read_text().replace("noise_cv: 0.003", "routing: ar"))
    with pytest.raises(ConfigError, match="no regular Clos network"):
        load_inventory(path)


def test_every_kind_is_documented_and_no_other() -> None:
    """The table of kinds in docs/inventory.md, word for word; those with a factor say so."""
    table = DOCUMENTED.strip().partition("\n\n")[0].splitlines()[2:]
    rows = {kind: row for row in table for kind in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert sorted(rows) == sorted(FAULT_KIND.words)
    assert sorted(kind for kind, row in rows.items() if "`factor`" in row) == sorted(PARTIAL)
