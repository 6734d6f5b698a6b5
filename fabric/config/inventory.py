"""Decodes an inventory file: every problem at once, or the inventory."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from dataclasses import replace
from pathlib import Path

from fabric.config import topology as parts
from fabric.config.baselines import baseline_problem
from fabric.config.change_settings import change_settings
from fabric.config.document import Tree, read_document
from fabric.config.entries import report, valid, valid_items
from fabric.config.faults import component_problem, fault, fault_from_text
from fabric.config.inventory_file import (
    HostsEntry,
    InventoryFile,
    MockEntry,
    PlatformEntry,
    ProcessEntry,
    SshEntry,
    SwitchesEntry,
    TimedFaultEntry,
)
from fabric.config.lively_faults import passing_problem
from fabric.config.platforms import platform
from fabric.config.problems import Problems
from fabric.config.uplink_faults import network_problem
from fabric.model.fields.wording import quoted, shown
from fabric.model.inventory import Fault, Inventory, JumpHost, MockSettings, ProcessSettings, SshSettings, TimedFault
from fabric.model.topology import Login, Topology

_DEFAULT_SSH = SshSettings()


def load_inventory(path: Path, *, extra_faults: tuple[str, ...] = ()) -> Inventory:
    """The inventory in a file; *extra_faults* are ``--fault`` texts. ConfigError holds everything that is wrong."""
    problems = Problems(shown(str(path)))
    command_line = Problems("--fault")
    tree = read_document(path, problems)
    if not tree and problems:
        problems.raise_if_any()
    report(InventoryFile, tree, problems)
    topology, whole = _topology(tree, problems)
    _baselines_exist(tree, path, problems)
    mock = _mock(tree, topology, problems, whole=whole)
    changes = change_settings(tree.get("changes", {}), topology, problems, whole=whole)
    extra = _extra_faults(extra_faults, topology, command_line, whole=whole)
    problems.raise_if_any(command_line.all())
    file = InventoryFile.from_file(tree)
    return Inventory(
        name=file.name,
        source=str(path),
        topology=topology,
        backend=file.backend,
        ssh=_ssh(file.ssh),
        process=_process(file.process),
        mock=replace(mock, faults=(*mock.faults, *extra)),
        changes=changes,
    )


def _topology(tree: dict[str, Tree], problems: Problems) -> tuple[Topology, bool]:
    """What is there as far as the file can be understood, and whether that is every host and switch."""
    platforms = {
        str(path[-1]): platform(str(path[-1]), entry, path, problems)
        for path, entry in valid_items(PlatformEntry, tree.get("platforms"), ("platforms",))
    }
    raw_switches, raw_platforms = tree.get("switches", []), tree.get("platforms")
    switch_entries = list(valid_items(SwitchesEntry, raw_switches, ("switches",)))
    switch_names = parts.Names("switches", problems)
    switches = parts.switches(switch_entries, switch_names)
    complete = _as_many(raw_switches, switch_entries)
    uplinks = parts.uplinks(switch_entries, switches, problems) if complete else ()
    known = parts.HostParts(
        platforms=platforms,
        platform_names=list(raw_platforms) if isinstance(raw_platforms, dict) else [],
        switches=switches,
        switches_complete=complete,
    )
    host_names = parts.Names("hosts", problems)
    host_entries = list(valid_items(HostsEntry, tree.get("hosts"), ("hosts",)))
    tested = [(path, entry) for path, entry in host_entries if entry.role == "test"]
    hosts = parts.hosts(tested, known, host_names)
    management = parts.management([each for each in host_entries if each[1].role == "management"], host_names)
    if host_entries and not tested:
        problems.add(("hosts",), "expected a host with role test: there is nothing to measure")
    for name in sorted(host_names.taken & switch_names.taken):
        problems.add(("switches",), f"{quoted(name)} names a host and a switch")
    parts.refuse_one_machine_twice(
        {
            **{name: Login(host.address) for name, host in hosts.items()},
            **management,
            **{name: switch.login for name, switch in switches.items() if switch.login is not None},
        },
        {**switch_names.where, **host_names.where},
        _ssh_login(tree),
        problems,
    )
    made = len(hosts) + len(management)
    whole = complete and _as_many(tree.get("hosts"), host_entries) and made == host_names.asked > 0
    return Topology(hosts, switches, uplinks, management), whole


def _ssh_login(tree: dict[str, Tree]) -> Login:
    """Account and port of all that have none of their own."""
    entry = valid(SshEntry, tree.get("ssh", {})) or SshEntry()
    return Login("", user=entry.user, port=entry.port)


def _as_many(raw: Tree | None, entries: Sized) -> bool:
    """Whether every entry of a list is well formed."""
    return isinstance(raw, list) and len(raw) == len(entries)


def _baselines_exist(tree: dict[str, Tree], path: Path, problems: Problems) -> None:
    """Every platform's baseline has its file."""
    for here, entry in valid_items(PlatformEntry, tree.get("platforms"), ("platforms",)):
        text = baseline_problem(entry.baseline, path)
        if text:
            problems.add((*here, "baseline"), text)


