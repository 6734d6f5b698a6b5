"""Drain bad hosts (Slurm) or cordon them (Kubernetes), give repaired ones back, and reserve a run's hosts (Slurm).

What the newest runs say of a host (``standing``) also decides whether a job may begin there.

Slurm has no compare-and-swap: a second drain replaces ours, and whoever ends a drain ends anybody's. So a node is read,
altered and read again, and only a drain whose reason is exactly the one written here is ended. The same rule holds for
Kubernetes. A line in the results folder's ledger is on disk before either is told anything.

A reservation is not a change of the fabric: it is on no host, where a guard could end it, and other runs may measure
beside it. So the ledger keeps it, in the same order: write a line to disk, tell Slurm, read it back. Slurm itself ends
it when its time is over: that is its lease.
"""

from __future__ import annotations

import os
import pwd
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path

from fabric.engine.interruption import listening
from fabric.errors import ConfigError, ExecutorError, FabricError, MayBeLive, StoreError, ToolError
from fabric.hosts.process import run_here
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import CommandResult
from fabric.model.repair import Decision
from fabric.model.text import fold, some
from fabric.plan import Plan
from fabric.ports import Nodes, SchedulerNode
from fabric.report.changes import Restored
from fabric.runs import run_document
from fabric.runs.journal import LEDGER, LedgerEntry, drains, reservations
from fabric.runs.plain_file import read_plain, storing
from fabric.runs.run_directory import CLOCKS_APART, RUN, run_folders
from fabric.runs.run_lock import running
from fabric.runs.stored_verdict import DECISION, stored_decision, stored_verdict
from fabric.tools import slurm
from fabric.tools.driver import complaint

MOST_SHARE = 0.25
"""The largest share of a run's hosts drained at once: beyond it the network is bad, or the measurement (a choice)."""

_MEASURED = frozenset({"rnic", "gpu", "gpu_pcie", "numa", "path", "link"})
"""Kinds of suspects whose RNIC, GPU or memory node has a verdict of its own; for other kinds the host's counts."""

_GOOD = ("pass", "marginal")
_RUN = re.compile(r"\d{8}-\d", re.ASCII)
_VALIDATES = re.compile(rb'"because": ?\{')
"""Matches the document of a run that validates a repair: its verdict alone lets no host return."""

MOST_PARTS = 3
"""How many of a host's bad parts are named."""
_MOST_RUNS = 200


@dataclass(frozen=True, slots=True)
class Standing:
    """
    What the newest verdict says of a host, *why*, and which *run*.

    FAIL is of high severity: no job may begin. MARGINAL is of low severity: a job may begin, and the host is repaired
    after it. PASS is good; INCONCLUSIVE: no verdict covers it.
    """

    host: str
    outcome: Outcome
    why: str
    run: str | None = None


@dataclass(frozen=True, slots=True)
class JudgedHosts:
    """
    What a run's files say: its hosts, the *good* parts of all, and who may return.

    *bad*: for each host its bad parts, each with the part that has to be good in a later run to clear it. *low*:
    MARGINAL parts of other hosts. *unsure*: parts that are not good for another reason.
    """

    path: Path
    backend: str
    name: str
    measured: frozenset[str]
    good: frozenset[str]
    bad: Mapping[str, Mapping[str, str]]
    low: Mapping[str, list[str]]
    unsure: Mapping[str, list[str]]
    wide: tuple[str, ...]
    accepted: tuple[str, ...]

    def too_many(self, *, low: bool = False) -> str:
        """Say why no host is drained for a bad part, or for a *low* one (MARGINAL); empty if hosts may be drained."""
        count, how = (len({*self.bad, *self.low}), "bad or marginal") if low else (len(self.bad), "bad")
        if count <= max(1, MOST_SHARE * len(self.measured)):
            return ""
        return f"{count} of {len(self.measured)} hosts have a {how} part: too many to be drained at once"


