"""What has happened and was not asked for yet: put in by threads, taken out by the one that drives the executor."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Sequence

from fabric.ports import Happening, Sampled

_SAMPLES = 10_000  # batches nobody has asked for; then the oldest are dropped


class Mailbox:
    """Any thread may put; a signal handler may ``wake``, because a SimpleQueue may be put to at any time."""

    def __init__(self) -> None:
        self._happenings: queue.SimpleQueue[Sequence[Happening]] = queue.SimpleQueue()
        self._samples: deque[Sampled] = deque(maxlen=_SAMPLES)

    def put(self, happened: Sequence[Happening]) -> None:
        """Something happened."""
        self._happenings.put(happened)

    def put_samples(self, sampled: Sampled) -> None:
        """Rows have arrived."""
        self._samples.append(sampled)
        self.wake()

    def wake(self) -> None:
        """Let ``wait`` return."""
        self._happenings.put(())

    def wait(self, until_s: float) -> Sequence[Happening]:
        """Block until there is something, or time.monotonic() reads *until_s*; returns all there is, oldest first."""
        remaining_s = min(max(0.0, until_s - time.monotonic()), threading.TIMEOUT_MAX)
        happened: list[Happening] = []
        try:
            happened.extend(self._happenings.get(timeout=remaining_s))
            while True:
                happened.extend(self._happenings.get_nowait())
        except queue.Empty:
            return happened

    def samples(self) -> Sequence[Sampled]:
        """All rows since the last call."""
        return [self._samples.popleft() for _ in range(len(self._samples))]
