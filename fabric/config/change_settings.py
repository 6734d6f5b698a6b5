"""Makes an inventory's settings for changes from what its file says, and checks the hosts that it names."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fabric.config.change_settings_file import ChangesEntry, SubnetManagerEntry
from fabric.config.document import Tree
from fabric.config.entries import valid
from fabric.config.problems import KeyPath, Problems
from fabric.model.change import BlastRadius, ChangeSettings, Lease, SubnetManager
from fabric.model.fields.wording import nearest, quoted
from fabric.model.topology import Topology

_HERE: KeyPath = ("changes",)


def change_settings(tree: Tree, topology: Topology, problems: Problems, *, whole: bool) -> ChangeSettings:
    """
    The settings; hosts are looked up in *topology* only when that is *whole* (none of them could not be read).

    Subnet managers may run on hosts for management, too. In-band tools need RNICs, which only a host under test has.
    """
    entry = valid(ChangesEntry, tree) or ChangesEntry()
    if entry.via in topology.management:
        text = f"expected a host under test, whose RNICs lead to the switches, got {quoted(str(entry.via))}"
        problems.add((*_HERE, "via"), f"{text} (role management)")
    elif entry.via is not None and whole:
        _host_exists(entry.via, topology.hosts, (*_HERE, "via"), problems)
    if entry.ufm_url is not None and entry.via is None:
        problems.add((*_HERE, "ufm_url"), "'ufm_url' needs 'via': the host from which it is asked")
    if entry.lease.max_hold < entry.lease.ttl:
        text = f"expected at least ttl, {entry.lease.ttl}s, got {entry.lease.max_hold}s"
        problems.add((*_HERE, "lease", "max_hold"), text)
    seen: set[str] = set()
    for position, manager in enumerate(entry.subnet_managers):
        here = (*_HERE, "subnet_managers", position)
        _check_manager(manager, seen, here, problems)
        if whole:
            _host_exists(manager.host, {**topology.hosts, **topology.management}, (*here, "host"), problems)
    for what in ("adaptive", "shield"):
        _check_options(what, getattr(entry, f"{what}_on"), getattr(entry, f"{what}_off"), problems)
    return _settings(entry)


def _settings(entry: ChangesEntry) -> ChangeSettings:
    radius = entry.blast_radius
    return ChangeSettings(
        via=entry.via,
        port_state=entry.port_state,
        sudo=entry.sudo,
        guard_directory=entry.guard_directory,
        lease=Lease(float(entry.lease.ttl), float(entry.lease.max_hold)),
        management=entry.management,
        subnet_managers=tuple(SubnetManager(each.host, each.config, each.reload) for each in entry.subnet_managers),
        adaptive_on=tuple(entry.adaptive_on.items()),
        adaptive_off=tuple(entry.adaptive_off.items()),
        shield_on=tuple(entry.shield_on.items()),
        shield_off=tuple(entry.shield_off.items()),
        adaptive_sl=entry.adaptive_sl,
        ufm_url=entry.ufm_url,
        blast_radius=BlastRadius(radius.changes, radius.per_switch, radius.per_host, radius.links_fraction),
    )


def _host_exists(name: str, hosts: Collection[str], path: KeyPath, problems: Problems) -> None:
    if name not in hosts:
        problems.add(path, f"no host {quoted(name)} under hosts:{nearest(name, hosts)}")


def _check_manager(entry: SubnetManagerEntry, seen: set[str], path: KeyPath, problems: Problems) -> None:
    if entry.host in seen:
        problems.add((*path, "host"), f"the subnet manager on {quoted(entry.host)} is there twice")
    seen.add(entry.host)
    if entry.reload[0].startswith("-") or "=" in entry.reload[0]:
        problems.add((*path, "reload", 0), f"expected a program first, got {quoted(entry.reload[0])}")


def _check_options(what: str, on: Mapping[str, str], off: Mapping[str, str], problems: Problems) -> None:
    """Both say the same options, and not the same values: else one could not be told from the other."""
    alone = sorted(set(on) ^ set(off))
    key = f"{what}_on"
    if alone:
        text = f"{what}_on and {what}_off must say the same options: {quoted(alone[0])} is in one of them only"
        problems.add((*_HERE, key), text)
    elif on == off:
        problems.add((*_HERE, key), f"{what}_on and {what}_off say the same: nothing would be switched")
