"""Expectations become the model, and every mistake in one is said on its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fabric import config
from fabric.model.command import GIB
from fabric.model.scenario import Expectation, ExpectedEnd, ExpectedFall, ExpectedRatio, ExpectedRecovery, PhaseRef

Explained = Callable[[Callable[[], object], list[str]], None]

SCENARIO = """\
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


def written(folder: Path, expect: str) -> Path:
    """A scenario that expects one thing."""
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO.replace("EXPECT", expect))
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
    resolved = config.load_scenario(written(folder, text))
    assert resolved[0].expect == (wanted,)
    assert config.from_resolved(json.loads(json.dumps(config.resolved_document(*resolved)))) == resolved


FORMS = "compare, or phase with statistic, ends, recovers_within or falls_within"
BAD = [
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
    ("{phase: flap, falls_within: 3s}", ["13: no change of phase 'flap' begins while it is measured: give it 'at'"]),
    ("{phase: flap, statistic: cv, size: 4G}", ["13: 'at_least' or 'at_most' is required here: the bounds of cv"]),
    (
        "{phase: flap, statistic: cv, at_most: 1}",
        ["13: cv is of one size, and phase 'flap' has 1G and 4G: choose with 'size'"],
    ),
]


@pytest.mark.parametrize(("text", "expected"), BAD, ids=[case[0] for case in BAD])
def test_a_bad_expectation_is_explained(folder: Path, explained: Explained, text: str, expected: list[str]) -> None:
    """Each mistake gives exactly its problems, on its line."""
    path = written(folder, text)
    explained(lambda: config.load_scenario(path), expected)


def test_members_are_told_from_bad_luck_by_three_rounds(folder: Path, explained: Explained) -> None:
    """Said before anything is measured; the ratio of means needs none."""
    path = written(folder, "{phase: flap, statistic: cv, size: 4G, at_most: 0.1}")
    path.write_text(path.read_text().replace("rounds: 3", "rounds: 2"))
    explained(lambda: config.load_scenario(path), ["13: cv needs 3 rounds of phase 'flap' or more: write 'rounds: 3'"])
    path.write_text(
        path.read_text().replace(
            "phase: flap, statistic: cv", "compare: flap, where: {routing: on}, against: {routing: off}"
        )
    )
    assert config.load_scenario(path)[0].expect


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{phase: flap, recovers_within: 3s, since: begin}", ExpectedRecovery(PhaseRef("flap"), 3.0, since="begin")),
        ("{phase: flap, falls_within: 5s, to: 0.5}", ExpectedFall(PhaseRef("flap"), 5.0, 0.5)),
    ],
)
def test_a_change_with_a_begin_is_felt_and_recovered_from(folder: Path, text: str, wanted: Expectation) -> None:
    """Where something was measured before it."""
    path = written(folder, text)
    path.write_text(path.read_text().replace("down: $down}", "down: $down, at: 20s}"))
    resolved = config.load_scenario(path)
    assert resolved[0].expect == (wanted,)
    assert config.from_resolved(json.loads(json.dumps(config.resolved_document(*resolved)))) == resolved
