"""What a run's history says is done, begun and decided: from this an interrupted run goes on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fabric.errors import StoreError
from fabric.model.probe import Probe, ProbeResult
from fabric.runs.events import Event, history_of, replanned


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
    names the phases in which that changed; *left_out* says who is left out because of it, and why. *phases_began* says
    when each phase first began, *not_begun* names rounds for which there was no time. *at_s* is the last moment of its
    clock, *began_s* the first. *resumed* counts how often it went on.
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
        out={event["component"]: event["reason"] for event in of["out"]},
        instead=tuple((e["instead_of"], probe) for e, probe in zip(why, added, strict=True) if "instead_of" in e),
        rounds=_rounds(why),
        bad_rounds={event["written"]: dict(event["bad_rounds"]) for event in of["round_judged"]},
        left_out={host: why for event in of["round_judged"] for host, why in event["left_out"].items()},
        rounds_judged=frozenset(event["phase"] for event in of["round_judged"]),
        phases_began={event["phase"]: float(event["at_s"]) for event in reversed(of["phase_started"])},
        not_begun=not_begun(of["rounds_over"]),
        began_s=events[0]["at_s"] if events else 0.0,
        at_s=max((event["at_s"] for event in events), default=0.0),
        resumed=len(of["resumed"]),
        begun=bool(events),
        over=bool(of["run_ended"]),
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


def not_begun(events: Iterable[Event]) -> frozenset[str]:
    """The rounds (names of phases) that the clock left out."""
    return frozenset(name for event in events if event["event"] == "rounds_over" for name in event["phases"])
