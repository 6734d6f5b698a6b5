"""One run on a host at a time: locks in ``results/<scenario>/``, ``.lock`` or, for a run on other hosts, ``.lock.2``.

Whoever has the file flocked holds the lock: the kernel releases it when that process ends, however it ends. The
content, a JSON document, names the holder (run, machine, process), since when, and its hosts; it is emptied at the end.
Not every file system carries flocks from machine to machine, so content written by another machine counts until a
person removes it.
"""

import fcntl
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import orjson

from fabric.errors import StoreError
from fabric.model.text import fold
from fabric.runs.plain_file import MIB, NotPlain, append_durably, make_asked_folder, open_plain, plain_stream, storing

FILE = ".lock"
"""Name of the lock in a scenario's folder; further locks there begin with it."""

_MOST_BYTES = 4 * MIB  # enough for 100,000 hosts
_TAKING_S = 10.0
"""How long to wait for another process that only looks at a lock (seconds; a choice; looking takes milliseconds)."""

_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Holder:
    """
    A process at work on *run* (its directory, or its scenario's while it has none) and on *hosts*.

    *since* is the time of day, UTC.
    """

    run: str
    machine: str
    pid: int
    since: str
    hosts: tuple[str, ...]

    @property
    def text(self) -> str:
        """The holder for a person: ``login1, process 4711``."""
        return f"{self.machine}, process {self.pid}"

    @property
    def is_here(self) -> bool:
        """Whether it is a process of this machine, whose flocks can be seen."""
        return self.machine == socket.gethostname()


def holder_of(path: Path) -> Holder | None:
    """Return who holds a lock, None for nobody. A flocked but unreadable lock counts for the whole scenario."""
    try:
        with plain_stream(path, _MOST_BYTES) as file:
            free = flocked(file.fileno(), fcntl.LOCK_SH)
            body = orjson.loads(file.read())
        holder = Holder(**{**body, "hosts": tuple(body["hosts"])})
    except (FileNotFoundError, NotADirectoryError, NotPlain):
        return None
    except (KeyError, TypeError, ValueError):
        holder = Holder(str(path.parent), socket.gethostname(), 0, "not known when", ())
    return None if free and holder.is_here else holder


class RunLock:
    """A lock that is held as long as its file is open."""

    def __init__(self, path: Path, holder: Holder) -> None:
        self._path, self._holder = path, holder
        self._fd = _taken(path, 0o644)

    def names(self, run: Path | str) -> None:
        """Write into the lock which run holds it, once that has a name. Raises StoreError."""
        self._holder = replace(self._holder, run=str(run))
        with storing(self._path):
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
            append_durably(self._fd, orjson.dumps(asdict(self._holder), option=orjson.OPT_INDENT_2) + b"\n", end=0)

    def release(self) -> None:
        """Release the lock."""
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
        os.close(self._fd)


@contextmanager
def holding(results: Path, scenario: str, hosts: Sequence[str], *, run: str = "") -> Iterator[RunLock]:
    """
    Hold a lock of a scenario for a run on these hosts.

    Raises StoreError naming a run that holds one of them already, ConfigError where a file is in the folder's way.
    """
    folder, since = results / scenario, datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    holder = Holder("", socket.gethostname(), os.getpid(), since, tuple(hosts))
    with storing(folder, inside=True):
        make_asked_folder(folder)
        # Only for this account, whatever the umask: whoever may read a file may flock it, and so block every run.
        looking = _taken(results / f"{FILE}.held", 0o600)
        try:
            _refuse_overlap(results, folder, hosts)
            names = (FILE if number == 1 else f"{FILE}.{number}" for number in count(1))
            lock = RunLock(next(folder / name for name in names if holder_of(folder / name) is None), holder)
        finally:
            os.close(looking)
    try:
        lock.names(folder / run)
        yield lock
    finally:
        lock.release()


def _taken(path: Path, mode: int) -> int:
    """Return a descriptor of the flocked file; StoreError if somebody else holds it for long."""
    fd, until_s = open_plain(path, os.O_RDWR | os.O_CREAT, mode), time.monotonic() + _TAKING_S
    try:
        while not flocked(fd, fcntl.LOCK_EX):
            if time.monotonic() > until_s:
                raise StoreError(f"{path}: somebody holds it for more than {_TAKING_S:g} s")
            time.sleep(_LOOK_S)
    except BaseException:
        os.close(fd)
        raise
    return fd


def flocked(fd: int, how: int) -> bool:
    """Try to flock; False when somebody else holds it. A file system without flocks counts as free."""
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def refuse_at_work(run: Path, hosts: Sequence[str]) -> None:
    """
    Raise StoreError, as ``holding`` does, if somebody is at work on this run, its scenario or one of its hosts.

    It only looks, so that a refusal comes before other files are read; ``holding`` looks again.
    """
    run = run.resolve()
    _refuse_overlap(run.parent.parent, run.parent, hosts)


def _refuse_overlap(results: Path, folder: Path, hosts: Sequence[str]) -> None:
    wanted = set(hosts)
    for path in sorted(results.glob(f"*/{FILE}*")):
        holder = holder_of(path)
        shared = sorted(wanted.intersection(holder.hosts)) if holder is not None else []
        if holder is not None and (shared or (path.parent == folder and not holder.hosts)):
            what = f"holds {fold(shared)}" if shared else "is of the same scenario"
            by_hand = "" if holder.is_here else f"; where {holder.machine} certainly runs it no more: rm {path}"
            raise StoreError(
                f"{holder.run} is going on ({holder.text}, since {holder.since}) and {what}: wait for it, or "
                f"fabric stop {holder.run}; see: fabric status {holder.run}{by_hand}"
            )


def running(run: Path) -> Holder | None:
    """Return who is at work on this run; None: nobody. Reads only."""
    run = run.resolve()  # the lock is beside it, even if a person stands in it and writes "."
    holders = map(holder_of, sorted(run.parent.glob(f"{FILE}*")))
    return next((one for one in holders if one is not None and Path(one.run).name == run.name), None)
