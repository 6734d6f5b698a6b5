"""Compare two runs: what became better, and what worse?"""

from collections.abc import Iterator
from pathlib import Path

from fabric.app.prepare import hosts_named
from fabric.errors import ConfigError, Problem
from fabric.judge.compare import compare_runs
from fabric.judge.repair.identity import not_the_same
from fabric.model import gathered
from fabric.model.comparison import Comparison
from fabric.model.probe import Probe
from fabric.model.text import fold
from fabric.runs.run_document import PastRun, read_identity, read_past_run

SETTINGS = ("queue_pairs", "iterations", "duration_s")
"""Parameters of a probe that are not part of what it measures, but change its result."""


def compare(first: Path, second: Path, *, hosts: str | None = None) -> tuple[Comparison, tuple[str, ...]]:
    """
    Compare the second run with the first; return the comparison and notes to read before trusting it.

    *hosts*: compare only what is among these hosts (as ``--hosts`` selects them). Raises ConfigError with every reason
    why they cannot be compared. Runs that measured nothing in common are compared, with the outcome INCONCLUSIVE: the
    notes say why.
    """
    a, b = read_past_run(first), read_past_run(second)
    problems = [Problem(f"{first} and {second}", 0, text) for text in _unlike(a, b)]
    if problems:
        raise ConfigError(problems)
    chosen = None if hosts is None else frozenset(hosts_named(hosts, b.inventory))
    comparison = compare_runs(
        (_among(chosen, a), a.results),
        (_among(chosen, b), b.results),
        topology=b.inventory.topology,
        added=(_added(a), _added(b)),
    )
    return comparison, tuple(_notes(a, b))


def _among(hosts: frozenset[str] | None, run: PastRun) -> list[Probe]:
    """Return the probes that these hosts make among themselves; all of them if *hosts* is None."""
    return [probe for probe in run.probes if hosts is None or hosts.issuperset(probe.hosts)]


def _added(run: PastRun) -> frozenset[str]:
    return frozenset(probe.probe_id for probe in run.history.added)


def _in_both(a: PastRun, b: PastRun) -> list[str]:
    """Return the hosts that both runs asked for."""
    hosts = set(b.scenario.hosts)
    return [name for name in a.scenario.hosts if name in hosts]


def _unlike(a: PastRun, b: PastRun) -> Iterator[str]:
    if a.path.resolve() == b.path.resolve():
        yield "the same run"
        return
    if a.backend != b.backend:
        yield f"measured through {a.backend} and {b.backend}: a simulated number is no measure of a real one"
    others = gathered((text, name) for name in _in_both(a, b) for text in _another_platform(name, a, b))
    yield from (f"{fold(names)} of another platform: {text}" for text, names in others.items())
    if not others:
        yield from _other_settings(a, b)


def _another_platform(host: str, a: PastRun, b: PastRun) -> Iterator[str]:
    """Yield which two platforms a host is of, if they are not one."""
    before, after = (run.inventory.topology.hosts[host].platform for run in (a, b))
    if (before.name, before.gpus, before.rnics) != (after.name, after.gpus, after.rnics):
        parts = f"{len(before.rnics)} RNICs and {len(before.gpus)} GPUs, then {len(after.rnics)} and {len(after.gpus)}"
        yield f"{before.name}, then {after.name} ({parts})"


def _other_settings(a: PastRun, b: PastRun) -> Iterator[str]:
    """Yield each setting that differs, once for each kind of probe."""
    before = {probe.probe_id: probe for probe in a.probes}
    reported: set[tuple[str, str]] = set()
    for probe in b.probes:
        old = before.get(probe.probe_id)
        for name in SETTINGS if old is not None else ():
            values = [one.params.get(name) for one in (old, probe) if one is not None]
            if values[0] != values[1] and (probe.kind, name) not in reported:
                reported.add((probe.kind, name))
                yield f"{probe.kind} was measured with {name} {values[0]}, then {values[1]}"


def _notes(a: PastRun, b: PastRun) -> Iterator[str]:
    for what, before, after in (
        ("scenario", a.scenario.name, b.scenario.name),
        ("inventory", a.inventory.name, b.inventory.name),
    ):
        if before != after:
            yield f"the second run has another {what}: {after}, not {before}"
    if a.scenario.hosts != b.scenario.hosts:
        yield (
            f"the second run ran on other hosts: {len(a.scenario.hosts):,}, then {len(b.scenario.hosts):,}, "
            f"{len(_in_both(a, b)):,} of them in both"
        )
    yield from not_the_same(
        _in_both(a, b),
        (a.inventory.topology, b.inventory.topology),
        (read_identity(a.path), read_identity(b.path)),
        files=(a.inventory.source, b.inventory.source),
    )
    yield from _nothing_in_common(a, b)
    for run in (a, b):
        if not run.ended:
            yield f"{run.path} was interrupted: what it did not reach is not compared"
        if run.changes:
            yield f"{len(run.changes)} changes were in force in {run.path}"


def _nothing_in_common(a: PastRun, b: PastRun) -> Iterator[str]:
    """If the runs share no probe, yield the reason."""
    ids = [{probe.probe_id for probe in run.probes} for run in (a, b)]
    if ids[0] & ids[1]:
        return
    kinds = [{probe.kind for probe in run.probes} for run in (a, b)]
    if not _in_both(a, b):
        yield "they have no host in common"
    elif not kinds[0] & kinds[1]:
        texts = [", ".join(sorted(found)) for found in kinds]
        yield f"they have no kind of probe in common: {texts[0]}, then {texts[1]}"
    else:
        yield "they have no probe in common: phases, probes or hosts are called otherwise"
