"""Which inventory a validation after a repair runs on: that of the run that failed the host, or one that is like it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fabric.analysis.hardware import other_hardware, otherwise_described
from fabric.config import load_inventory
from fabric.errors import ConfigError, Problem
from fabric.model.inventory import Inventory
from fabric.model.names import fold
from fabric.model.repair import Because
from fabric.report.shown_run import ShownRun

MOST = 12
"""So many differences are told; a person needs to see what kind it is, not all (a choice)."""


def inventory_of(
    run: Path, failed: ShownRun, given: Path | None, because: Because, hosts: Sequence[str]
) -> tuple[Path, tuple[str, ...]]:
    """
    The inventory's file, and in words how it describes *hosts* otherwise than that of the failed *run*.

    Raises ConfigError where there is no such file, where hosts are not in it, and where a host of the evidence has
    other parts in it: the same names would then mean something else.
    """
    path = _own(run, failed) if given is None else given
    now = load_inventory(path)
    then = failed.inventory
    missing = [host for host in hosts if host not in now.topology.hosts]
    if missing:
        raise ConfigError([Problem(str(path), 0, text) for text in _absent(missing, because)])
    accused = set(because.hosts).union(*(one.probe.hosts for one in because.evidence))
    other = list(_other(then, now, [host for host in hosts if host in accused]))
    if other:
        told = [*other[:MOST], *([f"and {len(other) - MOST} more differences"] if other[MOST:] else [])]
        text = f"not the hardware that {because.run} was about; take its inventory (leave out --inventory)"
        if given is None:
            text = f"not the hardware that {because.run} was about: the file has changed since"
        raise ConfigError(Problem(str(path), 0, f"{one}: {text}") for one in told)
    return path, tuple(_notes(then, now, hosts, because, path))


def _own(run: Path, failed: ShownRun) -> Path:
    """Where the inventory of the failed run lay."""
    asked_in = (failed.document.get("given") or {}).get("folder", "")
    path = Path(asked_in) / failed.inventory.source
    if not path.is_file():
        raise ConfigError([Problem(str(run), 0, f"its inventory {path} is not there any more: say --inventory")])
    return path


def _absent(missing: Sequence[str], because: Because) -> Iterator[str]:
    """Those that were repaired by their names; of others why they are needed."""
    repaired = [host for host in missing if host in because.hosts]
    others = [host for host in missing if host not in because.hosts]
    if repaired:
        yield f"it has no {fold(repaired)}, which {because.run} found bad: take the inventory of that run"
    elif others:
        whom = fold(because.hosts)
        yield f"it is not the inventory of {because.run}: {len(others)} hosts beside {whom} that it needs are missing"


def _other(then: Inventory, now: Inventory, hosts: Sequence[str]) -> Iterator[str]:
    for host in hosts:
        yield from other_hardware(then.topology.hosts[host], now.topology.hosts[host])


def _notes(then: Inventory, now: Inventory, hosts: Sequence[str], because: Because, path: Path) -> Iterator[str]:
    found = list(_other(then, now, hosts))
    for host in hosts:
        found += otherwise_described(then.topology.hosts[host], now.topology.hosts[host])
    if found:
        more = f"; and {len(found) - MOST} more" if found[MOST:] else ""
        told = "; ".join(found[:MOST])
        yield f"{path} describes the hosts otherwise than the inventory of {because.run}: {told}{more}"
