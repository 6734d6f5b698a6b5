"""An ``os`` whose disk is full from some call on."""

import errno
import os
from types import SimpleNamespace
from typing import Any


class FullDisk:
    """Counts what writes (write, fsync, rename); from call number *at* on, from 1, each fails with ENOSPC."""

    def __init__(self, at: int, *, calls: tuple[str, ...] = ("write", "fsync", "rename"), short: bool = False) -> None:
        self._at, self._names, self._short = at, calls, short
        self.calls = 0

    @property
    def failed(self) -> bool:
        """It has said no."""
        return self.calls >= self._at

    def namespace(self) -> Any:
        """To be put where a module has its ``os``."""
        names = {name: getattr(os, name) for name in dir(os) if not name.startswith("__")}
        return SimpleNamespace(**{**names, **{name: self._counted(name) for name in self._names}})

    def _counted(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            self.calls += 1
            if self.calls < self._at:
                return getattr(os, name)(*args)
            if self._short and name == "write" and self.calls == self._at:
                return getattr(os, name)(args[0], bytes(args[1])[: max(1, len(args[1]) // 2)], *args[2:])  # half of it
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return call


def full_disk(failing: str) -> Any:
    """From now on each ``write`` or ``fsync`` fails; "short write": the first finds room for half."""
    name = failing.split()[-1]
    return FullDisk(1, calls=(name,), short=failing.startswith("short")).namespace()
