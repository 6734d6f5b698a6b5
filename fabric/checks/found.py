"""What is really there: RNICs and GPUs of each host, their serial numbers, and every cable.

Hosts are asked in two rounds, then the subnets are walked. On InfiniBand one port of each subnet lists all cables
(``iblinkinfo``); on Ethernet each host hears by LLDP which port of which switch it is plugged into. What no host or
switch reported is left open and reported, never guessed. Nothing is altered anywhere.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fabric.checks.kind import Answers, Argv, HostAnswer, ask_all, parsed, quoted
from fabric.model.change import ChangeSettings
from fabric.model.fields.scalars import DEVICE, HOST_PATTERN
from fabric.model.found import FoundCable, FoundEnd, FoundFabric, FoundHost, FoundRnic
from fabric.model.part import Part
from fabric.model.probe import MIB
from fabric.model.repair import HostIdentity, PartIdentity
from fabric.model.scenario import Scenario
from fabric.model.text import fold
from fabric.model.topology import Host, Topology
from fabric.ports import Executor
from fabric.runs.run_document import write_identity
from fabric.tools import host_parts, infiniband, interfaces, mlxlink, sysfs
from fabric.tools.driver import as_root
from fabric.tools.host_parts import GpuTopology, Vpd
from fabric.tools.infiniband import PortLine, switch_name
from fabric.tools.sysfs import RdmaDevice


def identify(executor: Executor, topology: Topology, hosts: Sequence[str]) -> dict[str, HostIdentity]:
    """
    Return the identity of every host in *hosts*, in that order; a host that does not answer has no parts, but the
    reason.
    """
    answers = ask_all(executor, {name: commands(topology.hosts[name]) for name in hosts})
    return {name: read(topology.hosts[name], answers[name]) for name in hosts}


def note_identity(executor: Executor, run: Path, scenario: Scenario, topology: Topology) -> None:
    """Write down the identity of all hosts when a run begins, if its scenario asks for it; raises StoreError."""
    if scenario.identity:
        write_identity(run, identify(executor, topology, scenario.hosts).values())


def commands(host: Host) -> tuple[Argv, ...]:
    """Return the commands for one host; none about parts that its platform does not have."""
    modules = (mlxlink.module(rnic.device) for rnic in host.platform.rnics)
    of_rnics = (_files(host), host_parts.RNICS, *modules) if host.platform.rnics else ()
    return (*of_rnics, host_parts.GPUS) if host.platform.gpus else of_rnics


def read(host: Host, answers: Answers) -> HostIdentity:
    """Return the identity of a host from its answers; raises nothing for any text."""
    unread: list[str] = []
    parts = [*_rnic_parts(host, answers, unread), *_gpu_parts(host, answers, unread)]
    return HostIdentity(host.name, tuple(parts), tuple(dict.fromkeys(unread)))


def _rnic_parts(host: Host, answers: Answers, unread: list[str]) -> Iterator[PartIdentity]:
    if not host.platform.rnics:
        return
    devices = parsed(answers[_files(host)], sysfs.read_identity, "RNICs", unread) or {}
    vpd = parsed(answers[host_parts.RNICS], host_parts.read_rnics, "serial numbers of RNICs", unread) or {}
    for rnic in host.platform.rnics:
        if device := devices.get(rnic.device):
            data = vpd.get(device.pci_address or "", Vpd(part_number=device.board_id))
            numbers = data.serial, data.part_number, device.firmware, device.node_guid
            yield PartIdentity(rnic.device, "rnic", *numbers)
        elif devices:
            unread.append(f"{rnic.device}: no such device")
        module = parsed(answers[mlxlink.module(rnic.device)], mlxlink.read_module, f"module of {rnic.device}", unread)
        if module is not None:
            yield PartIdentity(f"{rnic.device}:port", "module", module.serial, module.part_number, module.firmware)


def _gpu_parts(host: Host, answers: Answers, unread: list[str]) -> Sequence[PartIdentity]:
    if not host.platform.gpus:
        return []
    if host.platform.amd:
        unread.append("GPUs: serial numbers of AMD's are not read")
        return []
    found = parsed(answers[host_parts.GPUS], host_parts.read_gpus, "GPUs", unread)
    if found is None:
        return []
    if len(found) != len(host.platform.gpus):  # the driver numbers only the GPUs that are there, so names would shift
        unread.append(f"GPUs: the driver has {len(found)}, the inventory {len(host.platform.gpus)}")
        return []
    return found


def _files(host: Host) -> Argv:
    return sysfs.identity([rnic.device for rnic in host.platform.rnics])


_NODES: Argv = ("cat", "/sys/devices/system/node/online")

WALK_S = 60.0
"""Deadline of a walk over a whole subnet: 25 to 38 s were seen where a few nodes did not answer (docs/hardware.md)."""
WALK_MOST_BYTES = 64 * MIB
"""Largest output of a walk: iblinkinfo prints 200 bytes a port, 13 MB for a hall of 2,048 hosts."""
WALKS_MOST = 64
"""Most subnets that are walked: as many as a host has rails at most (the inventory's own bound on rails)."""

LANE_GBPS = {2.5: 2.0, 5.0: 4.0, 10.0: 8.0, 14.0625: 14.0, 25.78125: 25.0, 53.125: 50.0, 106.25: 100.0, 212.5: 200.0}
"""
Gb/s that a lane signals on the wire, to Gb/s that it carries (InfiniBand architecture, volume 2: 8b/10b, 64b/66b,
PAM4).
"""


def _is_name(text: str) -> bool:
    """Return whether an inventory may use *text* as a name."""
    return HOST_PATTERN.fullmatch(text) is not None


def discover(
    executor: Executor, hosts: Mapping[str, Host], settings: ChangeSettings, listed: Sequence[PortLine] = ()
) -> FoundFabric:
    """
    Ask every host what it has and hears, then ask one port of each subnet for all cables.

    *settings*: which M_Key to use, and whether to go through sudo. *listed*: ports of InfiniBand subnets that were
    already listed elsewhere; then no host is asked for them.
    """
    first = ask_all(executor, dict.fromkeys(hosts, (sysfs.DEVICES, _NODES, host_parts.TOPOLOGY)))
    devices = {name: _devices(answers[sysfs.DEVICES]) for name, answers in first.items()}
    further = {
        name: (sysfs.identity(there), sysfs.places(there), interfaces.NEIGHBOURS)
        for name, there in devices.items()
        if there
    }
    second = ask_all(executor, further)
    answers = {name: {**first[name], **second.get(name, {})} for name in hosts}
    no_smi = [name for name in hosts if answers[name][host_parts.TOPOLOGY].absent]
    for name, more in ask_all(executor, dict.fromkeys(no_smi, (host_parts.AMD_NUMA,))).items():
        answers[name] |= more
    found = {name: _host(host, answers[name], devices[name]) for name, host in hosts.items()}
    unread: list[str] = []
    lines = listed or _walked(executor, found, settings, unread)
    silent: dict[str, list[str]] = {}
    heard = list(_heard(found, second, silent))
    cables, switches, unknown_adapters = cables_of(lines, found)
    if listed and not any(Part.of(cable.a.node).host in found for cable in cables):
        unread.append(f"the cables listed: of {len(listed)} ports none belongs to these hosts: another fabric's list?")
    return FoundFabric(
        found,
        (*cables, *heard),
        frozenset({*switches, *(cable.b.node for cable in heard)}),
        frozenset(unknown_adapters),
        (*unread, *(f"{fold(names)}: {reason}" for reason, names in silent.items())),
    )


def _devices(answer: HostAnswer) -> tuple[str, ...]:
    """Return the names of RDMA devices in numeric order; an empty tuple where the answer is not a list of them."""
    names = answer.stdout.split() if answer.exit_status == 0 else []
    return tuple(sorted((name for name in names if _is_name(name)), key=_natural))


def _natural(name: str) -> tuple[str, int]:
    """Return a sort key that puts mlx5_10 after mlx5_9."""
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)


