"""A whole run whose subnet managers are on hosts for management: changes reach them, probes do not."""

from __future__ import annotations

import shutil
from pathlib import Path

from fabric.app.prepare import Asked
from fabric.model.outcome import Outcome
from tests import builders
from tests.builders import Watcher
from tests.scenario.changing import POD, SCENARIO, watched

MANAGING = '  - {names: "sm[1-2]", role: management}\nswitches:\n'


def asked(folder: Path) -> Asked:
    """Adaptive routing on for the whole fabric, by managers on two hosts without GPUs."""
    shutil.copytree(POD.parent, folder / "inventory")
    pod = folder / "inventory" / POD.name
    text = pod.read_text().replace("\nswitches:\n", f"\n{MANAGING}")
    pod.write_text(text.replace("[{host: gpu063}, {host: gpu064}]", "[{host: sm1}, {host: sm2}]"))
    path = folder / "drill.yaml"
    path.write_text(SCENARIO.format(inventory=pod, changes="{adaptive_routing: on, scope: fabric}", more=""))
    return builders.asked(path)


def test_a_manager_that_is_not_under_test_is_told_and_told_back(tmp_path: Path) -> None:
    told: set[str] = set()
    watcher, wanted = Watcher(), asked(tmp_path)
    make = watched([], lambda command: told.add(command.host))
    judged = builders.on_mock(wanted, tmp_path / "results", observer=watcher, make_executor=make)
    assert watcher.states[-1] == ("adaptive_routing", "reverted")
    assert {probe.outcome for probe in judged.verdict.probes} == {Outcome.INCONCLUSIVE}  # measured; it has no limit
    assert told >= {"sm1", "sm2"}
    assert {part.component.split("/")[0] for part in judged.verdict.components} == set(wanted.scenario.hosts)
