"""Which hosts were let in again while a run went on, and when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from fabric.model.readmission import Readmission
from fabric.store.events import Event, read_events
from fabric.store.plain_file import is_there


@dataclass(frozen=True, slots=True)
class Readmissions:
    """*times*: each time that a host was let in again, in order; *began_s*: when the run began (seconds)."""

    times: tuple[Readmission, ...] = ()
    began_s: float = 0.0

    @property
    def at_s(self) -> dict[str, float]:
        """When each host was last let in again; not of one that was still bad: nothing shows that it was repaired."""
        last = {one.host: one for one in self.times}
        return {host: one.at_s for host, one in last.items() if not one.still_bad}


def read_readmissions(history: Path) -> Readmissions:
    """Those of a run's events.jsonl; StoreError when it cannot be read."""
    if not is_there(history):
        return Readmissions()
    times = readmissions(read_events(history, "readmitted", "round_judged"))
    return Readmissions(times, float(next(read_events(history))["at_s"])) if times else Readmissions()


def readmissions(events: Iterable[Event]) -> tuple[Readmission, ...]:
    """Every one of a history, and what became of the host."""
    found: list[Readmission] = []
    on_trial: dict[str, int] = {}  # by host: its place
    for event in events:
        if event["event"] == "readmitted":
            on_trial[event["component"]] = len(found)
            found.append(Readmission(event["component"], float(event["at_s"]), str(event.get("reason", ""))))
        elif event["event"] == "round_judged":
            for host, place in on_trial.items():
                if host in event["left_out"]:
                    found[place] = replace(found[place], still_bad=event["left_out"][host])
            on_trial = {host: place for host, place in on_trial.items() if host in event.get("on_trial", ())}
    return tuple(found)
