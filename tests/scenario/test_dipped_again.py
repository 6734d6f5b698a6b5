"""Whole soaks on the mock: a port that dips once in fifty probes is found by measuring it again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fabric.app.analyze import analyze
from fabric.app.prepare import Asked
from fabric.model.inventory import Fault, TimedFault
from fabric.model.outcome import Outcome
from fabric.model.probe import AGAIN
from fabric.model.verdict import JudgedRun
from fabric.runs.events import read_events, replanned
from tests import builders
from tests.places import INVENTORY
from tests.scenario.test_left_out import Acts, run, run_of

BAD = "gpu005/mlx5_3"
SOAK = """\
name: soak
inventory: {inventory}
hosts: gpu[001-008]
phases:
  - name: soak
    for: 24h
    probes:
      - all_to_all: {{sizes: [16G], halves: false, iterations: 9900}}
      - all_to_all: {{name: second, sizes: [16G], halves: false, iterations: 9900}}
      - pairwise: {{rounds: 4, duration: 10s}}
"""


class Hears(Acts):
    """Remembers what it is told of parts that are measured again."""

    def __init__(self, phase: str = "", act: object = None) -> None:
        super().__init__(phase, act if callable(act) else lambda: None)
        self.heard: list[tuple[str, ...]] = []

    def measured_again(self, parts: Sequence[str], tests: int) -> None:
        """Some dipped."""
        super().measured_again(parts, tests)
        assert tests > 0
        self.heard.append(tuple(parts))


def prepared(folder: Path, *faults: Fault) -> Asked:
    """About a dozen rounds of two hours on eight hosts."""
    path = folder / "soak.yaml"
    path.write_text(SOAK.format(inventory=INVENTORY / "pod-64.yaml"))
    return builders.asked(path, timed=[TimedFault(0.0, 1e9, fault) for fault in faults])


def again(folder: Path) -> list[str]:
    """The ids of what was measured because a part had dipped."""
    return [
        probe.probe_id for probe in replanned(read_events(run_of(folder) / "events.jsonl")) if AGAIN in probe.params
    ]


def told(judged: JudgedRun) -> list[str]:
    """The notes about parts that were measured again."""
    return [line for line in judged.verdict.reasons if line.startswith("note: gpu") and "dip" in line]


DIPPING = Fault(f"{BAD}:port", "dipping", 0.5)


@pytest.mark.slow
def test_a_port_that_dips_now_and_then_is_named_and_so_from_the_directory_alone(tmp_path: Path) -> None:
    hears = Hears()
    judged = run(tmp_path, prepared(tmp_path, DIPPING), hears)
    assert [one.component for one in judged.verdict.suspects] == [BAD]
    assert any(BAD in parts for parts in hears.heard)
    assert again(tmp_path)
    later = analyze(run_of(tmp_path), baseline_path=None, rewrite=False).verdict
    assert (later.outcome, later.suspects) == (judged.verdict.outcome, judged.verdict.suspects)
    assert [line for line in later.reasons if "dip" in line] == [
        line for line in judged.verdict.reasons if "dip" in line
    ]


@pytest.mark.slow
def test_a_healthy_soak_has_nothing_measured_again(tmp_path: Path) -> None:
    hears = Hears()
    judged = run(tmp_path, prepared(tmp_path), hears)
    assert judged.verdict.outcome is Outcome.PASS
    assert (again(tmp_path), hears.heard, told(judged)) == ([], [], [])


@pytest.mark.slow
def test_a_run_that_goes_on_knows_who_dipped_before(tmp_path: Path) -> None:
    """It is stopped in a round after the first dip; the part is followed in the session that comes then."""
    asked = prepared(tmp_path, DIPPING)
    whole = run(tmp_path, asked, Hears())
    before = [name.partition("/")[0] for name in again(tmp_path)]
    second = list(dict.fromkeys(before))[1]
    with pytest.raises(Exception, match="interrupted"):
        run(tmp_path, asked, Acts(second, lambda: (run_of(tmp_path) / "STOP").touch()))
    so_far = len(again(tmp_path))
    judged = builders.gone_on(run_of(tmp_path), force=True)
    assert len(again(tmp_path)) > so_far > 0
    assert [one.component for one in judged.verdict.suspects] == [one.component for one in whole.verdict.suspects]
