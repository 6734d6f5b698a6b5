"""Admission of probes: which ones may run now, which are refused, and which other pair is measured instead.

A probe may run if its hosts passed what the phase needs, still answer, and were not left out. The others wait for their
claims, in planned order. Reading the tables of switches measures nothing on the reading host, so an excluded host may
still do it as long as it answers.

Probes with the same claims, hosts and kind (repetitions, say) exclude each other and are admitted or refused together,
so only the first of such a group is looked at when a claim falls free. A group that cannot start is parked in the queue
of one claim it waits for. That queue is looked at when the claim falls free, and only until somebody takes the claim
again. In a fleet a hundred thousand probes wait at any moment and few can start; this way the work grows with the
claims freed and the hosts lost, not with the number of waiting probes.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain
from operator import itemgetter

from fabric.engine.observer import Means
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

_Group = list[tuple[int, Probe]]
"""Equal probes, each with its place in the order. Most groups hold a single probe (an empty deque takes 600 bytes)."""

_Queue = list[tuple[int, object]]
"""
A heap of groups, ordered by the place of the first probe, then the key.

An entry is stale, and skipped, when its group is gone or begins with another probe by now: that group then has another
entry.
"""

_NO_CLAIM = ""
"""The queue of groups that were not looked at yet; nobody ever holds this claim."""


class Waiting:
    """Waiting probes in an order; iteration follows it."""

    def __init__(self, probes: Iterable[Probe]) -> None:
        self._groups: dict[object, _Group] = {}
        self._parked: dict[str, _Queue] = {}  # by claim
        self._naming: dict[str, list[object]] = {}  # host or claim to the keys of the groups that use it
        self._first = self._next = 0
        self._asked: int | None = None  # number of names at the last ``pop_refused``; None: a probe was added since
        self.extend(probes)

    def __iter__(self) -> Iterator[Probe]:
        return (probe for _, probe in _in_order(self._groups.values()))

    def extend(self, probes: Iterable[Probe]) -> None:
        """Add probes after all others."""
        for probe in probes:
            self.append(probe)

    def append(self, probe: Probe) -> None:
        """Add a probe after all others."""
        self._put(probe, self._next)
        self._next += 1

    def put_first(self, probe: Probe) -> None:
        """Add a probe before all others."""
        self._first -= 1
        self._put(probe, self._first)

    def _put(self, probe: Probe, place: int) -> None:
        key = _alike(probe)
        if key not in self._groups:
            self._groups[key] = []
            for name in (*probe.hosts, *probe.claims):
                self._naming.setdefault(name, []).append(key)
        group = self._groups[key]
        insort(group, (place, probe), key=itemgetter(0))
        if group[0][0] == place:  # it comes first in its group, which was parked by another place if at all
            self._park(_NO_CLAIM, place, key)
        self._asked = None

    def start(self, held: dict[str, float], freed: Iterable[str], now_s: float) -> list[Probe]:
        """
        Remove and return the probes that may start beside what is *held*: in order, each whose claims are still free.

        *held*: each held claim with the time (seconds) until which it is probably held; claims of returned probes are
        added. *freed*: the claims that fell free since the last call.
        """
        started = []
        heads = [(self._parked[claim][0][0], claim) for claim in {_NO_CLAIM, *freed} if claim in self._parked]
        heapify(heads)
        while heads:
            claim = heads[0][1]
            if claim in held:  # held again: what is left in its queue waits as before
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
        """Start the first of a group if its claims are free; park what is left under the claim that is held longest."""
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

    def pop_all(self) -> list[Probe]:
        """Remove and return every probe, in order."""
        groups, self._groups = self._groups, {}
        return [probe for _, probe in _in_order(groups.values())]

    def pop_refused(self, refused: Callable[[Probe], object], names: Sequence[str]) -> list[Probe]:
        """
        Remove and return the refused probes, in order; *refused* may look at claims, hosts and kind only.

        Probes are refused only because of one of these *names* of hosts and claims, which are only ever added to. If
        there is neither a new name nor a new probe since the last call, no probe is asked again.
        """
        if self._asked == len(names):
            return []
        self._asked = len(names)
        keys = {key for name in names for key in self._naming.get(name, ()) if key in self._groups}
        gone = [key for key in keys if refused(self._groups[key][0][1])]
        return [probe for _, probe in _in_order([self._groups.pop(key) for key in gone])]


def _alike(probe: Probe) -> object:
    """Return the key of a probe's group. A probe without claims excludes no other, so it is a group of its own."""
    return (probe.claims, probe.hosts, probe.kind) if probe.claims else probe.probe_id


