"""
Rings of two hosts that hung, and which of the two it was: the other one did well with somebody else.

A ring that hangs is waited for until its deadline, which for hours of soak is long. Each host is in two rings or more,
so a host that hangs costs one deadline a ring. As soon as its partner was measured in another ring of the same phase it
is known who it was: its rings that run are ended, the others of the phase are not begun with it (its partners are given
each other). It counts for this phase only: a round later the host is tried again. A run that goes on after a kill
learns it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fabric.engine.probe_run import ProbeRun
from fabric.model.probe import Probe, ProbeResult
from fabric.probes.kinds import PAIRED


class HungRings:
    """Of one phase: told how each probe ended, it says who hung."""

    def __init__(self) -> None:
        self._hung: list[tuple[str, ...]] = []
        self._measured: set[str] = set()
        self._why: dict[str, str] = {}

    def __iter__(self) -> Iterator[str]:
        """The hosts that are known to have hung."""
        return iter(self._why)

    def reason(self, host: str) -> str:
        """Why no ring is begun with it."""
        return self._why[host]

    def host_of(self, probe: Probe) -> str | None:
        """The host of a ring that hung in another one; None of any other probe."""
        if not self._why or probe.kind not in PAIRED:
            return None
        return next((host for host in probe.hosts if host in self._why), None)

    def note(self, run: ProbeRun, result: ProbeResult, running: Callable[[], Iterable[ProbeRun]]) -> None:
        """How a probe ended; of those *running* the rings of a host that is known to hang by that are given up."""
        host = self.finished(run.probe, result, hung=run.hung)
        if host is None:
            return
        for other in running():
            if self.host_of(other.probe) == host:
                other.abandon(host, self._why[host])

    def finished(self, probe: Probe, result: ProbeResult, *, hung: bool) -> str | None:
        """Note how a probe ended, *hung*: at its deadline, though all its hosts answer. Who is known by that now."""
        if probe.kind not in PAIRED:
            return None
        if hung:
            self._hung.append(probe.hosts)
        elif result.outcome is None and result.measurements:
            self._measured.update(probe.hosts)
        for hosts in self._hung:
            left = [host for host in hosts if host not in self._measured]
            if len(left) == 1 and left[0] not in self._why:
                others = " and ".join(host for host in hosts if host != left[0])
                self._why[left[0]] = f"its ring with {others} hung, and {others} was measured with another host"
                return left[0]
        return None
