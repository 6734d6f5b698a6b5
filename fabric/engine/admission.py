"""
Which probes may run now: those of hosts that passed what the phase needs, that still answer, and were not left out; and
those that wait for their claims, in planned order.

Reading the tables of switches measures nothing of the host that reads them: a slow one may, as long as it answers.

Probes of the same claims, hosts and kind (repetitions, say) exclude each other and are welcome or refused together. So
of each such group only the first is looked at when a claim falls free. And a group that cannot start is parked under
one claim that it waits for, in a queue that is looked at when that falls free, and only until somebody takes it again:
of the probes of a fleet a hundred thousand wait at each instant, and a few can start. What is looked at grows with what
fell free, and with who went out, whatever waits elsewhere.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain
from operator import itemgetter

from fabric.engine.observer import Observer
from fabric.errors import ExecutorError, HostUnreachable, SessionLost
from fabric.model import gathered
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import AGAIN, LeftOutHost, Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.verdict import OwnFails
from fabric.plan import PhasePlan
from fabric.probes import pairwise, routes, tor_all_reduce
from fabric.runs.events import Progress
from fabric.runs.run_directory import RunDirectory

_Group = list[tuple[int, Probe]]
"""Probes alike, each with its place in the order: few, and of most there is one (an empty deque takes 600 bytes)."""

_Queue = list[tuple[int, object]]
"""
A heap of groups, by the place of the first probe and the key. An entry whose group is gone, or begins with another
probe now, is passed over: that group has another entry.
"""

_NO_CLAIM = ""
"""Under this, which nobody holds, are the groups that were not looked at yet."""


class Waiting:
    """Probes in an order; iterated in it."""

    def __init__(self, probes: Iterable[Probe]) -> None:
        self._groups: dict[object, _Group] = {}
        self._parked: dict[str, _Queue] = {}  # by claim
        self._naming: dict[str, list[object]] = {}  # by host and by claim: which groups it is of
        self._first = self._next = 0
        self._asked: int | None = None  # with how many names all that wait were asked; None: somebody came since
        self.extend(probes)

    def __iter__(self) -> Iterator[Probe]:
        return (probe for _, probe in _in_order(self._groups.values()))

    def extend(self, probes: Iterable[Probe]) -> None:
        """After all others."""
        for probe in probes:
            self.append(probe)

    def append(self, probe: Probe) -> None:
        """After all others."""
        key = _alike(probe)
        if key not in self._groups:
            self._begin(key, probe)
            self._park(_NO_CLAIM, self._next, key)
        self._groups[key].append((self._next, probe))
        self._next += 1
        self._asked = None

    def put_first(self, probe: Probe) -> None:
        """Before all others."""
        self._first -= 1
        key = _alike(probe)
        if key not in self._groups:
            self._begin(key, probe)
        self._groups[key].insert(0, (self._first, probe))
        self._park(_NO_CLAIM, self._first, key)
        self._asked = None

    def _begin(self, key: object, probe: Probe) -> None:
        self._groups[key] = []
        for name in (*probe.hosts, *probe.claims):
            self._naming.setdefault(name, []).append(key)

    def start(self, held: dict[str, float], freed: Iterable[str], now_s: float) -> list[Probe]:
        """
        Take those that may start beside what is *held*: in order, each whose claims those before it leave free.

        *held*: until when each claim that is held probably is, seconds; what is taken is added. *freed*: the claims
        that fell free since the last call.
        """
        started = []
        heads = [(self._parked[claim][0][0], claim) for claim in {_NO_CLAIM, *freed} if claim in self._parked]
        heapify(heads)
        while heads:
            claim = heads[0][1]
            if claim in held:  # again: whoever is left in its queue waits for it as before
                heappop(heads)
                continue
            queue = self._parked[claim]
            place, key = heappop(queue)
            group = self._groups.get(key)
            if group is not None and group[0][0] == place:
                started += self._look(key, group, held, now_s)
            if queue:
                heapreplace(heads, (queue[0][0], claim))
            else:
                heappop(heads)
                del self._parked[claim]
        return started

    def _look(self, key: object, group: _Group, held: dict[str, float], now_s: float) -> list[Probe]:
        """Start the first of a group if its claims are free; who waits then, waits for what is held longest."""
        started = []
        claims = group[0][1].claims
        if held.keys().isdisjoint(claims):
            _, probe = group.pop(0)
            held.update(dict.fromkeys(claims, now_s + probe.duration_s))
            started.append(probe)
        if group:
            longest = max((claim for claim in claims if claim in held), key=held.__getitem__)
            self._park(longest, group[0][0], key)
        else:
            del self._groups[key]
        return started

    def _park(self, claim: str, place: int, key: object) -> None:
        heappush(self._parked.setdefault(claim, []), (place, key))

    def take_all(self) -> list[Probe]:
        """Take every probe, in order."""
        groups, self._groups = self._groups, {}
        return [probe for _, probe in _in_order(groups.values())]

    def refuse(self, refused: Callable[[Probe], object], names: Sequence[str]) -> list[Probe]:
        """
        Take those that are refused, in order; *refused* tells by claims, hosts and kind alone.

        None is but for one of these *names* of hosts and claims, which only become more: where no name and nobody came
        since the last call, nobody is asked again.
        """
        if self._asked == len(names):
            return []
        self._asked = len(names)
        keys = {key for name in names for key in self._naming.get(name, ()) if key in self._groups}
        gone = [key for key in keys if refused(self._groups[key][0][1])]
        return [probe for _, probe in _in_order([self._groups.pop(key) for key in gone])]


def _alike(probe: Probe) -> object:
    """Probes without claims do not exclude each other: each is a group of its own."""
    return (probe.claims, probe.hosts, probe.kind) if probe.claims else probe.probe_id


def _in_order(groups: Iterable[_Group]) -> list[tuple[int, Probe]]:
    return sorted(chain.from_iterable(groups), key=itemgetter(0))


ERRORS_IN_A_ROW = 4
"""So many errors in a row take a host or a part out of the run (a choice: two could be chance, ten take too long)."""


@dataclass(slots=True)
class _Row:
    """Errors of one host in a row, and the claims that all of them held."""

    errors: int = 0
    shared: set[str] = field(default_factory=set)

    def error(self, claims: tuple[str, ...]) -> None:
        self.shared = self.shared.intersection(claims) if self.errors else set(claims)
        self.errors += 1

    def worked(self, claims: tuple[str, ...]) -> None:
        self.shared.difference_update(claims)
        if not self.shared:
            self.errors = 0


class HostHealth:
    """
    Which hosts and parts have stopped answering, so that the rest of their probes need not wait for a deadline each.

    Errors in a row that share no claim mean the host; errors that share exactly one claim, which never worked in
    between, mean that part (a hung RNIC must not take its host out of the run). What is out (a host, or one of its
    parts) stays out for the run.

    *out*: what is out, and why. *names*: what hosts that were asked call themselves.
    """

    def __init__(self, out: Mapping[str, str]) -> None:
        self.names: dict[str, str] = {}
        self._rows: dict[str, _Row] = {}
        self.out = dict(out)

    def out_of(self, probe: Probe) -> str | None:
        """The first host or claim of a probe that is out; None when all are in."""
        return next((name for name in (*probe.hosts, *probe.claims) if name in self.out), None)

    def lost(self, error: ExecutorError, *, final: bool) -> str | None:
        """
        Note a transport error; an unreachable host is out at once. Returns the host if it went out just now.

        Unless this is *final*, a session that was lost is forgiven: what ran in it will be tried once more.
        """
        if not isinstance(error, HostUnreachable) or (isinstance(error, SessionLost) and not final):
            return None
        return self.silent(error.host, str(error))

    def silent(self, host: str, why: str) -> str | None:
        """A host did not answer the simplest question: it is out. Returns it if it went out just now."""
        if host in self.out:
            return None
        self.out[host] = why
        return host

    def finished(self, probe: Probe, result: ProbeResult) -> str | None:
        """Note how a probe ended; returns the host or claim that went out just now."""
        if result.outcome is not Outcome.ERROR:
            for host in probe.hosts:
                if host in self._rows:
                    self._rows[host].worked(probe.claims)
            return None
        host_blamed = result.error_host or probe.hosts[0]  # where nobody knows, a bound needs somebody all the same
        if self.out_of(probe):
            return None
        row = self._rows.setdefault(host_blamed, _Row())
        row.error(probe.claims)
        if row.errors < ERRORS_IN_A_ROW or len(row.shared) > 1:
            return None
        gone = row.shared.pop() if row.shared else host_blamed
        del self._rows[host_blamed]
        self.out[gone] = f"{row.errors} errors in a row, the last: {result.reason}"
        return gone


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a probe is not run: because of *host* (empty: of none); *reason* is its result's."""

    host: str
    outcome: Outcome
    reason: str
    left_out: LeftOutHost | None = None

    @property
    def error_host(self) -> str | None:
        """The host that the error belongs to; a host that was left out in order is none."""
        return (self.host or None) if self.outcome is Outcome.ERROR else None


