"""How RNICs resend what was lost on the way (RoCE): everything from the lost packet on, or only the lost packets.

This is a field of the register ROCE_ACCL, as is adaptive routing of RNICs; it decides how new connections send.
"""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from fabric.changes.kind import Alters, Context, KeyProblem
from fabric.changes.rnics import ADAPTIVE_TIMERS, SELECTIVE_REPEAT, SHORT_TIMEOUTS, RnicSettings
from fabric.model.fields.scalars import OnOff


class Retransmission(RnicSettings):
    """The change retransmission: of all RNICs of the scenario's hosts, for connections that are made meanwhile."""

    kind: ClassVar[str] = "retransmission"
    about: ClassVar[str] = "How RoCE RNICs send again what was lost (mlxreg, register ROCE_ACCL)."

    selective_repeat: Annotated[bool, OnOff()] | None = None
    """on: lost packets alone are sent again; off: everything from the first lost one (go-back-N)."""
    adaptive_timers: Annotated[bool, OnOff()] | None = None
    """on: how long a lost answer is waited for is the firmware's, not NCCL_IB_TIMEOUT's."""

    short_timeouts: Annotated[bool, OnOff()] | None = None
    """on: the firmware has no least time of its own, so that a small NCCL_IB_TIMEOUT is kept."""

    @property
    def values(self) -> dict[str, int]:
        """The fields of the register."""
        asked = {
            SELECTIVE_REPEAT: self.selective_repeat,
            ADAPTIVE_TIMERS: self.adaptive_timers,
            SHORT_TIMEOUTS: self.short_timeouts,
        }
        return {field: int(on) for field, on in asked.items() if on is not None}

    def __str__(self) -> str:
        asked = self.model_dump(exclude_none=True)
        return ", ".join(f"{name.replace('_', ' ')} {'on' if on else 'off'}" for name, on in asked.items())

    def problems(self, context: Context | None) -> Iterator[KeyProblem]:
        """Yield also a problem when nothing is asked for."""
        if not self.values:
            yield (), "'selective_repeat', 'adaptive_timers' or 'short_timeouts' is required here: on or off"
        yield from super().problems(context)

    def needs(self, context: Context) -> Iterator[tuple[str | None, Alters]]:
        """Yield the register's tool on each host."""
        for name in context.hosts:
            yield name, Alters(("mlxreg",), guarded=True)
