"""A run while it goes on, from its history as it grows: nobody is asked, nothing is written."""

from __future__ import annotations

from bisect import insort
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from fabric.errors import StoreError
from fabric.model.part import Part
from fabric.model.verdict import Suspect
from fabric.report.told_verdict import told_verdict
from fabric.runs.events import EVENTS, LIMITS, Event
from fabric.runs.journal import JOURNAL
from fabric.runs.line_log import lines_since
from fabric.runs.open_changes import open_changes
from fabric.runs.plain_file import is_there
from fabric.runs.run_document import read_run
from fabric.runs.run_folders import run_path
from fabric.runs.run_lock import running

SLOW = 0.8
"""A sample below this share of the median of its like is drawn as slow (a choice: what is really slow, the verdict
says, which compares with limits and noise)."""

_LEAST_ALIKE = 3  # samples from which there is a median to speak of
_MOST_ALIKE = 4_096  # of one measurement that are kept for it
_RATE_OVER = 60  # looks over which the rate is taken


class HostState(Enum):
    """How a host does, the worst first."""

    OUT = "out"
    FAILED = "failed"
    SLOW = "slow"
    RUNNING = "running"
    WELL = "well"
    WAITING = "waiting"


@dataclass(slots=True)
class PhaseProgress:
    """How far a phase is: *failed* counts what tools called bad, *errors* what could not be measured."""

    name: str
    planned: int
    done: int = 0
    failed: int = 0
    errors: int = 0
    over: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """
    A run at one moment. *at_s* is its clock; *left_s* what is left at the rate of late, None where nothing is known.

    *state*: ``running``, ``ended``, ``not running``. *named*: parts that tools called bad, and how often; *suspects*
    are those of the verdict, once there is one. *out*: who is out of the run, and why. *changes* may be in force.
    """

    run: str
    scenario: str
    state: str
    at_s: float
    done: int
    planned: int
    left_s: float | None
    phases: tuple[PhaseProgress, ...]
    hosts: Mapping[str, HostState]
    named: Mapping[str, int]
    out: Mapping[str, str]
    changes: tuple[str, ...]
    suspects: tuple[Suspect, ...] = ()


