"""Simulated time: coming events, past events, and the processes that live."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import Protocol

from fabric.sim.hosts.site import Act, Sharing, Site


@dataclass(frozen=True, slots=True)
class Listening:
    """A process began to accept connections on its TCP port."""

    pid: int
    port: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Exited:
    """A process ended; *exit_status* is as in a shell (128 + N after signal N)."""

    pid: int
    at_s: float
    exit_status: int
    stdout: str
    stderr: str


Happened = Listening | Exited


class Occupation(Protocol):
    """The work that a process is busy with."""

    def abandon(self, process: Process, at_s: float) -> None:
        """Let go of everything: the process was killed."""


@dataclass(slots=True, eq=False)
class Process:
    """One started command until it ends; *printed* is what has left its buffers."""

    pid: int
    site: Site
    work: Occupation | None = None
    printed: str = ""

    def let_go(self, at_s: float) -> None:
        """Give up the work that the process is busy with."""
        if self.work is not None:
            self.work.abandon(self, at_s)


class Timeline:
    """The events of one world, ordered by time, and by creation within one instant."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Act]] = []
        self._made = 0
        self.now_s = 0.0
        self.happened: list[Happened] = []
        self.alive: dict[int, Process] = {}
        self.silent: dict[int, Process] = {}  # processes of hosts that hung or went away: they never answer
        self.sharing = Sharing(self.at)

    def at(self, at_s: float, act: Act) -> None:
        """Schedule an action for a later time."""
        self._made += 1
        heappush(self._heap, (at_s, self._made, act))

    def exit(self, process: Process, at_s: float, *, status: int, stdout: str = "", stderr: str = "") -> None:
        """End a process now; one that has already ended stays as it is."""
        if self.alive.pop(process.pid, None) is not None:
            process.work = None
            self.happened.append(Exited(process.pid, at_s, status, stdout, stderr))

    def exit_later(self, process: Process, at_s: float, *, status: int, stdout: str = "", stderr: str = "") -> None:
        """End a process at a later time, unless it is killed before."""
        process.printed = stdout
        self.at(at_s, partial(self.exit, process, status=status, stdout=stdout, stderr=stderr))

    def silence(self, site: Site, at_s: float) -> None:
        """
        Silence a host that hangs or is gone: its programs never answer, and those that wait for them run into their
        deadline.
        """
        for pid, process in list(self.alive.items()):
            if process.site is site:
                process.let_go(at_s)
                process.work = None
                self.silent[pid] = self.alive.pop(pid)

    def run(self, until_s: float) -> None:
        """Let everything happen up to and including *until_s*; shares are settled once an instant, at its end."""
        heap = self._heap
        sharing = self.sharing
        while True:
            if sharing.dirty and (not heap or heap[0][0] > self.now_s):
                sharing.settle(self.now_s)
            elif heap and heap[0][0] <= until_s:
                self.now_s, _, act = heappop(heap)
                act(self.now_s)
            else:
                break
        if until_s > self.now_s:
            self.now_s = until_s

    def next_s(self) -> float:
        """
        Return when the next thing happens; infinite when nothing will. An event that was not drained yet counts as now.
        """
        if self.happened:
            return self.now_s
        while self.sharing.dirty:  # settling may mark hosts that must be settled again
            self.sharing.settle(self.now_s)
        return self._heap[0][0] if self._heap else inf

    def drain(self) -> list[Happened]:
        """Return what has happened since the last call, in order."""
        happened = self.happened
        self.happened = []
        return happened
