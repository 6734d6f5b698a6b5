"""
Hosts that Slurm names, and a run's own reservation of its hosts: no job begins there while they are measured.

A reservation is no change of the fabric: it stands on no host, where a guard could end it, and other runs may measure
beside it. So the ledger has it, with the same order of writing: a line on disk, then Slurm is told, then it is read
back. Slurm itself ends it when its time is over: that is its lease.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from fabric.app.scheduler import Run, run_here
from fabric.engine.interruption import listening
from fabric.errors import ConfigError, FabricError, MayBeLive, ToolError
from fabric.model.text import fold
from fabric.plan.plan import Plan
from fabric.report.changes import Restored
from fabric.runs.journal import LEDGER, Written, reservations
from fabric.runs.run_lock import running
from fabric.tools import slurm
from fabric.tools.driver import complaint, need_success

_MARGIN, _LEAST_MARGIN_S = 0.2, 600.0
"""What is reserved beyond the planned time (choices): probes that are tried again, hosts that are slow to answer."""

_TRIES, _PAUSE_S = 5, 1.0
"""To give back (choices): Slurm refuses while a job of ours in it ends."""


def hosts_of(*, job: str | None, reserved: str | None, run: Run = run_here) -> str:
    """The hosts of a job, or of a reservation, as ``--hosts`` takes them; ConfigError where Slurm names none."""
    option, given = ("--slurm-job", job) if job is not None else ("--reservation", reserved or "")
    try:
        if job is None:
            listed = _nodes(given, run)
        else:
            said = run(slurm.job_nodes(given))
            need_success("squeue", said.stdout, said.stderr, said.exit_status)
            listed = said.stdout.strip()
        if not listed:
            raise ToolError("it has no nodes (yet, or any more)")
        return ",".join(_unfolded(listed, run))
    except (ToolError, ValueError) as exc:
        raise ConfigError.at(option, f"{given}: {exc}") from exc


def minutes(plan: Plan) -> int:
    """
    How long the hosts of a plan are reserved: its planned time and a margin.

    Raises ConfigError where the plan starts programs by ``srun``: their jobs would wait for the run's own reservation.
    """
    if any(probe.params.get("launcher") == "srun" for phase in plan.phases for probe in phase.planned):
        raise ConfigError.at("--reserve", "not with launcher: srun, whose jobs would wait for this reservation to end")
    return ceil((plan.duration_s + max(_LEAST_MARGIN_S, _MARGIN * plan.duration_s)) / 60)


class Reservation:
    """The hosts of one run, reserved in Slurm from ``take`` until the block ends; *say* is told what was done."""

    def __init__(self, say: Callable[[str], None], *, run: Run = run_here) -> None:
        self._say, self._run = say, run
        self._path: Path | None = None

    def take(self, path: Path, hosts: Sequence[str], plan: Plan) -> None:
        """
        Reserve *hosts* for the run at *path*, named ``fabric-<run id>``, for its planned time and a margin.

        It excludes jobs and other reservations (so it has no MAINT flag). Raises ToolError with Slurm's own words where
        that is refused, as while a job runs on one of them; StoreError where it cannot be written down.
        """
        path, nodes, lasts = path.resolve(), fold(hosts), minutes(plan)
        name, results = _name(path), path.parent.parent
        try:
            command = slurm.reserve(name, nodes, _account(), lasts)
        except ValueError as exc:
            raise ToolError(f"slurm: not reserved: {exc}") from exc
        with Written(results / LEDGER, name, "reserve", run=str(path.relative_to(results)), nodes=nodes) as written:
            self._path = path
            said = self._run(command)
            listed = _nodes(name, self._run)
            written.state = "refused" if listed is None else "not seen" if said.exit_status else "done"
        if listed is None:
            self._path = None
        if listed is None or said.exit_status:
            raise ToolError(f"slurm: {nodes} cannot be reserved: {complaint(said.stdout, said.stderr)}")
        if {*_unfolded(listed, self._run)} != {*hosts}:
            raise ToolError(f"slurm: {nodes} cannot be reserved: {name} has {listed} instead")
        self._say(f"slurm: {nodes} reserved for {lasts} min: {name}")

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *_: object) -> None:
        """Give it back; MayBeLive where it was not seen to be gone."""
        if self._path is None:
            return
        with listening(lambda: None):  # another Ctrl-C must not leave it behind
            path, self._path = self._path, None
            try:
                was_there = _given_back(_name(path), path.parent.parent, self._run)
            except FabricError as exc:
                raise MayBeLive(f"slurm: {exc}; it ends by itself, or at once by: fabric restore {path}") from exc
            self._say("slurm: given back" if was_there else "slurm: it had ended already: jobs may have run beside us")


def give_back_all(results: Path, only: Path | None = None, *, run: Run = run_here) -> Iterator[Restored]:
    """Give back what dead runs below *results* reserved and may still have, or the run *only*."""
    for name, path in reservations(results).items():
        if (only is not None and path != only) or running(path) is not None:
            continue
        try:
            said = "given back" if _given_back(name, results, run) else "it had ended by itself"
            yield Restored(str(path), name, "slurm", said, certain=True)
        except FabricError as exc:
            yield Restored(str(path), name, "slurm", f"{exc}; it ends by itself", certain=False)


def _given_back(name: str, results: Path, run: Run) -> bool:
    """False where there was nothing to give back any more; ToolError where it was not seen to be gone."""
    with Written(results / LEDGER, name, "unreserve") as written:
        was_there = _nodes(name, run) is not None
        for _ in range(_TRIES if was_there else 0):
            said = run(slurm.unreserve(name))
            if _nodes(name, run) is None:
                break
            time.sleep(_PAUSE_S)
        else:
            if was_there:
                raise ToolError(f"the reservation {name} still stands: {complaint(said.stdout, said.stderr)}")
        written.state = "done"
    return was_there


def _name(path: Path) -> str:
    """A run's id is its own in the whole world, so this name is."""
    return f"fabric-{path.name}"


def _account() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError as exc:
        raise ToolError("slurm: not reserved: this account has no name") from exc


def _nodes(name: str, run: Run) -> str | None:
    said = run(slurm.reservation(name))
    return slurm.reserved(name, said.stdout, said.stderr, said.exit_status)


def _unfolded(listed: str, run: Run) -> tuple[str, ...]:
    try:
        names: Any = run(slurm.unfold(listed))
    except ValueError as exc:
        raise ToolError(f"slurm: {listed[:80]!r} is no list of nodes") from exc
    need_success("scontrol", names.stdout, names.stderr, names.exit_status)
    return tuple(dict.fromkeys(names.stdout.split()))
