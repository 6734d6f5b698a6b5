"""
Which probes may run now: those of hosts that passed what the phase needs, and that still answer.

Reading the tables of switches measures nothing of the host that reads them: a slow one may, as long as it answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fabric.engine.host_health import HostHealth
from fabric.engine.hung_rings import HungRings
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.probes import routes


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a probe is not run: because of *host*; *reason* is its result's."""

    host: str
    outcome: Outcome
    reason: str

    @property
    def error_host(self) -> str | None:
        """The host that the error belongs to; a host that was left out in order is none."""
        return self.host if self.outcome is Outcome.ERROR else None


class Welcome:
    """Asks who was excluded (host to reason), who went out of the run meanwhile, and whose rings hung in this phase."""

    def __init__(self, excluded: Mapping[str, str], health: HostHealth) -> None:
        self._excluded, self._health = excluded, health
        self.hung = HungRings()

    @property
    def refused_names(self) -> tuple[str, ...]:
        """The hosts and claims because of which a probe may be refused; in a phase they only become more."""
        return (*self._excluded, *self._health.all_out, *self.hung)

    def refuses(self, probe: Probe) -> bool:
        """Whether this probe may not run."""
        return self.refusal(probe) is not None

    def refusal(self, probe: Probe) -> Refusal | None:
        """Why this probe may not run; None when it may."""
        for host in probe.hosts:
            if host in self._excluded and probe.kind != routes.KIND:
                return Refusal(host, Outcome.SKIPPED, f"{host}: {self._excluded[host]}")
        out = self._health.out(probe)
        if out is None:
            hung = self.hung.host_of(probe)
            if hung is None:
                return None
            return Refusal(hung, Outcome.ERROR, f"not run with {hung}: {self.hung.reason(hung)}")
        name, reason = out
        return Refusal(name.split("/")[0], Outcome.ERROR, f"not run: {name} is out of the run: {reason}")

    def admits(self, host: str, probe: Probe) -> bool:
        """Whether this host's part of a probe could run, whoever the others are."""
        claims = tuple(claim for claim in probe.claims if claim.startswith(f"{host}/"))
        return self.refusal(replace(probe, hosts=(host,), claims=claims)) is None
