"""What a run's history says is done, begun and decided: from this an interrupted run goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fabric.errors import StoreError
from fabric.model.probe import Probe, ProbeResult
from fabric.store.events import Event
from fabric.store.results import from_events, replanned


@dataclass(frozen=True, slots=True)
class Round:
    """What a follow-up was given in one phase: how many rounds and probes, and when the first began (seconds)."""

    rounds: int
    probes: int
    since_s: float


@dataclass(frozen=True, slots=True)
class SoFar:
    """
    How far a run came.

    *results* are those that stand, in order of finishing; *attempts* how often each probe was begun. *ended* names the
    phases that are over, *out* the hosts and parts that went out of the run, and why. *instead* tells which probe was
    planned for which (its id) that lost a host, *rounds* what each follow-up was given: by phase, then by name.
    *at_s* is the last moment of its clock, *began_s* the first. *resumed* counts how often it went on.
    """

    results: Mapping[str, ProbeResult] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    out: Mapping[str, str] = field(default_factory=dict)
    added: tuple[Probe, ...] = ()
    instead: tuple[tuple[str, Probe], ...] = ()
    rounds: Mapping[str, Mapping[str, Round]] = field(default_factory=dict)
    began_s: float = 0.0
    at_s: float = 0.0
    resumed: int = 0
    begun: bool = False
    over: bool = False

    @property
    def half_done(self) -> tuple[str, ...]:
        """The ids of the probes that were begun and have no result that stands."""
        return tuple(probe_id for probe_id in self.attempts if probe_id not in self.results)


def so_far(events: Iterable[Event]) -> SoFar:
    """Read a history from its beginning."""
    known = list(events)
    try:
        return _so_far(known)
    except (KeyError, TypeError, ValueError) as exc:
        raise StoreError(f"the history of this run is not as this version writes it: {exc!r}") from exc


def _so_far(events: list[Event]) -> SoFar:
    attempts: dict[str, int] = {}
    stands: dict[str, bool] = {}
    for event in events:
        if event["event"] == "started":
            for probe_id in event["probes"]:
                attempts[probe_id] = attempts.get(probe_id, 0) + 1
                stands[probe_id] = False
        elif event["event"] == "finished":
            stands[event["probe"]] = not event.get("again", False)
    added = tuple(replanned(events))
    why = [event for event in events if event["event"] == "replanned"]
    return SoFar(
        results={name: result for name, result in from_events(events).items() if stands[name]},
        attempts=attempts,
        ended=frozenset(event["phase"] for event in events if event["event"] == "phase_ended"),
        out={event["component"]: event["reason"] for event in events if event["event"] == "out"},
        added=added,
        instead=tuple((e["instead_of"], probe) for e, probe in zip(why, added, strict=True) if "instead_of" in e),
        rounds=_rounds(why),
        began_s=events[0]["at_s"] if events else 0.0,
        at_s=max((event["at_s"] for event in events), default=0.0),
        resumed=sum(event["event"] == "resumed" for event in events),
        begun=bool(events),
        over=any(event["event"] == "run_ended" for event in events),
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