@dataclass(slots=True)
class _Alike:
    """The numbers of one measurement on all hosts, in order."""

    values: list[float] = field(default_factory=list)

    def is_slow(self, value: float) -> bool:
        """Whether it is far below the median of those before it; then it counts, too."""
        known = len(self.values)
        slow = known >= _LEAST_ALIKE and value < SLOW * self.values[known // 2]
        if known < _MOST_ALIKE:
            insort(self.values, value)
        return slow


class Watched:
    """A run that is looked at again and again; each look reads what came since."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError where there is no run."""
        self._run = run_path(path)
        scenario = read_run(self._run)["asked"]["scenario"]
        self._hosts: dict[str, HostState] = dict.fromkeys(scenario["hosts"], HostState.WAITING)
        self._trouble: dict[str, HostState] = {}
        self._busy: Counter[str] = Counter()
        self._phases: dict[str, PhaseProgress] = {}
        self._alike: dict[tuple[str, ...], _Alike] = {}
        self._named: Counter[str] = Counter()
        self._out: dict[str, str] = {}
        self._planned = self._done = self._at = 0
        self._at_s = 0.0
        self._over = False
        self._rate: deque[tuple[float, int]] = deque(maxlen=_RATE_OVER)

    def look(self) -> Snapshot:
        """The run now; StoreError where its files cannot be read, or are those of another run."""
        if is_there(self._run / EVENTS):
            events, self._at = lines_since(self._run / EVENTS, LIMITS, self._at)
            self._take(events)
        self._rate.append((self._at_s, self._done))
        told = told_verdict(self._run) if self._over else None
        at_work = running(self._run) is not None
        return Snapshot(
            run=str(self._run),
            scenario=self._run.parent.name,
            state="ended" if self._over else "running" if at_work else "not running",
            at_s=self._at_s,
            done=self._done,
            planned=max(self._planned, self._done),
            left_s=None if self._over else self._left_s(),
            phases=tuple(self._phases.values()),
            hosts={name: self._state(name) for name in self._hosts},
            named=dict(self._named.most_common()),
            out=dict(self._out),
            changes=tuple(one.change_id for one in open_changes(self._run / JOURNAL)),
            suspects=() if told is None else told.suspects,
        )

    def _state(self, host: str) -> HostState:
        if any(Part.of(name).host == host for name in self._out):
            return HostState.OUT
        return self._trouble.get(host) or (HostState.RUNNING if self._busy[host] > 0 else self._hosts[host])

    def _left_s(self) -> float | None:
        (began_s, before), (now_s, done) = self._rate[0], self._rate[-1]
        left = self._planned - done
        return (now_s - began_s) / (done - before) * left if done > before and left >= 0 else None

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            self._at_s = max(self._at_s, float(event["at_s"]))
            take = _TAKES.get(event["event"])
            if take is not None:
                try:
                    take(self, event)
                except (KeyError, TypeError, ValueError, IndexError) as exc:
                    text = f"{self._run / EVENTS}: not as this version writes it: {exc!r}"
                    raise StoreError(text) from exc

    def _began(self, event: Event) -> None:
        self._planned = int(event["probes"])

    def _left_out(self, event: Event) -> None:
        self._planned -= int(event["probes"])

    def _phase(self, event: Event) -> None:
        name = event["phase"]
        self._phases.setdefault(name, PhaseProgress(name, int(event["probes"])))

    def _phase_over(self, event: Event) -> None:
        self._phases[event["phase"]].over = True
        self._busy.clear()

    def _started(self, event: Event) -> None:
        self._busy.update(host for probe in event["probes"] for host in self._hosts_of(probe))

    def _replanned(self, event: Event) -> None:
        self._planned += 1
        if event["phase"] in self._phases:
            self._phases[event["phase"]].planned += 1

    def _finished(self, event: Event) -> None:
        probe, outcome = event["probe"], event["outcome"]
        hosts = self._hosts_of(probe)
        self._busy.subtract(hosts)
        if event.get("again", False):
            return
        self._done += 1
        phase = self._phases.get(probe.partition("/")[0])
        if phase is not None:
            phase.done += 1
            phase.failed += outcome == "fail"
            phase.errors += outcome == "error"
        for host in hosts:
            self._hosts[host] = HostState.WELL
        if outcome == "fail":
            self._named[event["named"][0] if "named" in event else "+".join(hosts)] += 1
            self._trouble.update(dict.fromkeys(hosts, HostState.FAILED))
        elif outcome == "measured" and self._is_slow(probe, event["measurements"]):
            for host in hosts:
                self._trouble.setdefault(host, HostState.SLOW)

    def _is_slow(self, probe: str, measurements: list[list[object]]) -> bool:
        metric, value, unit, size_bytes = measurements[-1]  # the largest message
        if unit != "Gb/s" or not isinstance(value, float):
            return False
        label = probe.rpartition("/")[2]
        series = (probe.partition("/")[0], label.partition(".r")[0], str(metric), str(size_bytes))
        return self._alike.setdefault(series, _Alike()).is_slow(value)

    def _gone(self, event: Event) -> None:
        self._out[event["component"]] = str(event["reason"])

    def _judged(self, event: Event) -> None:
        self._out.update({host: str(why) for host, why in event["left_out"].items()})

    def _ended(self, _: Event) -> None:
        self._over = True

    def _hosts_of(self, probe: str) -> list[str]:
        return [name for name in probe.split("/")[1].split("+") if name in self._hosts]


_TAKES: Mapping[str, Callable[[Watched, Event], None]] = {
    "run_started": Watched._began,
    "rounds_over": Watched._left_out,
    "phase_started": Watched._phase,
    "phase_ended": Watched._phase_over,
    "started": Watched._started,
    "replanned": Watched._replanned,
    "finished": Watched._finished,
    "out": Watched._gone,
    "round_judged": Watched._judged,
    "run_ended": Watched._ended,
}
