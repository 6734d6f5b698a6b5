"""Whether a job's packets may be routed adaptively: by its service level on InfiniBand, by its RNICs on Ethernet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fabric.sim.rack import Rack

FORCED = "adaptive_routing_forced_en"
"""The field of an RNIC's register ROCE_ACCL that lets the packets of queue pairs made from then on be reordered."""


def service_level(env: Mapping[str, str]) -> int:
    """NCCL_IB_SL, 0 when it is not set (or no service level)."""
    text = env.get("NCCL_IB_SL", "")
    return int(text) if text.isascii() and text.isdigit() and int(text[:3]) < 16 else 0


def may_adapt(rack: Rack, hosts: tuple[str, ...], env: Mapping[str, str]) -> bool:
    """
    Whether a job that starts now lets the fabric route it adaptively, if the fabric does that.

    InfiniBand: unless NCCL_IB_ADAPTIVE_ROUTING is 0; the job is then taken to use a service level without adaptive
    routing. RoCE: when every RNIC of every host of the job is told to force it.
    """
    platforms = [rack.topology.hosts[name].platform for name in hosts]
    if platforms[0].link_layer != "ethernet":
        return env.get("NCCL_IB_ADAPTIVE_ROUTING", "") != "0"
    if not rack.nvue and not rack.rerouting.is_adaptive_by_inventory:
        return False
    ports = rack.ports
    return all(
        ports.of_adapter(name, rnic.device).registers.get(FORCED, 0)
        for name, platform in zip(hosts, platforms, strict=True)
        for rnic in platform.rnics
    )
