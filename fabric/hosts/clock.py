"""What the clock of a host reads when ours reads something, as well as messages on the way can tell."""

from __future__ import annotations

from math import inf

_ROUNDS = 4  # questions; choice: the quickest of so few is near the shortest way
_RECENT_S = 10.0  # choice: two clocks part by less than 1 ms meanwhile
_DRIFT = 1e-4  # quartz clocks differ by less than 100 parts in a million


class HostClock:
    """
    Translates a host's seconds into ours.

    A reading that left the host and arrived here bounds the difference of the clocks from above; one that was taken
    after we had asked bounds it from below. The estimate lies in the middle between both, and errs by no more than
    half of what is between them (as NTP does it, RFC 5905); without a lower bound it is the upper one. As clocks
    drift, bounds grow old.
    """

    def __init__(self) -> None:
        self._most_s, self._least_s = inf, -inf  # bounds of our clock minus the host's
        self._most_since_s = self._least_since_s = 0.0
        self._key = 0
        self._asked_s = 0.0
        self._answers_s: list[float] = []  # when the latest came

    def heard(self, host_s: float, here_s: float) -> None:
        """A message that arrived at *here_s* carried a reading of the host's clock."""
        bound_s = here_s - host_s
        if bound_s < self._most_s + _DRIFT * (here_s - self._most_since_s):
            self._most_s, self._most_since_s = bound_s, here_s

    def ask(self, here_s: float) -> int:
        """The host is asked what its clock reads; returns what to call the question."""
        self._key += 1
        self._asked_s = here_s
        return self._key

    def told(self, key: int, host_s: float, here_s: float) -> None:
        """An answer has come; only one to the latest question bounds the difference from both sides."""
        self.heard(host_s, here_s)
        if key != self._key or not key:
            return
        bound_s = self._asked_s - host_s
        if bound_s > self._least_s - _DRIFT * (here_s - self._least_since_s):
            self._least_s, self._least_since_s = bound_s, here_s
        self._answers_s = [*self._answers_s[-_ROUNDS + 1 :], here_s]

    def settled(self, here_s: float) -> bool:
        """Whether some questions were answered lately, of which the best counts."""
        return len(self._answers_s) == _ROUNDS and here_s - self._answers_s[0] <= _RECENT_S

    def here(self, host_s: float) -> float:
        """Our clock's reading when the host's read *host_s*."""
        return host_s + self._ahead_s()

    def there(self, here_s: float) -> float:
        """The host's clock's reading when ours reads *here_s*."""
        return here_s - self._ahead_s()

    def _ahead_s(self) -> float:
        if self._least_s == -inf:
            return 0.0 if self._most_s == inf else self._most_s
        return (self._most_s + self._least_s) / 2
