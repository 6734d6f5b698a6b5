"""
One run's directory: ``results/<scenario>/<run-id>/``.

run.json, events.jsonl and raw/ are the run; verdict.json and measurements.parquet are derived and may be deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from fabric.errors import StoreError
from fabric.model.command import CommandResult
from fabric.model.probe import Probe, ProbeResult
from fabric.runs.durable import write_durably
from fabric.runs.events import EVENTS, EventLog, planned_fields, to_fields
from fabric.runs.plain_file import storing
from fabric.runs.raw import RawOutput

RUN_FORMAT = 2
"""Version of run.json and events.jsonl; a reader refuses what it does not know."""


class RunDirectory:
    """
    Where one run is written down while it happens; of a run that goes on, behind what is there.

    *added*: the probes that were planned while the run went on, in that order.
    """

    def __init__(self, path: Path, *, added: Iterable[Probe] = ()) -> None:
        self.path = path
        self.added = list(added)
        self.events = EventLog(path / EVENTS)
        self._raw = RawOutput(path)

    @staticmethod
    def create(results: Path, scenario_name: str, document: Mapping[str, Any]) -> RunDirectory:
        """Make a new directory, write run.json, point ``latest`` at it; raises StoreError with the reason."""
        with storing(results, inside=True):
            path = _new_directory(results / scenario_name)
            body = {"format": RUN_FORMAT, "run_id": path.name, **document}
            write_durably(path / "run.json", orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n")
            run = RunDirectory(path)
        with suppress(OSError):  # a convenience: where "latest" cannot be a link, the run is no worse
            _point_latest(path)
        return run

    def started(self, probes: Sequence[Probe], at_s: float) -> None:
        """Note which probes begin now."""
        self.events.append("started", at_s, {"probes": [probe.probe_id for probe in probes]})

    def replanned(self, probe: Probe, instead_of: str, at_s: float) -> None:
        """Note a probe that was not in the plan: it is measured instead of another, which lost a host."""
        self.added.append(probe)
        self.events.append("replanned", at_s, {"instead_of": instead_of, **planned_fields(probe)})

    def followed_up(self, probes: Sequence[Probe], because: str, at_s: float) -> None:
        """Note probes that were not in the plan: *because* names the follow-up that asked for them."""
        self.added.extend(probes)
        for probe in probes:
            self.events.append("replanned", at_s, {"because": because, **planned_fields(probe)})

    def finished(self, result: ProbeResult, outputs: Sequence[CommandResult], *, again: bool = False) -> None:
        """
        Note how a probe ended and keep what its commands printed; durable after ``flush``.

        *again*: it will be tried once more, so this is not yet its result.
        """
        if outputs:
            self._raw.keep(result, outputs)
        fields = to_fields(result)
        self.events.append("finished", result.ended_s, {**fields, "again": True} if again else fields)

    def flush(self) -> None:
        """Write everything noted so far: outputs first, then the events that speak of them, which are durable then."""
        self._raw.flush()
        self.events.flush()

    def close(self) -> None:
        """Make everything durable and let go; an event is not written when the output that it speaks of cannot be."""
        try:
            self._raw.flush()
            self.events.close()
            self._raw.settle()
        except StoreError:
            self.events.abandon()
            raise


def _new_directory(parent: Path) -> Path:
    """
    Named by the time, to the microsecond: the name is the run's id, by which guards on hosts know whose change it is,
    also where another machine with results of its own begins the same scenario in the same second.
    """
    parent.mkdir(parents=True, exist_ok=True)
    while True:
        path = parent / datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
        with suppress(FileExistsError):
            path.mkdir(mode=0o755)  # what undoes a change is read from there: nobody else writes it
            return path


def _point_latest(path: Path) -> None:
    """Point ``latest`` at this run; two runs at once may race, and the later one wins."""
    link = path.parent / f".latest.{path.name}"
    link.symlink_to(path.name)
    try:
        link.rename(path.parent / "latest")
    except OSError:
        link.unlink()
        raise
