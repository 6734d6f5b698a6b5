"""Phases of a matrix, under names and in the order that are asked for, and what is expected of them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.changes.link_down import PortFlap
from fabric.config.phases import rounds
from fabric.config.resolved import from_resolved, resolved_document
from fabric.config.scenario import load_scenario
from fabric.errors import ConfigError
from fabric.model.probe import GIB
from fabric.model.scenario import (
    Expectation,
    ExpectedEnd,
    ExpectedRatio,
    ExpectedRecovery,
    Phase,
    PhaseRef,
)
from fabric.probes.group_all_reduce import GroupAllReduceSpec
from tests.changes.asked import port_flap

Explained = Callable[[Callable[[], object], list[str]], None]

SCENARIO = """\
name: look
inventory: inventory.yaml
matrix:
  down: [1s, 0.5s]
  tool: [mlxlink, ip]
phases:
  - name: healthy
    probes: [group_all_reduce]
  - name: flap
    needs: [healthy]
    changes:
      - port_flap: {links: gpu1/mlx5_0, down: $down, by: $tool}
    probes: [group_all_reduce]
"""


@pytest.fixture
def phases(folder: Path) -> Callable[..., tuple[Phase, ...]]:
    """The phases of the scenario with one text exchanged for another."""

    def load(old: str = "", new: str = "") -> tuple[Phase, ...]:
        return load_scenario(written(folder, old, new))[0].phases

    return load


def written(folder: Path, old: str = "", new: str = "") -> Path:
    """The scenario with one text exchanged for another."""
    assert not old or SCENARIO.count(old) == 1
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO.replace(old, new) if old else SCENARIO)
    return path


def test_all_phases_run_once_per_combination(phases: Callable[..., tuple[Phase, ...]]) -> None:
    """Combination by combination, the last name changing fastest; needs stay within one."""
    found = phases()
    assert [phase.name for phase in found] == [
        *("healthy.down-1s.tool-mlxlink", "flap.down-1s.tool-mlxlink", "healthy.down-1s.tool-ip"),
        *("flap.down-1s.tool-ip", "healthy.down-0.5s.tool-mlxlink", "flap.down-0.5s.tool-mlxlink"),
        *("healthy.down-0.5s.tool-ip", "flap.down-0.5s.tool-ip"),
    ]
    assert found[3].needs == ("healthy.down-1s.tool-ip",)
    assert (found[3].label, found[3].written, found[3].round) == ("flap", "flap", 1)
    assert found[3].where == (("down", "1s"), ("tool", "ip"))
    assert found[6].changes == ()
    assert found[7].changes == (port_flap("gpu1/mlx5_0", down=0.5, by="ip"),)


def test_rounds_repeat_everything(folder: Path, scenario_text: str) -> None:
    """Also without a matrix; the first round has the written names."""
    (folder / "scenario.yaml").write_text(scenario_text.replace("hosts: all", "rounds: 3"))
    found = load_scenario(folder / "scenario.yaml")[0].phases
    assert [phase.name for phase in found] == ["inside", "tor", "inside.r2", "tor.r2", "inside.r3", "tor.r3"]
    assert [(phase.written, phase.round) for phase in found[2:4]] == [("inside", 2), ("tor", 2)]
    assert found[5].needs == ("inside.r3",)


def test_abba_runs_every_second_round_backwards(folder: Path) -> None:
    """Combinations turn around; the phases within one do not."""
    path = written(folder, "matrix:", "rounds: 3\norder: abba\nmatrix:")
    path.write_text(path.read_text().replace("  tool: [mlxlink, ip]\n", "").replace(", by: $tool", ""))
    found = load_scenario(path)[0].phases
    assert [phase.name for phase in found] == [
        *("healthy.down-1s", "flap.down-1s", "healthy.down-0.5s", "flap.down-0.5s"),
        *("healthy.down-0.5s.r2", "flap.down-0.5s.r2", "healthy.down-1s.r2", "flap.down-1s.r2"),
        *("healthy.down-1s.r3", "flap.down-1s.r3", "healthy.down-0.5s.r3", "flap.down-0.5s.r3"),
    ]


@given(count=st.integers(1, 9), values=st.integers(1, 9))
def test_with_abba_every_combination_runs_as_early_as_late(count: int, values: int) -> None:
    """Over two rounds the mean place of each is the same: a steady drift cancels out."""
    combinations = tuple((("name", str(value)),) for value in range(values))
    order = [where for _, where in rounds(combinations, 2 * count, "abba")]
    places = {where: sum(at for at, each in enumerate(order) if each == where) for where in combinations}
    assert len(set(places.values())) == 1
    assert sorted(order) == sorted(combinations * 2 * count)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("down: $down, by: $tool", "down: $down, by: $tool"),
        ("links: gpu1/mlx5_0", "links: [$link]"),
        ("links: gpu1/mlx5_0", "links: {tier: $tier, seed: 3}"),
    ],
)
def test_a_reference_may_stand_anywhere(folder: Path, old: str, new: str) -> None:
    """In lists and mappings; the value is read as if it stood there."""
    path = written(folder, old, new)
    text = path.read_text()
    for name, value in (("link", "gpu2/mlx5_1"), ("tier", "access")):
        if f"${name}" in text:
            text = text.replace("matrix:\n", f"matrix:\n  {name}: [{value}]\n")
    path.write_text(text)
    change = load_scenario(path)[0].phases[1].changes[0]
    assert isinstance(change, PortFlap)
    assert len(change.link_names) == 1


def test_probes_and_env_take_references(folder: Path) -> None:
    """Kinds, sizes, counts and variables; a dollar inside a text is a dollar."""
    (folder / "scenario.yaml").write_text("""\
