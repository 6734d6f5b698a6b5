"""The links that each flow crosses, for each way of routing a cluster network, also around links that are down."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fabric.sim.net.clos import Bools, Clos, Floats, Ints, Links, Words
from fabric.sim.net.managers import DEALT

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)
_ONE = np.uint64(1)
_WORD = (1 << 64) - 1


def mix64(words: Words) -> Words:
    """Scramble each of *words* (the finaliser of SplitMix64, Steele et al. 2014)."""
    words = (words ^ (words >> _S30)) * _M1
    words = (words ^ (words >> _S27)) * _M2
    return words ^ (words >> _S31)


def mixed(salt: int, *keys: Ints) -> Words:
    """Return one word for each row of *keys*; another *salt* gives unrelated words."""
    state = np.full(np.broadcast(*keys).shape, salt & _WORD, dtype=np.uint64)
    for key in keys:
        state = mix64(state + _GOLDEN * (key.astype(np.uint64) + _ONE))
    return state


def choice(words: Words, options: int) -> Ints:
    """Return which of *options* each word stands for."""
    return (words % np.uint64(options)).astype(np.int64)


DRAWN = "ecmp"
"""The engine that hashes the packet's addresses and ports: each connection draws its own way."""
_LEAF_SALT, _SPINE_SALT = 0x6C656166, 0x7370696E65  # the tiers hash differently
_PLANE = np.zeros(1, dtype=np.int64)  # the number of the only plane: hashes have room for more


@dataclass(frozen=True, slots=True)
class Trips:
    """Source and destination of each sub-flow, as arrays of one length."""

    src: Ints  # RNICs
    dst: Ints
    pair: Ints  # which queue pair of its flow
    src_leaf: Ints
    dst_leaf: Ints
    src_pod: Ints
    dst_pod: Ints


def spine_keys(clos: Clos, trip: Trips, *, engine: str, salt: int) -> Words:
    """Return the key by which a leaf chooses an uplink."""
    if engine == "ecmp":
        return mixed(salt ^ _LEAF_SALT, trip.src, trip.dst, trip.pair, _PLANE)
    if engine == "lft_random":
        return mixed(salt ^ _LEAF_SALT, trip.src_leaf, trip.dst, _PLANE)
    # OpenSM 3.3.23: ftree starts anew with each leaf it routes to; updn and minhop deal uplinks out in turn to all
    # RNICs that are not on the leaf itself. Both are D-mod-K when leaves have as many uplinks as RNICs, and differ
    # otherwise.
    return (clos.port_of(trip.dst) if engine == "ftree" else leaf_turn(clos, trip)).astype(np.uint64)


def leaf_turn(clos: Clos, trip: Trips) -> Ints:
    """Return the position of a destination among the RNICs that are not on the source's leaf."""
    return _turn(clos, trip, trip.src_leaf, trip.dst_leaf, 1)


def _turn(clos: Clos, trip: Trips, here: Ints, there: Ints, leaves: int) -> Ints:
    """Return the position of a destination among the RNICs outside the source's own group of *leaves* leaves."""
    first, last = (clos.first[np.minimum(leaf * leaves, clos.leaves)] for leaf in (here, here + 1))
    return clos.place_at[trip.dst] - np.where(there > here, last - first, 0)


