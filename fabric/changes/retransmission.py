"""How RNICs send again what was lost on the way (RoCE): from the lost packet on, or the lost packets alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from fabric.changes import roce_accl
from fabric.changes.kind import Alters, Context, Kind, Wrong
from fabric.changes.procedure import Procedure
from fabric.model.change import Alteration, Change
from fabric.model.fields.scalars import OnOff


class Retransmission(Kind):
    """The change retransmission: of all RNICs of the scenario's hosts, for connections that are made meanwhile."""

    kind: ClassVar[str] = "retransmission"
    about: ClassVar[str] = "How RoCE RNICs send again what was lost (mlxreg, register ROCE_ACCL)."
    is_fault: ClassVar[bool] = False

    selective_repeat: Annotated[bool, OnOff()] | None = Field(
        None, description="on: lost packets alone are sent again; off: everything from the first lost one (go-back-N)."
    )
    adaptive_timers: Annotated[bool, OnOff()] | None = Field(
        None, description="on: how long a lost answer is waited for is the firmware's, not NCCL_IB_TIMEOUT's."
    )

    @property
    def fields(self) -> dict[str, int]:
        """Of the register, with their values."""
        asked = {roce_accl.SELECTIVE_REPEAT: self.selective_repeat, roce_accl.ADAPTIVE_TIMERS: self.adaptive_timers}
        return {field: int(on) for field, on in asked.items() if on is not None}

    def __str__(self) -> str:
        asked = {"selective repeat": self.selective_repeat, "adaptive timers": self.adaptive_timers}
        return ", ".join(f"{what} {'on' if on else 'off'}" for what, on in asked.items() if on is not None)

    def params(self, component: str) -> Mapping[str, str | int | float]:
        """The fields of the register."""
        return self.fields

    def problems(self, context: Context | None) -> Iterator[Wrong]:
        """Nothing is asked for, or the hosts have no RoCE."""
        if not self.fields:
            yield (), "'selective_repeat' or 'adaptive_timers' is required here: on or off"
        hosts = context.topology.hosts if context is not None else {}
        if any(hosts[name].platform.link_layer == "infiniband" for name in (context.hosts if context else ())):
            yield (), "it is for RoCE: InfiniBand has no such setting"

    def targets(self, context: Context) -> Iterator[tuple[str, str, Kind]]:
        """Each host: both ends of a connection decide."""
        for name in context.hosts:
            yield name, "host", self

    def needs(self, context: Context) -> Iterator[tuple[str | None, Alters]]:
        """The register."""
        for name in context.hosts:
            yield name, Alters(("mlxreg",), guarded=True)

    def prepare(self, change: Change, context: Context) -> Procedure[tuple[Alteration, ...]]:
        """One Alteration for the host; none when all its RNICs are so already."""
        return (yield from roce_accl.on_host(change.component, self.fields, context))

    def confirm(self, change: Change, alterations: tuple[Alteration, ...], context: Context) -> Procedure[None]:
        """The register of every RNIC."""
        yield from roce_accl.confirm(change, alterations, self.fields, context)
