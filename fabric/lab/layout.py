"""What a box is made of: hosts, leaves and spines, their ports, cables and addresses, and its inventory. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

ORCHESTRATOR = "orch"
"""Where ``fabric run`` works: it has the management network and nothing else."""

MANAGEMENT = "mgmt"
"""The bridge that carries SSH: no port of it is shaped, and no fault touches it."""

DEVICE = "mlx5_0"
"""What the inventory calls the one port of a host; its packets leave by ``HOST_PORT``."""

HOST_PORT = "eth1"
MANAGEMENT_PORT = "eth0"

MOST_HOSTS, MOST_SWITCHES = 64, 16

OF_PAIRS, OF_RINGS, OF_GROUPS = 0.85, 0.75, 0.35
"""
Of a port's rate, what a pair, an all-reduce of two and one of many have to reach.

Measured: 0.957 with a spread of 0.3 %, 0.91, and 0.6 over six hosts, less where flows meet on an uplink.
"""


@dataclass(frozen=True, slots=True)
class BoxPort:
    """One end of a cable; what leaves by it is shaped."""

    node: str
    name: str


@dataclass(frozen=True, slots=True)
class BoxCable:
    """*low* is the end nearer to the hosts."""

    low: BoxPort
    high: BoxPort


@dataclass(frozen=True)
class Box:
    """Everything else follows from these; *folder* is where its state lies, absolute."""

    name: str
    folder: str
    hosts: int = 6
    leaves: int = 2
    spines: int = 2
    rate_mbit: int = 100

    @cached_property
    def leaf_of(self) -> dict[str, str]:
        """Each host and its leaf; leaves are filled one after the other."""
        per_leaf = -(-self.hosts // self.leaves)
        return {f"h{number + 1}": f"l{number // per_leaf + 1}" for number in range(self.hosts)}

    @property
    def leaf_names(self) -> list[str]:
        """``l1``, ``l2``, ..."""
        return [f"l{number + 1}" for number in range(self.leaves)]

    @property
    def spine_names(self) -> list[str]:
        """``s1``, ``s2``, ..."""
        return [f"s{number + 1}" for number in range(self.spines)]

    @property
    def switches(self) -> list[str]:
        """Leaves, then spines."""
        return [*self.leaf_names, *self.spine_names]

    @property
    def nodes(self) -> list[str]:
        """Everything that has a namespace."""
        return [MANAGEMENT, ORCHESTRATOR, *self.leaf_of, *self.switches]

    def namespace(self, node: str) -> str:
        """The name of a node's namespace."""
        return f"fabric-{self.name}-{node}"

    @cached_property
    def cables(self) -> list[BoxCable]:
        """Of hosts first; ``sw3`` is a leaf's port to h3, ``up1`` to s1, ``dn2`` a spine's to l2."""
        down = [
            BoxCable(BoxPort(host, HOST_PORT), BoxPort(leaf, f"sw{host[1:]}")) for host, leaf in self.leaf_of.items()
        ]
        up = [
            BoxCable(BoxPort(leaf, f"up{spine[1:]}"), BoxPort(spine, f"dn{leaf[1:]}"))
            for leaf in self.leaf_names
            for spine in self.spine_names
        ]
        return down + up

    def ports(self, node: str) -> list[BoxPort]:
        """The ports of a node that carry data."""
        return [end for cable in self.cables for end in (cable.low, cable.high) if end.node == node]

    def management_address(self, node: str) -> str:
        """Of a host or the orchestrator."""
        return f"10.99.0.{1 if node == ORCHESTRATOR else 10 + int(node[1:])}"

    def data_address(self, host: str) -> str:
        """Of a host's data port: in its leaf's subnet."""
        return f"10.{self.leaf_of[host][1:]}.0.{10 + int(host[1:])}"

    def gateway(self, leaf: str) -> str:
        """The leaf's own address for its hosts."""
        return f"10.{leaf[1:]}.0.1"

    def uplink_addresses(self, leaf: str, spine: str) -> tuple[str, str]:
        """Of the leaf's end and of the spine's, a /31."""
        return f"10.{200 + int(spine[1:])}.{leaf[1:]}.0", f"10.{200 + int(spine[1:])}.{leaf[1:]}.1"

    def subnet(self, leaf: str) -> str:
        """Of a leaf's hosts."""
        return f"10.{leaf[1:]}.0.0/24"


