"""Runs of the simulated rack for the tests of reports, and what a hostile host may have printed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect
from fabric.report.shown_run import ShownRun
from tests import builders
from tests.places import INVENTORY, SCENARIOS

HOSTILE = (
    "<script>window.owned=1</script>",
    "\"><img src=x onerror='window.owned=1'>",
    "</script><script>window.owned=1</script>",
    "<!--<script>",
    "<!-- <script ",
    "javascript:window.owned=1",
    "{{ 7*7 }}",
    "=cmd|' /C calc'!A0",
    "\x1b[31mred\x1b[0m\u202egnp\x00",
)


def run_of(
    results: Path,
    *,
    scenario: str = "self-check",
    hosts: str | None = "gpu[001-004]",
    faults: tuple[str, ...] = (),
    reports: bool = True,
) -> Path:
    """Run a shipped scenario on the mock; the directory of the run."""
    inventory = INVENTORY / "demo-rack-healthy.yaml" if scenario == "self-check" else None
    path = SCENARIOS / f"{scenario}.yaml"
    asked = builders.asked(path, inventory=inventory, hosts=hosts, faults=faults)
    judged = builders.on_mock(asked, results, reports=reports)
    return Path(judged.path)


def hostile(run: ShownRun) -> ShownRun:
    """The same run as hosts, files and tools that mean harm would have made it."""
    verdict = run.judged.verdict
    words = HOSTILE
    suspects = tuple(
        Suspect(
            f"gpu001/{word}",
            "rnic",
            Outcome.FAIL,
            0.5,
            (word, f"said: {word}" * 200),
            (word,),
            word,
            ("gpu001",),
            (verdict.probes[0].probe_id,),
        )
        for word in words
    )
    probes = tuple(
        replace(probe, outcome=Outcome.ERROR, reason=words[index % len(words)], value_gbps=None)
        for index, probe in enumerate(verdict.probes)
    )
    judged = replace(
        run.judged,
        scenario=replace(run.judged.scenario, name=words[0], description=words[1]),
        verdict=replace(verdict, reasons=words, suspects=suspects, probes=probes, outcome=Outcome.FAIL),
        judged_by=words,
        again=words[1],
    )
    document = {"argv": list(words), "versions": {words[0]: words[1]}}
    return replace(run, judged=judged, document=document, complete=False)
