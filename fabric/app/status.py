"""Show how far runs are, from their growing history alone, without writing anything; and ask a run to stop."""

import threading
import time
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

from fabric.engine.interruption import STOP
from fabric.errors import ConfigError, FabricError, MayBeLive, StoreError
from fabric.model.part import Part
from fabric.model.verdict import Suspect
from fabric.runs.events import EVENTS, LIMITS, Event, read_events
from fabric.runs.journal import CLOSED, JOURNAL, open_changes, open_or_may_be_live, read_journal, reserved_by
from fabric.runs.line_log import lines_since
from fabric.runs.plain_file import is_there, storing, write_durably
from fabric.runs.run_directory import CLOCKS_APART, run_folders, run_path
from fabric.runs.run_document import go_on_command, read_run
from fabric.runs.run_lock import running
from fabric.runs.stored_verdict import decision_in, stored_verdict

SLOW = 0.8
"""
A sample below this share of the median of comparable samples is drawn as slow (a choice).

The verdict says what is really slow: it compares with limits and noise.
"""

_LEAST_ALIKE = 3  # samples from which a median means something
_MOST_ALIKE = 4_096  # samples of one measurement that are kept for it
_NO_NUMBER = ("error", "inconclusive")


class HostState(Enum):
    """How a host is doing, the worst first."""

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
class RunStatus:
    """
    One run at one moment.

    *state*: ``running``; ``stopping`` (asked to stop, not over yet); ``ended``; ``interrupted`` (ended in order before
    it was done); ``killed`` (died); ``unreadable``, with *trouble*. *judged*: a verdict.json covers all that was
    measured. *outcome* is its outcome, empty while the run goes on; *suspects* are its suspects, None if more probes
    would have to be judged than a look may take. *decision*: whether a repaired host may return (``ACCEPT``; empty: the
    run decides nothing, or not yet). *done* of *planned* probes, including those planned while it went on.
    *rate_per_min* and *left_s* are of this session by the run's clock, None if unknown; *at_s* is what has
    passed by it since the run began.
    *event_age_s* is by this machine's clock. *holder*: who runs it. *open_changes* may be live on the fabric.
    *no_number* counts finished probes whose tools gave no number. *go_on*: the command that measures the rest of a
    killed or interrupted run; empty for others, and in a list of runs. *named*: parts that tools called bad, and how
    often. *out*: parts that are out of the run, and why.
    """

    run: str
    scenario: str
    state: str
    outcome: str = ""
    phase: str = ""
    done: int = 0
    planned: int = 0
    rate_per_min: float | None = None
    left_s: float | None = None
    event_age_s: float | None = None
    resumed: int = 0
    holder: str = ""
    open_changes: tuple[str, ...] = ()
    suspects: tuple[Suspect, ...] | None = ()
    trouble: str = ""
    judged: bool = False
    no_number: int = 0
    decision: str = ""
    go_on: str = ""
    at_s: float = 0.0
    phases: tuple[PhaseProgress, ...] = ()
    hosts: Mapping[str, HostState] = field(default_factory=dict)
    named: Mapping[str, int] = field(default_factory=dict)
    out: Mapping[str, str] = field(default_factory=dict)


