"""Where a scenario says what it alters."""

from __future__ import annotations

from pathlib import Path

from fabric.config.changes_lines import changes_lines

SCENARIO = """\
name: drill
phases:
  - name: before
    probes: [loopback]
  - name: during
    probes: [loopback]
    changes:
      - {shield: on}
  - {name: after, changes: [{shield: off}], probes: [loopback]}
"""


def test_each_phase_with_changes_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "drill.yaml"
    path.write_text(SCENARIO)
    assert changes_lines(path) == {"during": 7, "after": 9}