name: look
inventory: inventory.yaml
matrix: {size: [1G, 2G], kind: [group_all_reduce], timeout: [20]}
phases:
  - name: a
    env: {NCCL_IB_TIMEOUT: $timeout, NCCL_SOCKET_IFNAME: a$timeout}
    probes: [$kind, {group_all_reduce: {name: b, sizes: [$size]}}]
""")
    one, other = load_scenario(folder / "scenario.yaml")[0].phases
    assert one.probes == (GroupAllReduceSpec(), GroupAllReduceSpec(name="b", sizes_bytes=(GIB,)))
    assert other.probes == (GroupAllReduceSpec(), GroupAllReduceSpec(name="b", sizes_bytes=(2 * GIB,)))
    assert dict(one.env) == {"NCCL_IB_TIMEOUT": "20", "NCCL_SOCKET_IFNAME": "a$timeout"}


BAD = [
    ("$tool}", "$tol}", ["5: no phase uses '$tool'", "12: no 'tol' under matrix:; did you mean 'tool'?"]),
    ("  tool: [mlxlink, ip]", "  tool: []", ["5: expected at least 1 entry, got 0"]),
    ("  tool: [mlxlink, ip]", "  tool: [ip, ip]", ["5: 'ip' is there twice"]),
    (
        "  tool: [mlxlink, ip]",
        "  to/ol: [ip]",
        ["5: expected a name of", "12: no 'tool' under matrix:; did you mean 'to/ol'?"],
    ),
    ("  tool: [mlxlink, ip]", "  tool: [ip]\n  other: [1]", ["6: no phase uses '$other'"]),
    ("  down: [1s, 0.5s]", "  down: [1, 2]", ["12: got '1' (that is $down)", "12: got '2' (that is $down)"]),
    ("  - name: flap", "  - name: $down", ["9: which is the same in every combination, got '$down'"]),
    ("needs: [healthy]", "needs: [$tool]", ["10: which is the same in every combination, got '$tool'"]),
    (
        "    probes: [group_all_reduce]\n  - name: flap",
        "    probes: [$kind]\n  - name: flap",
        ["8: no 'kind' under matrix:"],
    ),
    ("matrix:", "rounds: 101\nmatrix:", ["3: expected a whole number from 1 to 100"]),
    ("matrix:", "order: abba\nmatrix:", ["3: order abba turns every second round around"]),
    ("matrix:", "order: baab\nmatrix:", ["3: expected as_written or abba, got 'baab'"]),
    (
        "matrix:",
        "allow: [isolate, busy, isolate]\nmatrix:",
        ["3: expected isolate, busy_hosts, blast_radius, power_loss or drills, got 'busy'"],
    ),
    ("matrix:", "allow: [isolate, isolate]\nmatrix:", ["3: 'isolate' is there twice"]),
    (
        "  tool: [mlxlink, ip]",
        "  tool: [mlxlink, ip]\n" + "".join(f"  x{n}: [1, 2, 3]\n" for n in range(4)),
        ["3: expected at most 64 combinations, got 324"],
    ),
    ("  - name: flap", f"  - name: {'f' * 60}", []),
]


@pytest.mark.parametrize(
    ("old", "new", "expected"), BAD, ids=[f"{case[0].strip()}>{case[1].strip()[:40]}" for case in BAD]
)
def test_a_bad_matrix_is_explained(folder: Path, explained: Explained, old: str, new: str, expected: list[str]) -> None:
    """Each mistake gives exactly its problems, on its line."""
    path = written(folder, old, new)
    if expected:
        explained(lambda: load_scenario(path), expected)
    else:
        load_scenario(path)


def test_two_combinations_never_share_a_name(folder: Path, explained: Explained) -> None:
    """Values that differ only in characters that no name may have are refused."""
    path = written(folder, "by: $tool}", "by: ip}\n    env: {A: $tool}")
    path.write_text(path.read_text().replace("[mlxlink, ip]", "[a b, a/b]"))
    said = "3: two phases would be called '{}.down-{}.tool-a-b'"
    expected = [said.format(phase, down) for down in ("0.5s", "1s") for phase in ("flap", "healthy")]
    explained(lambda: load_scenario(path), sorted(expected))


def test_names_have_a_bound(folder: Path, explained: Explained) -> None:
    """They become parts of file names."""
    path = written(folder, "by: $tool}", "by: ip}\n    env: {A: $tool}")
    path.write_text(path.read_text().replace("[mlxlink, ip]", f"[{'a' * 120}]"))
    explained(
        lambda: load_scenario(path),
        [f"3: phase '{name}' gets a name of more than 128" for name in ("flap", "flap", "healthy", "healthy")],
    )


def test_the_number_of_phases_has_a_bound(folder: Path, explained: Explained) -> None:
    """Combinations times rounds."""
    path = written(folder, "matrix:", "rounds: 100\nmatrix:")
    path.write_text(path.read_text().replace("down: [1s, 0.5s]", f"down: [{', '.join(f'{n}s' for n in range(1, 11))}]"))
    explained(lambda: load_scenario(path), ["3: expected at most 2000 phases in all, got 2 x 20 x 100"])


@pytest.mark.slow
def test_a_long_file_is_not_read_in_every_combination(folder: Path) -> None:
    """A million values times 64 would take minutes."""
    path = written(
        folder, "    probes: [group_all_reduce]\n  - name: flap", f"    probes: [{'a, ' * 13_000}b]\n  - name: flap"
    )
    path.write_text(path.read_text().replace("down: [1s, 0.5s]", f"down: [{', '.join(f'{n}s' for n in range(1, 21))}]"))
    with pytest.raises(ConfigError) as caught:
        load_scenario(path)
    assert "40 combinations of a file of" in str(caught.value)


EXPECTING = """\
name: look
inventory: inventory.yaml
matrix: {routing: [off, on], down: [1s, 40s]}
rounds: 3
phases:
  - {name: healthy, probes: [{group_all_reduce: {sizes: [1G, 2G]}}]}
  - name: flap
    changes:
      - port_flap: {links: gpu1/mlx5_0, down: $down}
      - {adaptive_routing: $routing, scope: job}
    probes: [{group_all_reduce: {sizes: [1G, 4G]}}]
