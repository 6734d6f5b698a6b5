"""
One run of a scenario, and one run on a host, at a time: ``results/<scenario>/.lock``, while a run goes on.

The file is a JSON document: who holds it (run, machine, process), and on which hosts; its time of change is a
heartbeat. Beside it ``.lock.held`` is flocked, so that on one machine the kernel tells whether the holder lives. A lock
is taken over when its holder is provably gone: the same boot and no such process, or on another machine no heartbeat
for GONE_S.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from fabric.errors import StoreError
from fabric.model.names import fold
from fabric.store.durable import write_durably
from fabric.store.lock_holder import Holder, holds, myself, read_holder, to_json
from fabric.store.plain_file import open_plain

FILE = ".lock"
"""Its name in a scenario's folder."""

HEARTBEAT_S = 10.0
"""How often the holder says that it lives (a choice: one ``utime``)."""

GONE_S = 60.0
"""So long after its last heartbeat a holder on another machine is gone (a choice: six heartbeats)."""

_TAKING_S = 10.0
"""How long to wait for somebody else who is just looking at all locks (a choice; looking takes milliseconds)."""

_LOOK_S = 0.02


class RunLock:
    """Held until ``release``; *lost* says who took it over meanwhile, empty while it is ours."""

    def __init__(self, folder: Path, holder: Holder, held_fd: int, on_lost: Callable[[], None]) -> None:
        self._path, self._holder, self._fd, self._on_lost = folder / FILE, holder, held_fd, on_lost
        self.lost = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="run lock", daemon=True)
        self._thread.start()

    def names(self, run: Path) -> None:
        """Say which run holds it, as soon as that has a name. Raises StoreError."""
        self._holder = replace(self._holder, run=str(run))
        try:
            write_durably(self._path, to_json(self._holder))
        except OSError as exc:
            raise StoreError(f"{self._path}: cannot write: {exc.strerror}") from exc

    def release(self) -> None:
        """Let go; safe to call twice."""
        self._ended.set()
        self._thread.join()
        if self._fd >= 0:
            with suppress(OSError):  # what stays there is of a process that is gone
                if self._is_ours():
                    self._path.unlink()
            os.close(self._fd)
            self._fd = -1

    def _is_ours(self) -> bool:
        now = read_holder(self._path)
        return now is not None and now[0].nonce == self._holder.nonce

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            with suppress(OSError):  # a file system that is away for a while: the next beat may reach it
                if not self._is_ours():
                    now = read_holder(self._path)
                    self.lost = "nobody" if now is None else now[0].text
                    self._on_lost()
                    return
                os.utime(self._path)


@contextmanager
def holding(
    results: Path, scenario: str, hosts: Sequence[str], *, run: str = "", on_lost: Callable[[], None] = lambda: None
) -> Iterator[RunLock]:
    """
    Hold the lock of a scenario for a run on these hosts. Raises StoreError that names the run which holds it, or one of
    the hosts, already. *on_lost* is called, from another thread, when somebody took it over.
    """
    lock = _taken(results, scenario, hosts, run, on_lost)
    try:
        yield lock
    finally:
        lock.release()


def _taken(results: Path, scenario: str, hosts: Sequence[str], run: str, on_lost: Callable[[], None]) -> RunLock:
    folder = results / scenario
    holder = myself(str(folder / run) if run else str(folder), hosts, secrets.token_hex(8))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(results) as now_s:
            _refuse_overlap(results, folder, hosts, now_s)
            fd = _held(folder)
            try:
                write_durably(folder / FILE, to_json(holder))
            except OSError:
                (folder / FILE).unlink(missing_ok=True)  # it may be there, and not durable
                os.close(fd)
                raise
    except OSError as exc:
        raise StoreError(f"{exc.filename or folder}: cannot write: {exc.strerror}") from exc
    return RunLock(folder, holder, fd, on_lost)


@contextmanager
def _alone(results: Path) -> Iterator[float]:
    """
    Who looks at all locks and takes one does it alone; where files cannot be flocked, a heartbeat tells of a race.

    Yields the time by the clock of the file system, which is that of the heartbeats.
    """
    fd = open_plain(results / f"{FILE}.held", os.O_RDWR | os.O_CREAT, 0o600)
    until_s = time.monotonic() + _TAKING_S
    try:
        while not _flocked(fd):
            if time.monotonic() > until_s:
                raise StoreError(f"{results / FILE}.held: somebody holds it for more than {_TAKING_S:g} s")
            threading.Event().wait(_LOOK_S)
        os.utime(fd)
        yield os.fstat(fd).st_mtime
    finally:
        os.close(fd)


def _held(folder: Path) -> int:
    """
    The flocked file beside the lock; StoreError when a process on this machine holds it.

    It is of this account alone, whatever the umask: who may read a file may flock it, and keep everybody from a run.
    """
    fd = open_plain(folder / f"{FILE}.held", os.O_RDWR | os.O_CREAT, 0o600)
    if not _flocked(fd):
        os.close(fd)
        raise StoreError(f"{folder}: another run of this scenario is going on; see: fabric status")
    return fd


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
    _refuse_overlap(run.parent.parent, run.parent, hosts, None)


def _refuse_overlap(results: Path, folder: Path, hosts: Sequence[str], now_s: float | None) -> None:
    wanted = set(hosts)
    for path in sorted(results.glob(f"*/{FILE}")):
        found = read_holder(path, now_s=now_s)
        if found is None or not holds(*found, gone_s=GONE_S):
            continue
        holder, age_s = found
        shared = sorted(wanted.intersection(holder.hosts))
        if path.parent == folder or shared:
            what = f"holds {fold(shared)}" if shared else "is of the same scenario"
            raise StoreError(
                f"{holder.run} is going on ({holder.text}, heard of {max(0.0, age_s):.0f} s ago) and {what}: wait for "
                f"it, or fabric stop {holder.run}; see: fabric status {holder.run}"
            )


def running(run: Path) -> Holder | None:
    """Who is at work on this run; None: nobody. Reads only."""
    run = run.resolve()  # the lock lies beside it, also where a person stands in it and writes "."
    found = read_holder(run.parent / FILE)
    if found is None or Path(found[0].run).name != run.name or not holds(*found, gone_s=GONE_S):
        return None
    return found[0]
