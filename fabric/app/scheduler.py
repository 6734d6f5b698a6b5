"""
What a verdict does to the scheduler (Slurm): bad hosts drained, repaired ones given back, and what a gate is told.

Slurm has no compare-and-swap: a second drain replaces ours, and whoever ends a drain ends anybody's. So a node is read,
altered and read again, and only a drain whose reason is the very one written here is ended. A line in the ledger of the
results folder is on disk before Slurm is told anything.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from fabric.errors import ConfigError, ExecutorError, StoreError, ToolError
from fabric.hosts.process import ProcessExecutor
from fabric.model.command import Command, CommandResult
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.repair import Decision
from fabric.ports import run_once
from fabric.report.verdict_json import VERDICT_FORMAT
from fabric.runs.acceptance import FILE as DECISION
from fabric.runs.acceptance import MOST_BYTES as MOST_DECISION_BYTES
from fabric.runs.journal import Journal, read_journal
from fabric.runs.plain_file import read_plain
from fabric.runs.run_document import MOST_BYTES as RUN_BYTES
from fabric.runs.run_folders import FILE as RUN
from fabric.runs.run_folders import run_folders
from fabric.runs.told_verdict import FILE as VERDICT
from fabric.runs.told_verdict import KEY, MOST_BYTES, is_of_all
from fabric.tools import slurm
from fabric.tools.driver import complaint, need_success

LEDGER = "scheduler.jsonl"
"""In the results folder: what Slurm was told of which node, written down before it was told."""

OURS = "fabric: "
"""How the reason of a drain of ours begins: its first word is its owner, as node health checks have it."""

_TIMEOUT_S = 30.0
"""For one answer of Slurm (a choice: ``scontrol`` itself gives up on a controller that is away after 9 s, measured)."""

_AGAIN_S = 0.05

_MOST_SHARE = 0.25
"""Of the hosts of a run, more are not drained at once: then the network is bad, or the measurement (a choice)."""

_MEASURED = frozenset({"rnic", "gpu", "gpu_pcie", "numa", "path", "link"})
"""Kinds of suspects whose RNIC, GPU or memory node has a verdict of its own; of others the host has."""

_GOOD = ("pass", "marginal")
_RUN = re.compile(r"\d{8}-\d", re.ASCII)
_VALIDATES = re.compile(rb'"because": ?\{')
"""In the document of a run: it validates a repair, and its verdict alone lets nobody return."""

_CLOCKS_APART = timedelta(hours=1)
_ALL_DAYS = 36_500
_MOST_PARTS = 3
_MOST_RUNS = 200

Run = Callable[[tuple[str, ...]], CommandResult]
"""Runs one command here."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What the newest verdict says of a host; INCONCLUSIVE where none speaks of it. *why*, and which *run*."""

    host: str
    outcome: Outcome
    why: str
    run: str | None = None


@dataclass(frozen=True, slots=True)
class _Told:
    """
    What a run's files say: its hosts, the *good* parts of all, and who may return.

    *bad*: of each host its parts, and by which part's being good later that is over. *unsure*: what else is not good.
    """

    path: Path
    backend: str
    name: str
    measured: frozenset[str]
    good: frozenset[str]
    bad: Mapping[str, Mapping[str, str]]
    unsure: Mapping[str, list[str]]
    wide: tuple[str, ...]
    accepted: tuple[str, ...]

    @property
    def too_many(self) -> str:
        """Why nobody is drained for it; empty where hosts may be."""
        if len(self.bad) <= max(1, _MOST_SHARE * len(self.measured)):
            return ""
        return f"{len(self.bad)} of {len(self.measured)} hosts have a bad part: too many to be drained at once"


def run_here(argv: tuple[str, ...]) -> CommandResult:
    """Run one command on this machine; ToolError where it cannot be started or does not answer in time."""
    executor = ProcessExecutor(agents=False)
    try:
        return run_once(executor, Command("here", argv, _TIMEOUT_S))
    except (OSError, ExecutorError) as exc:
        raise ToolError(f"{argv[0]}: {exc}") from exc
    finally:
        executor.close()


