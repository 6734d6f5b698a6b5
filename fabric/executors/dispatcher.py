"""One thread for the conversations with all hosts: it does what it is posted, reads what is readable, and ticks."""

from __future__ import annotations

import contextlib
import os
import selectors
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

_WAKE_BYTES = 4096
_AGAIN_S = 1.0


class Dispatcher:
    """
    Its thread starts with the first ``post``. After each pass over what there was to do, *settle* is called.

    *tick* is called when its time has come, and says when it wants to be called next.
    """

    def __init__(self, *, tick: Callable[[float], float], settle: Callable[[], None]) -> None:
        self._tick, self._settle = tick, settle
        self._posted: deque[Callable[[], None]] = deque()
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_r, False)
        os.set_blocking(self._wake_w, False)
        self._awake = False
        self._next_s = 0.0
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_r, selectors.EVENT_READ, self._woken)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def post(self, action: Callable[[], None]) -> None:
        """Have *action* done by the thread; from any thread. Nothing is done after ``close``."""
        self._posted.append(action)
        if self._thread is None:
            self._begin()
        if not self._awake:
            self._awake = True
            with contextlib.suppress(BlockingIOError, OSError):
                os.write(self._wake_w, b"x")

    def tick_by(self, at_s: float) -> None:
        """Call *tick* no later than *at_s*; only the thread itself may ask for it."""
        self._next_s = min(self._next_s, at_s)

    def watch(self, fd: int, action: Callable[[], None]) -> None:
        """Do *action* whenever *fd* is readable; only the thread itself may ask for it."""
        if fd in self._selector.get_map():  # its last owner has closed it, and has not said so yet
            self._selector.unregister(fd)
        self._selector.register(fd, selectors.EVENT_READ, action)

    def unwatch(self, fd: int, action: Callable[[], None]) -> None:
        """Forget a descriptor that *action* was for, before it is closed or soon after."""
        with contextlib.suppress(KeyError, ValueError):
            if self._selector.get_key(fd).data is action:
                self._selector.unregister(fd)

    def close(self, timeout_s: float) -> None:
        """Do what is posted already, then end the thread; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if self._thread is not None:
            with contextlib.suppress(BlockingIOError):
                os.write(self._wake_w, b"x")
            self._thread.join(timeout=timeout_s)
        self._selector.close()
        os.close(self._wake_r)
        os.close(self._wake_w)

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="fabric dispatcher", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            pause_s = max(0.0, self._next_s - time.monotonic())
            for key, _ in self._selector.select(pause_s):
                _do(key.data)
            closing = self._closed
            self._do_posted()
            _do(self._on_time)
            _do(self._settle)
            if closing and not self._posted:
                return

    def _do_posted(self) -> None:
        for _ in range(len(self._posted)):
            _do(self._posted.popleft())

    def _on_time(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _AGAIN_S  # should the tick fail
            self._next_s = self._tick(now_s)

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_r, _WAKE_BYTES)
        self._awake = False


def _do(action: Callable[[], None]) -> None:
    """A defect of ours in one action must not end the thread that all hosts need; it is told as one of a thread is."""
    try:
        action()
    except Exception:  # noqa: BLE001
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
