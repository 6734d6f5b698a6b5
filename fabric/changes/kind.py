"""What every kind of change must be able to do, and what it may look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fabric.changes.procedure import Procedure, ask, pause
from fabric.changes.undo import unmet
from fabric.errors import NotInForce
from fabric.model.change import Alteration, Change, ChangeSettings
from fabric.model.topology import Topology


@dataclass(frozen=True, slots=True)
class Context:
    """
    The fabric that is changed, and how changes are made there.

    *own_boot_id* is that of the running kernel of the machine that makes them; empty: not known.
    """

    topology: Topology
    settings: ChangeSettings
    own_boot_id: str = ""


Counters = Mapping[str, float]
"""Counter values by ``<component>.<counter>``, such as ``gpu001/mlx5_0.link_downed``."""


class Kind(Protocol):
    """One kind of change; nothing here alters anything: what alters is in the Alterations, and only a guard runs it."""

    def prepare(self, change: Change, context: Context) -> Procedure[tuple[Alteration, ...]]:
        """
        Look up the ports, read the present state, and say what is to be done.

        Raises Refused where it must not be done, ToolError where the present state cannot be read.
        """
        ...

    def confirm(self, change: Change, alterations: tuple[Alteration, ...], context: Context) -> Procedure[None]:
        """Read back that the change is in force, on both ends of a link; raises NotInForce with what was seen."""
        ...

    def still_in_force(self, change: Change, alterations: tuple[Alteration, ...], context: Context) -> Procedure[None]:
        """
        One look before the undo, which waits for nothing; raises NotInForce where somebody else has taken it back.

        Unless a kind knows better: an alteration is gone when every one of its checks, which are of the undo, holds.
        """
        del change
        prefix = ("sudo", "-n") if context.settings.sudo else ()
        for alteration in alterations:
            missing = ""
            for check in alteration.checks:
                missing = missing or unmet(check, (yield from ask(alteration.host, (*prefix, *check.argv))))
            if alteration.checks and not missing:
                raise NotInForce(f"{alteration.host}: what was there before is there again: {alteration.prior[:200]}")

    def counters(self, change: Change, context: Context) -> Procedure[Counters]:
        """What the receivers at the ends of the link have counted so far; empty where there is nothing to count."""
        ...

    def recovered(
        self, change: Change, alterations: tuple[Alteration, ...], context: Context, until_s: float
    ) -> Procedure[float]:
        """
        After the undo: wait until the link carries traffic again; returns the time at which it was seen to.

        Raises MayBeLive when it does not by *until_s* (executor's seconds). Where there is nothing to wait for it
        returns at once.
        """
        del change, alterations, context, until_s
        return (yield from pause(0.0))
