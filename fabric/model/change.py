"""A reversible alteration of the fabric: what a scenario asks for, what is planned, and what is done on the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ParamValue = str | int | float


@dataclass(frozen=True, slots=True)
class When:
    """
    When a change is in force.

    *at_s*: seconds after the phase's first probe began; None: before the first probe begins. *for_s*: how long; None:
    until the last probe of the phase has ended. *stop_above*: by counter, the most that a receiver of its cable may
    count meanwhile; beyond it every change of the phase is taken back, and the phase was not measured as asked.
    """

    at_s: float | None = None
    for_s: float | None = None
    stop_above: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class BerSpec:
    """
    Bit errors of *mantissa* x 10^-*exponent* on some links, by mlxreg's PTER; *link_names* are resolved.

    *errors*: ``raw`` (before forward error correction) or ``effective`` (after it). *direction*: ``up`` corrupts what
    the lower end sends, ``down`` what the upper end sends, ``both`` both.
    """

    link_names: tuple[str, ...]
    errors: str
    mantissa: int
    exponent: int
    direction: str = "both"
    when: When = When()


@dataclass(frozen=True, slots=True)
class LinkDownSpec:
    """Some links closed. *by*: the tool (``ibportstate``, ``mlxlink``, ``mlxreg``, ``ip``); None: the inventory's."""

    link_names: tuple[str, ...]
    by: str | None = None
    when: When = When()


@dataclass(frozen=True, slots=True)
class PortFlapSpec:
    """
    Some links closed for *down_s* and opened again, *count* times, *period_s* from one closing to the next.

    Each period is shortened or lengthened by up to *jitter_s*, drawn with *seed*.
    """

    link_names: tuple[str, ...]
    down_s: float
    count: int = 1
    period_s: float = 0.0
    jitter_s: float = 0.0
    seed: int = 0
    by: str | None = None
    when: When = When()


@dataclass(frozen=True, slots=True)
class AdaptiveRoutingSpec:
    """
    Adaptive routing switched on or off.

    *scope*: ``fabric`` changes every subnet manager, for all who use the fabric; ``host`` the RNICs of the scenario's
    hosts (RoCE); ``job`` only what the probes of the phase ask for (NCCL_IB_ADAPTIVE_ROUTING).
    """

    on: bool
    scope: str
    when: When = When()


@dataclass(frozen=True, slots=True)
class ShieldSpec:
    """SHIELD (the switches' own rerouting around dead ports) switched on or off, on every subnet manager."""

    on: bool
    scope: str = "fabric"
    when: When = When()


ChangeSpec = BerSpec | LinkDownSpec | PortFlapSpec | AdaptiveRoutingSpec | ShieldSpec
"""What one entry of a phase's ``changes:`` asks for."""


@dataclass(frozen=True, slots=True)
class Change:
    """
    One planned change of one component, decided before any host is touched.

    *component*: ``su0-leaf3--spine02`` (a cable between switches), ``gpu001/mlx5_0`` (the cable of an RNIC), a host
    or ``fabric``. *scope*: ``port``, ``host`` or ``fabric``. *params* are those of its kind. *switches* and *hosts*
    are what it touches, for the blast radius. *is_fault*: it makes the fabric worse on purpose, so that limits do not
    apply meanwhile.
    """

    change_id: str  # "degraded/ber.su0-leaf3--spine02": the same in every run of the same scenario
    kind: str  # "ber" | "port_flap" | "link_down" | "adaptive_routing" | "shield"
    phase: str
    component: str
    scope: str
    when: When
    params: Mapping[str, ParamValue]
    switches: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    is_fault: bool = True


Argv = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """
    How to see on the target that a state is there: *argv* exits 0 and every one of *patterns* matches a line it prints.

    Patterns are POSIX extended regular expressions (``grep -E``), so that the guard can check without us.
    """

    argv: Argv
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Alteration:
    """
    What is done on *host* to make a change and to take it back; every argv is absolute and may be run twice.

    *undo* restores what was seen before, not what is usually there; *checks* hold when it is there again. *prior* is
    what was seen, for people and the journal. *devices*: RDMA devices of *host* that lose traffic by it; a guard
    refuses to apply when one of them carries the session (also behind a bond, VLAN or bridge, or the same PCI
    function). *timer_s*: the device's own timer undoes it after so long, None when it has none; apply is repeated in
    time. *manual*: the undo as a person would type it, where *undo* is too long for that. *outlives*: it stays when
    *host* starts anew, because what is altered is another device, or a file.
    """

    host: str
    apply: tuple[Argv, ...]
    undo: tuple[Argv, ...]
    checks: tuple[Check, ...]
    prior: str
    devices: tuple[str, ...] = ()
    timer_s: float | None = None
    manual: str = ""
    outlives: bool = False


@dataclass(frozen=True, slots=True)
class Lease:
    """
    How long a change outlives its orchestrator.

    The guard undoes *ttl_s* after the last renewal, and at the latest *max_hold_s* after it was armed, renewals or not.
    """

    ttl_s: float = 60.0
    max_hold_s: float = 600.0


@dataclass(frozen=True, slots=True)
class SubnetManager:
    """One subnet manager: the host it runs on, its configuration file, and what makes it read that file."""

    host: str
    config: str = "/etc/opensm/opensm.conf"
    reload: Argv = ("systemctl", "restart", "opensm")


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """The most that may be altered at once: changes in all, per switch, per host, and as a fraction of all links."""

    changes: int = 4
    per_switch: int = 1
    per_host: int = 1
    links_fraction: float = 0.05


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """
    How changes are made on this fabric (``changes:`` of an inventory).

    *via*: the host from which switches are reached in-band; None: switch ports cannot be changed. *port_state*: the
    tool that closes ports. *sudo*: commands that need root go through ``sudo -n``. *management*: names that are never
    touched (interfaces, RDMA devices, hosts, switches). *adaptive_on* and so on: keys of the subnet manager's file and
    their values. *adaptive_sl*: the service level with adaptive routing, for scope ``job``. *ufm_url*: where UFM's REST
    interface is, asked by ``curl -n`` from *via*.
    """

    via: str | None = None
    port_state: str = "ibportstate"
    sudo: bool = False
    guard_directory: str = "/run/fabric-guard"
    lease: Lease = Lease()
    management: tuple[str, ...] = ()
    subnet_managers: tuple[SubnetManager, ...] = ()
    adaptive_on: tuple[tuple[str, str], ...] = (("routing_engine", "ar_updn"),)
    adaptive_off: tuple[tuple[str, str], ...] = (("routing_engine", "updn"),)
    shield_on: tuple[tuple[str, str], ...] = (("shield_mode", "1"),)
    shield_off: tuple[tuple[str, str], ...] = (("shield_mode", "0"),)
    adaptive_sl: int | None = None
    ufm_url: str | None = None
    blast_radius: BlastRadius = BlastRadius()


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time in which a change was in force, executor's seconds; *ended_s* None: it was never seen ended."""

    began_s: float
    ended_s: float | None


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """
    How one change ended.

    *state*: ``reverted`` (as asked, and read back), ``refused`` (a guard rail; nothing was altered), ``failed`` (could
    not be made, was not seen in force, or had to stop; taken back), ``lost`` (its guard took it back before its time),
    ``open`` (it may still be live). *counters*: by how much the receivers' counters grew from just before it was
    applied until just after it was taken back.
    """

    change: Change
    state: str
    reason: str = ""
    windows: tuple[Window, ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
