"""Stopping a run from outside: a signal is noted and wakes the executor; the engine ends things in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """How often somebody has asked to stop (Ctrl-C, SIGTERM)."""

    def __init__(self) -> None:
        self.times = 0


@contextmanager
def listening(wake: Callable[[], None]) -> Iterator[Interruption]:
    """
    Count SIGINT and SIGTERM instead of dying of them, and *wake* who waits; as it was before, afterwards.

    An exception out of nowhere could lose what a command had just answered, and with it the undo that waits for it.
    Outside the main thread nothing can be listened to: then nothing is counted.
    """
    interruption = Interruption()

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        interruption.times += 1
        wake()

    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # a shell starts background jobs like that, and means it
                signal.signal(number, note)
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