def _in_order(groups: Iterable[_Group]) -> list[tuple[int, Probe]]:
    return sorted(chain.from_iterable(groups), key=itemgetter(0))


ERRORS_IN_A_ROW = 4
"""Errors in a row that take a host or part out of the run (a choice: two could be chance, ten take too long)."""


@dataclass(slots=True)
class _ErrorStreak:
    """The errors of one host in a row, and the claims that all of them held."""

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
    Keeps track of the hosts and parts that have stopped answering, so that their other probes need not time out.

    Errors in a row that share no claim blame the host. Errors that share exactly one claim, which never worked in
    between, blame that part (a hung RNIC must not take its host out of the run). What is out stays out for the run.

    *out*: hosts and parts that are out, with the reason, which does not repeat the host. *names*: the names that hosts
    gave for themselves when asked.
    """

    def __init__(self, out: Mapping[str, str]) -> None:
        self.names: dict[str, str] = {}
        self._streaks: dict[str, _ErrorStreak] = {}
        self.out = dict(out)

    def out_of(self, probe: Probe) -> str | None:
        """Return the first host or claim of a probe that is out; None when all are in."""
        return next((name for name in (*probe.hosts, *probe.claims) if name in self.out), None)

    def lost(self, error: ExecutorError, *, final: bool) -> str | None:
        """
        Note a transport error; an unreachable host is out at once. Return the host if it went out just now.

        A lost session is forgiven unless this is *final*: the probe will be tried once more.
        """
        if not isinstance(error, HostUnreachable) or (isinstance(error, SessionLost) and not final):
            return None
        return self.silent(error.host, str(error))

    def silent(self, host: str, why: str) -> str | None:
        """Take a host out because it did not answer the simplest question. Return it if it went out just now."""
        return None if host in self.out else self._put_out(host, why)

    def finished(self, probe: Probe, result: ProbeResult) -> str | None:
        """Note how a probe ended; return the host or claim that went out just now."""
        if result.outcome is not Outcome.ERROR:
            for host in probe.hosts:
                if host in self._streaks:
                    self._streaks[host].worked(probe.claims)
            return None
        host_blamed = result.error_host or probe.hosts[0]  # when nobody knows, the count still needs a host
        if self.out_of(probe):
            return None
        streak = self._streaks.setdefault(host_blamed, _ErrorStreak())
        streak.error(probe.claims)
        if streak.errors < ERRORS_IN_A_ROW or len(streak.shared) > 1:
            return None
        gone = streak.shared.pop() if streak.shared else host_blamed
        del self._streaks[host_blamed]
        return self._put_out(gone, result.reason, f"{streak.errors} errors in a row, the last: ")

    def _put_out(self, name: str, reason: str, counted: str = "") -> str:
        self.out[name] = counted + reason.removeprefix(f"{Part.of(name).host}: ")
        return name


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a probe is not run: because of *host* (empty: of none); *reason* goes into its result."""

    host: str
    outcome: Outcome
    reason: str
    left_out: LeftOutHost | None = None

    @property
    def error_host(self) -> str | None:
        """The host that the error belongs to; None when a host was left out in order, which is no error."""
        return (self.host or None) if self.outcome is Outcome.ERROR else None


class ProbeAdmission:
    """Decides whether probes may run, from the *excluded* hosts (host to reason) and those that went out of the run."""

    def __init__(self, excluded: Mapping[str, str], health: HostHealth) -> None:
        self._excluded, self._health = excluded, health

    @property
    def refused_names(self) -> tuple[str, ...]:
        """The hosts and claims because of which a probe may be refused; within a phase names are only added."""
        return (*self._excluded, *self._health.out)

    def refusal(self, probe: Probe) -> Refusal | None:
        """Return why this probe may not run, or None when it may."""
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
        """Return whether this host's part of a probe could run, whatever its other hosts are."""
        claims = tuple(claim for claim in probe.claims if Part.of(claim).host == host)
        return self.refusal(replace(probe, hosts=(host,), claims=claims)) is None


