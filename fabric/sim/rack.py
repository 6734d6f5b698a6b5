"""The parts of a simulated rack, put together: what a simulated program finds around it."""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.model.change import SubnetManager
from fabric.model.inventory import MockSettings
from fabric.model.topology import Topology
from fabric.sim.faults import from_start
from fabric.sim.hosts.held import ChangeFolder
from fabric.sim.hosts.hosts import Hosts
from fabric.sim.hosts.timeline import Timeline
from fabric.sim.life.passing import Passing, Whims
from fabric.sim.phy.ports import Ports
from fabric.sim.routing import Routing
from fabric.sim.subnet.managers import SubnetManagers
from fabric.sim.subnet.nvue_switches import NvueSwitches
from fabric.sim.subnet.rerouting import Rerouting
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
    topology: Topology, mock: MockSettings, *, seed: int, ufm: bool, subnet_managers: tuple[SubnetManager, ...]
) -> Rack:
    """A rack with the faults that are there from its beginning on."""
    faults, routing = tuple(from_start(mock.faults)), Routing(mock.routing, mock.qps, mock.salt)
    timeline, hosts, whims = Timeline(), Hosts(topology, faults, seed=seed), Whims()
    ports = Ports(hosts, timeline)
    above = Rerouting(topology, timeline, ports, faults=faults, routing=routing, mock=mock)
    managers = SubnetManagers(
        tuple(one for one in subnet_managers if hosts.unreachable(one.host) is None),
        routing=routing.engine,
        shield=mock.shield,
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
        ufm=Ufm(ports, timeline, there=ufm, isolates=mock.ufm_isolates),
        whims=whims,
        passing=Passing(hosts, ports, timeline, whims, given=faults),
        noise_cv=mock.noise_cv,
    )
