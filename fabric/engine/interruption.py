"""Stopping a run from outside: a signal is counted and wakes the executor; the engine then ends things in order."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from types import FrameType
from typing import Any

from fabric.errors import out_of_memory
from fabric.runs.run_directory import RunDirectory

STOP = "STOP"
"""Name of the stop file; its first line, if any, is given as the reason."""

LOOK_S = 1.0
"""How often to look for the file (seconds of the executor's clock; choice: one ``stat`` costs nothing)."""


class StopFile:
    """
    The file STOP of a run, looked for at most once in LOOK_S. Once seen it stays seen, even if somebody removes it.

    The first sight of it is recorded in the run's history.
    """

    def __init__(self, directory: RunDirectory, clock: Callable[[], float]) -> None:
        self._directory, self._clock = directory, clock
        self._path = directory.path / STOP
        self.seen = False
        self.next_s = clock()

    def look(self) -> bool:
        """Return whether the file is or was there."""
        now_s = self._clock()
        if not self.seen and now_s >= self.next_s:
            self.next_s = now_s + LOOK_S
            if self._path.exists():
                self.seen, self.next_s = True, inf
                why = _first_line(self._path)
                reason = f"the file {self._path} is there{': ' if why else ''}{why}"
                self._directory.events.append("stop", now_s, {"reason": reason})
        return self.seen


def _first_line(path: Path) -> str:
    """Return at most 200 printable characters of the first line; empty when the file cannot be read."""
    with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        return "".join(one for one in file.readline(200) if one.isprintable())
    return ""


_END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Counts how often somebody asked to stop: Ctrl-C and SIGTERM each time, SIGHUP and the file STOP once each."""

    def __init__(self, stop_file: StopFile | None = None) -> None:
        self.signals = 0
        self._stop_file = stop_file

    @property
    def times(self) -> int:
        """Return how often somebody asked to stop; also looks for the stop file when that is due."""
        return self.signals + (self._stop_file is not None and self._stop_file.look())

    @property
    def next_s(self) -> float:
        """When to look for the stop file next, in executor's seconds; infinite when there is nothing to look for."""
        return inf if self._stop_file is None else self._stop_file.next_s


def interrupt_on_signals() -> None:
    """
    Make SIGTERM and SIGHUP end this process as Ctrl-C does: in order, by KeyboardInterrupt.

    SIGHUP stays ignored if it was ignored when the process began, as under ``nohup`` or in a detached session.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _hung_up)


def _hung_up(number: int, frame: FrameType | None) -> None:
    """Ignore SIGHUP from the first one on: a closing terminal sends it more than once (the kernel, then its shell)."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.default_int_handler(number, frame)


@contextmanager
def heeding_threads(end: Callable[[], None]) -> Iterator[list[str]]:
    """
    Call *end* once when a thread dies for lack of memory; the yielded list then holds the text to report.

    Any other exception of a thread is reported as before.
    """
    before, found = threading.excepthook, list[str]()

    def died(args: threading.ExceptHookArgs) -> None:
        why = out_of_memory(args.exc_value) if args.exc_value is not None else ""
        if not why:
            before(args)
        elif not found:
            found.append(why)
            end()

    threading.excepthook = died
    try:
        yield found
    finally:
        threading.excepthook = before


@contextmanager
def listening(wake: Callable[[], None], stop_file: StopFile | None = None) -> Iterator[Interruption]:
    """
    Count SIGINT, SIGTERM and SIGHUP instead of dying of them, and call *wake*; restore the old handlers afterwards.

    An exception raised at an arbitrary point could lose a command's answer, and with it the undo that waits for it.
    Outside the main thread Python can catch no signals, so none is counted; *stop_file* counts everywhere. SIGHUP
    counts once and is ignored from then on: a closing terminal sends it more than once.
    """
    interruption = Interruption(stop_file)

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        if number == signal.SIGHUP:
            before[number] = signal.SIG_IGN
            signal.signal(number, signal.SIG_IGN)
        interruption.signals += 1
        wake()

    in_main = threading.current_thread() is threading.main_thread()
    before: dict[int, Any] = {number: signal.getsignal(number) for number in _END_SIGNALS if in_main}
    try:
        for number, handler in list(before.items()):
            if handler is not signal.SIG_IGN:  # a shell starts background jobs with signals ignored, on purpose
                signal.signal(number, note)
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
