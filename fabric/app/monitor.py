"""Watch the ports of a fleet while others use it (``fabric monitor``): errors, flaps, falling traffic.

The agents read counters once a second, as they do beside a run, and the rules of ``judge/ports`` say what is bad; there
is no second set of thresholds. Nothing is altered, and memory does not grow with time: courses reach back one day, and
alarms are bounded.
"""

import resource
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import inf, nan

import numpy as np

from fabric.engine.interruption import listening
from fabric.engine.watching import Watch
from fabric.judge.ports.health import FULL, port_health, stands_full
from fabric.judge.ports.traffic import WINDOW_S, PortTraffic, Shift
from fabric.model import gathered
from fabric.model.inventory import Inventory
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.sampling import JUDGED, TRAFFIC, CounterCourse, SampleSettings, Value
from fabric.model.text import duration_text, fold
from fabric.model.topology import Host
from fabric.ports import Executor
from fabric.runs.samples import Readings

BATCH_S = 5.0
"""
Seconds of samples that a host sends at once: each packet costs the receiver a millisecond (``benchmarks/monitor.py``).
"""

SILENT_S = 15.0
"""
After so many seconds (or five periods, if longer) without a row, nothing is known of a host, or without a number of a
port (a choice).
"""

KEPT_S, MOST_STEPS = 86_400.0, 512
"""Seconds that a counter's course reaches back, and how many steps it may have in that time (choices)."""

AGAIN_S = 3600.0
"""Seconds after which a bad port is judged again: it is well once its courses are (a choice)."""

MOST_ALARMS = 1000
"""How many alarms are kept, the last ones; all are counted."""

MOST_A_STEP = 20
"""The most alarms that are printed for one step; the rest is summed up in one line."""

_UNREAD, _READ_AGAIN = "no counters are read: nothing is known of it", "is read again"

