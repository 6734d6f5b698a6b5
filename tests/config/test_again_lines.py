"""Where a scenario has its probes ``again``."""

from __future__ import annotations

from pathlib import Path

from fabric.config.again_lines import again_lines

SCENARIO = """\
name: repaired
phases:
  - name: evidence
    probes:
      - loopback
      - again: {repeat: 5}
  - {name: more, probes: [again]}
"""


def test_each_has_its_line_with_settings_or_without(tmp_path: Path) -> None:
    path = tmp_path / "repaired.yaml"
    path.write_text(SCENARIO)
    assert again_lines(path) == (6, 7)
    path.write_text(SCENARIO.replace("again: {repeat: 5}", "rnic_to_rnic").replace("[again]", "[loopback]"))
    assert again_lines(path) == ()
