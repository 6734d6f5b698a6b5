"""What a kind of change is: one frozen model that holds its keys, what it alters, and how that is done and seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from fabric.changes.guard import missing
from fabric.changes.procedure import ASK_S, Procedure, Text, plainly
from fabric.errors import NotInForce, Refused
from fabric.model.change import Alterations, Argv, Change, ChangeSettings, ChangeSpec
from fabric.model.part import Part
from fabric.model.topology import Topology
from fabric.tools import infiniband
from fabric.tools.driver import as_root

FABRIC = "fabric"
"""The component that a fabric-wide change is said to touch."""

Counters = Mapping[str, float]
"""Counter values by ``<component>.<counter>``, such as ``gpu001/mlx5_0.link_downed``."""

Wrong = tuple[tuple[str | int, ...], str]
"""The way from a change to one of its keys, and what is wrong there."""


@dataclass(frozen=True, slots=True)
class Context:
    """
    The fabric that is changed, and how changes are made there; *hosts* are those of the scenario.

    *own_boot_id* is that of the running kernel of the machine that makes them; empty: not known.
    """

    topology: Topology
    settings: ChangeSettings
    own_boot_id: str = ""
    hosts: tuple[str, ...] = ()

    def look(self, host: str, argv: Argv, *, timeout_s: float = ASK_S) -> Procedure[Text]:
        """Run a command that only reads, as root; raises as ``plainly``."""
        return (yield from plainly(host, as_root(argv, sudo=self.settings.sudo), timeout_s=timeout_s))

    def need_via(self) -> str:
        """The host from which switches are reached; Refused when there is none."""
        if self.settings.via is None:
            raise Refused("switches are reached from a host of the fabric, and the inventory names none (changes: via)")
        return self.settings.via

    def via_port(self) -> tuple[str, int]:
        """The port of ``via`` that in-band tools use: ``via_device``, else that of its first RNIC."""
        via, device = self.need_via(), self.settings.via_device
        rnics = self.topology.hosts[via].platform.rnics
        rnic = next((one for one in rnics if device in (None, one.device)), None)
        if rnic is None:
            raise Refused(f"{via} has no RNIC {device} (changes: via_device in the inventory)")
        return rnic.device, rnic.port

    def in_band(self) -> infiniband.Words:
        """Out of which port of ``via`` management packets go, with the M_Key; Refused when there is no ``via``."""
        return infiniband.through(*self.via_port(), self.settings.m_key)

    def ethernet(self, component: str) -> bool:
        """Whether the cable of an RNIC is an Ethernet one; switches are asked in-band, so their cables are not."""
        host = self.topology.hosts.get(Part.of(component).host)
        return host is not None and host.platform.link_layer == "ethernet"


@dataclass(frozen=True, slots=True)
class Alters:
    """
    What a change does on one host, and nothing at all where *programs* is empty.

    *programs* are called as root, *guarded*: a guard holds a change here.
    """

    programs: tuple[str, ...] = ()
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class Cycle:
    """
    One time in force: from *from_s* (executor's seconds) for *lasts_s*.

    *lifts*: it is taken back for a while then, or the last time of several is over.
    """

    from_s: float
    lasts_s: float = inf
    lifts: bool = False


class Kind(ChangeSpec):
    """
    One kind of change; nothing here alters anything: what alters is in the Alterations, and only a guard runs it.

    A subclass sets ``kind``, its name in a scenario. Where a field of it is called like the kind, the fields stand
    beside it in the file (``{shield: on, scope: fabric}``); else they stand below it, and ``about`` is what the JSON
    Schema says of that key.
    """

    about: ClassVar[str] = ""
    closes: ClassVar[bool] = False
    """Its links go down because it is asked for; of no other kind may one."""

    def problems(self, context: Context | None) -> Iterator[Wrong]:
        """What is wrong with the keys together, and with them on this fabric; None: the inventory is itself wrong."""
        yield from ()

    def targets(self, context: Context) -> Iterator[tuple[str, str, Kind]]:
        """The components that are altered, the scope of each, and this with all that is decided for it."""
        yield from ()

    def needs(self, context: Context) -> Iterator[tuple[str | None, Alters]]:
        """Who does what for it; None stands for the host from which switches are reached, when none is named."""
        yield from ()

    def through_via(self, component: str) -> bool:
        """Whether a component can be altered only from ``via``."""
        return False

    def commits(self, context: Context) -> bool:
        """Whether switches commit it (NVUE): a commit takes along what is set there, so there is one at a time."""
        return False

    def sets(self, context: Context) -> Mapping[str, str]:
        """The keys that it gives the subnet managers' file, with their values."""
        return {}

    def cycles(self, component: str, *, now_s: float) -> Iterator[Cycle]:
        """Every time that it is to be in force, in order."""
        for_s = self.when.for_s
        yield Cycle(now_s, inf if for_s is None else for_s)

    def cut_off(self, *, after: int) -> str:
        """What to say of one that ends after so many whole cycles; empty when those were all."""
        return ""

    def prepare(self, change: Change, context: Context) -> Procedure[Alterations]:
        """
        Look up the ports, read the present state, and say what is to be done.

        Raises Refused where it must not be done, ToolError where the present state cannot be read.
        """
        raise NotImplementedError

    def confirm(self, change: Change, alterations: Alterations, context: Context) -> Procedure[None]:
        """Read back that the change is in force, on both ends of a link; raises NotInForce with what was seen."""
        raise NotImplementedError

    def still_in_force(self, change: Change, alterations: Alterations, context: Context) -> Procedure[None]:
        """
        One look before the undo, which waits for nothing; raises NotInForce where somebody else has taken it back.

        Unless a kind knows better: an alteration is gone when every one of its checks, which are of the undo, holds.
        """
        for alteration in alterations:
            gone = not (yield from missing(alteration, sudo=context.settings.sudo))
            if alteration.checks and gone:
                raise NotInForce(f"{alteration.host}: what was there before is there again: {alteration.prior[:200]}")

    def counters(self, change: Change, context: Context) -> Procedure[Counters]:
        """What the receivers at the ends of the link have counted so far; empty where there is nothing to count."""
        yield from ()
        return {}

    def recovered(self, change: Change, alterations: Alterations, context: Context, until_s: float) -> Procedure[None]:
        """
        After the undo: wait until the link carries traffic again, if there is anything to wait for.

        Raises MayBeLive when it does not by *until_s* (executor's seconds).
        """
        yield from ()


def kind_of(change: Change) -> Kind:
    """The kind of a planned change, which knows how it is made."""
    assert isinstance(change.spec, Kind), f"{change.change_id}: {type(change.spec)} is no kind of change"
    return change.spec
