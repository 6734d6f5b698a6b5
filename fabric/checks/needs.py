"""What a scenario needs of each host: programs, rights, memory, and who logs in where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from fabric.changes.kind import Alters, Context, Kind
from fabric.changes.ports import in_band, need_via
from fabric.model.inventory import Inventory
from fabric.model.scenario import ProbeSpec, Scenario
from fabric.model.topology import Host, Platform
from fabric.tools import infiniband, management

GUARD_PROGRAMS = ("flock", "setsid", "timeout")
"""What the guard of a change calls beside sh and the smallest tools."""


@dataclass(frozen=True, slots=True)
class HostNeeds:
    """
    What one host must have.

    *measured*: it takes part in the measurement; else it only carries changes out. *programs* are called by probes,
    *alters* says what changes call as root. *cuda*: ib_write_bw reaches GPU memory itself. *gpudirect*: some RNIC
    reads GPU memory. *pinned_bytes*: the most that one program locks. *peer*: the host that mpirun logs in to from
    here, by the name it uses. *sudo*: commands that need root go through sudo. *ssh*: it is reached over SSH.
    *in_band*: what shows that switches, and UFM, can be reached from here.
    """

    measured: bool = True
    programs: tuple[str, ...] = ()
    alters: Alters = field(default_factory=Alters)
    cuda: bool = False
    gpudirect: bool = False
    pinned_bytes: int = 0
    peer: str | None = None
    sudo: bool = False
    ssh: bool = False
    in_band: tuple[tuple[str, ...], ...] = ()


def host_needs(
    scenario: Scenario | None, hosts: tuple[str, ...], inventory: Inventory, *, backend: str
) -> dict[str, HostNeeds]:
    """
    The needs of *hosts*, and of those that carry out the scenario's changes.

    Without a scenario: what is true of every measurement on these hosts, but no program.
    """
    specs = [spec for phase in scenario.phases for spec in phase.probes] if scenario else []
    alters = altering(scenario, inventory) if scenario else {}
    common = HostNeeds(sudo=inventory.changes.sudo, ssh=backend == "ssh")
    made: dict[str, HostNeeds] = {}
    by_platform: dict[int, HostNeeds] = {}
    for name in hosts:
        platform = inventory.topology.hosts[name].platform
        needs = by_platform.get(id(platform))
        if needs is None:
            needs = by_platform[id(platform)] = _of_platform(specs, platform, common)
        made[name] = replace(needs, alters=alters[name]) if name in alters else needs
    for name, what in alters.items():
        if name not in made:
            made[name] = replace(common, measured=False, alters=what)
    via = inventory.changes.via
    if via in made:
        asked = [*_reaching(Context(inventory.topology, inventory.changes))] if via in alters else []
        ufm = management.UfmAccess.of(inventory.changes)
        if ufm is not None and scenario is not None and scenario.sample is not None:
            asked.append(management.ask_telemetry(ufm))
        made[via] = replace(made[via], in_band=tuple(asked))
    return made


def _reaching(context: Context) -> Iterator[tuple[str, ...]]:
    """Of ``via``: the question that shows whether its port leads to the fabric, and that for UFM's list."""
    settings, via = context.settings, need_via(context)
    platform = context.topology.hosts[via].platform
    if platform.link_layer == "infiniband":
        asked = infiniband.subnet_manager(through=in_band(context), tool=platform.program("sminfo"))
        yield (*(("sudo", "-n") if settings.sudo else ()), *asked)
    if (ufm := management.UfmAccess.of(settings)) is not None:
        yield management.list_unhealthy(ufm)


def with_peers(
    needs: Mapping[str, HostNeeds], reached: tuple[str, ...], hosts: Mapping[str, Host]
) -> dict[str, HostNeeds]:
    """The same for the hosts that answer, each that uses mpirun with another to log in to, all of them in a ring."""
    ring = [name for name in reached if "mpirun" in needs[name].programs and _by_ssh(hosts[name].platform)]
    peers = {name: ring[(place + 1) % len(ring)] for place, name in enumerate(ring)} if len(ring) > 1 else {}
    return {name: replace(needs[name], peer=peers[name]) if name in peers else needs[name] for name in reached}


def _by_ssh(platform: Platform) -> bool:
    """Open MPI starts its daemons over ssh, unless the site's own options say otherwise."""
    return not any("plm" in word for word in platform.mpirun_options)


def _of_platform(specs: list[ProbeSpec], platform: Platform, common: HostNeeds) -> HostNeeds:
    found = [need for need in (spec.uses(platform) for spec in specs) if need is not None]
    return replace(
        common,
        programs=tuple(dict.fromkeys(name for need in found for name in need.programs)),
        cuda=any(need.cuda for need in found),
        gpudirect=any(need.gpudirect for need in found),
        pinned_bytes=max((need.pinned_bytes for need in found), default=0),
    )


def altering(scenario: Scenario, inventory: Inventory) -> dict[str, Alters]:
    """The hosts that carry out changes of a scenario, or read light levels, and what they need as root for it."""
    made: dict[str, Alters] = {}
    for host, more in _needs(scenario, inventory):
        if host is not None:
            made[host] = _joined(made.get(host, Alters()), more)
    return made


def needs_via(scenario: Scenario, inventory: Inventory) -> bool:
    """True when some change reaches a switch in-band, so that the inventory must say from where."""
    return any(host is None for host, _ in _needs(scenario, inventory))


def _needs(scenario: Scenario, inventory: Inventory) -> Iterator[tuple[str | None, Alters]]:
    context = Context(inventory.topology, inventory.changes, hosts=scenario.hosts)
    if scenario.sample is not None and scenario.sample.optics:
        yield from ((host, Alters(("mlxlink",))) for host in scenario.hosts)
    for phase in scenario.phases:
        for spec in phase.changes:
            if isinstance(spec, Kind):
                yield from spec.needs(context)


def _joined(one: Alters, other: Alters) -> Alters:
    return Alters(
        tuple(dict.fromkeys(one.programs + other.programs)),
        one.guarded or other.guarded,
    )
