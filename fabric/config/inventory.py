"""Decode an inventory file: return the inventory, or raise every problem at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic_core import PydanticCustomError

from fabric.config import topology as parts
from fabric.config.baselines import baseline_problem
from fabric.config.document import Tree, read_document
from fabric.config.links import component_problem, fault_from_text, network_problem
from fabric.config.platforms import PlatformEntry, platform, program_first
from fabric.config.problems import KeyPath, Problems, duplicates, report, section, valid_items
from fabric.config.topology import HostsEntry, SwitchesEntry
from fabric.model.change import ChangeSettings, SubnetManager
from fabric.model.fields.entry import key
from fabric.model.fields.scalars import SAFE_NAME
from fabric.model.fields.wording import nearest, quoted, shown
from fabric.model.inventory import PARTIAL, WHOLE, Fault, Inventory, InventorySettings, MockSettings, SshSettings
from fabric.model.text import other_names
from fabric.model.topology import Platform, Topology


@dataclass(frozen=True, kw_only=True)
class InventoryFile(InventorySettings):
    """A whole inventory file."""

    platforms: dict[Annotated[str, SAFE_NAME], PlatformEntry] = key(min_length=1)
    """Host layouts by name."""
    hosts: tuple[HostsEntry, ...] = key(min_length=1)
    """The machines under test."""
    switches: tuple[SwitchesEntry, ...] = ()
    """The switches between them."""


_CHANGES: KeyPath = ("changes",)


def load_inventory(path: Path, *, extra_faults: tuple[str, ...] = ()) -> Inventory:
    """
    Return the inventory in a file; raise ConfigError with everything that is wrong. *extra_faults*: ``--fault`` texts.
    """
    problems = Problems(shown(str(path)))
    command_line = Problems("--fault")
    tree = read_document(path, problems, "an inventory")
    if not tree:
        problems.raise_if_any()
    file = report(InventoryFile, tree, problems)
    topology, whole = _topology(tree, path, problems)
    known = topology if whole else None
    _check_mock(section(MockSettings, tree, "mock"), known, problems)
    _check_changes(section(ChangeSettings, tree, "changes"), topology, problems, whole=whole)
    extra = tuple(_extra_faults(extra_faults, known, command_line))
    problems.raise_if_any(command_line.all())
    assert file is not None  # else it was raised above
    mock = replace(file.mock, faults=(*file.mock.faults, *extra), routing=file.mock.routing or file.routing)
    return Inventory(topology=topology, **file.fields_of(InventorySettings) | {"source": str(path), "mock": mock})


def _topology(tree: dict[str, Tree], path: Path, problems: Problems) -> tuple[Topology, bool]:
    """Return the topology as far as the file can be understood, and whether it has every host and switch."""
    raw_switches, raw_platforms = tree.get("switches", []), tree.get("platforms")
    platforms: dict[str, Platform | None] = dict.fromkeys(raw_platforms) if isinstance(raw_platforms, dict) else {}
    for here, layout in valid_items(PlatformEntry, raw_platforms, ("platforms",)):
        name = str(here[-1])
        platforms[name] = platform(name, layout, here, problems)
        missing = baseline_problem(layout.baseline, path)
        if missing:
            problems.add((*here, "baseline"), missing)
    switch_entries = list(valid_items(SwitchesEntry, raw_switches, ("switches",)))
    switch_names = parts.Names("switches", problems)
    switches = parts.switches(switch_entries, switch_names)
    complete = _as_many(raw_switches, switch_entries)
    uplinks = parts.uplinks(switch_entries, switches, problems) if complete else ()
    host_names = parts.Names("hosts", problems)
    host_entries = list(valid_items(HostsEntry, tree.get("hosts"), ("hosts",)))
    tested = [(path, entry) for path, entry in host_entries if entry.role == "test"]
    hosts = parts.hosts(tested, platforms, switches if complete else None, host_names)
    management = parts.management([each for each in host_entries if each[1].role == "management"], host_names)
    if host_entries and not tested:
        problems.add(("hosts",), "expected a host with role test: there is nothing to measure")
    for name in sorted(host_names.where.keys() & switch_names.where.keys()):
        problems.add(("switches",), f"{quoted(name)} names a host and a switch")
    for name, other in other_names(host_names.where).items():
        text = f"{quoted(name)} may be the machine that is called {quoted(other)}: write one machine with one name"
        problems.add((*host_names.where[name], "names"), text)
    topology = Topology(hosts, switches, uplinks, management)
    where = {**switch_names.where, **host_names.where}
    parts.refuse_one_machine_twice(topology, where, section(SshSettings, tree, "ssh"), problems)
    made = len(hosts) + len(management)
    whole = complete and _as_many(tree.get("hosts"), host_entries) and made == host_names.asked > 0
    return topology, whole


def _as_many(raw: Tree | None, entries: Sized) -> bool:
    """Return whether every entry of a list is well formed."""
    return isinstance(raw, list) and len(raw) == len(entries)


def _check_mock(mock: MockSettings, topology: Topology | None, problems: Problems) -> None:
    """Note what is wrong with the mock's faults; components are checked only in a complete *topology*."""
    for position, fault in enumerate(mock.faults):
        _check_fault(fault, ("mock", "faults", position), topology, problems, for_good=True)
    for position, timed in enumerate(mock.timed_faults):
        _check_fault(timed.fault, ("mock", "timed_faults", position), topology, problems, for_good=False)
    irregular = network_problem(topology) if topology is not None and mock.routing is not None else None
    if irregular:
        problems.add(("mock", "routing"), irregular)


