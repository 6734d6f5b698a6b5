"""With ``judge: {samples: auto}`` every probe is planned at least three times: fewer samples settle nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fabric.model.repetition import LEAST_SAMPLES
from fabric.model.scenario import Phase, ProbeSpec


def at_least_thrice(phases: Iterable[Phase]) -> tuple[Phase, ...]:
    """The phases with ``repeat`` of at least three, where samples may be added; one with changes stays as written."""
    return tuple(
        phase if phase.changes else replace(phase, probes=tuple(_repeated(spec) for spec in phase.probes))
        for phase in phases
    )


def _repeated(spec: ProbeSpec) -> ProbeSpec:
    if not spec.alone:
        return spec
    return spec.changed(repeat=max(LEAST_SAMPLES, spec.repeat))