RING = tor_all_reduce.TorAllReduceSpec.kind
"""The kind that measures neighbours in a ring, which can be given another neighbour."""

_Test = tuple[str, object, object]
"""One test of a host among pairs: the host, then its rail (or kind) and round."""


class Replanning:
    """
    Finds other partners for hosts that lost theirs. Each test of a host is re-planned once, so that it ends.

    All repetitions of a pair go to the same new partner, and two hosts that each lost one may be paired. In a ring
    every host has two neighbours, and only one lost neighbour is replaced.
    """

    def __init__(self, probes: Iterable[Probe], topology: Topology, admission: ProbeAdmission) -> None:
        self._topology, self._admission = topology, admission
        self._planned = tuple(probe for probe in probes if probe.kind == RING or probe.kind == pairwise.KIND)
        self._tests = gathered((_test(host, probe), probe) for probe in self._planned for host in probe.hosts)
        self._lost: dict[str, str] = {}  # by host of a ring: the neighbour it lost
        self._given: dict[_Test, str] = {}  # by test: the new partner
        self._made: set[str] = set()

    def remember(self, lost: Probe, probe: Probe) -> None:
        """Restore that *probe* was planned instead of *lost* before the run was interrupted."""
        self._note(probe)
        for left in set(lost.hosts).intersection(probe.hosts):
            if probe.kind == RING:
                self._lost.update((left, host) for host in lost.hosts if host != left)

    def instead(self, probe: Probe, refusal: Refusal) -> tuple[Refusal, Probe | None]:
        """
        Return the refusal to record for a probe that a host keeps from running, and the probe to run instead.

        A test that was run because a part had dipped is not replaced: its follow-up asks for other tests.
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
        """Return whether a host lost its partner in the same round of pairs and has found nobody but *left* so far."""
        test = _test(host, probe)
        lost = [one for one in self._tests.get(test, ()) if self._admission.refusal(one) is not None]
        return self._given.get(test, left) == left and any(self._admission.admits(host, one) for one in lost)

    def _is_measured(self, host: str, probe: Probe) -> bool:
        """Return whether another planned probe of this phase measures the same of this host with somebody else."""
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
"""Rounds in a row with bad probes of its own that take a host out (a choice: one bad sample drains no host)."""


JudgeOwn = Callable[[PhasePlan, Sequence[ProbeResult]], OwnFails]
"""Judges how the hosts of a phase did by their own probes."""


class LeftOut:
    """
    The hosts that a phase with ``stop_host_on: fail`` leaves out of its later rounds, remembered over a resume.

    A host is left out after two rounds in a row in which probes of its own FAILed or ended in an ERROR (a GPU that
    hangs measures nothing). Once may be chance, and a probe with another host does not say whose fault it is. Its
    partners go on with others, as when a host is lost. Rounds are counted by the written name of the phase.
    """

    def __init__(self, judge_own: JudgeOwn, means: Means, progress: Progress) -> None:
        self._judge_own, self._means = judge_own, means
        self._bad_rounds = {written: dict(counts) for written, counts in progress.bad_rounds.items()}
        self._judged = set(progress.rounds_judged)
        self._hosts = dict(progress.left_out)

    def excluded(self, phase: Phase) -> dict[str, str]:
        """Return the hosts that take no part in this phase, with the reason."""
        return dict(self._hosts) if phase.stop_host_on is not None else {}

    def judge(self, phase_plan: PhasePlan, results: Sequence[ProbeResult]) -> None:
        """
        Count the bad rounds and leave out hosts that failed too often. Each round is judged once, also after a resume.
        """
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
        self._means.directory.events.append("round_judged", self._means.executor.now(), fields)
        for host, reason in left_out.items():
            self._means.observer.out_of_run(host, reason)