def standing(host: str, results: Path, *, days: int) -> Standing:
    """
    Return what the newest run says that measured *host* well.

    An older run counts instead if it found a bad part that no newer run measured as good. None is older than *days*;
    simulated runs do not count. If a newer run cannot be read, was ended before it was judged, or is of the future, a
    PASS becomes INCONCLUSIVE. Raises ConfigError where there is no folder of runs.
    """
    now = datetime.now(UTC)
    since, until = (f"{at:%Y%m%d-%H%M%S}" for at in (now - timedelta(days=days), now + CLOCKS_APART))
    folders = run_folders(results)
    doubts = [f"{path}: cannot be read: {why}" for path, why in folders.closed.items()]
    newest: Standing | None = None
    healed: set[str] = set()
    for path, judged in _newest_first(folders.runs, since, host):
        if isinstance(judged, FabricError):
            doubts += [str(judged)] if newest is None else []
            continue
        still = [part for part, over in judged.bad.get(host, {}).items() if over not in healed]
        if still:
            return Standing(host, Outcome.FAIL, ", ".join(still[:MOST_PARTS]), str(path))
        found = _standing_in(host, judged)
        if found is not None and path.name > until:
            doubts.append(f"{path}: is of the future: a clock is wrong")
            continue
        newest = newest or found
        if host in judged.accepted:
            break
        healed |= judged.good
    if newest is None or (doubts and newest.outcome is Outcome.PASS):
        why = next(iter(doubts), f"no run of real hosts in the last {days} days measured it well")
        return Standing(host, Outcome.INCONCLUSIVE, why)
    return newest


def _newest_first(runs: Iterable[Path], since: str, host: str) -> Iterator[tuple[Path, JudgedHosts | FabricError]]:
    """Yield each judged run of real hosts, or why nothing is known of one that asked *host*; none before *since*."""
    named = sorted((path for path in runs if _RUN.match(path.name) and path.name >= since), key=lambda path: path.name)
    for path in named[: -_MOST_RUNS - 1 : -1]:
        try:
            judged = judged_hosts(path)
            if judged is None and running(path) is None and _is_asked(host, path):
                raise StoreError(f"{path}: ended before it was judged: fabric analyze {path}")
        except (ConfigError, StoreError) as exc:
            yield path, exc
            continue
        if judged is not None and judged.backend != "mock":
            yield path, judged


def _is_asked(host: str, path: Path) -> bool:
    document = run_document.read_run(path)
    return document["backend"] != "mock" and host in document["asked"]["scenario"]["hosts"]


def _standing_in(host: str, judged: JudgedHosts) -> Standing | None:
    """Return what a run says of a host that has no bad part; None if it says nothing."""
    if host in judged.unsure:
        return Standing(host, Outcome.INCONCLUSIVE, ", ".join(judged.unsure[host][:MOST_PARTS]), str(judged.path))
    if host in judged.low and host not in judged.accepted:
        return Standing(host, Outcome.MARGINAL, ", ".join(judged.low[host][:MOST_PARTS]), str(judged.path))
    if host in judged.accepted or host in judged.good:
        return Standing(host, Outcome.PASS, "everything measured of it is good", str(judged.path))
    return None


def judged_hosts(path: Path) -> JudgedHosts | None:
    """Return None without a verdict that covers all of the run; raise StoreError for a malformed file."""
    verdict = stored_verdict(path)
    if verdict is None:
        return None
    bad: dict[str, dict[str, str]] = defaultdict(dict)
    low, unsure = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    wide = []
    for one in verdict.suspects:
        name = one.component
        hosts = {part.host for other in (name, *one.ambiguous_with) for part in Part.of(other).members}
        own = len(hosts) == 1 and (*hosts,) == one.hosts
        if own and one.outcome is Outcome.MARGINAL:
            low[one.hosts[0]].append(name)
            continue
        if own and one.outcome is Outcome.FAIL:
            part = Part.of(name)
            bad[part.host][name] = f"{part.host}/{part.device}" if one.kind in _MEASURED else part.host
            continue
        wide += [name] if one.outcome is Outcome.FAIL else []
        for host in hosts:
            unsure[host].append(name)
    for name, outcome in verdict.outcome_of.items():
        if outcome not in _GOOD and outcome != "skipped" and Part.of(name).host not in {*bad, *unsure}:
            unsure[Part.of(name).host].append(name)
    named = _decided(path)
    accepted = named[Decision.ACCEPT]
    unsure |= {host: ["post-repair: INCONCLUSIVE"] for host in named[Decision.INCONCLUSIVE]}
    return JudgedHosts(
        path=path,
        backend=verdict.backend,
        name=f"{verdict.scenario}/{verdict.run_id}",
        measured=frozenset(name for name in verdict.outcome_of if not re.search("[/:+]|--", name)),
        good=frozenset(name for name, outcome in verdict.outcome_of.items() if outcome in _GOOD),
        bad={host: {"post-repair: REJECT": ""} for host in named[Decision.REJECT]}
        | {host: names for host, names in bad.items() if host not in accepted},
        low={host: names for host, names in low.items() if host not in bad},
        unsure={host: names for host, names in unsure.items() if host not in accepted},
        wide=tuple(wide),
        accepted=accepted,
    )


