"""
Which hosts and parts have stopped answering, so that the rest of their probes need not wait for a deadline each.

Errors in a row that share no claim mean the host; errors that share exactly one claim, which never worked in between,
mean that part (a hung RNIC must not take its host out of the run).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fabric.errors import ExecutorError, HostUnreachable, SessionLost
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult

ERRORS_IN_A_ROW = 4
"""So many errors in a row take a host or a part out of the run (a choice: two could be chance, ten take too long)."""


@dataclass(slots=True)
class _Row:
    """Errors of one host in a row, and the claims that all of them held."""

    errors: int = 0
    shared: set[str] = field(default_factory=set)

    def error(self, claims: tuple[str, ...]) -> None:
        self.shared = self.shared.intersection(claims) if self.errors else set(claims)
        self.errors += 1

    def worked(self, claims: tuple[str, ...]) -> None:
        self.shared.difference_update(claims)
        if not self.shared:
            self.errors = 0


class HostHealth:
    """
    Counts errors; what is out (a host, or one of its parts) stays out for the run, unless somebody readmits the host.

    *out*: what went out before the run was interrupted, and why. *names*: what hosts that were asked call themselves.
    """

    def __init__(self, out: Mapping[str, str] | None = None) -> None:
        self.names: dict[str, str] = {}
        self._rows: dict[str, _Row] = {}
        self._out: dict[str, str] = dict(out or {})

    @property
    def all_out(self) -> Iterable[str]:
        """The names of all hosts and claims that are out."""
        return self._out

    def out(self, probe: Probe) -> tuple[str, str] | None:
        """The first host or claim of a probe that is out, and why; None when all are in."""
        for name in (*probe.hosts, *probe.claims):
            if name in self._out:
                return name, self._out[name]
        return None

    def reason(self, name: str) -> str:
        """Why it is out."""
        return self._out[name]

    def lost(self, error: ExecutorError, *, final: bool) -> str | None:
        """
        Note a transport error; an unreachable host is out at once. Returns the host if it went out just now.

        Unless this is *final*, a session that was lost is forgiven: what ran in it will be tried once more.
        """
        if isinstance(error, SessionLost) and not final:
            return None
        if isinstance(error, HostUnreachable) and error.host not in self._out:
            self._put_out(error.host, str(error))
            return error.host
        return None

    def readmit(self, host: str) -> str | None:
        """It, and every part of it, is in again: why it was out, None when it was not."""
        self._rows.pop(host, None)
        self.names.pop(host, None)  # it may have been installed anew
        why = None
        for name in [name for name in self._out if name == host or name.startswith(f"{host}/")]:
            why = self._out.pop(name)
        return why

    def silent(self, host: str, why: str) -> str | None:
        """A host did not answer the simplest question: it is out. Returns it if it went out just now."""
        if host in self._out:
            return None
        self._put_out(host, why)
        return host

    def finished(self, probe: Probe, result: ProbeResult) -> str | None:
        """Note how a probe ended; returns the host or claim that went out just now."""
        if result.outcome is not Outcome.ERROR:
            for host in probe.hosts:
                if host in self._rows:
                    self._rows[host].worked(probe.claims)
            return None
        host_blamed = result.error_host or probe.hosts[0]  # where nobody knows, a bound needs somebody all the same
        if self.out(probe):
            return None
        row = self._rows.setdefault(host_blamed, _Row())
        row.error(probe.claims)
        if row.errors < ERRORS_IN_A_ROW or len(row.shared) > 1:
            return None
        gone = row.shared.pop() if row.shared else host_blamed
        del self._rows[host_blamed]
        self._put_out(gone, f"{row.errors} errors in a row, the last: {result.reason}")
        return gone

    def _put_out(self, name: str, why: str) -> None:
        self._out[name] = why