def _mock(tree: dict[str, Tree], topology: Topology, problems: Problems, *, whole: bool) -> MockSettings:
    """The mock's settings; components are looked up only in a topology that is *whole*."""
    entry = valid(MockEntry, tree.get("mock", {})) or MockEntry()
    faults = []
    for position, each in enumerate(entry.faults):
        here = ("mock", "faults", position)
        faults.append(fault(each, here, problems))
        text = component_problem(each.component, each.kind, topology) if whole else None
        if text:
            problems.add((*here, "component"), text)
    timed = tuple(_timed_fault(each, position, topology if whole else None, problems)
                  for position, each in enumerate(entry.timed_faults))  # fmt: skip
    irregular = network_problem(topology) if whole and entry.routing is not None else None
    if irregular:
        problems.add(("mock", "routing"), irregular)
    return MockSettings(
        faults=tuple(faults),
        noise_cv=entry.noise_cv,
        routing=entry.routing,
        qps=entry.qps,
        salt=entry.salt,
        shield=entry.shield,
        sm_reroute_s=entry.sm_reroute,
        ufm_isolates=entry.ufm_isolates,
        timed_faults=timed,
        failures_per_host_day=entry.failures_per_host_day,
        lemon_per_hour=entry.lemon_per_hour,
    )


def _timed_fault(entry: TimedFaultEntry, position: int, topology: Topology | None, problems: Problems) -> TimedFault:
    here = ("mock", "timed_faults", position)
    text = None if topology is None else component_problem(entry.component, entry.kind, topology)
    if text is None and topology is not None:
        text = passing_problem(entry.component, entry.kind, topology)
    if text is None and entry.kind == "lemon":
        text = "a lemon is one for good: list it under 'faults'"
    if text:
        problems.add((*here, "component"), text)
    return TimedFault(entry.at, entry.lasts, fault(entry, here, problems), cause="inventory")


def _extra_faults(texts: Iterable[str], topology: Topology, problems: Problems, *, whole: bool) -> tuple[Fault, ...]:
    """The faults of the command line."""
    found = []
    for text in texts:
        each = fault_from_text(text, problems)
        if each is None:
            continue
        said = component_problem(each.component, each.kind, topology) if whole else None
        if said:
            problems.at_line(0, said)
        found.append(each)
    return tuple(found)


def _ssh(entry: SshEntry) -> SshSettings:
    return SshSettings(
        user=entry.user,
        port=entry.port,
        key_file=entry.key_file,
        agent=entry.agent,
        jump=tuple(JumpHost(jump.address, jump.user, jump.port) for jump in entry.jump),
        known_hosts=entry.known_hosts or _DEFAULT_SSH.known_hosts,
        connect_timeout_s=float(entry.connect_timeout),
    )


def _process(entry: ProcessEntry) -> ProcessSettings:
    return ProcessSettings(entry.prefix)
