"""When a change is in force: once, or again and again as a flap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from fabric.model.change import Change


@dataclass(frozen=True, slots=True)
class Cycle:
    """One time in force: from *from_s* (executor's seconds); *down_s*: for how long, None: as the change says."""

    from_s: float
    down_s: float | None = None

    @property
    def lifts(self) -> bool:
        """It is taken back for a while, or the last time of several is over."""
        return self.down_s is not None

    def until_s(self, began_s: float, *, for_s: float | None) -> float:
        """When it ends, if it came into force at *began_s*."""
        lasts_s = self.down_s if self.down_s is not None else for_s
        return inf if lasts_s is None else began_s + lasts_s


def cycles(change: Change, *, now_s: float) -> Iterator[Cycle]:
    """
    Every time that it is to be in force, in order.

    A flap has ``count`` of them, ``period_s`` from one beginning to the next, each period longer or shorter by what
    ``jitter_<n>_s`` says (drawn when it was planned).
    """
    if change.kind != "port_flap":
        yield Cycle(now_s)
        return
    params = change.params
    down_s, period_s = float(params["down_s"]), float(params.get("period_s", 0.0))
    from_s = now_s
    for number in range(int(params["count"])):
        yield Cycle(from_s, down_s)
        from_s += max(down_s, period_s) + float(params.get(f"jitter_{number}_s", 0.0))


def cut_off(change: Change, *, after: int) -> str:
    """What to say of a flap that ends after so many whole cycles; empty when those were all, or it is no flap."""
    if change.kind != "port_flap" or after >= int(change.params["count"]):
        return ""
    return f"cut off after {after} of {int(change.params['count'])} cycles"
