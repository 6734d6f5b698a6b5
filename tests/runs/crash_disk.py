"""A disk that remembers what was written in which order, and every state that a crash may leave it in."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

VARIANTS = ("all survives", "nothing unsynced", "half of what was unsynced", "a hole", "history only", "outputs only")
"""
What becomes of what was not made durable. A hole: its first half reads as zeros, the second half is there. The last
two: of one kind of file all of it, of the others nothing.
"""


@dataclass
class Trace:
    """Operations under a folder, in order."""

    root: Path
    steps: list[tuple[str, Path, Any]] = field(default_factory=list)

    def namespace(self) -> Any:
        """To be put where a module has its ``os``."""
        names = {name: getattr(os, name) for name in dir(os) if not name.startswith("__")}
        own = {"open": self._open, "write": self._write, "fsync": self._fsync, "rename": self._rename}
        more = {"ftruncate": self._ftruncate, "unlink": self._unlink}
        return SimpleNamespace(**{**names, **own, **more})

    def _note(self, what: str, path: Path, value: Any = None) -> None:
        if path == self.root or self.root in path.parents or path in self.root.parents:
            self.steps.append((what, path, value))

    def _open(self, path: Any, flags: int, *mode: int) -> int:
        there = Path(path).exists()
        fd = os.open(path, flags, *mode)
        if flags & os.O_CREAT and not there:
            self._note("create", Path(path))
        elif flags & os.O_TRUNC:
            self._note("cut", Path(path), 0)
        return fd

    def _write(self, fd: int, data: bytes) -> int:
        self._note("write", _path(fd), bytes(data))
        return os.write(fd, data)

    def _unlink(self, path: Any) -> None:
        there = Path(path).exists()
        Path(path).unlink()
        if there:
            self._note("unlink", Path(path))

    def _fsync(self, fd: int) -> None:
        self._note("sync", _path(fd))

    def _ftruncate(self, fd: int, size: int) -> None:
        self._note("cut", _path(fd), size)
        os.ftruncate(fd, size)

    def _rename(self, old: Any, new: Any) -> None:
        self._note("rename", Path(old), Path(new))
        Path(old).rename(new)


def _path(fd: int) -> Path:
    return Path(f"/proc/self/fd/{fd}").readlink()


@dataclass
class _File:
    cached: bytes = b""
    synced: bytes = b""


class Disk:
    """The files and names after some steps, cached and durable; folders are told by their files."""

    def __init__(self, root: Path, steps: list[tuple[str, Path, Any]]) -> None:
        self._root = root
        self._cached: dict[Path, _File] = {}
        self._durable: dict[Path, _File] = {}
        self._folders: set[Path] = set()  # of which the names in them are durable
        for what, path, value in steps:
            getattr(self, f"_{what}")(path, value)

    def _create(self, path: Path, _: Any) -> None:
        self._cached[path] = _File()

    def _write(self, path: Path, data: bytes) -> None:
        self._cached[path].cached += data

    def _unlink(self, path: Path, _: Any) -> None:
        del self._cached[path]

    def _cut(self, path: Path, size: int) -> None:
        self._cached[path].cached = self._cached[path].cached[:size]

    def _rename(self, old: Path, new: Path) -> None:
        self._cached[new] = self._cached.pop(old)

    def _sync(self, path: Path, _: Any) -> None:
        if path in self._cached:
            self._cached[path].synced = self._cached[path].cached
            return
        self._folders.add(path)
        names = {name: file for name, file in self._durable.items() if name.parent != path}
        self._durable = names | {name: file for name, file in self._cached.items() if name.parent == path}

    def _is_durable(self, path: Path) -> bool:
        """Its folder's own name, and so on up to the root, was made durable too."""
        above = [folder for folder in path.parents if self._root in folder.parents]
        return all(folder.parent in self._folders for folder in above)

    def after_crash(self, variant: str) -> dict[Path, bytes]:
        """The files there are then."""
        names = self._durable if variant == "nothing unsynced" else self._cached
        return {
            path: self._content(path, file, variant)
            for path, file in names.items()
            if variant != "nothing unsynced" or self._is_durable(path)
        }

    def _content(self, path: Path, file: _File, variant: str) -> bytes:
        if variant == "all survives":
            return file.cached
        rest = file.cached.removeprefix(file.synced)
        if variant == "a hole":
            return file.synced + bytes(len(rest) // 2) + rest[len(rest) // 2 :]
        kept = {
            "half of what was unsynced": len(rest) // 2,
            "history only": len(rest) if path.suffix == ".jsonl" else 0,
            "outputs only": 0 if path.suffix == ".jsonl" else len(rest),
        }.get(variant, 0)
        return file.synced + rest[:kept]


def crashes(trace: Trace) -> Iterator[tuple[int, str, dict[Path, bytes]]]:
    """Every number of steps, with every variant that is another state of the disk, or of what was said to be safe."""
    seen: set[tuple[Any, ...]] = set()
    for count in range(len(trace.steps) + 1):
        disk = Disk(trace.root, trace.steps[:count])
        said = sum(what == "sync" for what, _, _ in trace.steps[:count])
        for variant in VARIANTS:
            files = disk.after_crash(variant)
            key = (said, *sorted(files.items()))
            if key not in seen:
                seen.add(key)
                yield count, variant, files
