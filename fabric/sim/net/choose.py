"""Which spine, and which core, each way of routing sends a flow through: numbers, not yet taken modulo the choices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fabric.sim.net.arrays import Ints, Words
from fabric.sim.net.clos import Clos

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
    """One word for each row of *keys*; another *salt* gives words that have nothing to do with these."""
    state = np.full(np.broadcast(*keys).shape, salt & _WORD, dtype=np.uint64)
    for key in keys:
        state = mix64(state + _GOLDEN * (key.astype(np.uint64) + _ONE))
    return state


def choice(words: Words, options: int) -> Ints:
    """Which of *options* each word stands for."""
    return (words % np.uint64(options)).astype(np.int64)


DEALT = ("ftree", "updn", "minhop")  # OpenSM's: uplinks dealt out in turn
STATIC = (*DEALT, "lft_random", "ecmp")
_LEAF_SALT, _SPINE_SALT = 0x6C656166, 0x7370696E65  # the tiers hash differently
_PLANE = np.zeros(1, dtype=np.int64)  # the number of the only plane: hashes have room for more


@dataclass(frozen=True, slots=True)
class Trips:
    """From where to where each sub-flow goes, as arrays of one length."""

    src: Ints  # RNICs
    dst: Ints
    pair: Ints  # which queue pair of its flow
    src_leaf: Ints
    dst_leaf: Ints
    src_pod: Ints
    dst_pod: Ints


def trips(clos: Clos, src: Ints, dst: Ints, *, pair: Ints) -> Trips:
    """The leaves and pods that go with RNICs."""
    src_leaf, dst_leaf = clos.leaf_of(src), clos.leaf_of(dst)
    return Trips(src, dst, pair, src_leaf, dst_leaf, clos.pod_of(src_leaf), clos.pod_of(dst_leaf))


def spine_keys(clos: Clos, trip: Trips, *, engine: str, salt: int) -> Words:
    """What a leaf goes by to choose an uplink."""
    if engine == "ecmp":
        return mixed(salt ^ _LEAF_SALT, trip.src, trip.dst, trip.pair, _PLANE)
    if engine == "lft_random":
        return mixed(salt ^ _LEAF_SALT, trip.src_leaf, trip.dst, _PLANE)
    # OpenSM 3.3.23: ftree starts anew with each leaf it routes to; updn and minhop deal uplinks out in turn to all
    # that is not on the leaf itself. Both are D-mod-K when leaves have as many uplinks as RNICs, and differ otherwise.
    return (clos.port_of(trip.dst) if engine == "ftree" else leaf_turn(clos, trip)).astype(np.uint64)


def leaf_turn(clos: Clos, trip: Trips) -> Ints:
    """Where a destination comes among those that are not on the source's leaf."""
    own = clos.first_place(trip.src_leaf + 1) - clos.first_place(trip.src_leaf)
    return clos.place(trip.dst) - np.where(trip.dst_leaf > trip.src_leaf, own, 0)


def _pod_turn(clos: Clos, trip: Trips) -> Ints:
    width = clos.leaves_per_pod
    own = clos.first_place((trip.src_pod + 1) * width) - clos.first_place(trip.src_pod * width)
    return clos.place(trip.dst) - np.where(trip.dst_pod > trip.src_pod, own, 0)


def core_keys(clos: Clos, trip: Trips, spine: Ints, *, engine: str, salt: int) -> Words:
    """What the spine (counted in its pod) goes by to choose a core."""
    if engine == "ecmp":
        return mixed(salt ^ _SPINE_SALT, trip.src, trip.dst, trip.pair, _PLANE)
    if engine == "lft_random":
        return mixed(salt ^ _SPINE_SALT, trip.src_pod * clos.spec.up + spine, trip.dst, _PLANE)
    # updn and minhop deal a spine's cores out in turn to all that is not in the pod, used by this spine or not: when
    # leaves did the same, spine s only ever uses cores s % C of its own. Seen with OpenSM 3.3.23 on three levels.
    if engine != "ftree":
        return _pod_turn(clos, trip).astype(np.uint64)
    # ftree deals them out to what the spine gets, starting anew with each pod.
    row, healthy = np.divmod(clos.port_of(trip.dst), clos.spec.up)
    of_leaf = -((healthy - clos.spec.down) // clos.spec.up)  # ports of a leaf that come to this spine
    turn: Ints = trip.dst_leaf % clos.leaves_per_pod * of_leaf + row
    return turn.astype(np.uint64)