def _rnics(answers: Answers, devices: Sequence[str], unread: list[str]) -> Iterator[FoundRnic]:
    """
    Yield the ports of devices from the kernel's files; ports that no inventory can describe are left out and reported.
    """
    who = parsed(answers[sysfs.identity(devices)], sysfs.read_identity, "devices", unread) or {}
    ports = parsed(answers[sysfs.places(devices)], sysfs.read_places, "ports", unread) or {}
    odd = [one for one in ports.values() if not _is_describable(one)]
    if odd:
        names = ", ".join(f"{one.device} ({one.link_layer})" for one in odd)
        unread.append(f"left out, for an inventory has no such RNIC: {quoted(names)}")
    for port in ports.values():
        if port not in odd:
            known = who.get(port.device, RdmaDevice())
            yield replace(port, pci_address=known.pci_address, board_id=known.board_id, firmware=known.firmware)


def _host(host: Host, answers: Answers, devices: Sequence[str]) -> FoundHost:
    unread: list[str] = []
    listed = answers[sysfs.DEVICES]
    if not devices:
        silent = listed.exit_status not in (0, 2)
        return FoundHost(host.name, unread=(quoted(listed.lost or listed.text) if silent else "it has no RDMA device",))
    rnics = tuple(_rnics(answers, devices, unread))
    amd, gpus = answers.get(host_parts.AMD_NUMA), None
    of_nvidia = amd is None or amd.absent
    if of_nvidia:
        gpus = parsed(answers[host_parts.TOPOLOGY], host_parts.read_topology, "GPUs (nvidia-smi topo -m)", unread)
    if amd and not gpus:
        gpus = parsed(amd, host_parts.read_amd_numa, "GPUs (rocm-smi)", unread)
    gpus = gpus or GpuTopology()
    nodes = answers[_NODES].stdout.strip().rpartition("-")[2].rpartition(",")[2]
    return FoundHost(
        host.name,
        rnics,
        gpus.gpus,
        gpus.distance,
        gpus.numa,
        int(nodes) + 1 if nodes.isascii() and nodes.isdigit() and len(nodes) < 4 else None,
        tuple(unread),
        gpu_maker="nvidia" if of_nvidia else "amd",
    )


