"""The base class of all kinds of change: a model with its keys, what it alters, and how that is done and seen."""

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
"""The component of a fabric-wide change."""

Counters = Mapping[str, float]
"""Counter values by ``<component>.<counter>``, such as ``gpu001/mlx5_0.link_downed``."""

KeyProblem = tuple[tuple[str | int, ...], str]
"""The path from a change to one of its keys, and what is wrong there."""


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
        """Return the host from which switches are reached; Refused when there is none."""
        if self.settings.via is None:
            raise Refused("switches are reached from a host of the fabric, and the inventory names none (changes: via)")
        return self.settings.via

    def via_port(self) -> tuple[str, int]:
        """Return the port of ``via`` that in-band tools use: of ``via_device``, else of its first RNIC."""
        via, device = self.need_via(), self.settings.via_device
        rnics = self.topology.hosts[via].platform.rnics
        rnic = next((one for one in rnics if device in (None, one.device)), None)
        if rnic is None:
            raise Refused(f"{via} has no RNIC {device} (changes: via_device in the inventory)")
        return rnic.device, rnic.port

    def in_band(self) -> infiniband.Words:
        """Return the options for management packets: the port of ``via``, and the M_Key. Refused without ``via``."""
        return infiniband.through(*self.via_port(), self.settings.m_key)

    def ethernet(self, component: str) -> bool:
        """Return whether an RNIC's cable is Ethernet; False for cables between switches, which are asked in-band."""
        host = self.topology.hosts.get(Part.of(component).host)
        return host is not None and host.platform.link_layer == "ethernet"


@dataclass(frozen=True, slots=True)
class Alters:
    """
    What a change does on one host; nothing where *programs* is empty.

    *programs* are run as root; *guarded*: a guard holds a change here.
    """

    programs: tuple[str, ...] = ()
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class Cycle:
    """
    One time in force: from *from_s* (executor's seconds) for *lasts_s*.

    *lifts*: at its end the change is lifted, for a while or after the last of several times.
    """

    from_s: float
    lasts_s: float = inf
    lifts: bool = False


class Kind(ChangeSpec):
    """
    One kind of change. Nothing here alters anything: the Alterations do, and only a guard runs them.

    A subclass sets ``kind``, its name in a scenario. Where a field has the name of the kind, the fields stand beside it
    in the file (``{shield: on, scope: fabric}``). Otherwise they stand below it, and ``about`` describes that key in
    the JSON Schema.
    """

    about: ClassVar[str] = ""
    closes: ClassVar[bool] = False
    """Whether it is asked to take its links down; under any other kind no link may go down."""

    def problems(self, context: Context | None) -> Iterator[KeyProblem]:
        """Yield what is wrong with the keys together, and on this fabric; None: the inventory itself is wrong."""
        yield from ()

    def targets(self, context: Context) -> Iterator[tuple[str, str, Kind]]:
        """Yield the altered components, the scope of each, and this spec with all that is decided for it."""
        yield from ()

    def needs(self, context: Context) -> Iterator[tuple[str | None, Alters]]:
        """Yield what it does on which host; None stands for an unnamed host from which switches are reached."""
        yield from ()

    def through_via(self, component: str) -> bool:
        """Return whether a component can be altered only from ``via``."""
        return False

    def commits(self, context: Context) -> bool:
        """
        Return whether switches commit it (NVUE): a commit carries along other edits, so only one may run at a time.
        """
        return False

    def sets(self, context: Context) -> Mapping[str, str]:
        """Return the keys, with values, that it sets in the subnet managers' file."""
        return {}

    def cycles(self, component: str, *, now_s: float) -> Iterator[Cycle]:
        """Yield every time that it is to be in force, in order."""
        for_s = self.when.for_s
        yield Cycle(now_s, inf if for_s is None else for_s)

    def cut_off(self, *, after: int) -> str:
        """Return the text for a change that ends after *after* whole cycles; empty when those were all."""
        return ""

    def prepare(self, change: Change, context: Context) -> Procedure[Alterations]:
        """
        Look up the ports, read the present state, and return what is to be done.

        Raises Refused where it must not be done, ToolError where the present state cannot be read.
        """
        raise NotImplementedError

    def confirm(self, change: Change, alterations: Alterations, context: Context) -> Procedure[None]:
        """Read back that the change is in force, on both ends of a link; raises NotInForce with what was seen."""
        raise NotImplementedError

    def still_in_force(self, change: Change, alterations: Alterations, context: Context) -> Procedure[None]:
        """
        Look once before the undo, without waiting; raises NotInForce when somebody else has taken it back.

        By default an alteration counts as gone when all of its checks hold, which are those of the undo.
        """
        for alteration in alterations:
            gone = not (yield from missing(alteration, sudo=context.settings.sudo))
            if alteration.checks and gone:
                raise NotInForce(f"{alteration.host}: what was there before is there again: {alteration.prior[:200]}")

    def counters(self, change: Change, context: Context) -> Procedure[Counters]:
        """Return what the receivers at the ends of the link have counted so far; empty when nothing is counted."""
        yield from ()
        return {}

    def recovered(self, change: Change, alterations: Alterations, context: Context, until_s: float) -> Procedure[None]:
        """
        Wait after the undo until the link carries traffic again, if there is anything to wait for.

        Raises MayBeLive when it does not by *until_s* (executor's seconds).
        """
        yield from ()


def kind_of(change: Change) -> Kind:
    """Return the spec of a planned change as its kind, which knows how it is made."""
    assert isinstance(change.spec, Kind), f"{change.change_id}: {type(change.spec)} is no kind of change"
    return change.spec
