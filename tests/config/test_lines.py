"""Where a scenario says what is found wrong only once it is planned."""

from __future__ import annotations

from pathlib import Path

from fabric.config import from_resolved, load_scenario, resolved_document

RACK = Path(__file__).parents[2] / "inventory" / "demo-rack-healthy.yaml"
SCENARIO = f"""\
name: repaired
inventory: {RACK}
phases:
  - name: evidence
    probes:
      - loopback
      - again: {{repeat: 5}}
    changes:
      - {{ber: {{links: gpu001/mlx5_0, effective: 1e-7, for: 20s}}}}
  - {{name: more, probes: [again]}}
"""


def test_probes_and_changes_have_their_lines_with_settings_or_without(tmp_path: Path) -> None:
    path = tmp_path / "repaired.yaml"
    path.write_text(SCENARIO)
    resolved = load_scenario(path)
    assert resolved[0].lines == (
        ("changes", "evidence", 8),
        ("loopback", "evidence", 6),
        ("again", "evidence", 7),
        ("again", "more", 10),
    )
    kept = from_resolved(resolved_document(*resolved))
    assert (kept, kept[0].lines) == (resolved, ())
