"""What every kind of change must be able to do, and what it may look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fabric.changes.procedure import Procedure, pause
from fabric.model.change import Alteration, Change, ChangeSettings
from fabric.model.topology import Topology


@dataclass(frozen=True, slots=True)
class Context:
    """The fabric that is changed, and how changes are made there."""

    topology: Topology
    settings: ChangeSettings


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
