"""Waiting for something, not for a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wait_until(true: Callable[[], object], *, deadline_s: float = 60.0) -> None:
    """Until it is true; AssertionError after the deadline."""
    until_s = time.monotonic() + deadline_s
    pause = threading.Event()
    while not true():
        assert time.monotonic() < until_s, "it did not become true"
        pause.wait(0.01)
