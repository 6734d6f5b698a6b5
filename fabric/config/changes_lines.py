"""Where a scenario file says what its phases alter, for what is found wrong only once the changes are planned."""

from __future__ import annotations

from pathlib import Path

from fabric.config.document import read_document
from fabric.config.problems import Problems
from fabric.model.fields.wording import shown


def changes_lines(path: Path) -> dict[str, int]:
    """The line of ``changes:`` for each phase that has them, by its written name; of a file that was decoded before."""
    problems = Problems(shown(str(path)))
    phases = read_document(path, problems).get("phases")
    found: dict[str, int] = {}
    for position, phase in enumerate(phases if isinstance(phases, list) else []):
        line = problems.lines.get(("phases", position, "changes"))
        if isinstance(phase, dict) and isinstance(phase.get("name"), str) and line is not None:
            found[str(phase["name"])] = line
    return found
