"""What NCCL chooses by its environment: which RNICs carry for which GPUs, the service level, adaptive routing."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.model.topology import Gpu, Platform, Rnic
from fabric.sim.hosts.site import Site
from fabric.sim.rack import Rack


def rails(site: Site, gpus: list[Gpu], env: Mapping[str, str]) -> list[tuple[Rnic, Gpu]]:
    """The RNICs of a host that NCCL uses for these GPUs, each with the GPU that it serves; absent ones are not seen."""
    platform = site.layout.platform
    usable = [rnic for rnic in _allowed(platform, env) if site.trouble_of(rnic.device) != "absent"]
    used = {gpu.index: gpu for gpu in gpus}
    near: list[tuple[Rnic, Gpu]] = []
    for rnic in usable:
        served = [used[index] for index in rnic.nearest_gpus if index in used]
        if served:
            near.append((rnic, served[len(near) % len(served)]))
    return near or _by_numa(usable, gpus)


def _by_numa(rnics: list[Rnic], gpus: list[Gpu]) -> list[tuple[Rnic, Gpu]]:
    """Each RNIC with a GPU on its memory node, in turn; with any where that node has none."""
    found = []
    turns: dict[int, int] = {}
    for rnic in rnics:
        turn = turns[rnic.numa] = turns.get(rnic.numa, -1) + 1
        alike = [gpu for gpu in gpus if gpu.numa == rnic.numa] or gpus
        found.append((rnic, alike[turn % len(alike)]))
    return found


def _allowed(platform: Platform, env: Mapping[str, str]) -> list[Rnic]:
    """NCCL_IB_HCA: names by prefix, exact with "=", all but these with "^" (NCCL's documentation)."""
    text = env.get("NCCL_IB_HCA", "")
    if not text:
        return list(platform.rnics)
    exclude = text.startswith("^")
    exact = text.lstrip("^").startswith("=")
    entries = [entry.strip() for entry in text.lstrip("^=").split(",") if entry.strip()]
    return [
        rnic for rnic in platform.rnics if any(_matches(rnic, entry, exact=exact) for entry in entries) is not exclude
    ]


def _matches(rnic: Rnic, entry: str, *, exact: bool) -> bool:
    name, _, port = entry.partition(":")
    named = rnic.device == name if exact else rnic.device.startswith(name)
    return named and (not port or port == str(rnic.port))


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
    if not rack.nvue and not rack.above.is_adaptive_by_inventory:
        return False
    ports = rack.ports
    return all(
        ports.of_adapter(name, rnic.device).registers.get(FORCED, 0)
        for name, platform in zip(hosts, platforms, strict=True)
        for rnic in platform.rnics
    )
