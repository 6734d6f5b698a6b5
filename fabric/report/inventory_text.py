"""An inventory in a few lines, hosts folded."""

from __future__ import annotations

from collections.abc import Iterator

from fabric.model.inventory import Inventory
from fabric.model.names import fold


def inventory_lines(inventory: Inventory) -> Iterator[str]:
    """What it describes: hosts per platform, switches per tier, ToR groups, links."""
    topology = inventory.topology
    yield f"{inventory.name}: {len(topology.hosts)} hosts, backend {inventory.backend}"
    by_platform: dict[str, list[str]] = {}
    for host in topology.hosts.values():
        by_platform.setdefault(host.platform.name, []).append(host.name)
    for name, hosts in by_platform.items():
        platform = topology.hosts[hosts[0]].platform
        yield (
            f"  {name}: {fold(hosts)}; {len(platform.gpus)} GPUs, {len(platform.rnics)} RNICs, "
            f"{platform.numa_nodes} NUMA nodes, {platform.link_layer}, baseline {platform.baseline}"
        )
    by_tier: dict[str, list[str]] = {}
    for switch in topology.switches.values():
        by_tier.setdefault(switch.tier, []).append(switch.name)
    for tier, names in by_tier.items():
        yield f"  {tier}: {len(names)} switches ({fold(names)})"
    yield f"  {len(topology.tor_groups)} groups of hosts under one ToR"
    yield f"  {sum(1 for _ in topology.links()):,} links"
    if inventory.mock.faults:
        yield f"  mock faults: {', '.join(fault.component for fault in inventory.mock.faults)}"
