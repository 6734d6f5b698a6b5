"""How the simulated network chooses paths."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Routing:
    """
    *engine* as in ``fabric.sim.net.route``, ftree when None; *qps* and *salt* are those of its hashes.

    An engine that is named needs a network that is regular; without one nothing limits above the leaves.
    """

    engine: str | None = None
    qps: int = 1
    salt: int = 0


BY_DEFAULT = Routing()
