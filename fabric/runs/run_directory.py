"""Run directories below a results folder: finding them, and writing the one of the present run.

run.json, events.jsonl and raw/ are the run; verdict.json and measurements.parquet are derived and may be deleted.
Folders that cannot be read are reported: another account's runs exist, too.

The output of tools is in ``raw/<phase>/<host>.out`` and ``.err``, one transcript a host and phase, appended. One file
per probe would mean 300,000 files of a few hundred bytes for 2,048 hosts, most of the time and 2.5 times the disk of a
run. Each entry starts with ``=== <probe id> attempt <n>``; ``fabric parse`` reads such a file as it is. Appended output
survives however the run's process dies, and is durable when the run has ended. No verdict rests on it, and making
thousands of files durable after each probe would take most of a run's time.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from fabric.errors import ConfigError, Problem, StoreError
from fabric.model.probe import CommandResult, Probe, ProbeResult
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

_SYNC_THREADS = 16
"""
Threads that wait for the disk: a file system makes many files durable with one commit (measured: 3 to 30 times as fast
as one after the other).
"""

MOST_TRANSCRIPT = 128 * MIB
"""Limit of a transcript that is read to show a probe's output (a choice: two days of a host make 2 MB)."""

RAW_FOLDER = "raw"
_ENTRY = b"=== "


class RawOutput:
    """Collects transcripts of the run in a directory; after ``flush`` they survive however this process ends."""

    def __init__(self, run: Path) -> None:
        self._run, self._folder = run, str(run / RAW_FOLDER)
        self._pending: defaultdict[str, list[str]] = defaultdict(list)
        self._begun: set[str] = set()  # transcripts that this process has written to
        self._made: set[str] = set()  # the folders of those

    def keep(self, result: ProbeResult, outputs: Sequence[CommandResult]) -> None:
        """Take the output of one probe's commands."""
        name = result.probe_id.rpartition("/")[0]
        head = f"=== {result.probe_id} attempt {result.attempt}\n"
        self._pending[f"{name}.out"] += [head, *[_transcript(output, output.stdout) for output in outputs]]
        errors = [_transcript(output, output.stderr) for output in outputs if output.stderr]
        if errors:
            self._pending[f"{name}.err"] += [head, *errors]

    def flush(self) -> None:
        """
        Append everything taken so far to the transcripts.

        Raises StoreError when the disk fails; what was not written is kept for the next flush.
        """
        for name in list(self._pending):
            path = f"{self._folder}/{name}"
            with storing(path):
                self._write(path, "".join(self._pending[name]).encode("utf-8", "replace"))
            del self._pending[name]

    def settle(self) -> None:
        """Make the transcripts and their names durable; call after ``flush``. Raises StoreError when the disk fails."""
        if not self._begun:
            return
        folders = [*sorted(self._made), self._folder, str(self._run)]
        with storing(self._folder):
            with ThreadPoolExecutor(_SYNC_THREADS) as pool:
                list(pool.map(sync_file, self._begun))
            for folder in folders:
                sync_folder(Path(folder))
        self._begun.clear()

    def _write(self, path: str, data: bytes) -> None:
        """Append to a transcript, on a new line: a process that died may have left a torn one."""
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
    Return all output of a probe's commands, standard output first; empty when none is kept.

    Raises StoreError for a transcript that cannot be read.
    """
    found: list[str] = []
    for path in (run / RAW_FOLDER / f"{probe_id.rpartition('/')[0]}{end}" for end in (".out", ".err")):
        with storing(path, "cannot read"), suppress(FileNotFoundError, NotADirectoryError):
            found += _entries(read_plain(path, MOST_TRANSCRIPT), f"{probe_id} attempt ".encode())
    return "".join(found)


def _entries(data: bytes, wanted: bytes) -> Iterator[str]:
    """Yield the entries that begin with *wanted*, without copying the rest of the transcript."""
    at = data.find(_ENTRY)
    while at >= 0:
        end = data.find(_ENTRY, at + len(_ENTRY))
        if data.startswith(wanted, at + len(_ENTRY)):
            yield data[at : end if end >= 0 else len(data)].decode("utf-8", "replace")
        at = end


def _transcript(result: CommandResult, text: str) -> str:
    """Return what a person would have seen: the command line, the output, and how it ended."""
    words = " ".join(result.command.argv)
    end = "" if text.endswith("\n") or not text else "\n"
    took_s = result.ended_s - result.started_s
    return f"$ [{result.command.host}] {words}\n{text}{end}[exit {result.exit_status} after {took_s:.1f} s]\n"


RUN = "run.json"


@dataclass(slots=True)
class RunFolders:
    """Folders below a results folder: *runs* have a run.json; *closed* cannot be looked into, with the reason."""

    runs: list[Path] = field(default_factory=list)
    closed: dict[Path, str] = field(default_factory=dict)


def run_folders(results: Path) -> RunFolders:
    """
    Return the run folders of every scenario, sorted by path; the link ``latest`` is not another run.

    Raises ConfigError when the results folder does not exist or cannot be read.
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
    """Return whether a directory has a run.json; ConfigError when that cannot be seen."""
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
    Return the run's own directory, given that, a link to it (``latest``), or a scenario's folder (its newest run).

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