def hosts_of(*, job: str | None, reserved: str | None, run: Run = run_here) -> str:
    """The hosts of a job, or of a reservation, as ``--hosts`` takes them; ConfigError where Slurm names none."""
    option, given = ("--slurm-job", job) if job is not None else ("--reservation", reserved or "")
    try:
        said = run(slurm.job_nodes(given) if job is not None else slurm.reservation(given))
        need_success(said.command.argv[0], said.stdout, said.stderr, said.exit_status)
        listed = said.stdout.strip() if job is not None else slurm.reserved(said.stdout)
        if not listed:
            raise ToolError("it has no nodes (yet, or any more)")
        names = run(slurm.unfold(listed))
        need_success("scontrol", names.stdout, names.stderr, names.exit_status)
    except (ToolError, ValueError) as exc:
        raise ConfigError.at(option, f"{given}: {exc}") from exc
    return ",".join(dict.fromkeys(names.stdout.split()))


def act(path: Path, *, run: Run = run_here) -> Iterator[str]:
    """
    Drain the hosts of which a run found a part to be bad, or give back those that a post-repair run accepted.

    Says what was done, and what was not and why. Raises ConfigError for a run of the simulated fabric, StoreError for
    one that is not judged. Where the ledger cannot be written, Slurm is told nothing.
    """
    told = _told(path)
    if told is None:
        raise StoreError(f"{path}: not judged to its end: nobody is drained")
    if told.backend == "mock":
        raise ConfigError.at("--act", f"{path} is of the simulated fabric: no real host is drained")
    results = path.resolve().parent.parent
    ledger = results / LEDGER
    if told.too_many:
        yield told.too_many
    for host, parts in told.bad.items() if not told.too_many else ():
        now = standing(host, results, days=_ALL_DAYS)
        if now.outcome is Outcome.PASS:
            yield f"{host}: not drained: found to be good since, by {now.run}"
        else:
            yield _drained(host, _reason(tuple(parts), told.name), ledger, run)
    for host in told.accepted:
        yield _given_back(host, told.name, ledger, run)
    for part in told.wide:
        yield f"{part}: it is no part of one host: nobody is drained for it"


def drain(standing: Standing, results: Path, *, run: Run = run_here) -> str:
    """Drain the host that a gate found to be bad; says what was done, and what was not and why."""
    told = _told(Path(standing.run or ""))
    if told is not None and told.too_many:
        return f"{standing.host}: not drained: {told.too_many}"
    name = "/".join(Path(standing.run or "").parts[-2:])
    return _drained(standing.host, _reason([standing.why], name), results / LEDGER, run)


def standing(host: str, results: Path, *, days: int) -> Standing:
    """
    What the newest run says that measured *host* well, unless an older one found a part to be bad that no newer one
    measured as good; none older than *days*.

    Simulated runs say nothing of a host. Where a run cannot be read, or is of the future, nothing is PASS that an older
    one says. Raises ConfigError where there is no folder of runs.
    """
    now = datetime.now(UTC)
    since, until = (f"{at:%Y%m%d-%H%M%S}" for at in (now - timedelta(days=days), now + _CLOCKS_APART))
    folders = run_folders(results)
    doubts = [f"{path}: cannot be read: {why}" for path, why in folders.closed.items()]
    newest: Standing | None = None
    healed: set[str] = set()
    for path, told in _newest_first(folders.runs, since):
        if isinstance(told, StoreError):
            doubts += [str(told)] if newest is None else []
            continue
        still = [part for part, over in told.bad.get(host, {}).items() if over not in healed]
        if still:
            return Standing(host, Outcome.FAIL, ", ".join(still[:_MOST_PARTS]), str(path))
        found = _said_of(host, told)
        if found is not None and path.name > until:
            doubts.append(f"{path}: is of the future: a clock is wrong")
            continue
        newest = newest or found
        if host in told.accepted:
            break
        healed |= told.good
    if newest is None or (doubts and newest.outcome is Outcome.PASS):
        why = next(iter(doubts), f"no run of the last {days} days measured it well")
        return Standing(host, Outcome.INCONCLUSIVE, why)
    return newest


