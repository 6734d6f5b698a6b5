"""The threads of an executor: one for the conversations with all hosts, and workers for calls that may block.

Whatever happens is put into a Mailbox, from which the engine takes it.
"""

import contextlib
import os
import queue
import selectors
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from fabric.ports import Happening, Sampled

_WAKE_BYTES = 4096
_AGAIN_S = 1.0
_WORKER_IDLE_S = 0.5
_SAMPLES = 10_000  # batches that nobody has taken; beyond that the oldest are dropped


class Dispatcher:
    """
    One thread that runs posted actions, reads descriptors that are readable, and ticks.

    *tick* is called when due and returns in how many seconds to call it next. *settle* is called after each pass over
    the work there was.
    """

    def __init__(self, *, tick: Callable[[], float], settle: Callable[[], None]) -> None:
        self._tick, self._settle = tick, settle
        self._posted: deque[Callable[[], None]] = deque()
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_r, False)
        os.set_blocking(self._wake_w, False)
        self._awake = False
        self._next_s = 0.0
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_r, selectors.EVENT_READ, self._woken)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="fabric dispatcher", daemon=True)
        self._thread.start()

    def post(self, action: Callable[[], None]) -> None:
        """Have the thread run *action*; may be called from any thread. Nothing runs after ``close``."""
        self._posted.append(action)
        if not self._awake:
            self._awake = True
            with contextlib.suppress(BlockingIOError, OSError):
                os.write(self._wake_w, b"x")

    def tick_within(self, pause_s: float) -> None:
        """Call *tick* in *pause_s* seconds at the latest; only the thread itself may call this."""
        self._next_s = min(self._next_s, time.monotonic() + pause_s)

    def watch(self, fd: int, action: Callable[[], None]) -> None:
        """Run *action* whenever *fd* is readable; only the thread itself may call this."""
        if fd in self._selector.get_map():  # its last owner has closed it and has not said so yet
            self._selector.unregister(fd)
        self._selector.register(fd, selectors.EVENT_READ, action)

    def unwatch(self, fd: int, action: Callable[[], None]) -> None:
        """Stop watching a descriptor for *action*, before it is closed or soon after."""
        with contextlib.suppress(KeyError, ValueError):
            if self._selector.get_key(fd).data is action:
                self._selector.unregister(fd)

    def close(self, timeout_s: float) -> None:
        """Run what is posted already, then end the thread."""
        self._closed = True
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_w, b"x")
        self._thread.join(timeout=timeout_s)
        self._selector.close()
        os.close(self._wake_r)
        os.close(self._wake_w)

    def _run(self) -> None:
        while True:
            pause_s = max(0.0, self._next_s - time.monotonic())
            for key, _ in self._selector.select(pause_s):
                _do(key.data)
            closing = self._closed
            for _ in range(len(self._posted)):
                _do(self._posted.popleft())
            _do(self._on_time)
            _do(self._settle)
            if closing and not self._posted:
                return

    def _on_time(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _AGAIN_S  # in case the tick fails
            self._next_s = now_s + self._tick()

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_r, _WAKE_BYTES)
        self._awake = False


def _do(action: Callable[[], None]) -> None:
    """Run *action*; a defect of ours in it is reported by threading.excepthook and does not end the thread."""
    try:
        action()
    except Exception:  # noqa: BLE001
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


class Workers:
    """Up to *most* daemon threads that run jobs; started when needed, ended when idle."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closing = False

    def submit(self, job: Callable[[], None]) -> None:
        """Run *job* in some thread; it must not raise."""
        with self._changed:
            self._jobs.append(job)
            if self._idle >= len(self._jobs):
                self._changed.notify()
            elif len(self._threads) < self._most:
                thread = threading.Thread(target=self._work, name="fabric worker", daemon=True)
                self._threads.add(thread)
                thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait until all jobs are done and all threads have ended; from now on no thread stays idle."""
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
                    self._changed.wait(_WORKER_IDLE_S)
                self._idle -= 1
                if not self._jobs:
                    self._threads.discard(threading.current_thread())
                    return
                job = self._jobs.popleft()
            job()


class Mailbox:
    """Happenings and samples for the engine. Any thread may put; even a signal handler may ``wake`` (SimpleQueue)."""

    def __init__(self) -> None:
        self._happenings: queue.SimpleQueue[Sequence[Happening]] = queue.SimpleQueue()
        self._samples: deque[Sampled] = deque(maxlen=_SAMPLES)

    def put(self, happened: Sequence[Happening]) -> None:
        """Add happenings."""
        self._happenings.put(happened)

    def put_samples(self, sampled: Sampled) -> None:
        """Add rows of samples."""
        self._samples.append(sampled)
        self.wake()

    def wake(self) -> None:
        """Let ``wait`` return."""
        self._happenings.put(())

    def wait(self, until_s: float) -> Sequence[Happening]:
        """Block until something happened or time.monotonic() reads *until_s*; return all happenings, oldest first."""
        remaining_s = min(max(0.0, until_s - time.monotonic()), threading.TIMEOUT_MAX)
        happened: list[Happening] = []
        try:
            happened.extend(self._happenings.get(timeout=remaining_s))
            while True:
                happened.extend(self._happenings.get_nowait())
        except queue.Empty:
            return happened

    def samples(self) -> Sequence[Sampled]:
        """Return all rows since the last call."""
        return [self._samples.popleft() for _ in range(len(self._samples))]
