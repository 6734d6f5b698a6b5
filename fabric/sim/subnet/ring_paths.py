"""The links that the edges of a ring cross: by static routes as switches have them now, or by adaptive trunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fabric.sim.net.arrays import Ints, Links
from fabric.sim.net.named_clos import NamedClos
from fabric.sim.net.route import Paths, routes
from fabric.sim.routing import Ring, Routing


@dataclass(frozen=True, slots=True)
class Known:
    """
    What the static routes know of links that are down.

    *routed*: the subnet manager dealt its routes out without these. *shielded*: switches moved what used these.
    """

    engine: str
    routed: frozenset[int] = frozenset()
    shielded: frozenset[int] = frozenset()


def ends_of(net: NamedClos, ring: Ring) -> tuple[Ints, Ints]:
    """Source and destination RNICs of every edge, rail by rail within each host."""
    ids = np.array([net.host_ids[name] for name in ring.hosts], dtype=np.int64)
    rails = np.array(ring.rails, dtype=np.int64)
    src = net.clos.nic(ids[:, np.newaxis], rails).ravel()
    dst = net.clos.nic(np.roll(ids, -1)[:, np.newaxis], rails).ravel()
    edges = len(rails) if ring.one_way else len(src)
    return src[:edges], dst[:edges]


def static_paths(net: NamedClos, src: Ints, dst: Ints, routing: Routing, known: Known) -> Paths:
    """The routes in force: what SHIELD did lies over what the subnet manager did."""
    found = routes(
        net.clos, src, dst, engine=known.engine, salt=routing.salt, qps=routing.qps, down=known.routed, healing="sm"
    )
    if not known.shielded:
        return found
    dead = np.fromiter(known.shielded, dtype=np.int64)
    hit = np.isin(found.links, dead).any(axis=1)
    if hit.any():
        down = known.routed | known.shielded
        moved = routes(
            net.clos, src, dst, engine=known.engine, salt=routing.salt, qps=routing.qps, down=down, healing="shield"
        )
        found.links[hit] = moved.links[hit]
    return found


def adaptive_paths(net: NamedClos, src: Ints, dst: Ints) -> Paths:
    """The trunks (``fabric.sim.net.pooled``) that packets are spread over."""
    return routes(net.clos, src, dst, engine="ar")


def beside_trunks(static: Paths, trunks: Paths, *, links: int, dummy: int) -> Links:
    """
    Static sub-flows as loads on their links and on the trunks that hold those.

    Trunks are numbered on from the *links* there are; *dummy*, one past the last trunk, pads.
    """
    own = np.where(static.links == links, dummy, static.links)
    return np.concatenate([own, trunks.links[static.flow] + links], axis=1).astype(np.int32)


def alone_on_trunks(trunks: Paths, *, links: int, dummy: int) -> Links:
    """Adaptive sub-flows in the same numbers and the same width."""
    nothing = np.full_like(trunks.links, dummy)
    return np.concatenate([nothing, trunks.links + links], axis=1).astype(np.int32)
