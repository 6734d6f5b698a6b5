"""Eight hosts of eight RNICs in units, each unit with a leaf for each rail."""

from __future__ import annotations

from dataclasses import replace

from fabric.model.topology import Topology
from tests.conftest import rack_topology

BARE = rack_topology(8)
NAMES = tuple(BARE.hosts)


def hall(units: int) -> Topology:
    """The hosts in so many units."""
    size = len(NAMES) // units
    return Topology(
        hosts={
            name: replace(host, leaves=tuple(f"su{place // size}-leaf{rail}" for rail in range(8)))
            for place, (name, host) in enumerate(BARE.hosts.items())
        },
        switches={},
    )
