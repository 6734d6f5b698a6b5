"""The parts of a simulated rack, put together: what a simulated program finds around it."""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.model.inventory import Fault
from fabric.model.topology import Topology
from fabric.sim.hosts.held import ChangeFolder
from fabric.sim.hosts.hosts import Hosts
from fabric.sim.hosts.timeline import Timeline
from fabric.sim.life.passing import Passing, Whims
from fabric.sim.phy.ports import Ports
from fabric.sim.routing import Routing
from fabric.sim.subnet.managers import SubnetManagers
from fabric.sim.subnet.nvue_switches import NvueSwitches
from fabric.sim.subnet.rerouting import FabricSettings, Rerouting
from fabric.sim.subnet.ufm import Ufm


@dataclass(frozen=True, slots=True)
class Rack:
    """
    Hosts, ports, the network above the leaves and who governs it, on one time line.

    Nothing below the tools sees it whole: each part is given what it needs. *guards*: by host and directory, then by
    id; *boots*: how often a host has started anew.
    """

    topology: Topology
    timeline: Timeline
    hosts: Hosts
    ports: Ports
    above: Rerouting
    managers: SubnetManagers
    nvue: NvueSwitches
    ufm: Ufm
    whims: Whims
    passing: Passing
    noise_cv: float
    guards: dict[tuple[str, str], dict[str, ChangeFolder]] = field(default_factory=dict)
    boots: dict[str, int] = field(default_factory=dict)


def rack(
    topology: Topology,
    faults: tuple[Fault, ...],
    *,
    seed: int,
    noise_cv: float,
    routing: Routing,
    settings: FabricSettings,
) -> Rack:
    """A rack with these faults from its beginning on."""
    timeline, hosts, whims = Timeline(), Hosts(topology, faults, seed=seed), Whims()
    ports = Ports(hosts, timeline)
    above = Rerouting(topology, timeline, ports, faults=faults, routing=routing, settings=settings)
    managers = SubnetManagers(
        tuple(one for one in settings.subnet_managers if hosts.unreachable(one.host) is None),
        routing=routing.engine,
        shield=settings.shield,
        timeline=timeline,
        program=above.program,
    )
    above.sweeps = lambda: managers.sweeps
    return Rack(
        topology=topology,
        timeline=timeline,
        hosts=hosts,
        ports=ports,
        above=above,
        managers=managers,
        nvue=NvueSwitches(topology, timeline, above.turn, adaptive=routing.engine == "ar"),
        ufm=Ufm(ports, timeline, there=settings.ufm, isolates=settings.ufm_isolates),
        whims=whims,
        passing=Passing(hosts, ports, timeline, whims, given=faults),
        noise_cv=noise_cv,
    )