class ProbeAdmission:
    """Asks who was excluded (host to reason), and who went out of the run meanwhile."""

    def __init__(self, excluded: Mapping[str, str], health: HostHealth) -> None:
        self._excluded, self._health = excluded, health

    @property
    def refused_names(self) -> tuple[str, ...]:
        """The hosts and claims because of which a probe may be refused; in a phase they only become more."""
        return (*self._excluded, *self._health.out)

    def refusal(self, probe: Probe) -> Refusal | None:
        """Why this probe may not run; None when it may."""
        for host in probe.hosts:
            if host in self._excluded and probe.kind != routes.KIND:
                left_out = LeftOutHost(host, self._excluded[host])
                return Refusal(host, Outcome.SKIPPED, str(left_out), left_out)
        out = self._health.out_of(probe)
        if out is not None:
            reason = f"not run: {out} is out of the run: {self._health.out[out]}"
            return Refusal(Part.of(out).host, Outcome.ERROR, reason)
        return None

    def admits(self, host: str, probe: Probe) -> bool:
        """Whether this host's part of a probe could run, whoever the others are."""
        claims = tuple(claim for claim in probe.claims if Part.of(claim).host == host)
        return self.refusal(replace(probe, hosts=(host,), claims=claims)) is None


RING = tor_all_reduce.TorAllReduceSpec.kind
"""What measures neighbours of a ring, and so can be given another neighbour."""