def _newest_first(runs: Iterable[Path], since: str) -> Iterator[tuple[Path, _Told | StoreError]]:
    """What each run of real hosts tells, or why it does not; none older than *since*, none that is not judged."""
    named = sorted((path for path in runs if _RUN.match(path.name) and path.name >= since), key=lambda path: path.name)
    for path in named[: -_MOST_RUNS - 1 : -1]:
        try:
            told = _told(path)
        except StoreError as exc:
            yield path, exc
            continue
        if told is not None and told.backend != "mock":
            yield path, told


def _said_of(host: str, told: _Told) -> Standing | None:
    """What a run says of a host that has no bad part; None where it says nothing."""
    if host in told.unsure:
        return Standing(host, Outcome.INCONCLUSIVE, ", ".join(told.unsure[host][:_MOST_PARTS]), str(told.path))
    if host in told.accepted or host in told.good:
        return Standing(host, Outcome.PASS, "everything measured of it is good", str(told.path))
    return None


def _reason(parts: Sequence[str], run: str) -> str:
    more = f" and {len(parts) - _MOST_PARTS} more" if len(parts) > _MOST_PARTS else ""
    return f"{OURS}{', '.join(parts[:_MOST_PARTS])}{more}; run {run}"


def _node(host: str, run: Run) -> slurm.SlurmNode | None:
    said = run(slurm.show_node(host))
    return slurm.node(host, said.stdout, said.stderr, said.exit_status)


def _drained(host: str, reason: str, ledger: Path, run: Run) -> str:
    """Read, write, read again."""
    told = False
    try:
        before = _node(host, run)
        if before is None:
            return f"{host}: Slurm knows no node of that name"
        if before.is_drained:
            return f"{host}: is drained already ({before.by}: {before.reason}); left as it is"
        with _Written(ledger, host, "drain", reason) as written:
            command = slurm.drain(host, reason)
            told = True
            said = run(command)
            after = _node(host, run)
            written.done = after is not None and after.is_drained and after.reason == reason
    except (ToolError, StoreError, ValueError) as exc:
        return f"{host}: {'told to drain, and not seen' if told else 'not drained'}: {exc}"
    if written.done:
        return f"{host}: drained ({reason})"
    now = "not drained" if after is None or not after.is_drained else f"drained by {after.by}: {after.reason}"
    return f"{host}: {now}" + (f" ({complaint(said.stdout, said.stderr)})" if said.exit_status else "")


def _given_back(host: str, accepted_by: str, ledger: Path, run: Run) -> str:
    """Only where the reason of the drain is the last that was written here for this node, for an older run."""
    try:
        mine = {entry["change"]: entry.get("reason") for entry in read_journal(ledger) if entry.get("act") == "drain"}
        before = _node(host, run)
        if before is None or not before.is_drained:
            return f"{host}: is not drained" if before else f"{host}: Slurm knows no node of that name"
        if before.reason != mine.get(host):
            return f"{host}: drained by {before.by}: {before.reason}; not by us, left as it is"
        if before.reason.rpartition("/")[2] >= accepted_by.rpartition("/")[2]:
            return f"{host}: drained since ({before.reason}), left as it is"
        with _Written(ledger, host, "undrain", before.reason) as written:
            run(slurm.undrain(host))
            after = _node(host, run)
            written.done = after is not None and not after.is_drained
    except (ToolError, StoreError, ValueError) as exc:
        return f"{host}: not given back, or not seen to be: {exc}"
    return f"{host}: given back to Slurm" if written.done else f"{host}: still drained"


