"""Ids and names of links: each link has one of each, and they lead back to each other."""

from __future__ import annotations

import numpy as np
import pytest

from fabric.sim.net.clos import ClosSpec, build

TWO = ClosSpec(8, 2, 4, 3, 2, 0, 0, True, 400.0, 200.0)
THREE = ClosSpec(12, 1, 2, 2, 3, 2, 3, False, 400.0, 800.0)
SPECS = [TWO, THREE]


@pytest.mark.parametrize("spec", SPECS)
def test_ids_cover_every_link_once(spec):
    """All helpers together give each id exactly once."""
    clos = build(spec)
    found = []
    leaf, spine = np.divmod(np.arange(clos.leaves * spec.up), spec.up)
    found += [clos.nic_up(np.arange(clos.nics)), clos.nic_dn(np.arange(clos.nics))]
    found += [clos.leaf_up(leaf, spine), clos.leaf_dn(leaf, spine)]
    if clos.cores_up:
        above, core = np.divmod(np.arange(clos.pods * spec.up * clos.cores_up), clos.cores_up)
        pod, spine = np.divmod(above, spec.up)
        found += [clos.spine_up(pod, spine, core), clos.spine_dn(pod, spine, core)]
    assert np.sort(np.concatenate(found)).tolist() == list(range(clos.links))
    assert len(clos.capacity_gbps) == clos.links
