"""
Which probes may run now: those of hosts that passed what the phase needs, that still answer, and were not left out.

Reading the tables of switches measures nothing of the host that reads them: a slow one may, as long as it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from fabric.engine.observer import Observer
from fabric.errors import ExecutorError, HostUnreachable, SessionLost
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import AGAIN, Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.plan.plan import PhasePlan
from fabric.probes import pairwise, routes, tor_all_reduce
from fabric.probes.kinds import PAIRED
from fabric.runs.events import Progress
from fabric.runs.run_directory import RunDirectory

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

    def __init__(self, out: Mapping[str, str] | None = None) -> None:
        self.names: dict[str, str] = {}
        self._rows: dict[str, _Row] = {}
        self.out = dict(out or {})

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
    """Why a probe is not run: because of *host*; *reason* is its result's."""

    host: str
    outcome: Outcome
    reason: str

    @property
    def error_host(self) -> str | None:
        """The host that the error belongs to; a host that was left out in order is none."""
        return self.host if self.outcome is Outcome.ERROR else None


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
                return Refusal(host, Outcome.SKIPPED, f"{host}: {self._excluded[host]}")
        out = self._health.out_of(probe)
        if out is not None:
            reason = f"not run: {out} is out of the run: {self._health.out[out]}"
            return Refusal(Part.of(out).host, Outcome.ERROR, reason)
        return None

    def admits(self, host: str, probe: Probe) -> bool:
        """Whether this host's part of a probe could run, whoever the others are."""
        claims = tuple(claim for claim in probe.claims if Part.of(claim).host == host)
        return self.refusal(replace(probe, hosts=(host,), claims=claims)) is None


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
        self._planned = tuple(probe for probe in probes if probe.kind in PAIRED or probe.kind == pairwise.KIND)
        self._tests: dict[_Test, list[Probe]] = {}
        for probe in self._planned:
            for host in probe.hosts:
                self._tests.setdefault(_test(host, probe), []).append(probe)
        self._lost: dict[str, str] = {}  # by host of a ring: whom it lost
        self._given: dict[_Test, str] = {}  # by test: the other partner
        self._made: set[str] = set()

    def remember(self, lost: Probe, probe: Probe) -> None:
        """Before the run was interrupted *probe* was planned instead of *lost*."""
        self._note(probe)
        for left in set(lost.hosts).intersection(probe.hosts):
            if probe.kind in PAIRED:
                self._lost.update((left, host) for host in lost.hosts if host != left)

    def instead(self, probe: Probe, refusal: Refusal) -> tuple[Refusal, Probe | None]:
        """
        How a probe that is refused, or was lost, because of one of its hosts is answered, and what to run instead.

        A test that was run because a part had dipped is not made up for: its follow-up asks for others.
        """
        left = next((host for host in probe.hosts if host != refusal.host), None)
        ring = probe.kind in PAIRED
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
        if probe.kind in PAIRED:
            rings = (one for one in self._planned if one.kind in PAIRED)
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


class Own(Protocol):
    """Hosts that are bad by their own probes and why, and hosts that do well by them."""

    @property
    def failed(self) -> Mapping[str, str]:
        """Host to what failed."""
        ...

    @property
    def well(self) -> frozenset[str]:
        """Hosts of which everything was measured and is good."""
        ...


JudgeOwn = Callable[[PhasePlan, Sequence[ProbeResult]], Own]
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
        judge_own: JudgeOwn | None,
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
        if phase.stop_host_on is None or self._judge_own is None or phase.name in self._judged:
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
