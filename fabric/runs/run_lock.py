"""
One run of a scenario, and one run on a host, at a time: ``results/<scenario>/.lock``, while a run goes on.

The file is a JSON document: who holds it (run, machine, process), since when, and on which hosts. A lock whose holder
is provably gone counts for nothing: on this machine there is no such process any more, or it was booted since. Of a
holder on another machine nobody here knows that, so a person removes its lock.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import orjson

from fabric.errors import StoreError
from fabric.model.text import fold
from fabric.runs.durable import write_durably
from fabric.runs.plain_file import MIB, NotPlain, open_plain, read_plain, storing

FILE = ".lock"
"""Its name in a scenario's folder."""

_MOST_BYTES = 4 * MIB  # 100,000 hosts
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_TAKING_S = 10.0
"""How long to wait for somebody else who is just looking at all locks (a choice; looking takes milliseconds)."""

_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Holder:
    """
    A process at work on *run* (its directory, or its scenario's while it has none) and on *hosts*.

    *boot* is the id of the machine's boot and *processes* its number space, empty where they are not known; *started*
    tells the process from a later one of the same *pid*. *since* is the time of day, UTC.
    """

    run: str
    machine: str
    boot: str
    processes: str
    pid: int
    started: str
    since: str
    hosts: tuple[str, ...]

    @property
    def text(self) -> str:
        """For a person: ``login1, process 4711``."""
        return f"{self.machine}, process {self.pid}"

    @property
    def is_here(self) -> bool:
        """Whether it is a process that this one could see."""
        return bool(self.boot) and (self.boot, self.processes) == _kernel()

    @property
    def is_gone(self) -> bool:
        """Whether it is certain that the process has ended."""
        if self.is_here:
            return _started(self.pid) != self.started
        return self.machine == socket.gethostname() and "" != self.boot != _kernel()[0] != ""


def myself(run: str, hosts: Sequence[str]) -> Holder:
    """This process."""
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Holder(run, socket.gethostname(), *_kernel(), os.getpid(), _started(os.getpid()), since, tuple(hosts))


def holder_bytes(holder: Holder) -> bytes:
    """The document that ``holder_of`` reads."""
    return orjson.dumps(asdict(holder), option=orjson.OPT_INDENT_2) + b"\n"


def holder_of(path: Path) -> Holder | None:
    """
    Who holds a lock; None when nobody does, or whoever did is gone.

    A file that cannot be read as such holds nothing: the holder replaces it whole.
    """
    try:
        body = orjson.loads(read_plain(path, _MOST_BYTES))
        holder = Holder(**{**body, "hosts": tuple(body["hosts"]), "pid": int(body["pid"])})
    except (FileNotFoundError, NotADirectoryError, NotPlain):
        return None
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    words = (holder.run, holder.machine, holder.boot, holder.processes, holder.started, holder.since, *holder.hosts)
    return holder if all(isinstance(word, str) for word in words) and not holder.is_gone else None


class RunLock:
    """Held until ``release``."""

    def __init__(self, path: Path, holder: Holder) -> None:
        self._path, self._holder = path, holder

    def names(self, run: Path) -> None:
        """Say which run holds it, as soon as that has a name. Raises StoreError."""
        self._holder = replace(self._holder, run=str(run))
        with storing(self._path):
            write_durably(self._path, holder_bytes(self._holder))

    def release(self) -> None:
        """Let go; safe to call twice."""
        with suppress(OSError):  # what stays there is of a process that is gone
            found = holder_of(self._path)
            if found is not None and replace(found, run=self._holder.run) == self._holder:
                self._path.unlink()  # also where its name could not be written


@contextmanager
def holding(results: Path, scenario: str, hosts: Sequence[str], *, run: str = "") -> Iterator[RunLock]:
    """
    Hold the lock of a scenario for a run on these hosts. Raises StoreError that names the run which holds it, or one of
    the hosts, already.
    """
    folder = results / scenario
    holder = myself(str(folder / run) if run else str(folder), hosts)
    with storing(folder, inside=True):
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(results):
            _refuse_overlap(results, folder, hosts)
            try:
                write_durably(folder / FILE, holder_bytes(holder))
            except OSError:
                (folder / FILE).unlink(missing_ok=True)  # it may be there, and not durable
                raise
    lock = RunLock(folder / FILE, holder)
    try:
        yield lock
    finally:
        lock.release()


@contextmanager
def _alone(results: Path) -> Iterator[None]:
    """
    Who looks at all locks and takes one does it alone, as far as files can be flocked there.

    The flocked file is of this account alone, whatever the umask: who may read a file may flock it, and keep everybody
    from a run.
    """
    fd = open_plain(results / f"{FILE}.held", os.O_RDWR | os.O_CREAT, 0o600)
    until_s = time.monotonic() + _TAKING_S
    try:
        while not _flocked(fd):
            if time.monotonic() > until_s:
                raise StoreError(f"{results / FILE}.held: somebody holds it for more than {_TAKING_S:g} s")
            time.sleep(_LOOK_S)
        yield
    finally:
        os.close(fd)


def _flocked(fd: int) -> bool:
    """False when somebody else holds it; a file system that cannot say is no reason to refuse."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def refuse_at_work(run: Path, hosts: Sequence[str]) -> None:
    """
    Raise StoreError, as ``holding`` does, where somebody is at work on this run, its scenario or one of its hosts.

    Only looks, so that a refusal need not wait for what else is to be read first; ``holding`` looks again.
    """
    run = run.resolve()
    _refuse_overlap(run.parent.parent, run.parent, hosts)


def _refuse_overlap(results: Path, folder: Path, hosts: Sequence[str]) -> None:
    wanted = set(hosts)
    for path in sorted(results.glob(f"*/{FILE}")):
        holder = holder_of(path)
        shared = sorted(wanted.intersection(holder.hosts)) if holder is not None else []
        if holder is not None and (path.parent == folder or shared):
            what = f"holds {fold(shared)}" if shared else "is of the same scenario"
            by_hand = "" if holder.is_here else f"; where {holder.machine} certainly runs it no more: rm {path}"
            raise StoreError(
                f"{holder.run} is going on ({holder.text}, since {holder.since}) and {what}: wait for it, or "
                f"fabric stop {holder.run}; see: fabric status {holder.run}{by_hand}"
            )


def running(run: Path) -> Holder | None:
    """Who is at work on this run; None: nobody. Reads only."""
    run = run.resolve()  # the lock lies beside it, also where a person stands in it and writes "."
    holder = holder_of(run.parent / FILE)
    return holder if holder is not None and Path(holder.run).name == run.name else None


def _kernel() -> tuple[str, str]:
    """The id of this boot, and the number space of its processes; empty where they cannot be read."""
    try:
        return _BOOT.read_text().strip(), os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - no file to resolve
    except OSError:
        return "", ""


def _started(pid: int) -> str:
    """When a process was started, in the kernel's ticks; empty when there is none, or only what is left of it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]