class _Written:
    """A line before Slurm is told something, and one after it, with whether it was seen to be so."""

    def __init__(self, ledger: Path, host: str, what: str, reason: str) -> None:
        self._journal, self._host, self.done = Journal(ledger), host, False
        self._fields = {"act": what, "reason": reason}

    def __enter__(self) -> _Written:
        until_s = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                self._record("intended")
            except StoreError as exc:
                if not isinstance(exc.__cause__, BlockingIOError) or time.monotonic() > until_s:
                    raise
                time.sleep(_AGAIN_S)  # the gate of another host writes its line
            else:
                return self

    def __exit__(self, *_: object) -> None:
        try:
            self._record("done" if self.done else "not seen")
        finally:
            self._journal.close()

    def _record(self, state: str) -> None:
        self._journal.record(self._host, state, {**self._fields, "at": datetime.now(UTC).isoformat(timespec="seconds")})


def _told(path: Path) -> _Told | None:
    """None without a verdict that rests on all of the run; StoreError for a file that is not as it is written here."""
    try:
        found = orjson.loads(read_plain(path / VERDICT, MOST_BYTES))
        if not is_of_all(path, found.get(KEY)):
            return None
        if found["format"] != VERDICT_FORMAT:
            raise ValueError(f"format {found['format']}, expected {VERDICT_FORMAT}")
        outcome_of = {one["component"]: one["outcome"] for one in found["components"]}
        bad: dict[str, dict[str, str]] = defaultdict(dict)
        unsure: dict[str, list[str]] = defaultdict(list)
        wide = []
        for one in found["suspects"]:
            name = one["component"]
            hosts = {part.host for other in (name, *one["ambiguous_with"]) for part in Part.of(other).members}
            if one["outcome"] == "fail" and len(hosts) == 1 and [*hosts] == one["hosts"]:
                part = Part.of(name)
                bad[part.host][name] = f"{part.host}/{part.device}" if one["kind"] in _MEASURED else part.host
                continue
            wide += [name] if one["outcome"] == "fail" else []
            for host in hosts:
                unsure[host].append(name)
        for name, outcome in outcome_of.items():
            if outcome not in _GOOD and outcome != "skipped" and Part.of(name).host not in {*bad, *unsure}:
                unsure[Part.of(name).host].append(name)
        named = _decided(path)
        accepted = named[Decision.ACCEPT]
        unsure |= {host: ["post-repair: INCONCLUSIVE"] for host in named[Decision.INCONCLUSIVE]}
        return _Told(
            path=path,
            backend=str(found["backend"]),
            name=f"{found['scenario']}/{found['run_id']}",
            measured=frozenset(name for name in outcome_of if not re.search("[/:+]|--", name)),
            good=frozenset(name for name, outcome in outcome_of.items() if outcome in _GOOD),
            bad={host: {"post-repair: REJECT": ""} for host in named[Decision.REJECT]}
            | {host: names for host, names in bad.items() if host not in accepted},
            unsure={host: names for host, names in unsure.items() if host not in accepted},
            wide=tuple(wide),
            accepted=accepted,
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise StoreError(f"{path}: its verdict cannot be read: {exc}") from exc


def _decided(path: Path) -> Mapping[Decision, tuple[str, ...]]:
    """Who may return after a repair, and who may not; nobody where the run validated none."""
    try:
        each = orjson.loads(read_plain(path / DECISION, MOST_DECISION_BYTES))["each"]
    except FileNotFoundError:
        if _VALIDATES.search(read_plain(path / RUN, RUN_BYTES)):
            raise ValueError(f"{DECISION} is not there; fabric report {path} makes it") from None
        each = ()
    return {wanted: tuple(one["name"] for one in each if one["decision"] == wanted.value) for wanted in Decision}
