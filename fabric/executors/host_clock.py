"""What the clock of a host reads when ours reads something, as well as messages on the way can tell."""

from __future__ import annotations

_DRIFT = 1e-4  # quartz clocks differ by less than 100 parts in a million


class HostClock:
    """
    Translates a host's seconds into ours.

    A message that said *host_s* when it left and arrived at *here_s* bounds the difference from above; the smallest
    bound is the best, and the estimate is late by the shortest way seen (half a round trip). As clocks drift, a bound
    grows old.
    """

    def __init__(self) -> None:
        self._ahead_s: float | None = None  # our clock minus the host's
        self._since_s = 0.0

    def heard(self, host_s: float, here_s: float) -> None:
        """A message of the host carried a reading of its clock."""
        bound_s = here_s - host_s
        aged_s = None if self._ahead_s is None else self._ahead_s + _DRIFT * (here_s - self._since_s)
        if aged_s is None or bound_s < aged_s:
            self._ahead_s, self._since_s = bound_s, here_s

    def here(self, host_s: float) -> float:
        """Our clock's reading when the host's read *host_s*."""
        return host_s + (self._ahead_s or 0.0)

    def there(self, here_s: float) -> float:
        """The host's clock's reading when ours reads *here_s*."""
        return here_s - (self._ahead_s or 0.0)
