"""Where a scenario file has its probes ``again``, which nothing but an earlier run can fill."""

from __future__ import annotations

from pathlib import Path

from fabric.config.document import Tree, read_document
from fabric.config.problems import Problems
from fabric.model.fields.wording import shown

AGAIN = "again"


def again_lines(path: Path) -> tuple[int, ...]:
    """The line of each probe ``again``, written with settings or without; of a file that was decoded before."""
    problems = Problems(shown(str(path)))
    phases = read_document(path, problems).get("phases")
    return tuple(
        problems.lines.get(("phases", position, "probes", place), 0)
        for position, phase in enumerate(phases if isinstance(phases, list) else [])
        for place, probe in enumerate(_probes(phase))
        if probe == AGAIN or (isinstance(probe, dict) and AGAIN in probe)
    )


def _probes(phase: Tree) -> list[Tree]:
    probes = phase.get("probes") if isinstance(phase, dict) else None
    return probes if isinstance(probes, list) else []