_Port = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Alarm:
    """
    Something that happened to *parts* at a time (UTC); *kind* is ``counter``, ``traffic``, ``host`` or ``port``.

    *outcome*: FAIL and MARGINAL as in the verdict of a run; INCONCLUSIVE: nothing is known of the parts; PASS: it is
    over.
    """

    at: datetime
    kind: str
    outcome: Outcome
    parts: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class FleetSeen:
    """
    What is known now: hosts and ports that are read, *silent* hosts, *unread* ports of other hosts, *bad* ports with
    their outcome, alarms by kind.

    *gbps*: what each host sends and receives. *cpu_s*: CPU time this process has used. *at_s*: for how long it has
    watched.
    """

    hosts: int
    ports: int
    silent: tuple[str, ...]
    bad: Mapping[str, Outcome]
    alarms: Mapping[str, int]
    gbps: Mapping[str, tuple[float, float]]
    at_s: float
    cpu_s: float
    unread: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return 1 if a port is FAIL, 3 if a host or a port was not read, otherwise 0."""
        return 1 if Outcome.FAIL in self.bad.values() else 3 if self.silent or self.unread or not self.hosts else 0


class Fleet:
    """Collects the samples of hosts (``Watch`` hands them over) and turns them into alarms (``step``)."""

    def __init__(self, hosts: Sequence[Host], every_s: float, began_s: float) -> None:
        self.hosts = {host.name: host for host in hosts}
        self._every_s, self._began_s, self._apart_s = every_s, began_s, began_s - time.monotonic()
        self._ports = {(host.name, rnic.device): rnic for host in hosts for rnic in host.platform.rnics}
        self._place = {port: place for place, port in enumerate(self._ports)}
        self.traffic = PortTraffic([rnic.line_rate_gbps for rnic in self._ports.values() for _ in TRAFFIC])
        self._first: dict[_Port, dict[str, tuple[float, Value]]] = {}
        self._courses: dict[_Port, dict[str, CounterCourse]] = {}
        self._at_s: dict[str, float] = {}
        self.silent: set[str] = set()
        self._lacking: dict[_Port, dict[str, float]] = {}  # counters without a number, and since when
        self.unread: set[str] = set()
        self._grew: set[_Port] = set()
        self._reported: dict[_Port, dict[str, tuple[Outcome, int]]] = {}
        self._full: dict[_Port, tuple[str, ...]] = {}
        self._again_s = began_s + AGAIN_S
        self.bad: dict[str, Outcome] = {}

    def add(self, host: str, at_s: float, readings: Readings) -> None:
        """Take a row of readings. A row older than the last one is dropped, because counters never go back."""
        if at_s <= self._at_s.get(host, -inf):
            return
        for (device, name), value in readings.items():
            if value is None:
                self._lacking.setdefault((host, device), {})[name] = at_s
            elif (host, device) in self._lacking:
                self._lacking[host, device].pop(name, None)
            if name in TRAFFIC:
                row = self._place[host, device] * len(TRAFFIC) + TRAFFIC.index(name)
                self.traffic.read(row, value)
            elif name in JUDGED:
                self._count((host, device), name, at_s, value)
        if any(value is not None for value in readings.values()) or host in self._at_s:
            self._at_s[host] = at_s

    def _nothing_since(self, port: _Port) -> float:
        """Return since when no counter of a port has a number; infinity if one has."""
        lacking = self._lacking[port]
        return max(lacking.values()) if lacking.keys() >= {*TRAFFIC, *self._first.get(port, ())} else inf

    def gone(self, host: str, at_s: float) -> None:
        """Note that the connection to a host is lost: what it counts meanwhile is not known."""
        for device in (rnic.device for rnic in self.hosts[host].platform.rnics):
            for name in self._first.pop((host, device), {}):
                if (course := self._courses.get((host, device), {}).get(name)) is not None:
                    course.at_s.append(at_s)
                    course.values.append(None)
            self._lacking.pop((host, device), None)
        self._at_s.pop(host, None)

    def close(self) -> None:
        """Do nothing: no resource is open."""

    def _count(self, port: _Port, name: str, at_s: float, value: Value) -> None:
        """
        Note the value of a counter.

        A course begins when the value first changes, as nearly none ever does, or where it cannot grow any more.
        """
        first = self._first.setdefault(port, {})
        courses = self._courses.get(port, {})
        if name not in first:
            first[name] = at_s, value
            if name not in courses:
                if value is not None and stands_full(name, value, ethernet=self._ethernet(port[0])):
                    self._courses.setdefault(port, {})[name] = CounterCourse([at_s], [value])
                    self._grew.add(port)
                return
        course = courses.get(name) or CounterCourse([first[name][0]], [first[name][1]])
        if course.values[-1] == value:
            return
        course.at_s.append(at_s)
        course.values.append(value)
        self._courses.setdefault(port, {})[name] = course
        self._grew.add(port)

    def _ethernet(self, host: str) -> bool:
        return self.hosts[host].platform.link_layer == "ethernet"

    def alarm(self, now_s: float, kind: str, outcome: Outcome, parts: Sequence[str], text: str) -> Alarm:
        """
        Return an alarm of this moment; *now_s* is on the same clock as *began_s*.

        Its time is that of this machine's clock, which may have been set since; simulated time may be ahead of it.
        """
        ahead_s = now_s - time.monotonic() - self._apart_s
        return Alarm(datetime.now(UTC) + timedelta(seconds=ahead_s), kind, outcome, tuple(parts), text)

    def step(self, now_s: float) -> Iterator[Alarm]:
        """Yield every new alarm."""
        limit_s = now_s - max(SILENT_S, 5 * self._every_s)
        silent = {name for name in self.hosts if self._at_s.get(name, self._began_s) < limit_s}
        unread = {
            f"{host}/{device}:port"
            for host, device in self._lacking
            if host not in silent and self._nothing_since((host, device)) < limit_s
        }
        back = {part for part in self.unread - unread if Part.of(part).host not in silent}
        for kind, names, outcome, text in (
            ("host", silent - self.silent, Outcome.INCONCLUSIVE, _UNREAD),
            ("host", self.silent - silent, Outcome.PASS, _READ_AGAIN),
            ("port", unread - self.unread, Outcome.INCONCLUSIVE, _UNREAD),
            ("port", back, Outcome.PASS, _READ_AGAIN),
        ):
            if names:
                yield self.alarm(now_s, kind, outcome, sorted(names), text)
        self.silent, self.unread = silent, unread
        if now_s >= self._again_s:
            self._again_s = now_s + AGAIN_S
            self._grew |= self._reported.keys()
        grew, self._grew = self._grew, set()
        for port in sorted(grew):
            yield from self._judged(port, now_s)

    def _judged(self, port: _Port, now_s: float) -> Iterator[Alarm]:
        """Judge a port by the rules of a run's verdict; repeat an alarm when it is worse or its count has doubled."""
        host, device = port
        courses, reported, part = self._courses[port], self._reported.setdefault(port, {}), f"{host}/{device}:port"
        for course in courses.values():
            course.until_s = now_s
            while len(course.at_s) > MOST_STEPS or (len(course.at_s) > 1 and course.at_s[1] < now_s - KEPT_S):
                del course.at_s[0], course.values[0]
        health = port_health(
            *port,
            courses,
            (),
            every_s=self._every_s,
            line_rate_gbps=self._ports[port].line_rate_gbps,
            ethernet=self._ethernet(host),
            ports=len(self._ports),
        )
        full = () if health is None else health.full
        for name in full:
            if name not in self._full.get(port, ()):
                yield self.alarm(now_s, "counter", Outcome.INCONCLUSIVE, [part], f"{name} {FULL}")
        self._full[port] = full
        if health is None or not health.bad:
            if full and part in self.bad:
                return  # nobody can see whether it is over
            del self._reported[port]
            if self.bad.pop(part, None) is not None:
                text = f"counted nothing for {duration_text(KEPT_S)}"
                yield self.alarm(now_s, "counter", Outcome.PASS, [part], text)
            return
        self.bad[part] = health.outcome
        for name, outcome, text in health.found:
            grown = sum(step.by for step in health.steps if step.name == name)
            before, then = reported.get(name, (Outcome.PASS, 0))
            if outcome.rank > before.rank or grown >= 2 * then > 0:
                reported[name] = outcome, grown
                yield self.alarm(now_s, "counter", outcome, [part], text)

    def shifts(self) -> list[Shift]:
        """Close a window of the traffic and return the shifts in it."""
        at_s = [self._at_s.get(host, nan) for host, _ in self._ports for _ in TRAFFIC]
        return self.traffic.window(np.asarray(at_s))

    def parts_of(self, shift: Shift) -> tuple[str, ...]:
        """Return the ports of a shift; one direction of a port (``tx``, ``rx``) if only that one shifted."""
        names = ["/".join(port) for port in self._ports]
        ways = gathered(divmod(row, len(TRAFFIC)) for row in shift.rows)
        both = [f"{names[place]}:port" for place in sorted(ways) if len(ways[place]) == len(TRAFFIC)]
        alone = [f"{names[place]}:{('tx', 'rx')[own[0]]}" for place, own in ways.items() if len(own) == 1]
        return (*both, *alone)

    def host_gbps(self) -> dict[str, tuple[float, float]]:
        """Return what each host sent and received in the last window; 0 where that is not known."""
        gbps = np.nan_to_num(self.traffic.gbps).reshape(-1, len(TRAFFIC))
        sums: dict[str, tuple[float, float]] = {}
        for (host, _), (sent, received) in zip(self._ports, gbps.tolist(), strict=True):
            before = sums.get(host, (0.0, 0.0))
            sums[host] = before[0] + sent, before[1] + received
        return sums


