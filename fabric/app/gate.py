"""What the newest runs say of a host: may a job begin there, and what each run tells of its hosts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fabric.errors import StoreError
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.repair import Decision
from fabric.runs.acceptance import FILE as DECISION
from fabric.runs.acceptance import told_decision
from fabric.runs.plain_file import read_plain
from fabric.runs.run_document import MOST_BYTES as RUN_BYTES
from fabric.runs.run_folders import FILE as RUN
from fabric.runs.run_folders import run_folders
from fabric.runs.told_verdict import told_verdict

MOST_SHARE = 0.25
"""Of the hosts of a run, more are not drained at once: then the network is bad, or the measurement (a choice)."""

_MEASURED = frozenset({"rnic", "gpu", "gpu_pcie", "numa", "path", "link"})
"""Kinds of suspects whose RNIC, GPU or memory node has a verdict of its own; of others the host has."""

_GOOD = ("pass", "marginal")
_RUN = re.compile(r"\d{8}-\d", re.ASCII)
_VALIDATES = re.compile(rb'"because": ?\{')
"""In the document of a run: it validates a repair, and its verdict alone lets nobody return."""

_CLOCKS_APART = timedelta(hours=1)
MOST_PARTS = 3
"""Of a host's bad parts so many are named."""
_MOST_RUNS = 200


@dataclass(frozen=True, slots=True)
class Standing:
    """What the newest verdict says of a host; INCONCLUSIVE where none speaks of it. *why*, and which *run*."""

    host: str
    outcome: Outcome
    why: str
    run: str | None = None


@dataclass(frozen=True, slots=True)
class ToldHosts:
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
        if len(self.bad) <= max(1, MOST_SHARE * len(self.measured)):
            return ""
        return f"{len(self.bad)} of {len(self.measured)} hosts have a bad part: too many to be drained at once"


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
            return Standing(host, Outcome.FAIL, ", ".join(still[:MOST_PARTS]), str(path))
        found = _said_of(host, told)
        if found is not None and path.name > until:
            doubts.append(f"{path}: is of the future: a clock is wrong")
            continue
        newest = newest or found
        if host in told.accepted:
            break
        healed |= told.good
    if newest is None or (doubts and newest.outcome is Outcome.PASS):
        why = next(iter(doubts), f"no run of real hosts in the last {days} days measured it well")
        return Standing(host, Outcome.INCONCLUSIVE, why)
    return newest


def _newest_first(runs: Iterable[Path], since: str) -> Iterator[tuple[Path, ToldHosts | StoreError]]:
    """What each run of real hosts tells, or why it does not; none older than *since*, none that is not judged."""
    named = sorted((path for path in runs if _RUN.match(path.name) and path.name >= since), key=lambda path: path.name)
    for path in named[: -_MOST_RUNS - 1 : -1]:
        try:
            told = told_hosts(path)
        except StoreError as exc:
            yield path, exc
            continue
        if told is not None and told.backend != "mock":
            yield path, told


def _said_of(host: str, told: ToldHosts) -> Standing | None:
    """What a run says of a host that has no bad part; None where it says nothing."""
    if host in told.unsure:
        return Standing(host, Outcome.INCONCLUSIVE, ", ".join(told.unsure[host][:MOST_PARTS]), str(told.path))
    if host in told.accepted or host in told.good:
        return Standing(host, Outcome.PASS, "everything measured of it is good", str(told.path))
    return None


def told_hosts(path: Path) -> ToldHosts | None:
    """None without a verdict that rests on all of the run; StoreError for a file that is not as it is written here."""
    told = told_verdict(path)
    if told is None:
        return None
    bad: dict[str, dict[str, str]] = defaultdict(dict)
    unsure: dict[str, list[str]] = defaultdict(list)
    wide = []
    for one in told.suspects:
        name = one.component
        hosts = {part.host for other in (name, *one.ambiguous_with) for part in Part.of(other).members}
        if one.outcome is Outcome.FAIL and len(hosts) == 1 and (*hosts,) == one.hosts:
            part = Part.of(name)
            bad[part.host][name] = f"{part.host}/{part.device}" if one.kind in _MEASURED else part.host
            continue
        wide += [name] if one.outcome is Outcome.FAIL else []
        for host in hosts:
            unsure[host].append(name)
    for name, outcome in told.outcome_of.items():
        if outcome not in _GOOD and outcome != "skipped" and Part.of(name).host not in {*bad, *unsure}:
            unsure[Part.of(name).host].append(name)
    named = _decided(path)
    accepted = named[Decision.ACCEPT]
    unsure |= {host: ["post-repair: INCONCLUSIVE"] for host in named[Decision.INCONCLUSIVE]}
    return ToldHosts(
        path=path,
        backend=told.backend,
        name=f"{told.scenario}/{told.run_id}",
        measured=frozenset(name for name in told.outcome_of if not re.search("[/:+]|--", name)),
        good=frozenset(name for name, outcome in told.outcome_of.items() if outcome in _GOOD),
        bad={host: {"post-repair: REJECT": ""} for host in named[Decision.REJECT]}
        | {host: names for host, names in bad.items() if host not in accepted},
        unsure={host: names for host, names in unsure.items() if host not in accepted},
        wide=tuple(wide),
        accepted=accepted,
    )


def _decided(path: Path) -> Mapping[Decision, tuple[str, ...]]:
    """Who may return after a repair, and who may not; nobody where the run validated none."""
    told = told_decision(path)
    each = told.each if told else {}
    if not each and (told or _validates(path)):
        raise StoreError(f"{path / DECISION} decides of no host; fabric report {path} makes it")
    return {wanted: tuple(name for name, one in each.items() if one is wanted) for wanted in Decision}


def _validates(path: Path) -> bool:
    try:
        return _VALIDATES.search(read_plain(path / RUN, RUN_BYTES)) is not None
    except OSError as exc:
        raise StoreError(f"{path / RUN}: cannot be read: {exc.strerror}") from exc