def core_keys(clos: Clos, trip: Trips, spine: Ints, *, engine: str, salt: int, alike: bool = False) -> Words:
    """Return the key by which a spine (counted in its pod) chooses a core; *alike*: by the same hash as the leaf."""
    if engine == "ecmp":
        own = _LEAF_SALT if alike else _SPINE_SALT
        return mixed(salt ^ own, trip.src, trip.dst, trip.pair, _PLANE)
    if engine == "lft_random":
        return mixed(salt ^ _SPINE_SALT, trip.src_pod * clos.spec.up + spine, trip.dst, _PLANE)
    # updn and minhop deal a spine's cores out in turn to all RNICs outside the pod, used by this spine or not: when
    # leaves did the same, spine s only ever uses cores s % C of its own. Seen with OpenSM 3.3.23 on three levels.
    if engine != "ftree":
        return _turn(clos, trip, trip.src_pod, trip.dst_pod, clos.leaves_per_pod).astype(np.uint64)
    # ftree deals them out to what the spine gets, starting anew with each pod.
    row, healthy = np.divmod(clos.port_of(trip.dst), clos.spec.up)
    of_leaf = -((healthy - clos.spec.down) // clos.spec.up)  # ports of a leaf that come to this spine
    turn: Ints = trip.dst_leaf % clos.leaves_per_pod * of_leaf + row
    return turn.astype(np.uint64)


@dataclass(frozen=True, slots=True)
class Alive:
    """Which cables between switches are up; a cable is down when either direction is."""

    leaf: Bools  # [leaf, spine]
    core: Bools  # [pod, spine, core]

    @property
    def hurt(self) -> Bools:
        """Return for each leaf whether one of its uplinks is dead."""
        found: Bools = np.logical_not(np.all(self.leaf, axis=1))
        return found


def alive(clos: Clos, down: Iterable[int]) -> Alive:
    """Return the cables that are up when the links *down* are not."""
    up = np.ones(clos.links, dtype=np.bool_)
    up[np.fromiter(down, dtype=np.int64)] = False
    trunks, width = up[2 * clos.nics :], clos.spec.up
    leaf, rest = np.split(trunks, [2 * clos.leaves * width])
    leaf_up, leaf_dn = leaf.reshape(2, clos.leaves, width)
    core_up, core_dn = rest.reshape(2, clos.pods, width, clos.spec.core_up)
    return Alive(leaf_up & leaf_dn, core_up & core_dn)


def touched(trip: Trips, cables: Alive) -> Bools:
    """Return which sub-flows have a dead cable among those they could have used."""
    found: Bools = cables.hurt[trip.src_leaf] | cables.hurt[trip.dst_leaf]
    pod: Bools = np.logical_not(np.all(cables.core, axis=(1, 2)))
    across = trip.src_pod != trip.dst_pod
    found |= across & (pod[trip.src_pod] | pod[trip.dst_pod])
    found &= trip.src_leaf != trip.dst_leaf
    return found


def live_spines(trip: Trips, cables: Alive, rows: Ints) -> Bools:
    """Return [row, spine]: both ends reach the spine, and across pods the spines of one number still share a core."""
    reached: Bools = cables.leaf[trip.src_leaf[rows]] & cables.leaf[trip.dst_leaf[rows]]
    pods = len(cables.core)
    code, which = np.unique(trip.src_pod[rows] * pods + trip.dst_pod[rows], return_inverse=True)
    first, last = np.divmod(code, pods)
    shared: Bools = (cables.core[first] & cables.core[last]).any(axis=2) | (first == last)[:, np.newaxis]
    reached &= shared[which]
    return reached


def picked(keys: Words, live: Bools, *, healing: str) -> Ints:
    """
    Return the live choice for each key; the healthy choice where nothing is live.

    ``sm`` spreads all keys anew over what is left, as OpenSM does; ``shield`` moves only keys whose choice died, to the
    next live one of the group, as a switch does by itself.
    """
    width = live.shape[1]
    healthy = choice(keys, width)
    left = live.sum(axis=1)
    if healing == "sm":
        wanted = (keys % np.maximum(left, 1).astype(np.uint64)).astype(np.int64)
        chosen = np.argmax(np.cumsum(live, axis=1) > wanted[:, np.newaxis], axis=1)
    else:
        steps = (np.arange(width)[np.newaxis, :] - healthy[:, np.newaxis]) % width
        chosen = np.argmin(np.where(live, steps, width), axis=1)
    return np.where(left > 0, chosen, healthy)


AR_ETA = 0.95
"""
The fraction of a trunk that distributed adaptive routing reaches; 0.77 to 1.0 measured (Geoffray and Hoefler, HotI
2008).
"""
AR_ALPHA = {"infiniband": 1.0, "ethernet": 0.0}
"""How well a switch knows the far side: credits push back on InfiniBand; plain packet spray on Ethernet is blind."""


def pooled(clos: Clos, capacity_gbps: Floats, *, eta: float = AR_ETA, alpha: float = 1.0) -> Floats:
    """
    Return the capacities of the trunks that these links form; a link of capacity 0 is left out of its group.

    The trunks are, in order: RNICs up and down, leaf trunks up and down, pod trunks up and down. *eta* is the fraction
    of a trunk that distributed choices reach. *alpha* says how well a switch knows the far side: 1 is the best split
    there is, 0 sprays blindly, so that the slowest link of the way down sets the pace of all.
    """
    trunk, access = trunk_of(clos)[:-1], 2 * clos.nics
    total = np.bincount(trunk, capacity_gbps, minlength=resources(clos)).astype(np.float64, copy=False)
    total[access:] *= eta
    if alpha < 1:
        alive = capacity_gbps > 0
        count = np.bincount(trunk[alive], minlength=len(total))
        slowest = np.full(len(total), np.inf)
        np.minimum.at(slowest, trunk[alive], capacity_gbps[alive])
        slowest[count == 0] = 0.0
        down = np.zeros(len(total), dtype=np.bool_)
        down[access + clos.leaves : access + 2 * clos.leaves] = True
        down[access + 2 * clos.leaves + clos.pods :] = True
        total = np.where(down, alpha * total + (1 - alpha) * eta * count * slowest, total)
    return total


@lru_cache(maxsize=8)
def trunk_of(clos: Clos) -> Ints:
    """Return the trunk of each link (an RNIC's link is a trunk by itself), and last that of the padding link."""
    access, leaves, pods = 2 * clos.nics, clos.leaves, clos.pods
    leaf = access + np.repeat(np.arange(leaves), clos.spec.up)
    pod = access + 2 * leaves + np.repeat(np.arange(pods), clos.spec.up * clos.spec.core_up)
    return np.concatenate([np.arange(access), leaf, leaf + leaves, pod, pod + pods, [resources(clos)]])


def resources(clos: Clos) -> int:
    """Return the number of trunks, which is also the id of the dummy that pads a short path."""
    pods = clos.pods if clos.spec.core_up else 0
    return 2 * (clos.nics + clos.leaves + pods)


ENGINES = (*DEALT, "lft_random", DRAWN, "ar")


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Sub-flows in the order of their flows; the sub-flows of one flow carry equal parts of it."""

    links: Links  # [sub-flow, 6]; short paths are padded with the dummy
    weight: Floats  # the fraction of its flow that a sub-flow carries
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
    alike: bool = False,
) -> Paths:
    """
    Return the paths of flows between RNICs.

    Only ``ecmp`` tells the *qps* queue pairs of a flow apart; to a forwarding table they are one destination, so they
    stay one sub-flow there. No path uses a link of *down* while there is another way. For ``ar``, links are resources
    of `pooled`, where the capacity 0 of a dead link does the same. *alike*: the tiers of ``ecmp`` hash alike.
    """
    parts = qps if engine == DRAWN else 1
    flow, pair = (axis.ravel() for axis in np.meshgrid(np.arange(len(src)), np.arange(parts), indexing="ij"))
    start, end = (np.asarray(nics, dtype=np.int64)[flow] for nics in (src, dst))
    src_leaf, dst_leaf = clos.leaf_at[start], clos.leaf_at[end]
    trip = Trips(start, end, pair, src_leaf, dst_leaf, clos.pod_of(src_leaf), clos.pod_of(dst_leaf))
    weight = np.full(len(flow), 1.0 / parts)
    if engine == "ar":
        anywhere = np.zeros_like(flow)  # all links of a trunk are equal
        return Paths(trunk_of(clos)[_links(clos, trip, anywhere, anywhere)].astype(np.int32), weight, flow)
    spine, core = _chosen(clos, trip, engine, salt, alive(clos, down) if down else None, healing, alike=alike)
    return Paths(_links(clos, trip, spine, core), weight, flow)


def _chosen(
    clos: Clos, trip: Trips, engine: str, salt: int, cables: Alive | None, healing: str, *, alike: bool
) -> tuple[Ints, Ints]:
    keys = spine_keys(clos, trip, engine=engine, salt=salt)
    spine = choice(keys, max(1, clos.spec.up))  # without uplinks no flow leaves a leaf
    rows = np.flatnonzero(touched(trip, cables)) if cables is not None else np.zeros(0, dtype=np.int64)
    if cables is not None and len(rows):
        anew = keys
        if healing == "sm" and engine in DEALT:
            # OpenSM deals what is left of a leaf's own uplinks out anew to every destination; leaves that only lost the
            # way down to another leaf deal what is left out to the ports of that leaf.
            own = cables.hurt[trip.src_leaf]
            anew = np.where(own, leaf_turn(clos, trip), clos.port_of(trip.dst)).astype(np.uint64)
        spine[rows] = picked(anew[rows], live_spines(trip, cables, rows), healing=healing)
    if not clos.spec.core_up:
        return spine, spine
    keys = core_keys(clos, trip, spine, engine=engine, salt=salt, alike=alike)
    core = choice(keys, clos.spec.core_up)
    if cables is not None and len(rows):
        live = cables.core[trip.src_pod[rows], spine[rows]] & cables.core[trip.dst_pod[rows], spine[rows]]
        core[rows] = picked(keys[rows], live, healing=healing)
    return spine, core


def _links(clos: Clos, trip: Trips, spine: Ints, core: Ints) -> Links:
    dummy = clos.links
    links = np.full((len(trip.src), 6), dummy, dtype=np.int32)
    links[:, 0] = clos.nic_up(trip.src)
    links[:, 5] = clos.nic_dn(trip.dst)
    away = trip.src_leaf != trip.dst_leaf
    links[:, 1] = np.where(away, clos.leaf_up(trip.src_leaf, spine), dummy)
    links[:, 4] = np.where(away, clos.leaf_dn(trip.dst_leaf, spine), dummy)
    if clos.spec.core_up:
        across = trip.src_pod != trip.dst_pod
        links[:, 2] = np.where(across, clos.spine_up(trip.src_pod, spine, core), dummy)
        links[:, 3] = np.where(across, clos.spine_dn(trip.dst_pod, spine, core), dummy)
    return links