def inventory_text(box: Box, *, with_mpi: bool) -> str:
    """The inventory file of a box; its baseline is ``baselines/NAME.yaml`` beside it."""
    by_leaf: dict[str, list[str]] = {}
    for host, leaf in box.leaf_of.items():
        by_leaf.setdefault(leaf, []).append(host)
    hosts = "\n".join(
        f'  - {{names: "{host}", platform: namespace, address: "{box.management_address(host)}", leaves: {leaf}}}'
        for leaf, members in by_leaf.items()
        for host in members
    )
    mpi = _MPI.format(folder=box.folder, data=HOST_PORT, management=MANAGEMENT_PORT) if with_mpi else ""
    return _INVENTORY.format(
        name=box.name,
        folder=box.folder,
        device=DEVICE,
        rate_gbps=f"{box.rate_mbit / 1000:g}",
        gpus="\n    gpus: [{index: 0, numa: 0}]   # a rank of MPI; there is none" if with_mpi else "",
        mpi=mpi,
        hosts=hosts,
        leaves=f"l[1-{box.leaves}]" if box.leaves > 1 else "l1",
        spines=f"s[1-{box.spines}]" if box.spines > 1 else "s1",
    )


def baseline_text(box: Box) -> str:
    """What is normal in a box: its ports are shaped, so that is known."""
    gbps = box.rate_mbit / 1000
    pair, ring, group = (f"{share * gbps:g}" for share in (OF_PAIRS, OF_RINGS, OF_GROUPS))
    return _BASELINE.format(name=box.name, rate=box.rate_mbit, pair=pair, ring=ring, group=group)


_INVENTORY = """\
# Written by "fabric lab up", taken away by "fabric lab down". Hosts are network namespaces of this machine.
name: {name}
backend: ssh
platforms:
  namespace:
    baseline: {name}
    link_layer: ethernet
    numa_nodes: 1{gpus}
    rnics: [{{device: {device}, rail: 0, numa: 0, line_rate_gbps: {rate_gbps}, nearest_gpus: []}}]
    tools:
      ib_write_bw: {folder}/bin/ib_write_bw   # TCP in perftest's layout
{mpi}hosts:
{hosts}
switches:
  - {{names: "{leaves}", tier: leaf, uplinks: {{to: "{spines}", line_rate_gbps: {rate_gbps}}}}}
  - {{names: "{spines}", tier: spine}}
routing: ecmp
ssh:
  user: root
  agent: false
  key_file: {folder}/key
  known_hosts: [{folder}/known_hosts]
changes: {{management: [eth0]}}
mock: {{routing: ecmp, noise_cv: 0.001}}   # the same box, simulated: fabric run --backend mock
"""
_MPI = """\
      all_reduce_perf: {folder}/bin/all_reduce_perf   # Open MPI in nccl-tests' layout
      alltoall_perf: {folder}/bin/alltoall_perf
    mpirun_options:
      [--allow-run-as-root, --mca, pml, ob1, --mca, btl, "tcp,self", --mca, btl_tcp_if_include, {data},
       --mca, oob_tcp_if_include, {management}]
"""
_BASELINE = """\
# What is normal in the box: every port is shaped to {rate} Mbit/s.
name: {name}
limits:
  - {{kind: pairwise, at_least_gbps: {pair}, source: "the box shapes every port; TCP carries 0.957 of it (measured)"}}
  - {{kind: tor_all_reduce, at_least_gbps: {ring}, source: "the same, both directions at once"}}
  - {{kind: group_all_reduce, at_least_gbps: {group}, source: "the same; flows of many hosts may meet on an uplink"}}
"""