def _check_fault(fault: Fault, path: KeyPath, topology: Topology | None, problems: Problems, *, for_good: bool) -> None:
    """Check the component and the factor: kinds that leave a part of the bandwidth have a factor, others do not."""
    if fault.kind in PARTIAL and fault.factor == WHOLE:
        missing = f"'factor' is required with kind {fault.kind}: the fraction of its bandwidth that is left"
        problems.add(path, missing)
    if fault.kind not in PARTIAL and fault.factor != WHOLE:
        problems.add((*path, "factor"), f"'factor' goes with kind slow, not with {fault.kind}")
    text = None if topology is None else component_problem(fault, topology, for_good=for_good)
    if text is None and fault.kind == "lemon" and not for_good:
        text = "a lemon is one for good: list it under 'faults'"
    if text:
        problems.add((*path, "component"), text)


def _extra_faults(texts: Iterable[str], topology: Topology | None, problems: Problems) -> Iterator[Fault]:
    """Yield the faults of the command line."""
    for text in texts:
        try:
            fault = fault_from_text(text)
        except PydanticCustomError as exc:
            problems.at_line(0, exc.message())
        else:
            _check_fault(fault, (), topology, problems, for_good=True)
            yield fault


def _check_changes(entry: ChangeSettings, topology: Topology, problems: Problems, *, whole: bool) -> None:
    """
    Note what does not fit together; hosts are looked up in *topology* only if it is *whole* (all could be read).

    Subnet managers may run on hosts for management, too. In-band tools need RNICs, which only a host under test has.
    """
    if entry.via in topology.management:
        text = f"expected a host under test, whose RNICs lead to the switches, got {quoted(str(entry.via))}"
        problems.add((*_CHANGES, "via"), f"{text} (role management)")
    elif entry.via is not None and whole:
        _host_exists(entry.via, topology.hosts, (*_CHANGES, "via"), problems)
    _check_via_device(entry, topology, problems)
    if entry.ufm_ca is not None and entry.ufm_insecure:
        problems.add((*_CHANGES, "ufm_insecure"), "'ufm_ca' and 'ufm_insecure' are two ways: leave out one")
    if entry.ufm_url is not None and entry.via is None:
        problems.add((*_CHANGES, "ufm_url"), "'ufm_url' needs 'via': the host from which it is asked")
    if entry.lease.max_hold_s < entry.lease.ttl_s:
        text = f"expected at least ttl, {entry.lease.ttl_s:g}s, got {entry.lease.max_hold_s:g}s"
        problems.add((*_CHANGES, "lease", "max_hold"), text)
    _check_managers(entry.subnet_managers, topology, problems, whole=whole)
    for what in ("adaptive", "shield"):
        _check_options(what, getattr(entry, f"{what}_on"), getattr(entry, f"{what}_off"), problems)


def _check_managers(managers: Sequence[SubnetManager], topology: Topology, problems: Problems, *, whole: bool) -> None:
    path: KeyPath = (*_CHANGES, "subnet_managers")
    for position, host in duplicates(manager.host for manager in managers):
        problems.add((*path, position, "host"), f"the subnet manager on {quoted(host)} is there twice")
    for position, manager in enumerate(managers):
        program_first(manager.reload, (*path, position, "reload"), problems)
        if whole:
            known = {**topology.hosts, **topology.management}
            _host_exists(manager.host, known, (*path, position, "host"), problems)


def _check_via_device(entry: ChangeSettings, topology: Topology, problems: Problems) -> None:
    """Check that it is one of the RNICs of ``via``, whose port and rail are known."""
    if entry.via_device is None:
        return
    if entry.via is None:
        problems.add((*_CHANGES, "via_device"), "'via_device' needs 'via': the host that it is of")
    elif entry.via in topology.hosts:
        devices = topology.hosts[entry.via].platform.rnic_by_device
        if entry.via_device not in devices:
            text = f"{quoted(entry.via)} has no RNIC {quoted(entry.via_device)}{nearest(entry.via_device, devices)}"
            problems.add((*_CHANGES, "via_device"), text)


def _host_exists(name: str, hosts: Collection[str], path: KeyPath, problems: Problems) -> None:
    if name not in hosts:
        problems.add(path, f"no host {quoted(name)} under hosts:{nearest(name, hosts)}")


def _check_options(what: str, on: Mapping[str, str], off: Mapping[str, str], problems: Problems) -> None:
    """Check that both have the same options with different values: otherwise on and off could not be told apart."""
    alone = sorted(set(on) ^ set(off))
    key = f"{what}_on"
    if alone:
        text = f"{what}_on and {what}_off must say the same options: {quoted(alone[0])} is in one of them only"
        problems.add((*_CHANGES, key), text)
    elif on == off:
        problems.add((*_CHANGES, key), f"{what}_on and {what}_off say the same: nothing would be switched")