_Test = tuple[str, object, object]
"""One test of a host among pairs: the host, and which of its tests (rail and round, or probes that are repeated)."""


class Replanning:
    """
    Remembers who was given another partner: each test of a host once, so that there is an end to it.

    All repetitions of a pair go to the same other partner, and two hosts that each lost one may be given each other. In
    a ring, whose hosts have two neighbours each, only one of them is made up for.
    """

    def __init__(self, probes: Iterable[Probe], topology: Topology, admission: ProbeAdmission) -> None:
        self._topology, self._admission = topology, admission
        self._planned = tuple(probe for probe in probes if probe.kind == RING or probe.kind == pairwise.KIND)
        self._tests = gathered((_test(host, probe), probe) for probe in self._planned for host in probe.hosts)
        self._lost: dict[str, str] = {}  # by host of a ring: whom it lost
        self._given: dict[_Test, str] = {}  # by test: the other partner
        self._made: set[str] = set()

    def remember(self, lost: Probe, probe: Probe) -> None:
        """Before the run was interrupted *probe* was planned instead of *lost*."""
        self._note(probe)
        for left in set(lost.hosts).intersection(probe.hosts):
            if probe.kind == RING:
                self._lost.update((left, host) for host in lost.hosts if host != left)

    def instead(self, probe: Probe, refusal: Refusal) -> tuple[Refusal, Probe | None]:
        """
        How a probe that is refused, or was lost, because of one of its hosts is answered, and what to run instead.

        A test that was run because a part had dipped is not made up for: its follow-up asks for others.
        """
        left = next((host for host in probe.hosts if host != refusal.host), None)
        ring = probe.kind == RING
        if AGAIN in probe.params or left is None or not (ring or probe.kind == pairwise.KIND):
            return refusal, None
        if not self._admission.admits(left, probe) or probe.probe_id in self._made:
            return refusal, None
        if ring and self._lost.setdefault(left, refusal.host) != refusal.host:
            return refusal, None
        given = None if ring else self._given.get(_test(left, probe))
        for other in self._others(probe, left):
            if (given is None or given in other.hosts) and self._admission.refusal(other) is None:
                reason = f"{refusal.reason}; re-planned as {'+'.join(other.hosts)}"
                new = other.probe_id not in self._made
                self._note(other)
                return replace(refusal, reason=reason), other if new else None
        if self._is_measured(left, probe):
            return replace(refusal, reason=f"{refusal.reason}; {left} is measured with others as planned"), None
        reason = f"{refusal.reason}; no other partner for {left} is in the run"
        return replace(refusal, outcome=Outcome.INCONCLUSIVE, reason=reason), None

    def _others(self, probe: Probe, left: str) -> Iterator[Probe]:
        if probe.kind == RING:
            rings = (one for one in self._planned if one.kind == RING)
            return tor_all_reduce.other_pairs(probe, left, rings, self._topology)
        return pairwise.other_pairs(
            probe, left, self._planned, lambda host: self._is_bereft(host, probe, left), self._topology
        )

    def _is_bereft(self, host: str, probe: Probe, left: str) -> bool:
        """Its partner in the same round of pairs may not run, and nobody but *left* was found for it so far."""
        test = _test(host, probe)
        lost = [one for one in self._tests.get(test, ()) if self._admission.refusal(one) is not None]
        return self._given.get(test, left) == left and any(self._admission.admits(host, one) for one in lost)

    def _is_measured(self, host: str, probe: Probe) -> bool:
        """The same is measured of it in this phase with somebody else, as planned."""
        planned = (one for one in self._planned if one.kind == probe.kind and host in one.hosts)
        return any(self._admission.refusal(one) is None for one in planned)

    def _note(self, made: Probe) -> None:
        self._made.add(made.probe_id)
        if made.kind == pairwise.KIND:
            for host, other in (made.hosts, made.hosts[::-1]):
                self._given.setdefault(_test(host, made), other)


