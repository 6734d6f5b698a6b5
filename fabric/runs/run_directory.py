"""
The run directories below a results folder, and which of them a person means; one directory while its run is written.

run.json, events.jsonl and raw/ are the run; verdict.json and measurements.parquet are derived and may be deleted. What
cannot be read is told: another account's runs are not no runs.

What the tools printed is ``raw/<phase>/<host>.out`` and ``.err``, one transcript a host and phase, appended. Not a
file a probe: 2,048 hosts would make 300,000 files of a few hundred bytes, most of the time and 2.5 times the disk of a
run. Each entry starts with ``=== <probe id> attempt <n>``; ``fabric parse`` reads such a file as it is. What is
appended is there however the run dies, and durable when the run has ended: no verdict rests on it, and to make
thousands of files durable after each probe would be what a run spends its time with.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from fabric.errors import ConfigError, Problem, StoreError
from fabric.model.command import CommandResult
from fabric.model.probe import Probe, ProbeResult
from fabric.runs.events import EVENTS, EventLog, planned_fields, to_fields
from fabric.runs.plain_file import (
    MIB,
    append,
    is_there,
    make_folder,
    open_plain,
    read_plain,
    reading,
    storing,
    sync_file,
    sync_folder,
    write_durably,
)

_SYNCING = 16
"""Threads that wait for the disk: a file system makes many files durable with one commit (measured: 3 to 30 times as
fast as one after the other)."""

MOST_TRANSCRIPT = 128 * MIB
"""Of one that is read to show what a probe printed (a choice: two days of a host make 2 MB)."""

FOLDER = "raw"
_ENTRY = b"=== "


class RawOutput:
    """Collects transcripts of the run in a directory; after ``flush`` they are there however this process ends."""

    def __init__(self, run: Path) -> None:
        self._run, self._folder = run, str(run / FOLDER)
        self._pending: dict[str, list[str]] = {}
        self._begun: set[str] = set()  # transcripts that this process has written to
        self._made: set[str] = set()  # and their folders

    def keep(self, result: ProbeResult, outputs: Sequence[CommandResult]) -> None:
        """Take what the commands of one probe printed."""
        name = result.probe_id.rpartition("/")[0]
        head = f"=== {result.probe_id} attempt {result.attempt}\n"
        entry = self._pending.setdefault(f"{name}.out", [])
        entry.append(head)
        entry.extend([_transcript(output, output.stdout) for output in outputs])
        errors = [_transcript(output, output.stderr) for output in outputs if output.stderr]
        if errors:
            self._pending.setdefault(f"{name}.err", []).extend([head, *errors])

    def flush(self) -> None:
        """
        Append everything taken so far to the transcripts.

        Raises StoreError when the disk says no; what was not written is kept for the next flush.
        """
        for name in list(self._pending):
            path = f"{self._folder}/{name}"
            with storing(path):
                self._write(path, "".join(self._pending[name]).encode("utf-8", "replace"))
            del self._pending[name]

    def settle(self) -> None:
        """Make the transcripts and their names durable: all was flushed. Raises StoreError when the disk says no."""
        if not self._begun:
            return
        folders = [*sorted(self._made), self._folder, str(self._run)]
        with storing(self._folder):
            with ThreadPoolExecutor(_SYNCING) as pool:
                list(pool.map(sync_file, self._begun))
            for folder in folders:
                sync_folder(Path(folder))
        self._begun.clear()

    def _write(self, path: str, data: bytes) -> None:
        """Behind what is there, on a line of its own: a process that died may have left a torn one."""
        folder = path.rpartition("/")[0]
        if folder not in self._made:
            make_folder(self._folder)
            make_folder(folder)
            self._made.add(folder)
        fd = open_plain(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            end = os.fstat(fd).st_size
            if end and path not in self._begun and os.pread(fd, 1, end - 1) != b"\n":
                data = b"\n" + data
            append(fd, data, end=end)
            self._begun.add(path)
        finally:
            os.close(fd)


def raw_entries(run: Path, probe_id: str) -> str:
    """
    Everything that a probe's commands printed, standard output first; empty when nothing is kept of it.

    Raises StoreError for a transcript that cannot be read.
    """
    found: list[str] = []
    for path in (run / FOLDER / f"{probe_id.rpartition('/')[0]}{end}" for end in (".out", ".err")):
        with storing(path, "cannot read"), suppress(FileNotFoundError, NotADirectoryError):
            found += _entries(read_plain(path, MOST_TRANSCRIPT), f"{probe_id} attempt ".encode())
    return "".join(found)


def _entries(data: bytes, wanted: bytes) -> Iterator[str]:
    """What begins with these words; the rest of a transcript is not copied."""
    at = data.find(_ENTRY)
    while at >= 0:
        end = data.find(_ENTRY, at + len(_ENTRY))
        if data.startswith(wanted, at + len(_ENTRY)):
            yield data[at : end if end >= 0 else len(data)].decode("utf-8", "replace")
        at = end


def _transcript(result: CommandResult, text: str) -> str:
    """What a person would have seen: the command line, the output, how it ended."""
    words = " ".join(result.command.argv)
    end = "" if text.endswith("\n") or not text else "\n"
    took_s = result.ended_s - result.started_s
    return f"$ [{result.command.host}] {words}\n{text}{end}[exit {result.exit_status} after {took_s:.1f} s]\n"


RUN = "run.json"


@dataclass(slots=True)
class RunFolders:
    """*runs* have a run.json; *closed* is what cannot be looked into, where more may be, and why."""

    runs: list[Path] = field(default_factory=list)
    closed: dict[Path, str] = field(default_factory=dict)


def run_folders(results: Path) -> RunFolders:
    """
    Those of every scenario, sorted by path; ``latest`` is a link and not another run.

    Raises ConfigError where the folder itself is none, or cannot be read.
    """
    with reading(results):
        try:
            scenarios = _folders_in(results)
        except (FileNotFoundError, NotADirectoryError) as exc:
            text = "no folder of runs (expected <scenario>/<run>/run.json below it): give a run, or --results"
            raise ConfigError.at(results, text) from exc
    found = RunFolders()
    for scenario in scenarios:
        _add_runs(scenario, found)
    return found


def is_run(path: Path) -> bool:
    """Whether a directory has a run.json; ConfigError where that cannot be seen."""
    with reading(path):
        return is_there(path / RUN)


def _add_runs(scenario: Path, found: RunFolders) -> None:
    at = scenario
    try:
        for at in _folders_in(scenario):
            if not at.is_symlink() and _has_document(at, found):
                found.runs.append(at)
    except (FileNotFoundError, NotADirectoryError):  # it went away meanwhile
        return
    except OSError as exc:
        found.closed[at] = str(exc.strerror)


def _has_document(path: Path, found: RunFolders) -> bool:
    try:
        return is_there(path / RUN)
    except OSError as exc:
        found.closed[path] = str(exc.strerror)
        return False


def _folders_in(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        return sorted(Path(entry.path) for entry in entries if entry.is_dir())


def run_path(path: Path) -> Path:
    """
    The directory of the run itself: *path* is that, a link to it (``latest``), or a scenario's folder (its newest).

    A path that holds no run is returned as it is. ConfigError for one that cannot be read.
    """
    if not is_run(path):
        latest = path / "latest"
        path = latest if is_run(latest) else _newest(path)
    return path.parent / path.readlink() if path.is_symlink() else path


def _newest(path: Path) -> Path:
    found = RunFolders()
    _add_runs(path, found)
    if not found.runs and found.closed:
        raise ConfigError(Problem(str(shut), 0, f"cannot read: {why}") for shut, why in found.closed.items())
    return found.runs[-1] if found.runs else path


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
            write_durably(path / RUN, orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n")
            run = RunDirectory(path)
        with suppress(OSError):  # a convenience: where "latest" cannot be a link, the run is no worse
            _point_latest(path)
        return run

    def started(self, probes: Sequence[Probe], at_s: float) -> None:
        """Note which probes begin now."""
        self.events.append("started", at_s, {"probes": [probe.probe_id for probe in probes]})

    def replanned(self, probes: Sequence[Probe], at_s: float, **why: str) -> None:
        """
        Note probes that were not in the plan, and why they are measured.

        *instead_of*: instead of this one, which lost a host; *because*: a follow-up of this name asked for them.
        """
        self.added.extend(probes)
        for probe in probes:
            self.events.append("replanned", at_s, {**why, **planned_fields(probe)})

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
