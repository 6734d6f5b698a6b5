"""``localise`` and ``pairwise`` in a scenario file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fabric import config
from fabric.model.scenario import LocaliseSettings, Scenario
from fabric.probes.pairwise import PairwiseSpec

Explained = Callable[[Callable[[], object], list[str]], None]

HEAD = "name: pairs\ninventory: inventory.yaml\nphases:\n  - name: p\n"


def loaded(folder: Path, body: str) -> Scenario:
    """The scenario with this phase."""
    path = folder / "scenario.yaml"
    path.write_text(HEAD + body)
    return config.load_scenario(path)[0]


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
