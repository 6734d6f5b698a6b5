"""A reversible alteration of the fabric: what a scenario asks for, what is planned, and what is done on the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, ClassVar

from pydantic import Field

from fabric.model.fields.entry import Entry, InFiles, Kinds, key
from fabric.model.fields.scalars import (
    DEVICE,
    OPTION_WORD,
    SAFE_NAME,
    Choice,
    Decimal,
    Duration,
    Flag,
    OneWord,
    WebAddress,
    Whole,
    Word,
)
from fabric.model.part import Part


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


class ChangeSpec(Entry):
    """
    What one entry of a phase's ``changes:`` asks for, by its *kind*; the keys of the file are the model's fields.

    Each kind is such a model in a file of its own (``fabric.changes.kind.Kind``), which says there how it is made and
    undone. *is_fault*: it makes the fabric worse on purpose, so limits do not apply meanwhile.
    """

    kind: ClassVar[str] = ""
    is_fault: ClassVar[bool] = True

    @property
    def when(self) -> When:
        """Return when it is in force: as long as its phase, unless a kind says more."""
        return When()

    @property
    def alters(self) -> bool:
        """
        Return whether something on the fabric is altered for it; False if the phase's probes ask for it themselves.
        """
        return True

    @property
    def raw_ber(self) -> str:
        """Return the requested bit error ratio before error correction, such as ``3e-4``; empty if there is none."""
        return ""

    def lasts_s(self, component: str) -> float | None:
        """
        Return how long it is in force on a component at the most, with all its pauses; None: until its phase ends.
        """
        return self.when.for_s

    def params(self, component: str) -> Mapping[str, str | int | float]:
        """Return what is decided for a component besides its times, as JSON documents show it."""
        return {
            name: value
            for name, value in self.model_dump(mode="json", exclude_none=True).items()
            if isinstance(value, str | int | float) and name not in ("at_s", "for_s")
        }

    def env(self, settings: ChangeSettings, written: Mapping[str, str]) -> Mapping[str, str]:
        """Return variables for the collectives of the phase, besides those *written* in the scenario."""
        return {}

    def __str__(self) -> str:
        return self.kind


CHANGES = Kinds()
"""The kinds of change; ``fabric.config.phases`` fills them in."""


@dataclass(frozen=True, slots=True)
class Change:
    """
    One planned change of one component, decided before any host is touched.

    *component*: ``su0-leaf3--spine02`` (a cable between switches), ``gpu001/mlx5_0`` (the cable of an RNIC), a host or
    ``fabric``. *scope*: ``port``, ``host`` or ``fabric``. *switches* and *hosts*: what it touches, for the blast
    radius.
    """

    change_id: str  # "degraded/ber.su0-leaf3--spine02": the same in every run of the same scenario
    phase: str
    component: str
    scope: str
    spec: ChangeSpec
    switches: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    @property
    def part(self) -> Part:
        """Return the component as a part: a cable between switches, an RNIC, a host."""
        return Part.of(self.component)

    @property
    def kind(self) -> str:
        """Return the name of its kind: ``ber``, ``link_down`` and so on."""
        return self.spec.kind

    @property
    def is_fault(self) -> bool:
        """Return whether it makes the fabric worse on purpose."""
        return self.spec.is_fault

    @property
    def when(self) -> When:
        """Return when it is in force."""
        return self.spec.when

    @property
    def lasts_s(self) -> float | None:
        """Return how long it is in force at the most, with all its pauses; None: until its phase ends."""
        return self.spec.lasts_s(self.component)


Argv = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """
    How to verify a state on the target: *argv* exits 0 and each of *patterns* matches a line it prints.

    Patterns are POSIX extended regular expressions (``grep -E``), so that the guard can check without us.
    """

    argv: Argv
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AdapterEnd:
    """The port of an RNIC, on its own host."""

    host: str
    device: str
    port: int

    @property
    def name(self) -> str:
        """Return the name as in component names."""
        return f"{self.host}/{self.device}"

    def __str__(self) -> str:
        return f"{self.name}:{self.port}"


@dataclass(frozen=True, slots=True)
class SwitchEnd:
    """A port of a switch: *lid* is the switch's, *port* as the InfiniBand tools number it."""

    switch: str
    lid: int
    port: int

    @property
    def name(self) -> str:
        """Return for example ``leaf3:17``."""
        return f"{self.switch}:{self.port}"

    def __str__(self) -> str:
        return f"{self.name} (lid {self.lid})"


