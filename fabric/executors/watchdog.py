"""One thread that acts when a time is reached, for calls that cannot be given a deadline themselves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

_IDLE_S = 60.0


class Watchdog:
    """Does what it was armed with at its time, unless disarmed before; its thread starts when first needed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._armed: dict[Hashable, tuple[float, Callable[[], None]]] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def arm(self, key: Hashable, at_s: float, action: Callable[[], None]) -> None:
        """Do *action* at *at_s* of time.monotonic(); an earlier time armed under the same key stays."""
        with self._changed:
            if self._closed or (key in self._armed and self._armed[key][0] <= at_s):
                return
            self._armed[key] = (at_s, action)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="fabric watchdog", daemon=True)
                self._thread.start()
            self._changed.notify()

    def disarm(self, key: Hashable) -> None:
        """Forget what was armed under *key*."""
        with self._changed:
            self._armed.pop(key, None)

    def close(self) -> None:
        """Forget everything and end the thread."""
        with self._changed:
            self._closed = True
            self._armed.clear()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _watch(self) -> None:
        while True:
            for action in self._due():
                action()
            with self._changed:
                if self._closed:
                    return

    def _due(self) -> list[Callable[[], None]]:
        """Wait for the next time, or a change; take out what has come due."""
        with self._changed:
            now_s = time.monotonic()
            next_s = min((at_s for at_s, _ in self._armed.values()), default=now_s + _IDLE_S)
            if next_s > now_s and not self._closed:
                self._changed.wait(min(next_s - now_s, _IDLE_S))
            now_s = time.monotonic()
            due = [key for key, (at_s, _) in self._armed.items() if at_s <= now_s]
            return [self._armed.pop(key)[1] for key in due]
