"""RNIC loopback: each RNIC to every memory node and every GPU of its own host.

MegaScale (arXiv 2402.15627, 4.3): a full mesh inside the host, from which slow PCIe links are inferred. Both ends are
the same RNIC, and both buffers are on the endpoint, so the path between the two is used in both directions.
"""

from collections.abc import Iterator
from typing import ClassVar

from fabric.model.probe import MIB, Probe
from fabric.model.scenario import LimitKey
from fabric.model.topology import Endpoint, Platform, Rnic
from fabric.probes.perftest_pair import InHostSpec
from fabric.probes.shapes import Inside, MessageSize, Name, through_switch


class LoopbackSpec(InHostSpec):
    """Each RNIC to every memory node and GPU of its own host (ib_write_bw)."""

    kind: ClassVar[str] = "loopback"
    needs: ClassVar[str] = "an RNIC"

    name: Name = kind
    size_bytes: MessageSize = 8 * MIB

    def limit_keys(self, platform: Platform, *, hosts: int) -> Iterator[LimitKey]:
        """Yield one key for each PCIe distance that the platform has."""
        for link_class in link_classes(platform):
            yield LimitKey(self.kind, link_class=link_class, size_bytes=self.size_bytes)

    @property
    def on_gpus(self) -> bool:
        """Return True: every GPU is an endpoint."""
        return True

    def layout(self, platform: Platform) -> Iterator[Inside]:
        """Yield every (RNIC, endpoint) of every host: 8 x (8 + 2) = 80 on an 8-RNIC, 8-GPU, 2-NUMA host."""
        for rnic in platform.rnics:
            for endpoint in platform.reached:
                link_class = platform.link_class(rnic, endpoint)
                own = {"rnic": rnic.device, "endpoint": endpoint, "link_class": link_class}
                yield f"{rnic.device}.{endpoint}", _claims(platform, rnic, endpoint), {**own, **self.load}

    @classmethod
    def buffers(cls, probe: Probe, platform: Platform, rnic: Rnic) -> tuple[int | None, int]:
        """Put the buffers of both ends on the endpoint."""
        endpoint = str(probe.params["endpoint"])
        gpu = platform.gpu_by_name.get(endpoint)
        return (None, int(endpoint.removeprefix("numa"))) if gpu is None else (gpu.index, rnic.numa)


def link_classes(platform: Platform) -> tuple[str, ...]:
    """Return the PCIe distances that the platform has, in the order first met."""
    pairs = ((rnic, endpoint) for rnic in platform.rnics for endpoint in platform.reached)
    return tuple(dict.fromkeys(platform.link_class(rnic, endpoint) for rnic, endpoint in pairs))


def _claims(platform: Platform, rnic: Rnic, endpoint: Endpoint) -> tuple[str, ...]:
    gpu = platform.gpu_by_name.get(endpoint)
    alone = (rnic.device, endpoint)
    if gpu is None:
        return alone + through_switch(rnic, "up", "down")
    if gpu.pcie_switch is not None and gpu.pcie_switch == rnic.pcie_switch:
        return alone
    return alone + through_switch(rnic, "up", "down") + through_switch(gpu, "up", "down")