End = AdapterEnd | SwitchEnd
"""One end of a cable."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """
    What is done on *host* to make a change and to take it back; every argv is absolute and may be run twice.

    *undo* restores what was seen before, not what is usual; *checks* hold once it is restored. *prior* is what was
    seen, for people and the journal. *devices*: RDMA devices of *host* that lose traffic by it; a guard refuses to
    apply when one of them carries the session (also behind a bond, VLAN or bridge, or the same PCI function).
    *timer_s*: the device's own timer undoes it after so long, None if it has none; apply is repeated in time. *manual*:
    the undo as a person would type it, if *undo* is too long for that. *outlives*: it survives a restart of *host*,
    because it alters another device, or a file. *ends*: the end of a cable that is altered, then the other end if that
    is to be checked.
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
    ends: tuple[End, ...] = ()


Alterations = tuple[Alteration, ...]
"""All that is done for one change, in order."""


SAFE_PATH = Word(
    r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._@+-]{1,255}){1,16}",
    "an absolute path without '.' and '..' (letters, digits, '.', '_', '@', '+', '-')",
)
GUARD_DIRECTORY = Word(
    rf"(?!(?:/tmp|/var/tmp|/var/run|/dev/shm|/run/shm|(?:/var)?(?:/run)?/lock)(?:/|$)){SAFE_PATH.pattern}",
    "an absolute path without '.' and '..', through no link (/var/run is one), below which not every user may write"
    " (what is there is run as root), such as /run/fabric-guard",
)
OPENSM_KEY = Word(r"[a-z][a-z0-9_]{0,63}", "an option of opensm.conf such as routing_engine")
OPENSM_VALUE = OneWord(
    r"(?!.*\.\.)[A-Za-z0-9/][A-Za-z0-9._,:/-]{0,255}",
    "a value of opensm.conf (letters, digits, '.', '_', ',', ':', '/', '-')",
)
M_KEY = Word(r"0x[0-9a-fA-F]{1,16}", "an M_Key such as 0x1a2b3c4d (hexadecimal, up to 16 digits)")
UFM_URL = WebAddress(
    r"https?://[A-Za-z0-9][A-Za-z0-9.-]{0,252}(?::[1-9][0-9]{0,4})?(?:/[A-Za-z0-9._~-]{1,255}){0,16}/?",
    "an address such as https://ufm.example.net",
)

HostName = Annotated[str, SAFE_NAME]
Options = Annotated[
    Mapping[Annotated[str, OPENSM_KEY], Annotated[str, OPENSM_VALUE]], Field(min_length=1, max_length=32)
]
PortTool = Annotated[str, Choice(("ibportstate", "mlxlink", "ip"))]
"""The tool that closes a port."""
Most = Annotated[int, Whole(1, 1000)]


@dataclass(frozen=True, slots=True)
class Lease(InFiles):
    """How long a change outlives its orchestrator: its guard undoes it then, renewals or not."""

    ttl_s: Annotated[float, Duration(10, 600)] = key(60.0, alias="ttl")
    """A change undoes itself so long after the run was last heard of."""
    max_hold_s: Annotated[float, Duration(10, 86_400)] = key(600.0, alias="max_hold")
    """And at the latest so long after it was made, whatever the run says."""


@dataclass(frozen=True, slots=True)
class SubnetManager(InFiles):
    """One subnet manager, running or standing by."""

    host: HostName
    """The host it runs on, one of hosts, of any role."""
    config: Annotated[str, SAFE_PATH] = "/etc/opensm/opensm.conf"
    """Its configuration file (opensm.conf)."""
    reload: tuple[Annotated[str, OPTION_WORD], ...] = key(
        ("systemctl", "restart", "opensm"), min_length=1, max_length=16
    )
    """The argv that makes it read that file."""


