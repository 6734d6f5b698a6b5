"""What a quick validation after a repair repeats of the evidence, and what that leaves out."""

from __future__ import annotations

from dataclasses import replace

from fabric.model.probe import Probe
from fabric.model.repair import Because
from fabric.model.scenario import Scenario
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.shortened import shortened
from fabric.probes.tor_all_reduce import TorAllReduceSpec

ITERATIONS = 20
"""Of the evidence where the scenario's suite has no such probe: the default of the suite's collectives."""

DURATION_S = 5
"""The longest that a bandwidth test of the evidence is repeated: as long as the suite of a full validation."""


def quick_evidence(because: Because, scenario: Scenario) -> Because:
    """The evidence as short as the suite of the scenario is; what that leaves out is said."""
    own = {
        spec.name: spec.iterations
        for phase in scenario.phases
        for spec in phase.probes
        if isinstance(spec, AllToAllSpec | TorAllReduceSpec)
    }
    evidence = tuple(
        replace(
            one,
            probe=shortened(one.probe, iterations=own.get(one.probe.kind, ITERATIONS), duration_s=DURATION_S),
        )
        for one in because.evidence
    )
    kinds = {
        one.probe.kind: ", ".join(_shorter(one.probe, new.probe))
        for one, new in zip(because.evidence, evidence, strict=True)
        if one.probe != new.probe
    }
    if not kinds:
        return because
    said = "; ".join(f"{kind}: {words}" for kind, words in kinds.items())
    note = f"quick: the evidence is repeated shorter ({said}): what shows only under longer load is not covered"
    return replace(because, evidence=evidence, notes=(*because.notes, note))


def _shorter(then: Probe, now: Probe) -> list[str]:
    """Each setting that is less than it was, in words."""
    words = {"iterations": "iterations", "duration_s": "s"}
    return [
        f"{now.params[key]:,} {word} instead of {then.params[key]:,}"
        for key, word in words.items()
        if then.params.get(key) != now.params.get(key)
    ]
