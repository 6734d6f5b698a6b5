"""Cables by name in tests of the network: ``leaf12-spine3``, ``spine3-core7``."""

from __future__ import annotations

import re


def cable(clos, ends):
    """Both directions, up and down; spines and cores count through the whole network."""
    lower, m, upper, n = re.fullmatch(r"(leaf|spine)(\d+)-(spine|core)(\d+)", ends).groups()
    pod, spine = divmod(int(n) if upper == "spine" else int(m), clos.spec.up)
    if lower == "leaf":
        return int(clos.leaf_up(int(m), spine)), int(clos.leaf_dn(int(m), spine))
    core = int(n) % clos.cores_up
    return int(clos.spine_up(pod, spine, core)), int(clos.spine_dn(pod, spine, core))
