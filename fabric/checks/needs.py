"""What a scenario needs of each host: programs, rights, memory, and who logs in where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from fabric.model.change import (
    AdaptiveRoutingSpec,
    BerSpec,
    ChangeSettings,
    ChangeSpec,
    LinkDownSpec,
    PortFlapSpec,
    ShieldSpec,
)
from fabric.model.inventory import Inventory
from fabric.model.scenario import ProbeSpec, Scenario
from fabric.model.topology import Host, Platform

GUARD_PROGRAMS = ("flock", "setsid", "timeout")
"""What the guard of a change calls beside sh and the smallest tools."""


@dataclass(frozen=True, slots=True)
class Alters:
    """
    What changes do on one host, and nothing at all where *programs* is empty.

    *programs* are called as root, *guarded*: a guard holds a change here. *closes*: RNICs of this host whose own end
    is closed.
    """

    programs: tuple[str, ...] = ()
    guarded: bool = False
    closes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostNeeds:
    """
    What one host must have.

    *measured*: it takes part in the measurement; else it only carries changes out. *programs* are called by probes,
    *alters* says what changes call as root. *cuda*: ib_write_bw reaches GPU memory itself. *gpudirect*: some RNIC
    reads GPU memory. *pinned_bytes*: the most that one program locks. *peer*: the host that mpirun logs in to from
    here, by the name it uses. *sudo*: commands that need root go through sudo. *ssh*: it is reached over SSH.
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
    return made


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
    """The hosts that carry out changes of a scenario, and what they need for it."""
    made: dict[str, Alters] = {}
    for phase in scenario.phases:
        for spec in phase.changes:
            for host, more in _needs(spec, scenario, inventory):
                made[host] = _joined(made.get(host, Alters()), more)
    return made


def needs_via(scenario: Scenario, settings: ChangeSettings) -> bool:
    """True when some change reaches a switch in-band, so that the inventory must say from where."""
    return any(
        host is None
        for phase in scenario.phases
        for spec in phase.changes
        if isinstance(spec, BerSpec | LinkDownSpec | PortFlapSpec)
        for host, _ in _of_links(spec, settings)
    )


def _joined(one: Alters, other: Alters) -> Alters:
    return Alters(
        tuple(dict.fromkeys(one.programs + other.programs)),
        one.guarded or other.guarded,
        tuple(dict.fromkeys(one.closes + other.closes)),
    )


def _needs(spec: ChangeSpec, scenario: Scenario, inventory: Inventory) -> Iterator[tuple[str, Alters]]:
    settings = inventory.changes
    if isinstance(spec, AdaptiveRoutingSpec | ShieldSpec):
        if spec.scope == "fabric":
            for manager in settings.subnet_managers:
                yield manager.host, Alters(("cat", manager.reload[0]), guarded=True)
            for manager in settings.subnet_managers[:1]:
                yield settings.via or manager.host, Alters(("sminfo",))
        elif spec.scope == "host":
            for name in scenario.hosts:
                yield name, Alters(("mlxreg",), guarded=True)
        return
    for host, alters in _of_links(spec, settings):
        if host is not None:
            yield host, alters


def _of_links(
    spec: BerSpec | LinkDownSpec | PortFlapSpec, settings: ChangeSettings
) -> Iterator[tuple[str | None, Alters]]:
    """For each link who does what; None stands for the host from which switches are reached, when none is named."""
    for name in spec.link_names:
        host, slash, device = name.partition("/")
        if isinstance(spec, BerSpec):
            yield from _of_ber(spec, host if slash else None, settings.via)
            continue
        by = spec.by or settings.port_state
        if by == "ibportstate" or not slash:
            yield settings.via, Alters(("ibportstate", "iblinkinfo"), guarded=True)
        else:
            yield host, Alters(tuple(dict.fromkeys((by, "mlxlink"))), guarded=True, closes=(device,))


def _of_ber(spec: BerSpec, host: str | None, via: str | None) -> Iterator[tuple[str | None, Alters]]:
    """``up`` is sent by the lower end, the host's own where it is one; what receives it is asked for its counters."""
    yield via, Alters(("iblinkinfo", "perfquery"))
    if host is None:
        yield via, Alters(("mlxreg",), guarded=True)
        return
    if spec.direction in ("up", "both"):
        yield host, Alters(("mlxreg",), guarded=True)
    if spec.direction in ("down", "both"):
        yield via, Alters(("mlxreg",), guarded=True)
        yield host, Alters(("mlxlink",))
