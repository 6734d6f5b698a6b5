"""Who holds a lock: a process on a machine, and whether it is still there."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from fabric.store.plain_file import MIB, NotPlain, read_plain

_MOST_BYTES = 4 * MIB  # 100,000 hosts
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Holder:
    """
    A process at work on *run* (its directory, or its scenario's while it has none) and on *hosts*.

    *kernel* is the boot id with the number space of its processes, empty where neither is known; *started* tells the
    process from a later one of the same *pid*. *nonce* tells this lock from every other.
    """

    run: str
    machine: str
    kernel: str
    pid: int
    started: str
    nonce: str
    hosts: tuple[str, ...]

    @property
    def text(self) -> str:
        """For a person: ``login1, process 4711``."""
        return f"{self.machine}, process {self.pid}"


def myself(run: str, hosts: Sequence[str], nonce: str) -> Holder:
    """This process."""
    return Holder(run, socket.gethostname(), _kernel(), os.getpid(), _started(os.getpid()), nonce, tuple(hosts))


def to_json(holder: Holder) -> bytes:
    """The document that ``read_holder`` reads."""
    return orjson.dumps(asdict(holder), option=orjson.OPT_INDENT_2) + b"\n"


def read_holder(path: Path, *, now_s: float | None = None) -> tuple[Holder, float] | None:
    """
    Who holds a lock, and the age of the last heartbeat (seconds); None when nobody does.

    A file that cannot be read as such holds nothing: the holder replaces it whole. Without *now_s* (seconds since 1970)
    the age is by this machine's clock.
    """
    try:
        body = orjson.loads(read_plain(path, _MOST_BYTES))
        age_s = (time.time() if now_s is None else now_s) - path.lstat().st_mtime
        holder = Holder(**{**body, "hosts": tuple(body["hosts"]), "pid": int(body["pid"])})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (NotPlain, orjson.JSONDecodeError, KeyError, TypeError, ValueError, OverflowError):
        return None
    words = (holder.run, holder.machine, holder.kernel, holder.started, holder.nonce, *holder.hosts)
    return (holder, age_s) if all(isinstance(word, str) for word in words) else None


def holds(holder: Holder, age_s: float, *, gone_s: float) -> bool:
    """Whether it is still there: under the same kernel its process, elsewhere a heartbeat within *gone_s*."""
    if holder.kernel and holder.kernel == _kernel():
        return _started(holder.pid) == holder.started
    return age_s < gone_s


def _kernel() -> str:
    try:
        return f"{_BOOT.read_text().strip()} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - no file to resolve
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process was started, in the kernel's ticks; empty when there is none, or only what is left of it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]
