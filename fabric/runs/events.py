"""The history of a run: events.jsonl, append-only, one event a line, written and read by ``line_log``.

Probe results are stored as events and read back from them: a run is judged again from there, and an interrupted run
resumes with what is left.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from sys import intern
from typing import Any

from pydantic import TypeAdapter

from fabric.errors import StoreError
from fabric.model import gathered
from fabric.model.outcome import Outcome
from fabric.model.probe import FailureKind, LeftOutHost, Measurement, NamedPart, Probe, ProbeResult
from fabric.runs.line_log import Limits, Line, LineLog, read_lines
from fabric.runs.plain_file import GIB, MIB, is_there

EVENTS = "events.jsonl"
"""Its name in a run's directory."""

LIMITS = Limits(16 * GIB, 64 * MIB)
"""
Limits of a history (choices: two days of 2,048 hosts make 1.1 GiB; the largest line names the probes of a phase:
300,000 are 15 MB).
"""

Event = Line
"""One line of a run's history: ``seq``, ``at_s``, ``event``, and the fields of that event."""


class EventLog(LineLog):
    """Appends events to a history."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, LIMITS)

    def append(self, event: str, at_s: float, fields: Mapping[str, Any]) -> None:
        """Take an event; it is durable after the next ``flush``."""
        self.add({"at_s": round(at_s, 6), "event": event, **fields})


def read_events(path: Path, *kinds: str) -> Iterator[Event]:
    """
    Yield every event in order, decoded only when it is asked for; with *kinds* only those are decoded.

    Raises StoreError as ``read_lines``.
    """
    found = read_lines(path, LIMITS, [b'"event":"%s"' % kind.encode() for kind in kinds])
    return (event for event in found if event["event"] in kinds) if kinds else found


def all_events(run: Path) -> list[Event]:
    """Return every event of the run in a directory; none if it was killed before the first."""
    return list(read_events(run / EVENTS)) if is_there(run / EVENTS) else []


def to_fields(result: ProbeResult) -> Mapping[str, Any]:
    """Return the fields of a ``finished`` event; empty fields are left out."""
    fields: dict[str, Any] = {
        "probe": result.probe_id,
        "attempt": result.attempt,
        "outcome": "measured" if result.outcome is None else result.outcome.value,
        "started_s": round(result.started_s, 6),
        "ended_s": round(result.ended_s, 6),
    }
    more = {
        "reason": result.reason,
        "error_host": result.error_host,
        "named": result.named and [result.named.component, result.named.condition],
        "failure": result.failure,
        "left_out": result.left_out and [result.left_out.host, result.left_out.why],
        "measurements": [[m.metric, m.value, m.unit, m.size_bytes] for m in result.measurements],
    }
    return fields | {name: value for name, value in more.items() if value}


@dataclass(frozen=True, slots=True)
class History:
    """
    A history in which results are decoded and all other events are kept as they were written.

    *results*: the last result of each probe, by probe id, in order of finishing. *others*: all other events, in order.
    *first*: the first event of all, None when there is none. *at_s*: when the last event was (seconds). *added*: the
    probes that were planned during the run.
    """

    results: Mapping[str, ProbeResult] = field(default_factory=dict)
    others: tuple[Event, ...] = ()
    first: Event | None = None
    at_s: float = 0.0
    added: tuple[Probe, ...] = ()


def history_of(events: Iterable[Event]) -> History:
    """Read *events* once, from the beginning; a result is not held as an event longer than needed."""
    results: dict[str, ProbeResult] = {}
    others: list[Event] = []
    first, at_s = None, 0.0
    for event in events:
        first, at_s = first or event, event["at_s"]
        if event["event"] == "finished":
            results.pop(event["probe"], None)  # so that the last result of a probe stands behind all others
            results[event["probe"]] = _from_event(event)
        else:
            others.append(event)
    return History(results, tuple(others), first, at_s, tuple(replanned(others)))


_PROBE = TypeAdapter(Probe)


def planned_fields(probe: Probe) -> Mapping[str, Any]:
    """Return the fields of a ``replanned`` event: the whole probe, because it is in no plan."""
    fields = asdict(probe)
    return {"probe": fields.pop("probe_id"), **fields}


def replanned(events: Iterable[Event]) -> list[Probe]:
    """Return the probes that were planned during the run, in that order."""
    planned = (event for event in events if event["event"] == "replanned")
    return [_PROBE.validate_python({**event, "probe_id": event["probe"]}) for event in planned]


def _from_event(event: Event) -> ProbeResult:
    probe_id = event["probe"]
    return ProbeResult(
        probe_id=probe_id,
        attempt=event["attempt"],
        measurements=tuple(
            [
                Measurement(probe_id, intern(metric), value, intern(unit), size_bytes)
                for metric, value, unit, size_bytes in event.get("measurements", ())
            ]
        ),
        outcome=None if event["outcome"] == "measured" else Outcome(event["outcome"]),
        reason=event.get("reason", ""),
        started_s=event["started_s"],
        ended_s=event["ended_s"],
        error_host=event.get("error_host"),
        named=NamedPart(*event["named"]) if "named" in event else None,
        failure=FailureKind(event["failure"]) if "failure" in event else None,
        left_out=_left_out(event),
    )


def _left_out(event: Event) -> LeftOutHost | None:
    """Return the host that was left out; older versions wrote it only into the reason of a skipped probe."""
    if "left_out" in event:
        return LeftOutHost(*event["left_out"])
    host, found, why = str(event.get("reason", "")).partition("; re-planned as ")[0].partition(": ")
    return LeftOutHost(host, why) if found and event["outcome"] == Outcome.SKIPPED.value else None


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

    *results*: valid results, in order of finishing. *attempts*: how often each probe was begun. *ended*: phases that
    are over. *out*: hosts and parts that went out of the run, and why. *instead*: probes that were planned for another
    one (its id) that lost a host. *rounds*: what each follow-up was given, by phase, then by name. *bad_rounds*: bad
    rounds in a row of hosts, by the written name of the phase. *rounds_judged*: phases in which those counts changed.
    *left_out*: hosts left out because of them, and why. *phases_began*: when each phase first began. *not_begun*:
    rounds for which there was no time. *at_s*: the last moment of its clock. *resumed*: how often it was resumed.
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
    at_s: float = 0.0
    resumed: int = 0
    begun: bool = False
    over: bool = False

    @property
    def half_done(self) -> tuple[str, ...]:
        """The ids of the probes that were begun and have no valid result."""
        return tuple(probe_id for probe_id in self.attempts if probe_id not in self.results)


def progress_of(events: Iterable[Event]) -> Progress:
    """Read a history from its beginning; raises StoreError when it is not as this version writes it."""
    try:
        return _read(list(events))
    except (KeyError, TypeError, ValueError) as exc:
        raise StoreError(f"the history of this run is not as this version writes it: {exc!r}") from exc


def _read(events: list[Event]) -> Progress:
    of = defaultdict(list, gathered((event["event"], event) for event in events))
    begun = {probe_id: event["seq"] for event in of["started"] for probe_id in event["probes"]}
    ended = {event["probe"]: event for event in of["finished"]}
    stand = {name for name, event in ended.items() if event["seq"] > begun.get(name, 0) and not event.get("again")}
    why, added = of["replanned"], tuple(replanned(of["replanned"]))
    return Progress(
        results={name: result for name, result in history_of(of["finished"]).results.items() if name in stand},
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
        at_s=max((event["at_s"] for event in events), default=0.0),
        resumed=len(of["resumed"]),
        begun=bool(events),
        over=bool(of["run_ended"]),
    )


def _rounds(why: Iterable[Event]) -> dict[str, dict[str, Round]]:
    """Count rounds of follow-ups: probes recorded at the same moment belong to one round."""
    given = gathered(((event["phase"], event["because"]), event["at_s"]) for event in why if "because" in event)
    found: dict[str, dict[str, Round]] = {}
    for (phase, name), at_s in given.items():
        found.setdefault(phase, {})[name] = Round(len(set(at_s)), len(at_s), at_s[0])
    return found


def not_begun(events: Iterable[Event]) -> frozenset[str]:
    """Return the rounds (names of phases) that the clock left out."""
    return frozenset(name for event in events if event["event"] == "rounds_over" for name in event["phases"])
