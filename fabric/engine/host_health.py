"""Which hosts have stopped answering, so that the rest of their probes need not wait for a deadline each."""

from __future__ import annotations

from fabric.errors import ExecutorError, HostUnreachable
from fabric.model.outcome import Outcome
from fabric.model.probe import ProbeResult

ERRORS_IN_A_ROW = 4
"""A host with this many errors in a row and nothing measured in between is taken out of the run."""


class HostHealth:
    """Counts errors per host; a host that is out stays out for the run."""

    def __init__(self) -> None:
        self._errors: dict[str, int] = {}
        self._out: dict[str, str] = {}

    @property
    def any_out(self) -> bool:
        """Some host is out."""
        return bool(self._out)

    def reason_out(self, hosts: tuple[str, ...]) -> tuple[str, str] | None:
        """The first of these hosts that is out, and why; None when all are in."""
        for host in hosts:
            if host in self._out:
                return host, self._out[host]
        return None

    def lost(self, error: ExecutorError) -> str | None:
        """Note a transport error; an unreachable host is out at once. Returns the host if it went out just now."""
        if isinstance(error, HostUnreachable) and error.host not in self._out:
            self._out[error.host] = str(error)
            return error.host
        return None

    def finished(self, hosts: tuple[str, ...], result: ProbeResult) -> str | None:
        """Note how a probe ended; returns the host if it went out just now."""
        if result.outcome is not Outcome.ERROR:
            for host in hosts:
                self._errors.pop(host, None)
            return None
        blamed = result.error_host
        if blamed is None or blamed in self._out:
            return None
        self._errors[blamed] = self._errors.get(blamed, 0) + 1
        if self._errors[blamed] < ERRORS_IN_A_ROW:
            return None
        self._out[blamed] = f"{ERRORS_IN_A_ROW} errors in a row, the last: {result.reason}"
        return blamed
