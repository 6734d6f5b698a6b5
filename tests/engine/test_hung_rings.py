"""A ring that hung: who of the two it was, and what is not waited for any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.app.prepare import Given, prepare
from fabric.app.run import run as run_asked
from fabric.engine.admission import HungRings
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.verdict import JudgedRun
from fabric.wiring import BACKENDS
from tests.builders import Watcher
from tests.places import INVENTORY

SCENARIO = """\
name: rings
inventory: {inventory}
hosts: gpu[001-006]
phases:
  - name: tor
    probes: [{{tor_all_reduce: {{sizes: [8G], iterations: 3600}}}}]
"""


def ring(a: str, b: str, kind: str = "tor_all_reduce") -> Probe:
    """Two hosts that measure together."""
    return Probe(f"tor/{a}+{b}/{kind}", kind, "tor", (a, b), (), 1.0, {})


def ended(probe: Probe, *, well: bool) -> ProbeResult:
    """Measured, or not."""
    measured = (Measurement(probe.probe_id, "busbw_out_of_place", 390.0, "Gb/s"),) if well else ()
    return ProbeResult(probe.probe_id, 1, measured, None if well else Outcome.ERROR, "", 0.0, 1.0)


def told(*rings: tuple[str, str, str]) -> tuple[HungRings, list[str | None]]:
    """How rings ended one after the other (``well``, ``hung``, ``lost``), and who is known to hang after each."""
    found = HungRings()
    known = []
    for a, b, how in rings:
        probe = ring(a, b)
        known.append(found.finished(probe, ended(probe, well=how == "well"), hung=how == "hung"))
    return found, known


def test_who_hung_is_known_once_the_other_one_did_well() -> None:
    found, known = told(("a", "b", "hung"), ("d", "a", "well"))
    assert known == [None, "b"]
    assert found.host_of(ring("b", "c")) == "b"
    assert found.host_of(ring("c", "d")) is None
    assert found.why["b"] == "its ring with a hung, and a was measured with another host"


@pytest.mark.parametrize("how", ["hung", "lost"])
def test_two_hosts_of_which_neither_did_well_are_both_tried_on(how: str) -> None:
    assert told(("a", "b", "hung"), ("d", "a", how))[1] == [None, None]


def run(folder: Path, *faults: str) -> JudgedRun:
    """Rings of six hosts on the mock."""
    file = folder / "rings.yaml"
    file.write_text(SCENARIO.format(inventory=INVENTORY / "demo-rack-healthy.yaml"), "utf-8")
    return run_asked(
        prepare(Given(file, faults=faults)),
        backend="mock",
        make_executor=BACKENDS["mock"],
        results=folder / "results",
        seed=1,
        observer=Watcher(),
        reports=False,
    )


def test_an_rnic_that_hangs_costs_one_deadline_and_no_more(tmp_path: Path) -> None:
    """Its second ring is ended, or not begun, and its neighbours are given each other."""
    judged = run(tmp_path, "gpu003/mlx5_3:hanging")
    deadline_s = 2607.0
    assert deadline_s < judged.elapsed_s < 1.5 * deadline_s
    verdicts = {one.probe_id.split("/")[1]: one for one in judged.verdict.probes}
    lost = [one for one in verdicts.values() if one.outcome is Outcome.ERROR]
    assert len(lost) == 2
    assert any("hung, and gpu00" in one.reason for one in lost)
    assert verdicts["gpu002+gpu004"].outcome is Outcome.PASS
    assert [one.hosts for one in judged.verdict.suspects] != []
