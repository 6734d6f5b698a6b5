"""What hosts and switches themselves report: RNICs, GPUs and cables as found, independent of any inventory."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FoundRnic:
    """
    One RDMA port as the kernel of its host reports it; None: its file is missing or empty.

    *guid* is the port's own (the second half of its first GID). *rate_gbps* is as the kernel rounds it; for a port that
    is not *active* it says nothing about the cable. *link_layer* is ``infiniband`` or ``ethernet``, *netdev* its
    interface.
    """

    device: str
    port: int
    guid: int | None
    active: bool
    rate_gbps: float | None
    link_layer: str
    numa: int | None
    pci_address: str | None = None
    board_id: str | None = None
    firmware: str | None = None
    netdev: str | None = None


@dataclass(frozen=True)
class FoundHost:
    """
    One host: *distance* between its GPUs and RDMA devices by ``nvidia-smi topo -m``, *gpu_numa* by ``GPU0``.

    *unread* says what could not be read, and why. *gpu_maker*: ``amd`` if rocm-smi reported the GPUs.
    """

    name: str
    rnics: tuple[FoundRnic, ...] = ()
    gpus: tuple[str, ...] = ()
    distance: Mapping[tuple[str, str], str] = field(default_factory=dict)
    gpu_numa: Mapping[str, int] = field(default_factory=dict)
    numa_nodes: int | None = None
    unread: tuple[str, ...] = ()
    gpu_maker: str = "nvidia"


@dataclass(frozen=True, slots=True)
class FoundEnd:
    """A port: *node* is ``gpu001/mlx5_0``, a switch, or another node's own name; *port* is as printed."""

    node: str
    port: str

    def __str__(self) -> str:
        return self.node if "/" in self.node else f"{self.node} port {self.port}"


@dataclass(frozen=True, slots=True)
class FoundCable:
    """One cable with both ends; *rate_gbps* is None if unknown."""

    a: FoundEnd
    b: FoundEnd
    rate_gbps: float | None


@dataclass(frozen=True)
class FoundFabric:
    """
    Everything that was found. *switches*: names of the switches among the ends of cables.

    *unknown_adapters*: adapters on these switches that belong to none of the hosts. *unread*: what could not be found
    out, and why.
    """

    hosts: Mapping[str, FoundHost]
    cables: tuple[FoundCable, ...] = ()
    switches: frozenset[str] = frozenset()
    unknown_adapters: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()
