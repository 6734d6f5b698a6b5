"""Threads for calls that may block: connecting, and letting go of what was connected."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

_IDLE_S = 0.5


class Workers:
    """Up to *most* daemon threads that do what they are given; they come when needed and go when idle."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closing = False

    def submit(self, job: Callable[[], None]) -> None:
        """Do *job* in some thread; it must not raise."""
        with self._changed:
            self._jobs.append(job)
            if self._idle >= len(self._jobs):
                self._changed.notify()
            elif len(self._threads) < self._most:
                thread = threading.Thread(target=self._work, name="fabric worker", daemon=True)
                self._threads.add(thread)
                thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait until all jobs are done and all threads have gone; from now on none stays idle."""
        until_s = time.monotonic() + timeout_s
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join(timeout=max(0.0, until_s - time.monotonic()))

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                if not self._jobs and not self._closing:
                    self._changed.wait(_IDLE_S)
                self._idle -= 1
                if not self._jobs:
                    self._threads.discard(threading.current_thread())
                    return
                job = self._jobs.popleft()
            job()
