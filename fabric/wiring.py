"""Map backend names to executors: the only place that names the concrete classes, each imported only when needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fabric.errors import ConfigError

if TYPE_CHECKING:
    from fabric.model.inventory import Inventory
    from fabric.ports import Executor


def _mock(inventory: Inventory, seed: int) -> Executor:
    from fabric.hosts.mock import MockExecutor
    from fabric.sim.world import World

    ufm, managers = inventory.changes.ufm_url is not None, inventory.changes.subnet_managers
    mock = inventory.mock
    if inventory.ssh.user == "root":
        mock = replace(mock, site=tuple({*mock.site, "root"}))
    world = World(inventory.topology, mock, seed=seed, ufm=ufm, subnet_managers=managers)
    return MockExecutor(world)


def _ssh(inventory: Inventory, _seed: int) -> Executor:
    from fabric.hosts.ssh import SshExecutor
    from fabric.hosts.ssh.keys import key_problem

    problem = key_problem(inventory.ssh)
    if problem is not None:
        raise ConfigError.at(inventory.source, f"ssh: {problem}")
    topology = inventory.topology
    return SshExecutor(inventory.ssh, {host.name: host.address for host in topology.hosts.values()}, topology.logins)


def _process(inventory: Inventory, _seed: int) -> Executor:
    from fabric.hosts.process import ProcessExecutor

    return ProcessExecutor(inventory.process.prefix)


def _slurm(inventory: Inventory, _seed: int) -> Executor:
    """Reach the hosts of the job that this runs in, or that ``SLURM_JOB_ID`` names."""
    from fabric.hosts.slurm import SlurmExecutor
    from fabric.tools.slurm import job_nodes

    job = os.environ.get("SLURM_JOB_ID", "")
    try:
        job_nodes(job)
    except ValueError as exc:
        how = "start it with sbatch or salloc, or name a running job of yours: SLURM_JOB_ID=1234 fabric ..."
        raise ConfigError.at(inventory.source, f"backend slurm: no job to begin a step in ({exc}): {how}") from exc
    return SlurmExecutor(job, inventory.slurm.options)


BACKENDS: Mapping[str, Callable[[Inventory, int], Executor]] = {
    "mock": _mock,
    "ssh": _ssh,
    "slurm": _slurm,
    "process": _process,
}
"""How commands reach hosts, by the name used in inventories and with ``--backend``."""


def make_executor(backend: str, inventory: Inventory, seed: int = 0) -> Executor:
    """Return the executor of a backend, by name; raise ConfigError for an unknown name."""

    if backend not in BACKENDS:
        raise ConfigError.at("--backend", f"expected one of {', '.join(BACKENDS)}, got {backend!r}")
    return BACKENDS[backend](inventory, seed)
