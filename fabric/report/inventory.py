"""An inventory in a few lines, with hosts folded, and as a JSON document."""

from collections.abc import Sequence
from typing import Any

from fabric.model import gathered
from fabric.model.inventory import Inventory
from fabric.model.text import fold
from fabric.model.topology import Platform, Topology
from fabric.report import templates
from fabric.report.output import jsonable

GROUPS_MOST = 10
_SHOWN = (
    *("name", "numa_nodes", "link_layer", "baseline", "gid_index", "wrapper", "use_cuda", "traffic_class"),
    *("cross_rail", "gpu_maker", "mpirun_options", "srun_options", "nccl_tests_options", "perftest_options"),
)


def inventory_text(inventory: Inventory, *, notes: Sequence[str] = ()) -> str:
    """Return what it describes: hosts per platform, switches per tier, ToR groups, links; then what does not fit."""
    topology = inventory.topology
    return templates.text(
        "inventory.txt.j2",
        inventory=inventory,
        platforms=_platforms(topology),
        tiers=_tiers(topology),
        groups=_groups(topology),
        most=GROUPS_MOST,
        links=sum(1 for _ in topology.links()),
        notes=notes,
    )


def inventory_document(inventory: Inventory, *, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return the same as plain JSON values; sets of names are folded."""
    topology = inventory.topology
    return {
        "name": inventory.name,
        "source": inventory.source,
        "backend": inventory.backend,
        "hosts": len(topology.hosts),
        "platforms": [_platform_document(platform, hosts) for platform, hosts in _platforms(topology)],
        "management": fold(topology.management),
        "switches": [{"tier": tier, "count": len(names), "switches": fold(names)} for tier, names in _tiers(topology)],
        "tor_groups": [
            {"leaves": fold(leaves), "count": len(hosts), "hosts": fold(hosts)} for leaves, hosts in _groups(topology)
        ],
        "links": sum(1 for _ in topology.links()),
        "mock_faults": [jsonable(fault, ("component", "kind", "factor")) for fault in inventory.mock.faults],
        "notes": list(notes),
    }


def _platform_document(platform: Platform, hosts: Sequence[str]) -> dict[str, Any]:
    return {
        "count": len(hosts),
        "hosts": fold(hosts),
        "gpus": len(platform.gpus),
        "rnics": [jsonable(rnic, ("device", "rail", "line_rate_gbps")) for rnic in platform.rnics],
        "tools": dict(platform.tools),
        "env": dict(platform.env),
        **jsonable(platform, _SHOWN),
    }


def _platforms(topology: Topology) -> list[tuple[Platform, list[str]]]:
    """Return each platform in use, with its hosts."""
    found = gathered((host.platform.name, host) for host in topology.hosts.values())
    return [(alike[0].platform, [host.name for host in alike]) for alike in found.values()]


def _tiers(topology: Topology) -> list[tuple[str, list[str]]]:
    """Return each tier, with its switches."""
    return list(gathered((one.tier, one.name) for one in topology.switches.values()).items())


def _groups(topology: Topology) -> list[tuple[list[str], tuple[str, ...]]]:
    """Return the leaves and the hosts of each ToR group; a leaf with several rails is named once."""
    return [(list(dict.fromkeys(topology.hosts[group[0]].leaves)), group) for group in topology.tor_groups]
