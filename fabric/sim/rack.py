"""The parts of a simulated rack, put together: everything that a simulated program finds around it."""

from collections.abc import Callable, Container
from dataclasses import dataclass
from math import inf

from fabric.model.change import SubnetManager
from fabric.model.inventory import MockSettings
from fabric.model.topology import Platform, Topology
from fabric.sim.faults import happens
from fabric.sim.hashing import CleanNoise, real_noise
from fabric.sim.hosts import Hosts
from fabric.sim.hosts.timeline import Timeline
from fabric.sim.life import Passing
from fabric.sim.net.controllers import NvueSwitches, Ufm
from fabric.sim.net.managers import SubnetManagers
from fabric.sim.net.rerouting import Rerouting
from fabric.sim.phy import Ports

_ALONE = 0.97
"""
A flow that got a smaller share of its way had to wait for others; a choice: above what two flows leave each other.
"""

TORN = "torn"
"""The state that ``list`` prints for a change whose state file is missing."""


@dataclass(slots=True)
class ChangeFolder:
    """
    One change that a host knows of; times are simulated seconds.

    A file that is lost or unreadable is None; a lease that is None has run out. *boot*: the boot of the host in which
    the change was armed. *lock_pid*: the call that holds the lock; *lock_until_s*: until when a hanging caller holds
    it. *watch* tells the guard when to look next. *step_until_s*: until then a step of an apply runs, whether its
    caller lives or not. *kept*: it is also on disk, with a unit that starts its guard anew when the host starts.
    """

    guard_id: str
    owner: str
    devices: tuple[str, ...]
    undo: str | None
    checks: str | None
    term_s: float
    lease_s: float | None
    boot: int = 0
    state: str = "armed"
    alive: bool = True
    lock_pid: int | None = None
    lock_until_s: float = -inf
    step_until_s: float = -inf
    watch: Callable[[float], None] | None = None
    kept: bool = False

    def left_s(self, now_s: float) -> float:
        """Return how long the lease still runs; 0 or less when it has run out."""
        return -inf if self.lease_s is None else self.lease_s - now_s

    def becomes(self, state: str) -> None:
        """Set the state, which is a file that is renamed; a file that is lost stays lost."""
        if self.state != TORN:
            self.state = state

    def gone(self, now_s: float, boot: int) -> bool:
        """Return whether nothing may be applied under the change any more."""
        lives = self.alive and self.boot == boot and self.left_s(now_s) > 0
        return self.state not in ("armed", "applied") or not lives

    def applying(self, now_s: float) -> bool:
        """Return whether a step of an apply still runs."""
        return now_s < self.step_until_s

    def locked(self, now_s: float, alive: Container[int], *, by: int | None = None) -> bool:
        """Return whether somebody but *by* holds the lock; a process that has ended holds none."""
        return now_s < self.lock_until_s or (self.lock_pid not in (None, by) and self.lock_pid in alive)

    def abandoned(self, now_s: float, boot: int) -> bool:
        """Return whether nothing was ever applied under the change, and no guard is left to take it back."""
        over = self.boot != boot or self.left_s(now_s) <= 0
        return self.state == "armed" and not self.alive and over and not self.applying(now_s)

    def listed(self, now_s: float, boot: int) -> str:
        """Return its line of ``list``."""
        runs = self.state in ("armed", "applied") and self.boot == boot
        left_s = max(0.0, self.left_s(now_s)) if runs else 0.0
        life = "alive" if self.alive and self.boot == boot else "dead"
        which = "same" if self.boot == boot else "other"
        who = f"change {self.guard_id} owner {self.owner} state {self.state}"
        return f"{who} left {left_s:.2f} guard {life} boot {which}\n"


class Rack:
    """
    Hosts, ports, the network above the leaves and its managers, on one time line.

    No part below the tools sees the whole rack: each is given what it needs. *guards*: by host and directory, then by
    id. *boots*: how often a host has started anew.
    """

    def __init__(
        self,
        topology: Topology,
        mock: MockSettings,
        *,
        seed: int,
        ufm: bool,
        subnet_managers: tuple[SubnetManager, ...],
    ) -> None:
        self.topology, self.mock = topology, mock
        self.guards: dict[tuple[str, str], dict[str, ChangeFolder]] = {}
        self.boots: dict[str, int] = {}
        self.timeline = Timeline()
        self.hosts = Hosts(topology, tuple(one for one in mock.faults if not happens(one)), seed=seed)
        self.ports = Ports(self.hosts, self.timeline, mock)
        self.above = Rerouting(topology, self.timeline, self.ports, mock, seed=seed)
        there = tuple(one for one in subnet_managers if self.hosts.unreachable(one.host) is None)
        self.managers = SubnetManagers(there, mock, timeline=self.timeline, on_sweep=self.above.begin_sweep)
        self.above.sweeps = lambda: self.managers.sweeps
        self.nvue = NvueSwitches(topology, self.timeline, self.above.set_adaptive, adaptive=mock.routing == "ar")
        self.above.switched = lambda: self.nvue.lossless((mock.lossless_class or 0) >> 5)
        self.ufm = Ufm(self.ports, self.timeline, there=ufm, isolates=mock.ufm_isolates)
        self.passing = Passing(self.hosts, self.ports, self.timeline, mock, seed=seed)
        real = mock.noise == "real"
        self.noise = real_noise(topology.hosts, seed=seed) if real else CleanNoise(mock.noise_cv)

    def drops(self, platform: Platform, traffic_class: int, share: float) -> bool:
        """
        Return whether a flow that got *share* of what it gets alone lost so many packets that its retries ran out.

        Only one class is paused when it has to wait; every other is fine alone and loses packets under load (nccl issue
        2383).
        """
        lossy = self.mock.lossless_class not in (None, traffic_class) and platform.link_layer == "ethernet"
        return lossy and share < _ALONE
