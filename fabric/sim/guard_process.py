"""The guard itself in the simulated rack: it looks at the lease of its change, and undoes it when that has run out."""

from __future__ import annotations

from functools import partial

from fabric.sim.guard_folder import Held
from fabric.sim.guard_steps import Steps
from fabric.sim.rack import Rack

LOOK_S = 0.2
"""From the end of a lease to the guard's look; the real one looks every 0.25 s."""

LOCK_S = 2.0
"""For so long it waits for the lock; then it undoes without it, and does not believe that it has (as the real one)."""

MOST_BACKOFF_S = 30.0


class GuardProcess:
    """It has read its undo and checks when it began, and needs those files no more."""

    def __init__(self, rack: Rack, folder: dict[str, Held], held: Held, steps: Steps) -> None:
        self._rack, self._folder, self._held, self._steps = rack, folder, held, steps
        self._undo, self._checks = held.undo or "", held.checks or ""
        self._backoff_s = 1.0
        self._look_s = 0.0
        self._waits_from_s: float | None = None

    def watch(self, at_s: float) -> None:
        """Look next at this time, and at no other."""
        self._look_s = at_s
        self._rack.timeline.at(at_s, partial(self._look, at_s))

    def end_of_lease(self) -> float:
        """When it looks at a lease that runs now."""
        return (self._held.lease_s or 0.0) + LOOK_S

    def _look(self, asked_s: float, now_s: float) -> None:
        held = self._held
        if asked_s != self._look_s or not held.alive or self._folder.get(held.guard_id) is not held:
            return
        if held.left_s(now_s) > 0:
            self.watch(self.end_of_lease())
            return
        locked = held.locked(now_s, self._rack.timeline.alive)
        if locked and self._waits(now_s):
            self.watch(now_s + LOOK_S)
            return
        self._waits_from_s = None
        wrong = self._undone(now_s)
        if not wrong and not locked and not held.applying(now_s):
            held.becomes("reverted")
            held.alive = False
            held.log.append(f"{now_s:.2f} undone")
            return
        held.becomes("stuck")
        held.log += [f"{now_s:.2f} {line}" for line in wrong.splitlines()]
        self.watch(now_s + self._backoff_s)
        self._backoff_s = min(2 * self._backoff_s, MOST_BACKOFF_S)

    def _waits(self, now_s: float) -> bool:
        if self._waits_from_s is None:
            self._waits_from_s = now_s
        return now_s < self._waits_from_s + LOCK_S

    def _undone(self, now_s: float) -> str:
        """What is wrong after the undo; a host that hangs does nothing until it hangs no more."""
        if self._rack.host_kind(self._steps.site.host.name) == "hanging":
            return "the host hangs\n"
        self._held.log.append(f"{now_s:.2f} the lease has run out: undo")
        return self._steps.undone(self._undo, self._checks, now_s)
