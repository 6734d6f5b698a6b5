"""When flows end at the rates that max-min gives them, beside SimGrid's recorded answers."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.oracle.simgrid import FOLDER, SIZE_BYTES, THREE_LEVELS, TWO_LEVELS, completion
from fabric.sim.net.clos import build
from fabric.sim.net.route import routes


@pytest.mark.parametrize(("name", "spec"), [("2-levels-512", TWO_LEVELS), ("3-levels-4096", THREE_LEVELS)])
def test_flows_end_when_simgrid_says(name, spec):
    """Routes are SimGrid's own D-mod-K, so every completion agrees to 1e-9."""
    src, dst, end_s = np.loadtxt(FOLDER / f"{name}.txt", unpack=True)
    clos = build(spec)
    paths = routes(clos, src.astype(np.int64), dst.astype(np.int64), engine="ftree")
    ours_s = completion(paths.links, clos.capacity_gbps, np.full(len(src), SIZE_BYTES))
    np.testing.assert_allclose(ours_s, end_s, rtol=1e-9)


def test_capacity_that_is_freed_is_used():
    """Two flows share a link until the shorter ends; the longer then has it alone."""
    links = np.array([[0, 1], [0, 1]])
    assert completion(links, np.array([8.0]), np.array([1e9, 3e9])) == pytest.approx([2.0, 4.0])