def _is_describable(rnic: FoundRnic) -> bool:
    """
    Return whether an inventory can describe this RNIC: not ``siw0``, nor a link layer that the kernel calls
    unspecified.
    """
    return re.fullmatch(DEVICE.pattern, rnic.device) is not None and rnic.link_layer in ("infiniband", "ethernet")


def _walked(
    executor: Executor, found: Mapping[str, FoundHost], settings: ChangeSettings, unread: list[str]
) -> list[PortLine]:
    """
    Return the ports of every InfiniBand subnet: each walk begins at the first port that no earlier walk has seen.

    For each device name, walks end after three hosts have failed. *unread* takes why a walk reported nothing.
    """
    lines: list[PortLine] = []
    seen: set[int | None] = {None}
    failed, done = Counter[str](), 0
    for host, rnic in ((host, rnic) for host, found_host in found.items() for rnic in found_host.rnics):
        is_open = rnic.active and rnic.link_layer == "infiniband" and rnic.guid not in seen
        if not is_open or failed[rnic.device] >= 3 or done >= WALKS_MOST:
            continue
        through = infiniband.through(rnic.device, rnic.port, settings.m_key)
        argv = as_root(infiniband.all_ports(through=through), sudo=settings.sudo)
        asked = ask_all(executor, {host: (argv,)}, timeout_s=WALK_S, output_most_bytes=WALK_MOST_BYTES)
        ports = parsed(asked[host][argv], infiniband.read_ports, f"cables as seen from {host}/{rnic.device}", unread)
        if ports is None:
            failed[rnic.device] += 1
            continue
        done += 1
        lines += ports
        seen |= {line.end.guid for line in ports}
    return lines