expect:
  - EXPECT
"""
ON, OFF = (("routing", "on"),), (("routing", "off"),)


def expecting(folder: Path, expect: str) -> Path:
    """A scenario that expects one thing."""
    path = folder / "scenario.yaml"
    path.write_text(EXPECTING.replace("EXPECT", expect))
    return path


GOOD: list[tuple[str, Expectation]] = [
    (
        "{compare: flap/healthy, where: {routing: on}, at_least: 0.9}",
        ExpectedRatio(PhaseRef("flap", ON), PhaseRef("healthy", ON), at_least=0.9),
    ),
    (
        "{compare: flap, where: {routing: on}, against: {routing: off}, at_least: 1, at_most: 2}",
        ExpectedRatio(PhaseRef("flap", ON), PhaseRef("flap", OFF), 1.0, 2.0),
    ),
    (
        "{compare: flap/healthy, against: {routing: off}, at_most: 1, probe: group_all_reduce, size: 1G}",
        ExpectedRatio(PhaseRef("flap"), PhaseRef("healthy", OFF), None, 1.0, "group_all_reduce", GIB),
    ),
    (
        "{phase: flap, where: {routing: on}, statistic: cv, size: 1G, at_most: 0.03}",
        ExpectedRatio(PhaseRef("flap", ON), None, None, 0.03, None, GIB, "cv"),
    ),
    (
        "{compare: flap/healthy, statistic: slowest/median, size: 1G, at_least: 1}",
        ExpectedRatio(PhaseRef("flap"), PhaseRef("healthy"), 1.0, None, None, GIB, "slowest/median"),
    ),
    ("{phase: flap, where: {down: 40s}, ends: aborted}", ExpectedEnd(PhaseRef("flap", (("down", "40s"),)), False)),
    ("{phase: healthy, ends: completed}", ExpectedEnd(PhaseRef("healthy"), True)),
    ("{phase: flap, recovers_within: 30s}", ExpectedRecovery(PhaseRef("flap"), 30.0)),
    ("{phase: flap, recovers_within: 500ms, to: 0.8}", ExpectedRecovery(PhaseRef("flap"), 0.5, 0.8)),
]


@pytest.mark.parametrize(("text", "wanted"), GOOD, ids=[text for text, _ in GOOD])
def test_an_expectation_becomes_the_model(folder: Path, text: str, wanted: Expectation) -> None:
    """Every key reaches the model, and comes back from run.json."""
    resolved = load_scenario(expecting(folder, text))
    assert resolved[0].expect == (wanted,)
    assert from_resolved(json.loads(json.dumps(resolved_document(*resolved)))) == resolved


FORMS = "compare, or phase with statistic, ends or recovers_within"
BAD_EXPECT = [
    ("flap", [f"13: expected {FORMS}, got 'flap'"]),
    ("{phase: flap}", [f"13: expected {FORMS}"]),
    ("{compare: flap/healthy}", ["13: 'at_least' or 'at_most' is required here"]),
    ("{compare: flap/healthy, at_least: 2, at_most: 1}", ["13: at_least 2 is above at_most 1"]),
    ("{compare: flap/healthy/x, at_least: 1}", ["13: expected two phases such as degraded/healthy"]),
    (
        "{compare: flip/helthy, at_least: 1}",
        ["13: no phase 'flip'; did you mean 'flap'?", "13: no phase 'helthy'; did"],
    ),
    ("{compare: flap, at_least: 1}", ["13: expected two phases such as flap/..., or 'against'"]),
    ("{compare: flap/flap, at_least: 1}", ["13: 'flap' would be compared with itself"]),
    (
        "{compare: flap/healthy, where: {routing: true}, at_least: 1}",
        ["13: expected off or on, a value of routing under matrix:, got 'true'"],
    ),
    (
        "{compare: flap/healthy, against: {down: 40}, at_least: 1}",
        ["13: expected 1s or 40s, a value of down under matrix:, got '40'; did you mean '40s'?"],
    ),
    (
        "{compare: flap/healthy, at_least: 1, probe: ring}",
        ["13: no probe 'ring' in phase 'flap'", "13: no probe 'ring'"],
    ),
    (
        "{compare: flap/healthy, at_least: 1, size: 2G}",
        ["13: expected a size that phase 'flap' measures, 1G or 4G; got 2G"],
    ),
    ("{phase: flap, ends: aborted, at_least: 1}", ["13: unknown key 'at_least'"]),
    ("{ends: aborted}", ["13: 'phase' is required here"]),
    ("{phase: healthy, recovers_within: 30s}", ["13: no change of phase 'healthy' ends while it is measured"]),
    ("{phase: flap, recovers_within: 3s, since: begin}", ["13: no change of phase 'flap' begins while it is measured"]),
    ("{phase: flap, statistic: cv, size: 4G}", ["13: 'at_least' or 'at_most' is required here: the bounds of cv"]),
    (
        "{phase: flap, statistic: cv, at_most: 1}",
        ["13: cv is of one size, and phase 'flap' has 1G and 4G: choose with 'size'"],
    ),
]


@pytest.mark.parametrize(("text", "expected"), BAD_EXPECT, ids=[case[0] for case in BAD_EXPECT])
def test_a_bad_expectation_is_explained(folder: Path, explained: Explained, text: str, expected: list[str]) -> None:
    """Each mistake gives exactly its problems, on its line."""
    path = expecting(folder, text)
    explained(lambda: load_scenario(path), expected)


def test_members_are_told_from_bad_luck_by_three_rounds(folder: Path, explained: Explained) -> None:
    """Said before anything is measured; the ratio of means needs none."""
    path = expecting(folder, "{phase: flap, statistic: cv, size: 4G, at_most: 0.1}")
    path.write_text(path.read_text().replace("rounds: 3", "rounds: 2"))
    explained(lambda: load_scenario(path), ["13: cv needs 3 rounds of phase 'flap' or more: write 'rounds: 3'"])
    path.write_text(
        path.read_text().replace(
            "phase: flap, statistic: cv", "compare: flap, where: {routing: on}, against: {routing: off}"
        )
    )
    assert load_scenario(path)[0].expect


def test_a_change_with_a_begin_is_recovered_from(folder: Path) -> None:
    """Where something was measured before it."""
    path = expecting(folder, "{phase: flap, recovers_within: 3s, since: begin}")
    path.write_text(path.read_text().replace("down: $down}", "down: $down, at: 20s}"))
    resolved = load_scenario(path)
    assert resolved[0].expect == (ExpectedRecovery(PhaseRef("flap"), 3.0, since="begin"),)
    assert from_resolved(json.loads(json.dumps(resolved_document(*resolved)))) == resolved