def _decided(path: Path) -> Mapping[Decision, tuple[str, ...]]:
    """Return the names by decision of a post-repair validation; nobody for any other run."""
    decision = stored_decision(path)
    each = decision.each if decision else ()
    if not each and (decision or _validates(path)):
        raise StoreError(f"{path / DECISION} decides of no host; fabric report {path} makes it")
    return {wanted: tuple(one.name for one in each if one.decision is wanted) for wanted in Decision}


def _validates(path: Path) -> bool:
    with storing(path / RUN, "cannot be read"):
        return _VALIDATES.search(read_plain(path / RUN, run_document.MOST_BYTES)) is not None


OURS = "fabric: "
"""How the reason of our drains begins: its first word is its owner, as with node health checks."""

_TIMEOUT_S = 30.0
"""
Seconds for an answer of Slurm (a choice: ``scontrol`` itself gives up on an absent controller after 9 s, measured).
"""

_ALL_DAYS = 36_500

RunCommand = Callable[[tuple[str, ...]], CommandResult]
"""A function that runs one command on this machine."""


def ask_slurm(argv: tuple[str, ...]) -> CommandResult:
    """Run one command on this machine; raise ToolError if it cannot be started or does not answer in time."""
    try:
        return run_here(argv, _TIMEOUT_S)
    except (OSError, ExecutorError) as exc:
        raise ToolError(f"{argv[0]}: {exc}") from exc


class SlurmNodes:
    """The nodes of Slurm, by ``scontrol``."""

    name, lead = "Slurm", ""

    def __init__(self, run: RunCommand = ask_slurm) -> None:
        self._run = run

    def node(self, host: str) -> SchedulerNode | None:
        """Read a node's state with ``scontrol show node``."""
        answer = self._run(slurm.show_node(host))
        return slurm.node(host, answer.stdout, answer.stderr, answer.exit_status)

    def drain(self, host: str, reason: str) -> str:
        """Drain a node; a job that runs there goes on to its end."""
        return self._request(slurm.drain(host, reason))

    def undrain(self, host: str) -> str:
        """End a drain. A node that is DOWN stays so: Slurm 22.05 complains of that, but ends the drain."""
        objection = self._request(slurm.undrain(host))
        after = self.node(host) if objection else None
        return objection if after is None or after.is_drained else ""

    def _request(self, argv: tuple[str, ...]) -> str:
        answer = self._run(argv)
        return complaint(answer.stdout, answer.stderr) if answer.exit_status else ""


def nodes_of(act: str) -> Nodes:
    """Return the nodes that ``--act`` means: ``drain`` those of Slurm, ``cordon`` those of Kubernetes."""
    if act == "drain":
        return SlurmNodes()
    from fabric.hosts.kubernetes import KubernetesNodes

    return KubernetesNodes()


def act(path: Path, *, nodes: Nodes) -> Iterator[str]:
    """
    Drain the hosts in which a run found a bad part, or give back those that a post-repair run accepted.

    Yields what was done, and what was not and why. Raises ConfigError for a run of the simulated fabric, StoreError for
    one that is not judged. If the ledger cannot be written, the scheduler is told nothing.
    """
    judged = judged_hosts(path)
    if judged is None:
        raise StoreError(f"{path}: not judged to its end: nobody is drained")
    if judged.backend == "mock":
        raise ConfigError.at("--act", f"{path} is of the simulated fabric: no real host is drained")
    results = path.resolve().parent.parent
    if too_many := judged.too_many():
        yield too_many
    for host, parts in judged.bad.items() if not too_many else ():
        now = standing(host, results, days=_ALL_DAYS)
        if now.outcome is Outcome.PASS:
            yield f"{host}: not drained: found to be good since, by {now.run}"
        else:
            yield _drained(host, _reason(tuple(parts), judged.name), results, nodes)
    for host in judged.accepted:
        yield _undrained(host, judged.name, results, nodes)
    for part in judged.wide:
        yield f"{part}: it is no part of one host: nobody is drained for it"