def cables_of(lines: Iterable[PortLine], hosts: Mapping[str, FoundHost]) -> tuple[list[FoundCable], set[str], set[str]]:
    """
    Return every cable once, the names of the switches, and the adapters that belong to no host.

    An adapter is identified by its GUID; where the host reported none, by its description (``gpu001 mlx5_0``).
    """
    by_port = {(line.end.guid, line.end.port): line for line in lines}
    switches = infiniband.switches(by_port.values())
    names = _switch_names((line for line in by_port.values() if line.end.guid in switches), hosts)
    own = {rnic.guid: f"{host.name}/{rnic.device}" for host in hosts.values() for rnic in host.rnics if rnic.guid}
    with_guids = {name.partition("/")[0] for name in own.values()}
    unknown_adapters: set[str] = set()

    def end(guid: int, port: int, description: str) -> FoundEnd:
        if guid in names:
            return FoundEnd(names[guid], str(port))
        first, _, device = description.partition(" ")
        if guid not in own and (first not in hosts or first in with_guids or not _is_name(device)):
            unknown_adapters.add(description)
            return FoundEnd(description, str(port))
        return FoundEnd(own.get(guid, f"{first}/{device}"), str(port))

    cables = []
    for (guid, port), line in by_port.items():
        peer = line.peer
        if peer is None or (guid in switches) < (peer.guid in switches):
            continue  # it is listed from the switch's end
        if peer.guid in switches and (peer.guid, peer.port) < (guid, port):
            continue
        here, there = end(guid, port, line.end.description), end(peer.guid, peer.port, peer.description)
        lanes, lane_gbps = line.lanes
        carried = LANE_GBPS.get(lane_gbps) if lane_gbps else None
        rate_gbps = lanes * carried if lanes and carried else None
        cables.append(FoundCable(there, here, rate_gbps) if "/" in there.node else FoundCable(here, there, rate_gbps))
    return cables, set(names.values()), unknown_adapters


def _switch_names(lines: Iterable[PortLine], hosts: Container[str]) -> dict[int, str]:
    """Return a name for each GUID; a switch named like another switch, or like a host, gets its GUID as its name."""
    named = {line.end.guid: switch_name(line.end.description) for line in lines}
    alike = Counter(named.values())
    return {
        guid: name if alike[name] == 1 and _is_name(name) and name not in hosts else f"switch-{guid:016x}"
        for guid, name in named.items()
    }


def _heard(
    found: Mapping[str, FoundHost], answers: Mapping[str, Answers], silent: dict[str, list[str]]
) -> Iterator[FoundCable]:
    """
    Yield the cables of Ethernet ports from what their interfaces hear; a port that hears two neighbours yields none.

    *silent* takes why LLDP reported nothing, and on which hosts.
    """
    for name, host in found.items():
        asked = answers.get(name, {}).get(interfaces.NEIGHBOURS)
        if asked is None or all(rnic.link_layer != "ethernet" for rnic in host.rnics):
            continue
        unread: list[str] = []
        neighbours = parsed(asked, interfaces.read_neighbours, "LLDP", unread) or ()
        for reason in unread:
            silent.setdefault(reason, []).append(name)
        for rnic in host.rnics:
            here = [one for one in neighbours if rnic.netdev and one.interface == rnic.netdev and one.switch]
            if len(here) == 1 and _is_name(str(here[0].switch)) and here[0].switch not in found:
                end = FoundEnd(f"{name}/{rnic.device}", str(rnic.port))
                yield FoundCable(end, FoundEnd(str(here[0].switch), here[0].port), rnic.rate_gbps)