CLOCKS_APART = timedelta(hours=1)
"""A run whose name is later than this from now was begun by a clock that was wrong (a choice)."""

RUN_FORMAT = 2
"""Version of run.json and events.jsonl; readers refuse any other."""


class RunDirectory:
    """
    The directory in which one run is written down while it happens; a resumed run appends to it.

    *added*: the probes that were planned during the run, in that order.
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
        with suppress(OSError):  # only a convenience: the run works without "latest"
            _point_latest(path)
        return run

    def started(self, probes: Sequence[Probe], at_s: float) -> None:
        """Record which probes begin now."""
        self.events.append("started", at_s, {"probes": [probe.probe_id for probe in probes]})

    def replanned(self, probes: Sequence[Probe], at_s: float, **why: str) -> None:
        """
        Record probes that were not in the plan, and why they are measured.

        *instead_of*: the probe that they replace, which lost a host; *because*: the follow-up that asked for them.
        """
        self.added.extend(probes)
        for probe in probes:
            self.events.append("replanned", at_s, {**why, **planned_fields(probe)})

    def finished(self, result: ProbeResult, outputs: Sequence[CommandResult], *, again: bool = False) -> None:
        """
        Record how a probe ended and keep its commands' output; durable after ``flush``.

        *again*: it will be tried once more, so this is not its result yet.
        """
        if outputs:
            self._raw.keep(result, outputs)
        fields = to_fields(result)
        self.events.append("finished", result.ended_s, {**fields, "again": True} if again else fields)

    def flush(self) -> None:
        """
        Write everything recorded: first the outputs, then the events that refer to them, which are durable afterwards.
        """
        self._raw.flush()
        self.events.flush()

    def close(self) -> None:
        """Make everything durable and close; events are not written when the output that they refer to cannot be."""
        try:
            self._raw.flush()
            self.events.close()
            self._raw.settle()
        except StoreError:
            self.events.abandon()
            raise


def _new_directory(parent: Path) -> Path:
    """
    Make a directory named by the time, to the microsecond, and return it.

    The name is the run's id, by which guards on hosts know whose change it is, even when another machine with results
    of its own begins the same scenario in the same second.
    """
    parent.mkdir(parents=True, exist_ok=True)
    while True:
        path = parent / datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
        with suppress(FileExistsError):
            path.mkdir(mode=0o755)  # undo commands are read from there: nobody else may write
            return path


def _point_latest(path: Path) -> None:
    """Point ``latest`` at this run; of two runs at once the later one wins."""
    link = path.parent / f".latest.{path.name}"
    link.symlink_to(path.name)
    try:
        link.rename(path.parent / "latest")
    except OSError:
        link.unlink()
        raise