class Watched:
    """A run that is looked at, once or repeatedly; each look reads the events that came since."""

    def __init__(self, path: Path) -> None:
        """Raise ConfigError if there is no such run."""
        self._run = run_path(path)
        scenario = read_run(self._run)["asked"]["scenario"]
        self._hosts: dict[str, HostState] = dict.fromkeys(scenario["hosts"], HostState.WAITING)
        self._trouble: dict[str, HostState] = {}
        self._busy: Counter[str] = Counter()
        self._phases: dict[str, PhaseProgress] = {}
        self._outcomes: dict[str, str] = {}  # of each probe with a valid result
        # Numbers of one measurement, sorted.
        self._comparable_values: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
        self._named: Counter[str] = Counter()
        self._out: dict[str, str] = {}
        self._phase, self._last = "", "killed"
        self._planned = self._resumed = self._finished_now = self._no_number = self._bytes = self._lines = 0
        self._at_s = self._since_s = self._began_s = 0.0
        self._over = False

    def look(self) -> RunStatus:
        """Return the run's present status; raise StoreError if its files cannot be read, or belong to another run."""
        run, events = self._run, self._run / EVENTS
        if is_there(events):
            found, self._bytes = lines_since(events, LIMITS, self._bytes, self._lines)
            self._lines += len(found)
            self._take(found)
        stored, holder, done = stored_verdict(run), running(run), len(self._outcomes)
        outcome = "" if stored is None or (holder is not None and not self._over) else stored.outcome
        decided = decision_in(run) if outcome else None
        took_s, planned = self._at_s - self._since_s, max(self._planned, done)
        rate = 60.0 * self._finished_now / took_s if self._finished_now and took_s > 0.0 else None
        return RunStatus(
            run=str(run),
            scenario=run.parent.name,
            state=self._state(at_work=holder is not None),
            outcome=outcome,
            phase=self._phase,
            done=done,
            planned=planned,
            rate_per_min=rate,
            left_s=60.0 * (planned - done) / rate if rate and holder is not None and not self._over else None,
            event_age_s=time.time() - events.stat().st_mtime if self._lines else None,
            resumed=self._resumed,
            holder="" if holder is None else holder.text,
            open_changes=(*(one.change_id for one in open_changes(run / JOURNAL)), *reserved_by(run)),
            suspects=() if stored is None else stored.suspects,
            judged=stored is not None,
            no_number=self._no_number,
            decision="" if decided is None else decided.value,
            at_s=self._at_s - self._began_s,
            phases=tuple(self._phases.values()),
            hosts={name: self._host(name) for name in self._hosts},
            named=dict(self._named.most_common()),
            out=dict(self._out),
        )

    def _state(self, *, at_work: bool) -> str:
        if self._over:
            return "ended"
        if at_work:
            return "stopping" if (self._run / STOP).exists() else "running"
        return self._last

    def _host(self, host: str) -> HostState:
        if any(Part.of(name).host == host for name in self._out):
            return HostState.OUT
        return self._trouble.get(host) or (HostState.RUNNING if self._busy[host] > 0 else self._hosts[host])

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            try:
                self._at_s = max(self._at_s, float(event["at_s"]))
                if on_event := getattr(self, f"_on_{event['event']}", None):
                    on_event(event)
            except (KeyError, TypeError, ValueError, IndexError) as exc:
                raise StoreError(f"{self._run / EVENTS}: not as this version writes it: {exc!r}") from exc

    def _on_run_started(self, event: Event) -> None:
        self._planned, self._since_s = int(event["probes"]), float(event["at_s"])
        self._began_s = self._since_s

    def _on_resumed(self, event: Event) -> None:
        """Note that the run goes on; probes that ran when it died no longer run."""
        self._resumed, self._finished_now, self._last = self._resumed + 1, 0, "killed"
        self._since_s = float(event["at_s"])
        self._busy.clear()

    def _on_run_interrupted(self, _: Event) -> None:
        self._last = "interrupted"

    def _on_rounds_over(self, event: Event) -> None:
        self._planned -= int(event["probes"])

    def _on_phase_started(self, event: Event) -> None:
        self._phase = name = event["phase"]
        self._phases.setdefault(name, PhaseProgress(name, int(event["probes"])))

    def _on_phase_ended(self, event: Event) -> None:
        self._phases[event["phase"]].over = True
        self._busy.clear()

    def _on_started(self, event: Event) -> None:
        for probe in event["probes"]:
            self._busy.update(self._hosts_of(probe))
            self._count(probe, self._outcomes.pop(probe, None), -1)

    def _on_replanned(self, event: Event) -> None:
        self._planned += 1
        if event["phase"] in self._phases:
            self._phases[event["phase"]].planned += 1

    def _on_finished(self, event: Event) -> None:
        probe, outcome = event["probe"], event["outcome"]
        hosts = self._hosts_of(probe)
        self._busy.subtract(hosts)
        self._finished_now += 1
        if event.get("again", False):
            return
        self._count(probe, self._outcomes.pop(probe, None), -1)
        self._outcomes[probe] = outcome
        self._count(probe, outcome, 1)
        for host in hosts:
            self._hosts[host] = HostState.WELL
        if outcome == "fail":
            self._named[event["named"][0] if "named" in event else "+".join(hosts)] += 1
            self._trouble.update(dict.fromkeys(hosts, HostState.FAILED))
        elif outcome == "measured" and self._is_slow(probe, event["measurements"]):
            for host in hosts:
                self._trouble.setdefault(host, HostState.SLOW)

    def _count(self, probe: str, outcome: str | None, by: int) -> None:
        """Count a probe with this outcome (*by* 1), or take it off because it is measured again (-1)."""
        self._no_number += by * (outcome in _NO_NUMBER)
        phase = self._phases.get(probe.partition("/")[0])
        if phase is not None and outcome is not None:
            phase.done += by
            phase.failed += by * (outcome == "fail")
            phase.errors += by * (outcome == "error")

    def _is_slow(self, probe: str, measurements: list[list[object]]) -> bool:
        """Return whether a number is far below the median of comparable ones before it; then add it to them."""
        metric, value, unit, size_bytes = measurements[-1]  # the largest message
        if unit != "Gb/s" or not isinstance(value, float):
            return False
        label = probe.rpartition("/")[2]
        alike = self._comparable_values[probe.partition("/")[0], label.partition(".r")[0], str(metric), str(size_bytes)]
        slow = len(alike) >= _LEAST_ALIKE and value < SLOW * alike[len(alike) // 2]
        if len(alike) < _MOST_ALIKE:
            insort(alike, value)
        return slow

    def _on_out(self, event: Event) -> None:
        self._out[event["component"]] = str(event["reason"])

    def _on_round_judged(self, event: Event) -> None:
        self._out.update({host: str(why) for host, why in event["left_out"].items()})

    def _on_run_ended(self, _: Event) -> None:
        self._over = True

    def _hosts_of(self, probe: str) -> list[str]:
        """
        Return the hosts of a probe, by its id.

        ``64-hosts`` means all hosts if there are 64; if there are more, the id does not tell which.
        """
        place = probe.split("/")[1]
        if place == f"{len(self._hosts)}-hosts":
            return list(self._hosts)
        return [name for name in place.split("+") if name in self._hosts]


MOST_JUDGED = 5_000
"""
The most planned probes of a run that is judged for its status.

A choice: judging then takes some seconds; 60,000 took 7 to 40 s, measured.
"""


def status(path: Path) -> RunStatus:
    """
    Return one run with its suspects so far; ConfigError if it is not a run, StoreError if its files cannot be read.
    """
    path = run_path(path)
    found = Watched(path).look()
    if found.state in ("killed", "interrupted"):
        found = replace(found, go_on=go_on_command(path, read_run(path)))
    if found.judged or not found.done:
        return found
    if found.planned > MOST_JUDGED:
        return replace(found, suspects=None)
    from fabric.app.analyze import reopened  # the judge takes a while to import

    return replace(found, suspects=reopened(path).judged.verdict.suspects)


def newest(results: Path) -> Path:
    """
    Return the run under a results folder that goes on, else the one that was begun last; ConfigError if there is none.

    A run whose name is of the future counts as older than all others: the clock that it was named by was wrong.
    """
    runs = run_folders(results).runs
    if not runs:
        raise ConfigError.at(results, "no run here yet")
    until = f"{datetime.now(UTC) + CLOCKS_APART:%Y%m%d-%H%M%S}"
    return max(runs, key=lambda path: (running(path) is not None, path.name <= until, path.name, path.parent.name))


def all_runs(results: Path, *, most: int) -> list[RunStatus]:
    """
    Return the newest runs under a results folder, newest first; unreadable runs and folders are listed as such.

    Raises ConfigError if it is not a folder, or cannot be read itself.
    """
    folders = run_folders(results)
    runs = sorted((*folders.runs, *folders.closed), key=lambda path: (path.name, path.parent.name), reverse=True)
    return [_looked_at(run, folders.closed.get(run, "")) for run in runs[:most]]


def _looked_at(run: Path, trouble: str) -> RunStatus:
    """Return a run as it is now; *trouble*: the reason why its folder cannot be read, if known."""
    if not trouble:
        try:
            return Watched(run).look()
        except (FabricError, OSError) as exc:
            trouble = str(exc)
    return RunStatus(str(run), run.parent.name, "unreadable", trouble=trouble)


_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class StoppedRun:
    """
    What became of a run that was asked to stop.

    *ended*: no process works on it any more (False: not within the time). *finished*: it reached its own end first.
    *taken_back*: changes that it has taken back since. *still_open*: changes that may be live. *go_on*: the command
    that measures what is left, empty if nothing is.
    """

    run: str
    ended: bool
    finished: bool
    took_s: float
    taken_back: tuple[str, ...]
    still_open: tuple[str, ...]
    go_on: str = ""

    @property
    def exit_code(self) -> int:
        """Return 3 if the run has not ended yet, 4 if a change may still be live, otherwise 0."""
        if not self.ended:
            return 3
        return 4 if self.still_open else 0


def stop(path: Path, *, wait_s: float) -> StoppedRun:
    """
    Ask a run to stop, and wait at most *wait_s* until it has; 0: do not wait.

    Raises ConfigError if no process works on it, StoreError if it cannot be asked, and MayBeLive if its journal cannot
    be read: the run has been asked to stop even then.
    """
    path = run_path(path)
    go_on = go_on_command(path, read_run(path))
    holder = running(path)
    if holder is None:
        raise ConfigError.at(path, f"nobody works on this run, so there is nothing to stop; {_next(path, go_on)}")
    before: tuple[str, ...] = ()
    with suppress(MayBeLive):  # ask it to stop all the same; the error is raised afterwards
        before = _open(path)
    began_s = time.monotonic()
    with storing(path / STOP):
        write_durably(path / STOP, b"")
    ended = _waited(path, began_s + wait_s)
    after = _open(path)
    states, finished = last_states(path), _has_ended(path)
    return StoppedRun(
        run=str(path),
        ended=ended,
        finished=finished,
        took_s=time.monotonic() - began_s,
        taken_back=tuple(one for one in before if one not in after and states.get(one) in CLOSED),
        still_open=after,
        go_on="" if finished else go_on,
    )


def _waited(path: Path, until_s: float) -> bool:
    """Wait until no process works on the run; return False if that takes too long."""
    pause = threading.Event()
    while running(path) is not None:
        left_s = until_s - time.monotonic()
        if left_s <= 0.0:
            return False
        pause.wait(min(_LOOK_S, left_s))
    return True


def _open(path: Path) -> tuple[str, ...]:
    return tuple(one.change_id for one in open_or_may_be_live(path / JOURNAL))


def last_states(path: Path) -> dict[str, str]:
    """Return the last state of every change of a run, by its journal."""
    return {entry["change"]: entry["state"] for entry in read_journal(path / JOURNAL)}


def _has_ended(run: Path) -> bool:
    return is_there(run / EVENTS) and any(read_events(run / EVENTS, "run_ended"))


def _next(path: Path, go_on: str) -> str:
    if _has_ended(path):
        return f"it has ended: fabric report {path}"
    if _open(path):
        return f"it died with changes open: fabric restore {path}"
    return f"it was killed or interrupted: {go_on}"
