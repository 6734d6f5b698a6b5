"""What a run's history says is done, begun, decided and readmitted: from this an interrupted run goes on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fabric.errors import StoreError
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.repair import Readmission
from fabric.runs.events import Event, history_of, read_events, replanned
from fabric.runs.plain_file import is_there


@dataclass(frozen=True, slots=True)
class Round:
    """What a follow-up was given in one phase: how many rounds and probes, and when the first began (seconds)."""

    rounds: int
    probes: int
    since_s: float


@dataclass(frozen=True, slots=True)
class Progress:
    """
    How far a run came.

    *results* are those that stand, in order of finishing; *attempts* how often each probe was begun. *ended* names the
    phases that are over, *out* the hosts and parts that went out of the run, and why. *instead* tells which probe was
    planned for which (its id) that lost a host, *rounds* what each follow-up was given: by phase, then by name.
    *bad_rounds* counts those that hosts had one after the other, by the written name of the phase, *rounds_judged*
    names the phases in which that changed; *left_out* says who is left out because of it, and why, *readmitted* when
    hosts were last let in again (seconds), *on_trial* those of them that had no good round since.
    *phases_began* says when each phase first began, *not_begun* names rounds for which there was no time.
    *at_s* is the last moment of its clock, *began_s* the first. *resumed* counts how often it went on.
    """

    results: Mapping[str, ProbeResult] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    out: Mapping[str, str] = field(default_factory=dict)
    added: tuple[Probe, ...] = ()
    instead: tuple[tuple[str, Probe], ...] = ()
    rounds: Mapping[str, Mapping[str, Round]] = field(default_factory=dict)
    bad_rounds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    rounds_judged: frozenset[str] = frozenset()
    left_out: Mapping[str, str] = field(default_factory=dict)
    readmitted: Mapping[str, float] = field(default_factory=dict)
    on_trial: frozenset[str] = frozenset()
    phases_began: Mapping[str, float] = field(default_factory=dict)
    not_begun: frozenset[str] = frozenset()
    began_s: float = 0.0
    at_s: float = 0.0
    resumed: int = 0
    begun: bool = False
    over: bool = False

    @property
    def half_done(self) -> tuple[str, ...]:
        """The ids of the probes that were begun and have no result that stands."""
        return tuple(probe_id for probe_id in self.attempts if probe_id not in self.results)


def progress_of(events: Iterable[Event]) -> Progress:
    """Read a history from its beginning."""
    try:
        return _read(list(events))
    except (KeyError, TypeError, ValueError) as exc:
        raise StoreError(f"the history of this run is not as this version writes it: {exc!r}") from exc


def _read(events: list[Event]) -> Progress:
    of: dict[str, list[Event]] = defaultdict(list)
    stands: dict[str, bool] = {}
    for event in events:
        of[event["event"]].append(event)
        if event["event"] == "started":
            stands.update(dict.fromkeys(event["probes"], False))
        elif event["event"] == "finished":
            stands[event["probe"]] = not event.get("again", False)
    why, added = of["replanned"], tuple(replanned(of["replanned"]))
    return Progress(
        results={name: result for name, result in history_of(of["finished"]).results.items() if stands[name]},
        attempts=Counter(probe_id for event in of["started"] for probe_id in event["probes"]),
        ended=frozenset(event["phase"] for event in of["phase_ended"]),
        added=added,
        instead=tuple((e["instead_of"], probe) for e, probe in zip(why, added, strict=True) if "instead_of" in e),
        rounds=_rounds(why),
        rounds_judged=frozenset(event["phase"] for event in of["round_judged"]),
        phases_began={event["phase"]: float(event["at_s"]) for event in reversed(of["phase_started"])},
        not_begun=not_begun(of["rounds_over"]),
        began_s=events[0]["at_s"] if events else 0.0,
        at_s=max((event["at_s"] for event in events), default=0.0),
        resumed=len(of["resumed"]),
        begun=bool(events),
        over=bool(of["run_ended"]),
        **_hosts(events),
    )


def _rounds(why: Iterable[Event]) -> dict[str, dict[str, Round]]:
    """What was given in one round was noted at one moment."""
    found: dict[str, dict[str, Round]] = {}
    last: tuple[str, str, float] | None = None
    for event in why:
        if "because" not in event:
            continue
        phase, name, at_s = event["phase"], event["because"], event["at_s"]
        had = found.setdefault(phase, {}).get(name, Round(0, 0, at_s))
        new = (phase, name, at_s) != last
        found[phase][name] = Round(had.rounds + new, had.probes + 1, had.since_s)
        last = phase, name, at_s
    return found


def _hosts(events: Iterable[Event]) -> dict[str, Any]:
    """What ``Progress`` has of hosts; who was readmitted is in, with all its parts, and counts anew."""
    out: dict[str, str] = {}
    left_out: dict[str, str] = {}
    bad_rounds: dict[str, dict[str, int]] = {}
    readmitted: dict[str, float] = {}
    on_trial: frozenset[str] = frozenset()
    for event in events:
        if event["event"] == "out":
            out[event["component"]] = event["reason"]
        elif event["event"] == "round_judged":
            left_out.update(event["left_out"])
            bad_rounds[event["written"]] = dict(event["bad_rounds"])
            on_trial = frozenset(event.get("on_trial", ()))
        elif event["event"] == "readmitted":
            host = event["component"]
            readmitted[host] = float(event["at_s"])
            out = {name: why for name, why in out.items() if Part.of(name).host != host}
            on_trial |= {host}
            left_out.pop(host, None)
            for counts in bad_rounds.values():
                counts.pop(host, None)
    return {
        "out": out,
        "left_out": left_out,
        "bad_rounds": bad_rounds,
        "readmitted": readmitted,
        "on_trial": on_trial,
    }


def not_begun(events: Iterable[Event]) -> frozenset[str]:
    """The rounds (names of phases) that the clock left out."""
    return frozenset(name for event in events if event["event"] == "rounds_over" for name in event["phases"])


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
    times = _readmissions(read_events(history, "readmitted", "round_judged"))
    return Readmissions(times, float(next(read_events(history))["at_s"])) if times else Readmissions()


def _readmissions(events: Iterable[Event]) -> tuple[Readmission, ...]:
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
