"""Look before you measure: does everything that a run needs exist, are the cables right, and what hardware is there."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from fabric.app.prepare import backend_of, hosts_named, refuse_unguarded
from fabric.checks import held, wiring
from fabric.checks.found import WALK_MOST_BYTES, discover
from fabric.checks.held import held_on, holders
from fabric.checks.kind import HostNeeds, host_needs, signed, unknown
from fabric.checks.pre_flight import ORCHESTRATOR, REACH, installed, inventory_findings, pre_flight
from fabric.config.blueprint import Blueprint, read_blueprint
from fabric.config.inventory import load_inventory
from fabric.config.scenario import load_scenario
from fabric.errors import ConfigError, StoreError, ToolError
from fabric.model.fields.scalars import ADDRESS, SAFE_NAME, USER
from fabric.model.finding import Checked, Finding, Severity, merged
from fabric.model.found import FoundFabric
from fabric.model.inventory import Inventory, SshSettings
from fabric.model.scenario import Scenario
from fabric.model.text import unfold
from fabric.model.topology import Host, Platform, Topology
from fabric.plan.as_run import without_drills
from fabric.ports import Executor, MakeExecutor
from fabric.report.written import inventory_text
from fabric.runs.plain_file import read_plain, reading
from fabric.runs.run_document import version_of
from fabric.tools import infiniband
from fabric.tools.infiniband import PortLine

_UNKNOWN = Platform("unknown", (), (), 1, (), "infiniband", "")
HOSTS_MOST = 20_000
"""The most hosts that one inventory may have; a longer list is a mistake in a range."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """An inventory as text, what was found to make it, and the hosts that reported nothing."""

    text: str
    found: FoundFabric
    silent: tuple[str, ...]

    @property
    def baselines(self) -> tuple[str, ...]:
        """Return the baselines that the inventory names: their files have to be beside it."""
        return tuple(dict.fromkeys(re.findall(r"^    baseline: (\S+)", self.text, re.MULTILINE)))


def discovered(
    hosts: str | None,
    *,
    inventory_path: Path | None,
    backend: str | None,
    address: str,
    user: str | None,
    key_file: str | None,
    faults: tuple[str, ...],
    name: str,
    links: Path | None,
    make_executor: MakeExecutor,
) -> Discovered:
    """
    Ask *hosts* what hardware and cables they have, and return an inventory of it.

    The hosts are reached as *inventory_path* says, or else over SSH at *address* (``{name}.mgmt``). *links*: a file
    with what ``iblinkinfo -l`` or ``ibnetdiscover -p`` printed elsewhere, or with UFM's links, instead of asking a
    host. Raises ConfigError for wrong arguments.
    """
    for option, shape, given in (("--name", SAFE_NAME, name), ("--user", USER, user)):
        if given is not None and re.fullmatch(shape.pattern, given) is None:
            raise ConfigError.at(option, f"expected {shape.expected}, got {given!r}")
    listed = ports_listed(links)
    if inventory_path is not None:
        reached = load_inventory(inventory_path, extra_faults=faults)
        asked = hosts_named(hosts or "all", reached)
    else:
        reached = _by_name(hosts, address, SshSettings(user=user, key_file=key_file), backend or "ssh")
        asked = tuple(reached.topology.hosts)
    with closing(make_executor(backend or reached.backend, reached)) as executor:
        found = _found(executor, reached, asked, listed)
    silent = tuple(host.name for host in found.hosts.values() if not host.rnics)
    if len(silent) == len(asked):
        reason = next(iter(found.hosts.values())).unread
        raise StoreError(f"no host told of any RDMA device; {asked[0]}: {'; '.join(reason)}")
    ssh = {"user": user, "key_file": key_file}
    lines = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in ssh.items() if value is not None)
    text = inventory_text(
        found,
        name=name,
        backend=backend or reached.backend,
        address=_template(reached, asked) if inventory_path is not None else address,
        ssh=f"ssh:\n{lines}".rstrip() if lines else "",
    )
    return Discovered(text, found, silent)


_LISTINGS = "what iblinkinfo -l or ibnetdiscover -p prints, or the links of UFM in JSON"


def ports_listed(links: Path | None) -> tuple[PortLine, ...]:
    """Return the ports listed in a file of links; none without a file. Raise ConfigError if it is not such a file."""
    if links is None:
        return ()
    try:
        text = read_plain(links, WALK_MOST_BYTES).decode("utf-8", "replace")
        if text.lstrip().startswith(("[", "{")):
            return infiniband.read_ufm(text)
        return infiniband.read_ports(text) if text.startswith("0x") else infiniband.read_links(text)
    except (OSError, ToolError) as exc:
        why = (exc.strerror if isinstance(exc, OSError) else None) or exc
        raise ConfigError.at(str(links), f"expected {_LISTINGS}: {why}") from None


def _found(
    executor: Executor, inventory: Inventory, hosts: Sequence[str], listed: Sequence[PortLine]
) -> FoundFabric:  # fmt: skip
    named = {name: inventory.topology.hosts[name] for name in hosts}
    return discover(executor, named, inventory.changes, listed)


def wiring_findings(
    executor: Executor,
    inventory: Inventory,
    hosts: Sequence[str],
    listed: Sequence[PortLine] = (),
    blueprint: Blueprint | None = None,
) -> list[Finding]:
    """
    Compare the cables that are there (or *listed*) with those of the inventory or a blueprint; return the differences.
    """
    found = _found(executor, inventory, hosts, listed)
    cables, left_out = (blueprint.cables, blueprint.left_out) if blueprint else ((), ())
    findings = [*wiring.wiring(found, inventory.topology, hosts, cables)]
    if left_out:
        what = f"{len(left_out)} cables of the blueprint have several ends on one side, as {left_out[0]}"
        findings.append(unknown(what, "which end belongs to which is not said", "write a row for each end"))
    return list(signed(wiring.NAME, findings))


def blueprint_at(path: Path | None) -> Blueprint | None:
    """Return the blueprint in a file, or None without one; raise ConfigError with everything that is wrong with it."""
    if path is None:
        return None
    with reading(path):
        return read_blueprint(path, read_plain(path, WALK_MOST_BYTES))


def _by_name(hosts: str | None, address: str, ssh: SshSettings, backend: str) -> Inventory:
    """Return an inventory that has only names and addresses, to reach hosts by."""
    if hosts is None:
        raise ConfigError.at("fabric inventory discover", "expected hosts such as gpu[001-064], or --inventory FILE")
    try:
        names = unfold(hosts)
    except ValueError as exc:
        raise ConfigError.at("HOSTS", str(exc)) from None
    if not 0 < len(names) <= HOSTS_MOST:
        raise ConfigError.at("HOSTS", f"expected 1 to {HOSTS_MOST:,} hosts, got {len(names):,}")
    if address.count("{name}") != 1 or re.fullmatch(ADDRESS.pattern, address.replace("{name}", "h")) is None:
        raise ConfigError.at("--address", f"expected an address with {{name}} in it, got {address!r}")
    made = {name: Host(name, _UNKNOWN, address.replace("{name}", name), None, ()) for name in names}
    return Inventory(name="found", source="the command line", topology=Topology(made, {}), backend=backend, ssh=ssh)


def _template(inventory: Inventory, hosts: Sequence[str]) -> str:
    """Return the address of the first host, with ``{name}`` in place of the host's name."""
    first = inventory.topology.hosts[hosts[0]]
    return first.address.replace(first.name, "{name}")


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
    Check every host of a scenario, or of an inventory alone, and alter nothing; with *wiring*, every cable too.

    *links*: a file that lists all cables (``iblinkinfo -l``), instead of asking a host for them. *blueprint*: a file of
    all cables as they are planned, port by port.

    Raises ConfigError with everything that is wrong with the files and the command line.
    """
    listed, planned = ports_listed(links), blueprint_at(blueprint)
    scenario, inventory, names = _asked_for(scenario_path, inventory_path, hosts, faults)
    name = backend_of(inventory, backend, faults)
    found = list(signed(ORCHESTRATOR, installed(version_of)))
    if scenario is not None:
        refuse_unguarded(scenario, name)
        found += signed(ORCHESTRATOR, inventory_findings(scenario, inventory))
    needs = host_needs(scenario, names, inventory, backend=name)
    with closing(make_executor(name, inventory)) as executor:
        started_s = executor.now()
        found += pre_flight(executor, inventory.topology, needs)
        found += _held(executor, inventory, needs, found)
        if wiring or links or planned:
            found += wiring_findings(executor, inventory, names, listed, planned)
        elapsed_s = executor.now() - started_s
    return Checked(
        scenario=scenario.name if scenario else None,
        inventory=inventory.source,
        backend=name,
        hosts=tuple(needs),
        findings=merged(found),
        elapsed_s=elapsed_s,
    )


def _held(
    executor: Executor, inventory: Inventory, needs: Mapping[str, HostNeeds], found: Sequence[Finding]
) -> list[Finding]:
    """Return findings about what guards hold, on hosts that answer; hosts that are silent have a finding already."""
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
