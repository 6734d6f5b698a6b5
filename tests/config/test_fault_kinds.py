"""Not every part can have every fault; what cannot be simulated is refused with the reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fabric.config import load_inventory
from fabric.errors import ConfigError
from fabric.model.inventory import FAULT_KIND, PARTIAL
from tests.places import INVENTORY, ROOT

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
