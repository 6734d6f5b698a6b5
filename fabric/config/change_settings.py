"""Checks an inventory's settings for changes: the hosts that they name, and what goes together."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fabric.config.problems import KeyPath, Problems
from fabric.model.change import ChangeSettings, SubnetManager
from fabric.model.fields.wording import nearest, quoted
from fabric.model.topology import Topology

_HERE: KeyPath = ("changes",)


def check_settings(entry: ChangeSettings, topology: Topology, problems: Problems, *, whole: bool) -> None:
    """
    Note what does not fit; hosts are looked up in *topology* only when that is *whole* (none could not be read).

    Subnet managers may run on hosts for management, too. In-band tools need RNICs, which only a host under test has.
    """
    if entry.via in topology.management:
        text = f"expected a host under test, whose RNICs lead to the switches, got {quoted(str(entry.via))}"
        problems.add((*_HERE, "via"), f"{text} (role management)")
    elif entry.via is not None and whole:
        _host_exists(entry.via, topology.hosts, (*_HERE, "via"), problems)
    if entry.ufm_url is not None and entry.via is None:
        problems.add((*_HERE, "ufm_url"), "'ufm_url' needs 'via': the host from which it is asked")
    if entry.lease.max_hold_s < entry.lease.ttl_s:
        text = f"expected at least ttl, {entry.lease.ttl_s:g}s, got {entry.lease.max_hold_s:g}s"
        problems.add((*_HERE, "lease", "max_hold"), text)
    seen: set[str] = set()
    for position, manager in enumerate(entry.subnet_managers):
        here = (*_HERE, "subnet_managers", position)
        _check_manager(manager, seen, here, problems)
        if whole:
            _host_exists(manager.host, {**topology.hosts, **topology.management}, (*here, "host"), problems)
    for what in ("adaptive", "shield"):
        _check_options(what, getattr(entry, f"{what}_on"), getattr(entry, f"{what}_off"), problems)


def _host_exists(name: str, hosts: Collection[str], path: KeyPath, problems: Problems) -> None:
    if name not in hosts:
        problems.add(path, f"no host {quoted(name)} under hosts:{nearest(name, hosts)}")


def _check_manager(entry: SubnetManager, seen: set[str], path: KeyPath, problems: Problems) -> None:
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
