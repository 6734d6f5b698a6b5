"""
Who is who: serial numbers, GUIDs and firmware of every RNIC, module and GPU, asked of all hosts at once.

What cannot be read is said and left open, never guessed: a serial number needs root. It alters nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fabric.checks.ask import Answers, Argv, ask_all, parsed
from fabric.model.repair import HostIdentity, PartIdentity
from fabric.model.scenario import Scenario
from fabric.model.topology import Host, Topology
from fabric.ports import Executor
from fabric.runs.run_document import write_identity
from fabric.tools import host_parts, mlxlink, sysfs


def identify(executor: Executor, topology: Topology, hosts: Sequence[str]) -> dict[str, HostIdentity]:
    """Every host in *hosts*, in that order; one that does not answer has no parts, and the reason."""
    answers = ask_all(executor, {name: commands(topology.hosts[name]) for name in hosts})
    return {name: read(topology.hosts[name], answers[name]) for name in hosts}


def note_identity(executor: Executor, run: Path, scenario: Scenario, topology: Topology) -> None:
    """Write down who is who when a run begins, where its scenario asks for it; raises StoreError."""
    if scenario.identity:
        write_identity(run, identify(executor, topology, scenario.hosts).values())


def commands(host: Host) -> tuple[Argv, ...]:
    """What one host is asked; nothing about parts that its platform does not have."""
    asked: list[Argv] = []
    if host.platform.rnics:
        asked += [_files(host), _vpd(host), *(_module(host, rnic.device) for rnic in host.platform.rnics)]
    if host.platform.gpus:
        asked.append(_gpus(host))
    return tuple(asked)


def read(host: Host, answers: Answers) -> HostIdentity:
    """What its answers say; raises nothing for any text."""
    unread: list[str] = []
    parts = [*_rnic_parts(host, answers, unread), *_gpu_parts(host, answers, unread)]
    return HostIdentity(host.name, tuple(parts), tuple(dict.fromkeys(unread)))


def _rnic_parts(host: Host, answers: Answers, unread: list[str]) -> list[PartIdentity]:
    if not host.platform.rnics:
        return []
    devices = parsed(answers[_files(host)], sysfs.read_identity, "RNICs", unread) or {}
    vpd = parsed(answers[_vpd(host)], host_parts.read_rnics, "serial numbers of RNICs", unread) or {}
    parts = []
    for rnic in host.platform.rnics:
        device = devices.get(rnic.device)
        if devices and device is None:
            unread.append(f"{rnic.device}: no such device")
        data = vpd.get(device.pci_address or "") if device else None
        if device:
            parts.append(
                PartIdentity(
                    part=rnic.device,
                    kind="rnic",
                    serial=data.serial if data else None,
                    part_number=data.part_number if data else device.board_id,
                    firmware=device.firmware,
                    unique=device.node_guid,
                )
            )
        module = parsed(answers[_module(host, rnic.device)], mlxlink.read_module, f"module of {rnic.device}", unread)
        if module is not None:
            parts.append(
                PartIdentity(f"{rnic.device}:port", "module", module.serial, module.part_number, module.firmware)
            )
    return parts


def _gpu_parts(host: Host, answers: Answers, unread: list[str]) -> list[PartIdentity]:
    if not host.platform.gpus:
        return []
    if host.platform.amd:
        unread.append("GPUs: serial numbers of AMD's are not read")
        return []
    found = parsed(answers[_gpus(host)], host_parts.read_gpus, "GPUs", unread)
    if found is None:
        return []
    if len(found) != len(host.platform.gpus):  # the driver numbers those that are there: the others' names would shift
        unread.append(f"GPUs: the driver has {len(found)}, the inventory {len(host.platform.gpus)}")
        return []
    return [PartIdentity(f"gpu{gpu.index}", "gpu", gpu.serial, None, gpu.vbios, gpu.uuid) for gpu in found]


def _files(host: Host) -> Argv:
    return sysfs.identity([rnic.device for rnic in host.platform.rnics])


def _vpd(host: Host) -> Argv:
    return host_parts.ask_rnics(host.platform.program("lspci"))


def _module(host: Host, device: str) -> Argv:
    return mlxlink.module(device, host.platform.program("mlxlink"))


def _gpus(host: Host) -> Argv:
    return host_parts.ask_gpus(host.platform.program("nvidia-smi"))
