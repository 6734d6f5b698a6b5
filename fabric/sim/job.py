"""What a command line means before it runs anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fabric.sim.process import Process
from fabric.sim.rack import Rack


class Job(Protocol):
    """A program with its arguments; one job may run many times, on many hosts."""

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Start on the process's host; what becomes of it goes to the rack's timeline."""
        ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What surrounds a program: its environment, the memory node it is bound to, the text it was given."""

    env: Mapping[str, str] = field(default_factory=dict)
    numa: int | None = None
    hosts: tuple[str, ...] = ()  # one name per rank when a launcher starts it, in rank order
    tag: str | None = None  # "mpirun" or "srun" when the launcher marks every line with its rank