def _test(host: str, probe: Probe) -> _Test:
    return host, probe.params.get("rail", probe.kind), probe.params.get("round")


ROUNDS_IN_A_ROW = 2
"""So many rounds in which its own probes are bad take a host out (a choice: one bad sample drains no host)."""


JudgeOwn = Callable[[PhasePlan, Sequence[ProbeResult]], OwnFails]
"""How the hosts of a phase did by their own probes."""


class LeftOut:
    """
    The hosts that a phase with ``stop_host_on: fail`` leaves out of its later rounds; it knows them over a resume, too.

    A host is left out after two rounds one after the other in which probes of its own FAILed or ended in an ERROR (a
    GPU that hangs measures nothing): once may be chance, and a probe with another host does not say whose fault it is.
    Its partners go on with others, as when a host is lost. Rounds are counted by the written name of the phase.
    """

    def __init__(
        self,
        judge_own: JudgeOwn,
        *,
        directory: RunDirectory,
        clock: Callable[[], float],
        observer: Observer,
        progress: Progress,
    ) -> None:
        self._judge_own, self._directory, self._clock, self._observer = judge_own, directory, clock, observer
        self._bad_rounds = {written: dict(counts) for written, counts in progress.bad_rounds.items()}
        self._judged = set(progress.rounds_judged)
        self._hosts = dict(progress.left_out)

    def excluded(self, phase: Phase) -> dict[str, str]:
        """Who takes no part in this phase, and why."""
        return dict(self._hosts) if phase.stop_host_on is not None else {}

    def judge(self, phase_plan: PhasePlan, results: Sequence[ProbeResult]) -> None:
        """After a round: count, and leave out who failed too often. Noted once, though a run goes on from here."""
        phase = phase_plan.phase
        if phase.stop_host_on is None or phase.name in self._judged:
            return
        own = self._judge_own(phase_plan, results)
        before = self._bad_rounds.get(phase.written, {})
        after = {host: number for host, number in before.items() if host not in own.well}
        after |= {host: before.get(host, 0) + 1 for host in own.failed}
        left_out = {
            host: f"left out after {phase.name}: in {number} rounds one after the other its own probes were bad, "
            f"the last time {own.failed[host]}"
            for host, number in after.items()
            if number >= ROUNDS_IN_A_ROW and host in own.failed and host not in self._hosts
        }
        if after == before:
            return
        self._bad_rounds[phase.written] = after
        self._hosts |= left_out
        fields = {"phase": phase.name, "written": phase.written, "bad_rounds": after, "left_out": left_out}
        self._directory.events.append("round_judged", self._clock(), fields)
        for host, reason in left_out.items():
            self._observer.out_of_run(host, reason)
