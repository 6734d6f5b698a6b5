"""What a person can ask before a run: is everything there that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fabric.app.discover import blueprint_at, ports_listed, wiring_findings
from fabric.app.prepare import hosts_named
from fabric.checks import held
from fabric.checks.held import held_on, holders
from fabric.checks.kind import signed
from fabric.checks.machines import REACH
from fabric.checks.needs import HostNeeds, host_needs
from fabric.checks.pre_flight import ORCHESTRATOR, installed, pre_flight, told_by_inventory
from fabric.config import load_inventory, load_scenario
from fabric.errors import ConfigError
from fabric.model.finding import Checked, Finding, Severity, folded
from fabric.model.inventory import Inventory
from fabric.model.scenario import Scenario
from fabric.plan.as_run import without_drills
from fabric.ports import Executor
from fabric.runs.run_document import version_of

MakeExecutor = Callable[[str, Inventory], Executor]
"""Builds the executor of a backend, by its name; raises ConfigError for one that is none."""


def check(
    scenario_path: Path | None,
    *,
    inventory_path: Path | None,
    hosts: str | None,
    faults: tuple[str, ...],
    backend: str | None,
    make_executor: MakeExecutor,
    wiring: bool = False,
    links: Path | None = None,
    blueprint: Path | None = None,
) -> Checked:
    """
    Look at every host of a scenario, or of an inventory alone, and alter nothing; with *wiring* at every cable, too.

    *links*: a file that lists all cables (``iblinkinfo -l``), instead of asking a host for them. *blueprint*: a file of
    all cables as they are planned, port by port.

    Raises ConfigError with everything that is wrong with the files and the command line.
    """
    listed, planned = ports_listed(links), blueprint_at(blueprint)
    scenario, inventory, names = _asked_for(scenario_path, inventory_path, hosts, faults)
    name = backend or inventory.backend
    executor = make_executor(name, inventory)
    if faults and name != "mock":
        executor.close()
        raise ConfigError.at("--fault", f"faults are for the mock backend, not for {name}")
    found = list(signed(ORCHESTRATOR, installed(version_of, backend=name)))
    if scenario is not None:
        found += signed(ORCHESTRATOR, told_by_inventory(scenario, inventory))
    needs = host_needs(scenario, names, inventory, backend=name)
    started_s = executor.now()
    try:
        found += pre_flight(executor, inventory.topology, needs)
        found += _held(executor, inventory, needs, found)
        if wiring or links or planned:
            found += wiring_findings(executor, inventory, names, listed, planned)
        elapsed_s = executor.now() - started_s
    finally:
        executor.close()
    return Checked(
        scenario=scenario.name if scenario else None,
        inventory=inventory.source,
        backend=name,
        hosts=tuple(needs),
        findings=folded(found),
        elapsed_s=elapsed_s,
    )


def _held(
    executor: Executor, inventory: Inventory, needs: Mapping[str, HostNeeds], found: Sequence[Finding]
) -> list[Finding]:
    """What guards hold, of hosts that answer; the others were told already."""
    silent = {
        name for one in found if one.check == REACH and one.severity is not Severity.WARNING for name in one.hosts
    }
    asked = held_on(executor, inventory, [name for name in holders(inventory, needs) if name not in silent])
    altering = {name for name, one in needs.items() if one.alters.guarded}
    return list(signed(held.NAME, held.findings(asked, inventory, altering=altering)))


def _asked_for(
    scenario_path: Path | None, inventory_path: Path | None, hosts: str | None, faults: tuple[str, ...]
) -> tuple[Scenario | None, Inventory, tuple[str, ...]]:
    if scenario_path is not None:
        scenario, inventory = load_scenario(scenario_path, inventory_path=inventory_path, hosts=hosts, faults=faults)
        scenario, _ = without_drills(scenario)
        return scenario, inventory, scenario.hosts
    if inventory_path is None:
        raise ConfigError.at("fabric check", "expected a scenario, or --inventory FILE, or both")
    inventory = load_inventory(inventory_path, extra_faults=faults)
    return None, inventory, hosts_named(hosts or "all", inventory)