def shown_parts(parts: Sequence[str]) -> str:
    """Return many parts in few words: ``gpu[001-032]/mlx5_[0-7]:port``."""
    inside = gathered((part.inside, part.host) for part in map(Part.of, parts))
    alike = gathered((fold(hosts), rest) for rest, hosts in inside.items())
    return ", ".join(f"{hosts}/{fold(rests)}" if any(rests) else hosts for hosts, rests in alike.items())


class Monitor:
    """A fleet that is watched: *say* gets every alarm, ``seen`` is what is known now (any thread may read it)."""

    def __init__(
        self,
        inventory: Inventory,
        hosts: Sequence[str],
        executor: Executor,
        *,
        every_s: float,
        say: Callable[[Alarm], None],
    ) -> None:
        self._executor, self._say, self._every_s = executor, say, every_s
        self._began_s = executor.now()
        settings = SampleSettings(every_s=every_s, counters=False, temperatures=False, traffic=True)
        self._fleet = Fleet([inventory.topology.hosts[name] for name in hosts], every_s, self._began_s)
        self._watch = Watch(executor, self._fleet, settings, batch_s=BATCH_S)
        self._counts: Counter[str] = Counter()
        self.alarms: deque[Alarm] = deque(maxlen=MOST_ALARMS)
        self._gbps: Mapping[str, tuple[float, float]] = {}
        self.seen = self._now()

    def run(self, lasts_s: float | None) -> FleetSeen:
        """Watch for *lasts_s* seconds, or until interrupted; return what is known at the end."""
        until_s = inf if lasts_s is None else self._began_s + lasts_s
        step_s, window_s = self._began_s + self._every_s, self._began_s + WINDOW_S
        with listening(self._executor.wake) as asked:
            self._watch.begin(list(self._fleet.hosts.values()))
            while not asked.times and (now_s := self._executor.now()) < until_s:
                if now_s < step_s:
                    self._watch.wait(min(step_s, until_s))
                    continue
                step_s = max(step_s + self._every_s, now_s)
                found = list(self._fleet.step(now_s))
                if now_s >= window_s:
                    window_s = max(window_s + WINDOW_S, now_s)
                    found += self._shifted(now_s)
                    self._gbps = self._fleet.host_gbps()
                self._tell(found)
                self.seen = self._now()
        self.seen = self._now()
        return self.seen

    def close(self) -> None:
        """Stop the sampling and disconnect from every host."""
        self._watch.close()

    def _shifted(self, now_s: float) -> Iterator[Alarm]:
        for shift in self._fleet.shifts():
            outcome = Outcome.MARGINAL if shift.state else Outcome.PASS
            why = ", of most that carried any: a job that ended, waits or hangs (fabric hang)" if shift.job else ""
            text = shift.text + (why if shift.state else "")
            yield self._fleet.alarm(now_s, "traffic", outcome, self._fleet.parts_of(shift), text)

    def _tell(self, found: Sequence[Alarm]) -> None:
        """Report the worst alarms first, and no more than a screen of them."""
        listed = sorted(found, key=lambda one: -one.outcome.rank)
        self._counts.update(one.kind for one in listed)
        self.alarms.extend(listed)
        for one in listed[:MOST_A_STEP]:
            self._say(one)
        if rest := listed[MOST_A_STEP:]:
            parts = tuple(dict.fromkeys(part for one in rest for part in one.parts))
            self._say(replace(rest[0], parts=parts, text=f"{len(rest)} more alarms"))

    def _now(self) -> FleetSeen:
        used, fleet = resource.getrusage(resource.RUSAGE_SELF), self._fleet
        read = [host for name, host in fleet.hosts.items() if name not in fleet.silent]
        return FleetSeen(
            hosts=len(read),
            ports=sum(len(host.platform.rnics) for host in read) - len(fleet.unread),
            silent=tuple(sorted(fleet.silent)),
            unread=tuple(sorted(fleet.unread)),
            bad=dict(fleet.bad),
            alarms=dict(self._counts),
            gbps=self._gbps,
            at_s=self._executor.now() - self._began_s,
            cpu_s=used.ru_utime + used.ru_stime,
        )


def alarm_line(alarm: Alarm) -> str:
    """Return an alarm as one line: time, outcome, parts, text."""
    word = alarm.outcome.name if alarm.outcome is not Outcome.PASS else "-"
    return f"{alarm.at:%Y-%m-%d %H:%M:%S}  {word:12}  {shown_parts(alarm.parts)}  {alarm.text}"


def closing_line(seen: FleetSeen) -> str:
    """Return a one-line summary for the end of the watch."""
    bad = Counter(seen.bad.values())
    tally = ", ".join(f"{bad[one]:,} {one.name}" for one in (Outcome.FAIL, Outcome.MARGINAL) if bad[one]) or "none bad"
    nothing = (*seen.silent, *seen.unread)
    silent = f"; not read: {shown_parts(nothing)}" if nothing else ""
    return f"{seen.hosts:,} hosts read, {seen.ports:,} ports, {duration_text(seen.at_s)}: {tally}{silent}"
