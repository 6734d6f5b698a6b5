"""A running program of the simulated rack, and what there is to give up when it is killed."""

from __future__ import annotations

from typing import Protocol

from fabric.sim.site import Site


class Work(Protocol):
    """What a process is busy with."""

    def abandon(self, process: Process, at_s: float) -> None:
        """Let go of everything: the process was killed."""
        ...


class Process:
    """One started command until it ends; *printed* is what has left its buffers."""

    __slots__ = ("pid", "printed", "site", "work")

    def __init__(self, pid: int, site: Site) -> None:
        self.pid = pid
        self.site = site
        self.work: Work | None = None
        self.printed = ""
