"""Makes platforms from what the file says of them, and checks that their parts fit together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from fabric.config.inventory_file import GpuEntry, PcieSwitchEntry, PlatformEntry, RnicEntry
from fabric.config.problems import KeyPath, Problems
from fabric.config.tool_settings import env_problems, option_problems
from fabric.model.fields.scalars import SAFE_NAME
from fabric.model.fields.wording import nearest, one_of, quoted, shown
from fabric.model.topology import Gpu, PcieSwitch, Platform, Rnic

_ENDPOINT = re.compile(r"(gpu|numa)[0-9]+")


def platform(name: str, entry: PlatformEntry, path: KeyPath, problems: Problems) -> Platform:
    """The platform; what does not fit together is noted."""
    switches = _pcie_switches(entry.pcie_switches, (*path, "pcie_switches"), problems)
    numa_of = {switch.name: switch.numa for switch in switches}
    gpus = _gpus(entry.gpus, numa_of, (*path, "gpus"), problems)
    rnics = _rnics(entry.rnics, (numa_of, gpus), (*path, "rnics"), problems)
    _numa_nodes_exist(entry, path, problems)
    _names_differ(switches, rnics, (*path, "pcie_switches"), problems)
    env_problems(entry.env, (*path, "env"), problems)
    option_problems(entry.mpirun_options, (*path, "mpirun_options"), problems)
    return Platform(
        name=name,
        gpus=gpus,
        rnics=rnics,
        numa_nodes=entry.numa_nodes,
        pcie_switches=switches,
        link_layer=entry.link_layer,
        baseline=entry.baseline,
        gid_index=entry.gid_index,
        tools=entry.tools.given(),
        env=tuple(entry.env.items()),
        mpirun_options=entry.mpirun_options,
    )


def _pcie_switches(entries: Iterable[PcieSwitchEntry], path: KeyPath, problems: Problems) -> tuple[PcieSwitch, ...]:
    found: dict[str, PcieSwitch] = {}
    for position, entry in enumerate(entries):
        try:
            names = entry.name.names()
        except ValueError as exc:
            problems.add((*path, position, "name"), shown(str(exc)))
            continue
        for name in names:
            if name in found:
                problems.add((*path, position, "name"), f"PCIe switch {quoted(name)} is there twice")
            elif _ENDPOINT.fullmatch(name) or not re.fullmatch(SAFE_NAME.pattern, name):
                problems.add((*path, position, "name"), f"{quoted(name)} cannot name a PCIe switch")
            found.setdefault(name, PcieSwitch(name, entry.numa))
    return tuple(found.values())


def _numa(entry: GpuEntry | RnicEntry, numa_of: dict[str, int], path: KeyPath, problems: Problems) -> int:
    """The NUMA node of a part: said, or that of its PCIe switch; the two must agree."""
    switch = entry.pcie_switch
    if switch is None:
        if entry.numa is None:
            problems.add(path, "'numa' or 'pcie_switch' is required here")
        return entry.numa or 0
    if switch not in numa_of:
        hint = nearest(switch, numa_of)
        problems.add((*path, "pcie_switch"), f"no PCIe switch {quoted(switch)} in this platform{hint}")
        return entry.numa or 0
    if entry.numa is not None and entry.numa != numa_of[switch]:
        problems.add((*path, "numa"), f"expected numa {numa_of[switch]}, that of {quoted(switch)}; got '{entry.numa}'")
    return numa_of[switch]


def _gpus(entries: Iterable[GpuEntry], numa_of: dict[str, int], path: KeyPath, problems: Problems) -> tuple[Gpu, ...]:
    found: dict[int, Gpu] = {}
    for position, entry in enumerate(entries):
        numa = _numa(entry, numa_of, (*path, position), problems)
        for index in entry.index:
            if index in found:
                problems.add((*path, position, "index"), f"GPU index {index} is there twice")
            found.setdefault(index, Gpu(index, numa, entry.pcie_switch))
    return tuple(found[index] for index in sorted(found))


def _rnics(
    entries: tuple[RnicEntry, ...],
    parts: tuple[dict[str, int], tuple[Gpu, ...]],
    path: KeyPath,
    problems: Problems,
) -> tuple[Rnic, ...]:
    numa_of, gpus = parts
    indexes = {gpu.index for gpu in gpus}
    rnics = []
    for position, entry in enumerate(entries):
        here = (*path, position)
        numa = _numa(entry, numa_of, here, problems)
        nearest_gpus = entry.nearest_gpus
        for index in nearest_gpus or ():
            if index not in indexes:
                problems.add((*here, "nearest_gpus"), f"no GPU with index {index} in this platform")
        if nearest_gpus is None:
            behind = entry.pcie_switch
            nearest_gpus = tuple(gpu.index for gpu in gpus if behind is not None and gpu.pcie_switch == behind)
        rnics.append(
            Rnic(entry.device, entry.port, entry.rail, numa, entry.pcie_switch, entry.line_rate_gbps, nearest_gpus)
        )
    _devices_and_rails(entries, path, problems)
    return tuple(rnics)


def _devices_and_rails(entries: tuple[RnicEntry, ...], path: KeyPath, problems: Problems) -> None:
    """Devices are unique; rails are counted from 0 without a gap."""
    used = {entry.rail for entry in entries}
    seen: Counter[str] = Counter()
    for position, entry in enumerate(entries):
        seen[entry.device] += 1
        if seen[entry.device] == 2:
            problems.add((*path, position, "device"), f"RNIC {quoted(entry.device)} is there twice")
        missing = next((rail for rail in range(entry.rail) if rail not in used), None)
        if missing is not None:
            text = f"rail {entry.rail} is used and rail {missing} is not: rails count from 0 without a gap"
            problems.add((*path, position, "rail"), text)


def _numa_nodes_exist(entry: PlatformEntry, path: KeyPath, problems: Problems) -> None:
    """Every NUMA number is below ``numa_nodes``."""
    valid = one_of(str(number) for number in range(entry.numa_nodes))
    groups: dict[str, tuple[PcieSwitchEntry | GpuEntry | RnicEntry, ...]] = {
        "pcie_switches": entry.pcie_switches,
        "gpus": entry.gpus,
        "rnics": entry.rnics,
    }
    for key, parts in groups.items():
        for position, part in enumerate(parts):
            if part.numa is not None and part.numa >= entry.numa_nodes:
                problems.add((*path, key, position, "numa"), f"no NUMA node {part.numa}: expected {valid} (numa_nodes)")


def _names_differ(switches: tuple[PcieSwitch, ...], rnics: tuple[Rnic, ...], path: KeyPath, problems: Problems) -> None:
    """A PCIe switch named like an RNIC would make ``gpu003/mlx5_2`` mean two things."""
    for name in {switch.name for switch in switches} & {rnic.device for rnic in rnics}:
        problems.add(path, f"{quoted(name)} names a PCIe switch and an RNIC")
