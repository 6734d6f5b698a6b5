"""Lets hosts that were repaired into a run again; the run does it before its next phase."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import PydanticCustomError

from fabric.config.folded import FoldedNames
from fabric.config.wording import nearest
from fabric.engine.readmit_files import FOLDER
from fabric.errors import ConfigError, Problem, StoreError
from fabric.store.durable import write_durably
from fabric.store.events import FILE as EVENTS
from fabric.store.events import Event, read_events
from fabric.store.plain_file import is_there
from fabric.store.run_document import go_on_command, read_run
from fabric.store.run_folders import run_path
from fabric.store.run_lock import running
from fabric.store.so_far import so_far

MOST_NAMES = 10_000
"""Of one set of hosts (a choice: each becomes a file in the run's directory)."""


@dataclass(frozen=True, slots=True)
class Readmitted:
    """
    Which *hosts* a run was asked to let in again.

    *at_work*: somebody works on it now, else it must go on first, by the command *go_on*.
    """

    run: str
    hosts: tuple[str, ...]
    at_work: bool
    go_on: str


def readmit(path: Path, hosts: Sequence[str]) -> Readmitted:
    """
    Ask a run to measure hosts again that it left out, or that had stopped answering.

    *hosts* are names or sets of names (``gpu[003,011]``), or ``all``: every host that is out of the run. Raises
    ConfigError with everything that is wrong: no run, one that has ended, a host that it does not have or that is not
    left out. StoreError when the run cannot be asked.
    """
    path = run_path(path)
    document = read_run(path)
    events = list(read_events(path / EVENTS)) if is_there(path / EVENTS) else []
    if any(event["event"] == "run_ended" for event in events):
        text = "this run has ended: validate the repair by itself, fabric run scenarios/post-repair.yaml --because RUN"
        raise ConfigError([Problem(str(path), 0, text)])
    known, away = tuple(document["asked"]["scenario"]["hosts"]), _away(events)
    wanted, said = _unfolded(hosts, sorted(away))
    said += [text for host in wanted for text in _wrong(host, known, away)]
    if said:
        raise ConfigError(Problem("HOST", 0, text) for text in said)
    for host in wanted:
        _ask(path / FOLDER, host)
    return Readmitted(str(path), wanted, running(path) is not None, go_on_command(path, document))


def _unfolded(texts: Sequence[str], away: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """The hosts that are meant, each once, in the order written; and what is wrong with the texts."""
    found: dict[str, None] = {}
    said: list[str] = []
    for text in texts:
        if text == "all":
            found.update(dict.fromkeys(away))
            said += [] if away else ["no host is out of the run: nothing to readmit"]
            continue
        try:
            found.update(dict.fromkeys(FoldedNames(MOST_NAMES).parse(text).names()))
        except PydanticCustomError as exc:
            said.append(exc.message())
        except ValueError as exc:
            said.append(f"{text}: {exc}")
    return tuple(found), said


def _ask(folder: Path, host: str) -> None:
    try:
        folder.mkdir(mode=0o755, exist_ok=True)
        if folder.is_symlink():
            raise StoreError(f"{folder}: cannot write: a link, which leads somewhere else")
        write_durably(folder / host, b"")
    except OSError as exc:
        raise StoreError(f"{folder / host}: cannot write: {exc.strerror}") from exc


def _away(events: Iterable[Event]) -> set[str]:
    """Hosts that take no part now: left out, not answering (they, or a part), or not let into the present phase."""
    known = list(events)
    done = so_far(known)
    found = {*done.left_out, *(name.partition("/")[0] for name in done.out)}
    excluded: set[str] = set()
    for event in known:
        if event["event"] == "phase_started":
            excluded = set(event["excluded"])
        elif event["event"] == "readmitted":
            excluded.discard(event["component"])
    return found | excluded


def _wrong(host: str, known: Sequence[str], away: set[str]) -> list[str]:
    if host not in known:
        return [f"no host '{host}' in this run{nearest(host, known)}"]
    if host in away:
        return []
    gone = ", ".join(sorted(away)) or "none"
    return [f"{host} takes part: nothing to readmit (out of the run: {gone})"]