def drain(standing: Standing, results: Path, *, nodes: Nodes) -> str:
    """Drain a host that a gate found bad or marginal; return what was done, or what was not and why."""
    judged, is_low = judged_hosts(Path(standing.run or "")), standing.outcome is Outcome.MARGINAL
    why_not = "" if judged is None else judged.too_many(low=is_low)
    if why_not:
        return f"{standing.host}: not drained: {why_not}"
    name = "/".join(Path(standing.run or "").parts[-2:])
    why = f"{standing.why} (marginal)" if is_low else standing.why
    return _drained(standing.host, _reason([why], name), results, nodes)


def _reason(parts: Sequence[str], run: str) -> str:
    return f"{OURS}{some(parts, MOST_PARTS)}; run {run}"


def _drained(host: str, reason: str, results: Path, nodes: Nodes) -> str:
    """Read the node, drain it, read it again."""
    requested = False
    try:
        before = nodes.node(host)
        if before is None:
            return f"{host}: {nodes.name} knows no node of that name"
        if before.is_drained:
            return f"{host}: is drained already ({before.by}: {before.reason}); left as it is"
        if before.reason == reason:
            return f"{host}: was drained for that, and somebody ended it; left as it is"
        with LedgerEntry(results / LEDGER, nodes.lead + host, "drain", reason=reason) as entry:
            requested = True
            objection = nodes.drain(host, reason)
            after = nodes.node(host)
            ours = after is not None and after.is_drained and after.reason == reason
            entry.state = "done" if ours else "not seen"
    except ValueError as exc:
        return f"{host}: not drained: {exc}"
    except (ToolError, StoreError) as exc:
        return f"{host}: {'told to drain, and not seen' if requested else 'not drained'}: {exc}"
    now = "not drained" if after is None or not after.is_drained else f"drained by {after.by}: {after.reason}"
    return f"{host}: " + (f"drained ({reason})" if ours else now) + (f" ({objection})" if objection else "")


def _undrained(host: str, accepted_by: str, results: Path, nodes: Nodes) -> str:
    """Undrain a node, but only if its reason is the last one written here for it, by an older run."""
    try:
        before = nodes.node(host)
        if before is None or not before.is_drained:
            return f"{host}: is not drained" if before else f"{host}: {nodes.name} knows no node of that name"
        if before.reason != drains(results).get(nodes.lead + host):
            return f"{host}: drained by {before.by}: {before.reason}; not by us, left as it is"
        if before.reason.rpartition("/")[2] >= accepted_by.rpartition("/")[2]:
            return f"{host}: drained since ({before.reason}), left as it is"
        with LedgerEntry(results / LEDGER, nodes.lead + host, "undrain", reason=before.reason) as entry:
            objection = nodes.undrain(host)
            after = nodes.node(host)
            free = after is not None and not after.is_drained
            entry.state = "done" if free else "not seen"
    except (ToolError, StoreError, ValueError) as exc:
        return f"{host}: not given back, or not seen to be: {exc}"
    now = f"given back to {nodes.name}" if free else "still drained"
    return f"{host}: {now}" + (f" ({objection})" if objection else "")


_MARGIN, _LEAST_MARGIN_S = 0.2, 600.0
"""Time reserved beyond the planned time (choices): probes are tried again, hosts are slow to answer."""

_TRIES, _PAUSE_S = 5, 1.0
"""Attempts to give back, and the pause between them (choices): Slurm refuses while our job in it ends."""


def hosts_of(*, job: str | None, reserved: str | None, run: RunCommand = ask_slurm) -> str:
    """Return the hosts of a job or a reservation, as ``--hosts`` takes them; raise ConfigError if Slurm names none."""
    option, given = ("--slurm-job", job) if job is not None else ("--reservation", reserved or "")
    try:
        if job is not None:
            answer = run(slurm.job_nodes(given))
            return ",".join(slurm.nodes_of_job(given, answer.stdout, answer.stderr, answer.exit_status))
        if not (listed := _nodes(given, run)):
            raise ToolError("there is no such reservation")
        return ",".join(slurm.unfolded(listed))
    except (ToolError, ValueError) as exc:
        raise ConfigError.at(option, f"{given}: {exc}") from exc


