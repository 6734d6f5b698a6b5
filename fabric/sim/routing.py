"""How the simulated network chooses paths, and who asks it for some."""

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


EVERY_SL = 0xFFFF
"""The mask of service levels with adaptive routing when it is not narrowed (``ar_sl_mask``)."""


@dataclass(frozen=True, slots=True)
class Forwarding:
    """
    What the switches are programmed to do.

    *engine*: how static paths are chosen. *adaptive*: service levels of *sl_mask* use adaptive routing instead.
    *shield*: a switch moves the routes of a dead port by itself.
    """

    engine: str
    adaptive: bool = False
    sl_mask: int = EVERY_SL
    shield: bool = False

    def is_adaptive(self, service_level: int) -> bool:
        """Whether packets of this service level are routed adaptively."""
        return self.adaptive and bool(self.sl_mask >> service_level & 1)


def forwarding_at_start(routing: Routing, *, shield: bool = False) -> Forwarding:
    """What switches do before anybody changes it: ``ar`` is adaptive over what ``updn`` would do."""
    if routing.engine == "ar":
        return Forwarding("updn", adaptive=True, shield=shield)
    return Forwarding(routing.engine or "ftree", shield=shield)


@dataclass(frozen=True, slots=True)
class Ring:
    """
    Hosts in the order of the ring and the rails it runs on; *bus_ratio*: bus bandwidth over what an RNIC carries.

    *adaptive*: its packets may be routed adaptively where the fabric does that for their *service_level*. *one_way*: of
    two hosts only the first sends; *to_rails*: to these rails of the next host, where they are others. *every*: no
    ring, each host sends to every other as much.
    """

    hosts: tuple[str, ...]
    rails: tuple[int, ...]
    bus_ratio: float
    adaptive: bool = True
    service_level: int = 0
    one_way: bool = False
    to_rails: tuple[int, ...] = ()
    every: bool = False