@dataclass(frozen=True, slots=True)
class BlastRadius(InFiles):
    """The most that may be altered at once."""

    changes: Most = 4
    """Changes in all."""
    per_switch: Most = 1
    """Links of one switch."""
    per_host: Most = 1
    """Links of one host."""
    links_fraction: Annotated[float, Decimal(0, 1)] = 0.05
    """Fraction of all links of the inventory."""


@dataclass(frozen=True, slots=True)
class ChangeSettings(InFiles):
    """How changes are made on this fabric (``changes:`` of an inventory)."""

    via: HostName | None = None
    """The host from which switches are reached in-band; without it no switch port is altered."""
    via_device: Annotated[str, DEVICE] | None = None
    """The RNIC of via through which management packets go; else its first one."""
    m_key: Annotated[str, M_KEY] | None = None
    """The M_Key that ports ask for, where the subnet manager protects them (-y of the tools)."""
    port_state: PortTool = "ibportstate"
    """The tool that closes ports: ibportstate, mlxlink or ip."""
    sudo: Annotated[bool, Flag()] = False
    """Commands that need root go through sudo -n."""
    guard_directory: Annotated[str, GUARD_DIRECTORY] = "/run/fabric-guard"
    """Where guards on the hosts keep what they would undo."""
    lease: Lease = Lease()
    """How long a change outlives a run that is gone."""
    management: tuple[HostName, ...] = key((), max_length=1000)
    """Never touched: names of interfaces, RDMA devices, hosts and switches."""
    subnet_managers: tuple[SubnetManager, ...] = key((), max_length=16)
    """All subnet managers; without them adaptive routing and SHIELD stay as they are."""
    adaptive_on: Options = key(default_factory=lambda: {"routing_engine": "ar_updn"})
    """Their options with adaptive routing on."""
    adaptive_off: Options = key(default_factory=lambda: {"routing_engine": "updn"})
    """And with adaptive routing off."""
    shield_on: Options = key(default_factory=lambda: {"shield_mode": "1"})
    """Their options with SHIELD on."""
    shield_off: Options = key(default_factory=lambda: {"shield_mode": "0"})
    """And with SHIELD off."""
    adaptive_sl: Annotated[int, Whole(0, 15)] | None = None
    """The service level that is routed adaptively, for adaptive_routing with scope job."""
    ufm_url: Annotated[str, UFM_URL] | None = None
    """Where UFM's REST interface is; asked by curl -n from via."""
    ufm_ca: Annotated[str, SAFE_PATH] | None = None
    """A file on via with the certificate authority of UFM (curl --cacert)."""
    ufm_insecure: Annotated[bool, Flag()] = False
    """Whether any certificate of UFM is believed (curl -k); rather name ufm_ca."""
    blast_radius: BlastRadius = BlastRadius()
    """What may be altered at once, at the most."""


@dataclass(frozen=True, slots=True)
class Window:
    """A time in which a change was in force, in the executor's seconds; *ended_s* None: its end was never seen."""

    began_s: float
    ended_s: float | None

    @property
    def until_s(self) -> float:
        """Return its end; infinity if that was never seen."""
        return inf if self.ended_s is None else self.ended_s


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """
    How one change ended.

    *state*: ``reverted`` (as asked, and read back), ``refused`` (by a guard rail; nothing was altered), ``failed``
    (could not be made, was not seen in force, or had to stop; taken back), ``lost`` (its lease ended too early),
    ``open`` (it may still be live). *counters*: how much the receivers' counters grew from just before it was applied
    until just after it was taken back.
    """

    change: Change
    state: str
    reason: str = ""
    windows: tuple[Window, ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict)


Changes = Sequence[ChangeResult]
"""The results of a run's changes, in order."""