def minutes(plan: Plan) -> int:
    """
    Return the minutes for which a plan's hosts are reserved: its planned time and a margin.

    Raises ConfigError where the plan starts programs by ``srun``: their jobs would wait for the run's own reservation.
    """
    if any(probe.params.get("launcher") == "srun" for phase in plan.phases for probe in phase.planned):
        raise ConfigError.at("--reserve", "not with launcher: srun, whose jobs would wait for this reservation to end")
    return ceil((plan.duration_s + max(_LEAST_MARGIN_S, _MARGIN * plan.duration_s)) / 60)


class Reservation:
    """The hosts of one run, reserved in Slurm from ``take`` until the block ends; *say* is told what was done."""

    def __init__(self, say: Callable[[str], None], *, run: RunCommand = ask_slurm) -> None:
        self._say, self._run = say, run
        self._path: Path | None = None

    def take(self, path: Path, hosts: Sequence[str], plan: Plan) -> None:
        """
        Reserve *hosts* for the run at *path*, named ``fabric-<run id>``, for its planned time and a margin.

        It excludes jobs and other reservations (so it has no MAINT flag). Raises ToolError with Slurm's own words if
        Slurm refuses, as while a job runs on a host; StoreError if the ledger cannot be written.
        """
        path, nodes, lasts = path.resolve(), fold(hosts), minutes(plan)
        name, results = _name(path), path.parent.parent
        try:
            command = slurm.reserve(name, nodes, _account(), lasts)
        except ValueError as exc:
            raise ToolError(f"slurm: not reserved: {exc}") from exc
        with LedgerEntry(results / LEDGER, name, "reserve", run=str(path.relative_to(results)), nodes=nodes) as entry:
            self._path = path
            answer = self._run(command)
            listed = _nodes(name, self._run)
            entry.state = "refused" if listed is None else "not seen" if answer.exit_status else "done"
        if listed is None:
            self._path = None
        if listed is None or answer.exit_status:
            raise ToolError(f"slurm: {nodes} cannot be reserved: {complaint(answer.stdout, answer.stderr)}")
        if {*slurm.unfolded(listed)} != {*hosts}:
            raise ToolError(f"slurm: {nodes} cannot be reserved: {name} has {listed} instead")
        self._say(f"slurm: {nodes} reserved for {lasts} min: {name}")

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *_: object) -> None:
        """Give the reservation back; raise MayBeLive if it was not seen to be gone."""
        if self._path is None:
            return
        with listening(lambda: None):  # another Ctrl-C must not leave it behind
            path, self._path = self._path, None
            try:
                was_there = _release(_name(path), path.parent.parent, self._run)
            except FabricError as exc:
                raise MayBeLive(f"slurm: {exc}; it ends by itself, or at once by: fabric restore {path}") from exc
            self._say("slurm: given back" if was_there else "slurm: it had ended already: jobs may have run beside us")


def give_back_all(results: Path, only: Path | None = None, *, run: RunCommand = ask_slurm) -> Iterator[Restored]:
    """Give back the reservations of dead runs below *results*, or of the run *only*."""
    for name, path in reservations(results).items():
        if (only is not None and path != only) or running(path) is not None:
            continue
        try:
            outcome = "given back" if _release(name, results, run) else "it had ended by itself"
            yield Restored(str(path), name, "slurm", outcome, certain=True)
        except FabricError as exc:
            yield Restored(str(path), name, "slurm", f"{exc}; it ends by itself", certain=False)


def _release(name: str, results: Path, run: RunCommand) -> bool:
    """End a reservation; return False if it had ended already, raise ToolError if it was not seen to be gone."""
    with LedgerEntry(results / LEDGER, name, "unreserve") as entry:
        was_there = _nodes(name, run) is not None
        for _ in range(_TRIES if was_there else 0):
            answer = run(slurm.unreserve(name))
            if _nodes(name, run) is None:
                break
            time.sleep(_PAUSE_S)
        else:
            if was_there:
                raise ToolError(f"the reservation {name} still stands: {complaint(answer.stdout, answer.stderr)}")
        entry.state = "done"
    return was_there


def _name(path: Path) -> str:
    """Return the reservation's name; it is unique in the world, because a run's id is."""
    return f"fabric-{path.name}"


def _account() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError as exc:
        raise ToolError("slurm: not reserved: this account has no name") from exc


def _nodes(name: str, run: RunCommand) -> str | None:
    answer = run(slurm.reservation(name))
    return slurm.reserved(name, answer.stdout, answer.stderr, answer.exit_status)
