"""A Clos network of one to three levels as numbered links; ids are computed, except for the leaf of each RNIC."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Links: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Words: TypeAlias = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class ClosSpec:
    """The shape of a network; two levels are leaf and spine, three add pods and cores."""

    hosts: int
    rails: int  # RNICs of a host
    down: int  # RNICs of a leaf
    up: int  # uplinks of a leaf = spines of a pod; 0 with two levels: nothing joins the leaves
    levels: int  # 2 or 3
    leaves_per_pod: int  # 0 with two levels: one pod holds every leaf
    core_up: int  # uplinks of a spine; 0 with two levels
    rail_optimised: bool  # rail r of a group of hosts has a leaf of its own
    line_rate_gbps: float  # of a port of an RNIC
    uplink_gbps: float  # of a link between switches
    core_gbps: float = 0.0  # of a link between spine and core; 0: as the others


@dataclass(frozen=True, slots=True, eq=False)
class Clos:
    """
    A built network; link ids run NICs, leaves, spines, each kind first up, then down.

    RNICs are counted host by host, rail by rail. *first*: the number of RNICs on the leaves before each leaf, and at
    the end of all RNICs.
    """

    spec: ClosSpec
    nics: int
    leaves: int
    pods: int
    links: int  # directed; also the id of the dummy link that pads a short path
    capacity_gbps: Floats  # of each link when healthy; read-only
    nic_at: Ints  # [host, rail]; -1 where the host has none on that rail
    leaf_at: Ints  # of each RNIC
    place_at: Ints  # of each RNIC, leaf by leaf, port by port
    first: Ints

    @property
    def leaves_per_pod(self) -> int:
        """Return the number of leaves of a pod; with two levels, of all leaves."""
        return self.spec.leaves_per_pod if self.spec.levels == 3 else self.leaves

    def port_of(self, nics: Ints) -> Ints:
        """Return the port of its leaf that an RNIC is cabled to."""
        return self.place_at[nics] - self.first[self.leaf_at[nics]]

    def pod_of(self, leaves: Ints) -> Ints:
        """Return the pod of a leaf."""
        return leaves // self.leaves_per_pod

    def nic_up(self, nic: Ints | int) -> Ints:
        """Return the link from an RNIC to its leaf."""
        return np.asarray(nic, dtype=np.int64)

    def nic_dn(self, nic: Ints | int) -> Ints:
        """Return the link from the leaf to an RNIC."""
        return self.nic_up(nic) + self.nics

    def leaf_up(self, leaf: Ints | int, spine: Ints | int) -> Ints:
        """Return the link from a leaf to a spine (counted in its pod)."""
        return np.asarray(leaf, dtype=np.int64) * self.spec.up + spine + 2 * self.nics

    def leaf_dn(self, leaf: Ints | int, spine: Ints | int) -> Ints:
        """Return the link from a spine (counted in its pod) to a leaf."""
        return self.leaf_up(leaf, spine) + self.leaves * self.spec.up

    def spine_up(self, pod: Ints | int, spine: Ints | int, core: Ints | int) -> Ints:
        """Return the link from a spine of a pod to one of the cores it reaches."""
        first = 2 * (self.nics + self.leaves * self.spec.up)
        spine_of_all = np.asarray(pod, dtype=np.int64) * self.spec.up + spine
        return spine_of_all * self.spec.core_up + core + first

    def spine_dn(self, pod: Ints | int, spine: Ints | int, core: Ints | int) -> Ints:
        """Return the link from one of its cores to a spine of a pod."""
        return self.spine_up(pod, spine, core) + self.pods * self.spec.up * self.spec.core_up


def build(spec: ClosSpec) -> Clos:
    """Build the network that a spec describes, with an RNIC in every place."""
    nics = np.arange(spec.hosts * spec.rails)
    host, rail = np.divmod(nics, spec.rails)
    leaf = host // spec.down * spec.rails + rail if spec.rail_optimised else nics // spec.down
    return wired(spec, leaf.reshape(spec.hosts, spec.rails), np.full(len(nics), spec.line_rate_gbps))


def wired(spec: ClosSpec, leaf_of: Ints, line_gbps: Floats) -> Clos:
    """
    Build a network with RNICs on any leaf: *leaf_of* is the leaf of each [host, rail], -1 where the host has no RNIC.

    *line_gbps*: of each RNIC, host by host. A leaf's ports are taken in the order of its RNICs.
    """
    there = leaf_of >= 0
    nic_at = np.where(there, np.cumsum(there).reshape(there.shape) - 1, -1)
    leaf_at = leaf_of[there]
    nics, leaves = len(leaf_at), int(leaf_at.max(initial=-1)) + 1
    place_at = np.empty(nics, dtype=np.int64)
    place_at[np.argsort(leaf_at, kind="stable")] = np.arange(nics)
    pods = -(-leaves // spec.leaves_per_pod) if spec.levels == 3 else 1
    counts = (2 * leaves * spec.up, 2 * pods * spec.up * spec.core_up)
    trunks = np.repeat([spec.uplink_gbps, spec.core_gbps or spec.uplink_gbps], counts)
    capacity = np.concatenate([line_gbps, line_gbps, trunks]).astype(np.float64)
    capacity.flags.writeable = False
    return Clos(
        spec=spec,
        nics=nics,
        leaves=leaves,
        pods=pods,
        links=len(capacity),
        capacity_gbps=capacity,
        nic_at=nic_at,
        leaf_at=leaf_at,
        place_at=place_at,
        first=np.concatenate([[0], np.cumsum(np.bincount(leaf_at, minlength=leaves))]),
    )
