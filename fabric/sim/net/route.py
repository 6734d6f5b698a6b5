"""The links each flow crosses, for each way a cluster network is routed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from fabric.sim.net.arrays import Floats, Ints, Links
from fabric.sim.net.choose import DEALT, STATIC, Trips, choice, core_keys, leaf_turn, spine_keys, trips
from fabric.sim.net.clos import Clos
from fabric.sim.net.detour import HEALING, Alive, alive, live_cores, live_spines, picked, touched, uplink_lost
from fabric.sim.net.pooled import Pooled, pooled, trunk_links

__all__ = ["ENGINES", "Paths", "Pooled", "pooled", "routes"]

ENGINES = (*STATIC, "ar")


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Sub-flows in the order of their flows; those of one flow carry equal parts of it."""

    links: Links  # [sub-flow, 6]; short paths are padded with the dummy
    weight: Floats  # what a sub-flow carries of its flow
    flow: Ints  # index of the flow that a sub-flow belongs to


def routes(
    clos: Clos,
    src: Ints,
    dst: Ints,
    *,
    engine: str,
    salt: int = 0,
    qps: int = 1,
    down: Collection[int] = frozenset(),
    healing: str = "sm",
) -> Paths:
    """The paths of flows between RNICs.

    Only ``ecmp`` tells the *qps* queue pairs of a flow apart; to a forwarding table they are one destination, so they
    stay one sub-flow there. No path uses a link of *down* while there is another way. For ``ar``, links are resources
    of `pooled`, where the capacity 0 of a dead link does the same.
    """
    _check(clos, src, dst, engine, qps, healing)
    parts = qps if engine == "ecmp" else 1
    flow, pair = (axis.ravel() for axis in np.meshgrid(np.arange(len(src)), np.arange(parts), indexing="ij"))
    flow_src, flow_dst = np.asarray(src, dtype=np.int64)[flow], np.asarray(dst, dtype=np.int64)[flow]
    trip = trips(clos, flow_src, flow_dst, pair=pair)
    weight = np.full(len(flow), 1.0 / parts)
    if engine == "ar":
        return Paths(trunk_links(clos, trip), weight, flow)
    spine, core = _chosen(clos, trip, engine, salt, alive(clos, down) if down else None, healing)
    return Paths(_links(clos, trip, spine, core), weight, flow)


def _check(clos: Clos, src: Ints, dst: Ints, engine: str, qps: int, healing: str) -> None:
    if engine not in ENGINES:
        raise ValueError(f"routing engine {engine!r} is not one of {', '.join(ENGINES)}")
    if healing not in HEALING:
        raise ValueError(f"healing {healing!r} is not one of {', '.join(HEALING)}")
    if qps < 1:
        raise ValueError(f"{qps} queue pairs; a flow needs at least 1")
    if len(src) != len(dst):
        raise ValueError(f"{len(src)} sources for {len(dst)} destinations")
    for ends in (src, dst):
        if len(ends) and (np.min(ends) < 0 or np.max(ends) >= clos.nics):
            raise ValueError(f"an RNIC outside 0..{clos.nics - 1}")


def _chosen(clos: Clos, trip: Trips, engine: str, salt: int, cables: Alive | None, healing: str) -> tuple[Ints, Ints]:
    keys = spine_keys(clos, trip, engine=engine, salt=salt)
    spine = choice(keys, clos.spec.up)
    rows = np.flatnonzero(touched(trip, cables)) if cables is not None else np.zeros(0, dtype=np.int64)
    if cables is not None and len(rows):
        anew = keys
        if healing == "sm" and engine in DEALT:
            anew = np.where(uplink_lost(trip, cables), leaf_turn(clos, trip), clos.port_of(trip.dst)).astype(np.uint64)
        spine[rows] = picked(anew[rows], live_spines(trip, cables, rows), healing=healing)
    if not clos.cores_up:
        return spine, spine
    keys = core_keys(clos, trip, spine, engine=engine, salt=salt)
    core = choice(keys, clos.cores_up)
    if cables is not None and len(rows):
        core[rows] = picked(keys[rows], live_cores(trip, cables, rows, spine[rows]), healing=healing)
    return spine, core


def _links(clos: Clos, trip: Trips, spine: Ints, core: Ints) -> Links:
    dummy = clos.links
    links = np.full((len(trip.src), 6), dummy, dtype=np.int32)
    links[:, 0] = clos.nic_up(trip.src)
    links[:, 5] = clos.nic_dn(trip.dst)
    away = trip.src_leaf != trip.dst_leaf
    links[:, 1] = np.where(away, clos.leaf_up(trip.src_leaf, spine), dummy)
    links[:, 4] = np.where(away, clos.leaf_dn(trip.dst_leaf, spine), dummy)
    if clos.cores_up:
        across = trip.src_pod != trip.dst_pod
        links[:, 2] = np.where(across, clos.spine_up(trip.src_pod, spine, core), dummy)
        links[:, 3] = np.where(across, clos.spine_dn(trip.dst_pod, spine, core), dummy)
    return links
