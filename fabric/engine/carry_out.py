"""Carries procedures out with nothing else going on, all at once, until the last has ended."""

from __future__ import annotations

from collections.abc import Iterable

from fabric.changes.procedure import Procedure
from fabric.engine.conductor import Conductor
from fabric.ports import Executor

_LOOK_UP_S = 60.0


def carry_out(procedures: Iterable[Procedure[None]], executor: Executor) -> None:
    """Run all of them at once; each ends by itself, because each of its steps has a limit."""
    conductor = Conductor(executor)
    for procedure in procedures:
        conductor.begin(procedure)
    while conductor.busy:
        for happening in executor.wait(min(conductor.next_s, executor.now() + _LOOK_UP_S)):
            conductor.take(happening)
        conductor.fire()
