"""A look at all links with the real tools, on a simulated fabric."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.lab.link_sweep import simulated, sweep, topology
from tests.lab.ibsim import missing

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


def test_every_end_of_every_cable_is_found_and_nobody_is_mute(tmp_path: Path) -> None:
    """Real opensm, iblinkinfo and ibqueryerrors; 128 links."""
    if reason := missing():
        pytest.skip(reason)
    fabric = topology(8, 8, 8)
    with simulated(tmp_path, fabric) as env:
        cost, lines, errors = sweep(env, fabric)
    assert fabric.link_count == 128
    assert (cost["ends"], len(lines)) == (256, 256)
    assert all(line.state.active for line in lines)
    assert not errors.mute
