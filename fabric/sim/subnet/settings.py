"""What the inventory says about those who govern the simulated subnet."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.model.change import SubnetManager

SHIELD_S = 3e-3
"""
How long a switch with SHIELD needs to move the routes of a dead port.

Milliseconds: the vendor says 5,000 times faster than the subnet manager; no number is published.
"""


@dataclass(frozen=True, slots=True)
class FabricSettings:
    """
    *shield*: switches reroute around dead ports by themselves. *sm_reroute_s*: from an event to new routes.

    *ufm*: there is one to be asked; *ufm_isolates*: it isolates ports with many bit errors. *subnet_managers*: in the
    order in which they prevail at equal priority; none: one that nobody can reach.
    """

    shield: bool = False
    sm_reroute_s: float = 15.0
    ufm_isolates: bool = False
    subnet_managers: tuple[SubnetManager, ...] = ()
    ufm: bool = False


BY_ITSELF = FabricSettings()
"""A fabric that nobody named anything about."""
