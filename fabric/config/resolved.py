"""Convert a decoded scenario and inventory to JSON and back without loss: ``run.json`` keeps it for judging again."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from pydantic import ValidationError

from fabric.errors import ConfigError, Problem
from fabric.model.fields.entry import adapter
from fabric.model.fields.wording import shown
from fabric.model.inventory import Inventory, InventorySettings
from fabric.model.scenario import Scenario
from fabric.model.topology import Host, Login, Platform, Switch, Topology, Uplinks

FORMAT: Literal[1] = 1

HostRow = tuple[str, int, str, str | None, int]
"""Name, index of its platform, address, rack, index of its leaf set."""


@dataclass(frozen=True, kw_only=True)
class _InventoryDocument(InventorySettings):
    """An inventory in JSON: platforms and leaf sets once; hosts as short rows; switches as runs of one tier."""

    platforms: tuple[Platform, ...]
    leaves: tuple[tuple[str, ...], ...]
    hosts: tuple[HostRow, ...]
    switches: tuple[tuple[str, tuple[str, ...]], ...]
    uplinks: tuple[Uplinks, ...]
    logins: dict[str, Login] = field(default_factory=dict)  # switches that can be reached
    management: dict[str, Login] = field(default_factory=dict)  # machines for management, not under test


@dataclass(frozen=True, slots=True)
class _Document:
    format: Literal[1]
    scenario: Scenario
    inventory: _InventoryDocument


def resolved_document(scenario: Scenario, inventory: Inventory) -> dict[str, Any]:
    """Return both as plain JSON values."""
    document = _Document(FORMAT, scenario, _inventory_document(inventory))
    return dict(adapter(_Document).dump_python(document))


def from_resolved(doc: dict[str, Any]) -> tuple[Scenario, Inventory]:
    """Return what ``resolved_document`` was made from; raise ConfigError if it is something else."""
    with _explained():
        document: _Document = adapter(_Document).validate_json(json.dumps(_of_this_version(doc)), strict=True)
        return document.scenario, _inventory(document.inventory)


def _of_this_version(doc: dict[str, Any]) -> dict[str, Any]:
    """
    Convert the run.json of an older run.

    Older runs have two keys of ``judge`` in one: ``{"zero_growth": {"criteria": [...], ...}}``. Their phases say which
    rounds a budget left (``kept``; null: all); ConfigError if a budget removed any. Their samples say whether light was
    asked for (``optics``).
    """
    match doc:
        case {"scenario": {"phases": [{"kept": _}, *_] as phases, **scenario}, **rest}:
            if any(phase["kept"] is not None for phase in phases):
                text = "a run within --budget, which this version does not know: read it with the version that wrote it"
                raise ConfigError.at("run.json", text)
            without = [{name: value for name, value in phase.items() if name != "kept"} for phase in phases]
            return _of_this_version({**rest, "scenario": {**scenario, "phases": without}})
        case {"scenario": {"sample": {"optics": _, **sample}, **scenario}, **rest}:
            return _of_this_version({**rest, "scenario": {**scenario, "sample": sample}})
        case {"scenario": {"judge": {"zero_growth": None | dict() as both, **judge}, **scenario}, **rest}:
            allowed = None if both is None else {name: value for name, value in both.items() if name != "criteria"}
            judge |= {"zero_growth": (both or {}).get("criteria", []), "allowed_growth": allowed}
            return {**rest, "scenario": {**scenario, "judge": judge}}
    return doc


def resolved_inventory(doc: dict[str, Any]) -> Inventory:
    """Return the inventory alone: hosts can then be reached even if the scenario is no longer understood."""
    with _explained():
        return _inventory(adapter(_InventoryDocument).validate_json(json.dumps(doc["inventory"]), strict=True))


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors in a document into ConfigError."""
    try:
        yield
    except ValidationError as exc:
        raise ConfigError(
            Problem("run.json", 0, shown(f"{'.'.join(str(step) for step in error['loc'])}: {error['msg']}", most=300))
            for error in exc.errors(include_url=False)
        ) from exc
    except (IndexError, KeyError, TypeError, ValueError, RecursionError) as exc:
        raise ConfigError.at("run.json", f"not a resolved run: {shown(str(exc), most=200)}") from exc


def _inventory_document(inventory: Inventory) -> _InventoryDocument:
    topology = inventory.topology
    platforms: dict[str, tuple[int, Platform]] = {}
    leaves: dict[tuple[str, ...], int] = {}
    rows: list[HostRow] = []
    for host in topology.hosts.values():
        platform, _ = platforms.setdefault(host.platform.name, (len(platforms), host.platform))
        rows.append((host.name, platform, host.address, host.rack, leaves.setdefault(host.leaves, len(leaves))))
    runs = groupby(topology.switches.values(), key=lambda switch: switch.tier)
    return _InventoryDocument(
        **inventory.fields_of(InventorySettings),
        platforms=tuple(platform for _, platform in platforms.values()),
        leaves=tuple(leaves),
        hosts=tuple(rows),
        switches=tuple((tier, tuple(switch.name for switch in run)) for tier, run in runs),
        uplinks=topology.uplinks,
        logins={name: login for name, login in topology.logins.items() if name in topology.switches},
        management=dict(topology.management),
    )


def _inventory(document: _InventoryDocument) -> Inventory:
    hosts = {}
    for name, platform, address, rack, leaves in document.hosts:
        if platform < 0 or leaves < 0:
            raise IndexError("negative number in hosts")
        hosts[name] = Host(name, document.platforms[platform], address, rack, document.leaves[leaves])
    logins = document.logins
    switches = {name: Switch(name, tier, logins.get(name)) for tier, names in document.switches for name in names}
    topology = Topology(hosts, switches, document.uplinks, document.management)
    return Inventory(topology=topology, **document.fields_of(InventorySettings))
