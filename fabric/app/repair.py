"""What a person can ask after a repair: may these hosts go back into service?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import ceil, inf
from pathlib import Path

from fabric.app.analyze import reopened
from fabric.app.prepare import Asked, Given, hosts_named, prepare
from fabric.config import load_inventory
from fabric.errors import ConfigError, FabricError, Problem
from fabric.judge.compare.hosts import other_hardware, otherwise_described
from fabric.judge.compare.identity import repaired
from fabric.judge.normal.keys import bandwidths
from fabric.judge.normal.series import representative
from fabric.judge.ports.health import clean_s
from fabric.judge.ports.verdict import wanted
from fabric.judge.repair import Measured, Same, accept, same, watched_ports
from fabric.model.inventory import Inventory
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.repair import Acceptance, Because, Evidence
from fabric.model.scenario import Phase, ProbeSpec, Scenario
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.plan.plan import PhasePlan, plan_scenario
from fabric.probes.again import AgainSpec, shortened
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from fabric.report.shown_run import Row, ShownRun
from fabric.runs.past_run import PastRun, read_past_run
from fabric.runs.run_document import read_identity
from fabric.runs.run_folders import run_folders
from fabric.runs.samples import read_samples

NEIGHBOURS = 3
"""Good hosts under its ToR that a repaired one is measured with: with each of two, and these with others (a choice)."""

QUICK_REPEAT = 3
"""Repetitions of the evidence in a quick validation: the fewest that can be judged."""

QUICK_DURATION_S = 2
"""Of each bandwidth test of the suite in a quick validation (a choice)."""

BER_PHASE = "bit-errors"
"""The phase that a quick validation leaves out."""

SPARE_S = 60.0
"""So much longer than a link without errors must be watched its ports carry traffic (a choice: one sample)."""

LONGEST_S = 3600
"""Of one pair, as in a scenario file."""


def prepare_repair(given: Given, run: Path, *, quick: bool) -> Asked:
    """
    The scenario, filled with what accused the hosts in the run that failed them; runs on them and a few neighbours.

    Without an inventory of its own it is asked of that of the failed run. Raises ConfigError with everything that is
    wrong, also when that run has nothing against them, and when its hosts are not the same hardware in the inventory.
    """
    failed = reopened(run)
    hosts = _repaired_hosts(given, run, failed)
    because = _because(run, failed, hosts, quick=quick)
    names = _taking_part(because, failed)
    inventory, notes = inventory_of(run, failed, given.inventory, because, names)
    prepared = prepare(replace(given, inventory=inventory, hosts=fold(sorted(names))))
    because = replace(because, notes=(*because.notes, *notes))
    return filled(prepared, quick_evidence(because, prepared.scenario) if quick else because)


def filled(prepared: Asked, because: Because) -> Asked:
    """
    The scenario of a file with the evidence in it, planned; quick or not as *because* says.

    Raises ConfigError for a scenario that has no place for it.
    """
    scenario = prepared.scenario
    again = sum(isinstance(spec, AgainSpec) for phase in scenario.phases for spec in phase.probes)
    if again != 1:
        text = f"--because needs a scenario with one probe 'again', such as scenarios/post-repair.yaml: {again} here"
        raise ConfigError.at(scenario.source, text)
    kept = [phase for phase in scenario.phases if not (because.quick and phase.name == BER_PHASE)]
    phases = tuple(replace(phase, probes=tuple(_spec(spec, because) for spec in phase.probes)) for phase in kept)
    plan = plan_scenario(replace(scenario, phases=phases), prepared.inventory)
    hosts = prepared.inventory.topology.hosts
    rates_gbps = (rnic.line_rate_gbps for name in because.hosts for rnic in hosts[name].platform.rnics)
    window_s = clean_s(min(rates_gbps, default=inf)) + SPARE_S
    scenario = replace(scenario, phases=tuple(_long_enough(planned, window_s) for planned in plan.phases))
    return replace(prepared, scenario=scenario, plan=plan_scenario(scenario, prepared.inventory))


def is_post_repair(scenario: Scenario) -> bool:
    """Whether a run of this scenario ends with a decision."""
    return because_of(scenario) is not None


def because_of(scenario: Scenario) -> Because | None:
    """What its evidence is from; None for any other scenario."""
    found = [spec.because for phase in scenario.phases for spec in phase.probes if isinstance(spec, AgainSpec)]
    return next((one for one in found if one is not None), None)


def decided(run: ShownRun) -> Acceptance:
    """
    The decision of a run that was read back (``report.keep_decision`` keeps it beside the run).

    ConfigError for one that is no post-repair validation.
    """
    scenario, verdict = run.judged.scenario, run.judged.verdict
    because = because_of(scenario)
    if because is None:
        raise ConfigError.at(run.judged.path, "no post-repair validation: it was not run with --because")
    directory = Path(run.judged.path)
    topology = run.inventory.topology
    now = read_identity(directory)
    before = {host.host: host for host in because.identity} or None
    measured = Measured(run.probes, run.results, verdict, topology, run.complete)
    watched = watched_ports(read_samples(directory, wanted), topology, because.hosts, verdict.changes)
    phase = next(one.name for one in scenario.phases if any(isinstance(spec, AgainSpec) for spec in one.probes))
    return accept(because, measured, watched, repaired(before, now, because.hosts, because.suspects), phase)


def _repaired_hosts(given: Given, run: Path, failed: ShownRun) -> tuple[str, ...]:
    """The hosts of --hosts, else those that the run named."""
    names = failed.judged.scenario.hosts
    if given.hosts is None:
        found = tuple(name for name in names if name in suspected(failed))
        if not found:
            raise ConfigError.at(run, "it names no host as bad: say --hosts")
        return found
    return hosts_named(given.hosts, failed.inventory)


def _because(run: Path, failed: ShownRun, hosts: Sequence[str], *, quick: bool) -> Because:
    evidence, past_runs, notes = evidence_of(failed, hosts)
    if not evidence:
        raise ConfigError.at(run, f"it has nothing against {fold(list(hosts))} that can be measured again")
    identity = read_identity(Path(failed.judged.path)) or {}
    suspects = [one for one in failed.judged.verdict.suspects if set(one.hosts) & set(hosts)]
    return Because(
        run=f"{failed.judged.scenario.name}/{failed.judged.run_id}",
        path=failed.judged.path,
        hosts=tuple(hosts),
        quick=quick,
        suspects=tuple(suspects),
        evidence=tuple(evidence),
        identity=tuple(identity[host] for host in hosts if host in identity),
        past_runs=past_runs,
        notes=tuple(notes),
    )


def _taking_part(because: Because, failed: ShownRun) -> list[str]:
    """The repaired hosts, whom the evidence needs beside them, and neighbours under their ToRs that were good."""
    names = dict.fromkeys(because.hosts)
    names |= dict.fromkeys(host for one in because.evidence for host in one.probe.hosts)
    bad = suspected(failed)
    for host in because.hosts:
        near = [name for name in _neighbours(host, failed.inventory.topology) if name not in bad]
        for name in near:
            if sum(other in names for other in near) < NEIGHBOURS:
                names[name] = None
    return list(names)


def _neighbours(host: str, topology: Topology) -> list[str]:
    """The other hosts of its ToR group, those after it first."""
    for group in topology.tor_groups:
        members = list(group)
        if host in members:
            place = members.index(host)
            return members[place + 1 :] + members[:place]
    return []


def _long_enough(planned: PhasePlan, window_s: float) -> Phase:
    """The window of bit errors, as long as it takes: how many pairs share a PCIe switch depends on the platform."""
    phase, makespan_s = planned.phase, planned.schedule.makespan_s
    if phase.name != BER_PHASE or makespan_s <= 0.0:
        return phase
    stretch = window_s / makespan_s
    return replace(phase, probes=tuple(_stretched(spec, stretch) for spec in phase.probes))


def _stretched(spec: ProbeSpec, stretch: float) -> ProbeSpec:
    if not isinstance(spec, PairwiseSpec):
        return spec
    of_each_s = max(1, ceil(stretch * spec.duration_s))
    times = ceil(of_each_s / LONGEST_S)
    return spec.changed(duration_s=ceil(of_each_s / times), repeat=times * spec.repeat)


def _spec(spec: ProbeSpec, because: Because) -> ProbeSpec:
    """With the evidence in it, and shorter where the validation is quick."""
    if isinstance(spec, AgainSpec):
        return spec.changed(because=because, repeat=QUICK_REPEAT if because.quick else spec.repeat)
    if isinstance(spec, PairwiseSpec):
        return spec.changed(only=because.hosts)  # the neighbours are needed for nothing else
    if because.quick and isinstance(spec, LoopbackSpec | RnicToRnicSpec):
        return spec.changed(repeat=1, duration_s=min(QUICK_DURATION_S, spec.duration_s))
    if because.quick and isinstance(spec, AllToAllSpec | TorAllReduceSpec):
        return spec.changed(repeat=1)
    return spec


MOST = 12
"""So many differences are told; a person needs to see what kind it is, not all (a choice)."""


def inventory_of(
    run: Path, failed: ShownRun, given: Path | None, because: Because, hosts: Sequence[str]
) -> tuple[Path, tuple[str, ...]]:
    """
    The inventory's file, and in words how it describes *hosts* otherwise than that of the failed *run*.

    Raises ConfigError where there is no such file, where hosts are not in it, and where a host of the evidence has
    other parts in it: the same names would then mean something else.
    """
    path = _own(run, failed) if given is None else given
    now = load_inventory(path)
    then = failed.inventory
    missing = [host for host in hosts if host not in now.topology.hosts]
    if missing:
        raise ConfigError.at(path, _absent(missing, because))
    accused = set(because.hosts).union(*(one.probe.hosts for one in because.evidence))
    other = list(_other(then, now, [host for host in hosts if host in accused]))
    if other:
        told = [*other[:MOST], *([f"and {len(other) - MOST} more differences"] if other[MOST:] else [])]
        why = "the file has changed since" if given is None else "take its inventory (leave out --inventory)"
        text = f"not the hardware that {because.run} was about{':' if given is None else ';'} {why}"
        raise ConfigError(Problem(str(path), 0, f"{one}: {text}") for one in told)
    return path, tuple(_notes(then, now, hosts, because, path))


def _own(run: Path, failed: ShownRun) -> Path:
    """Where the inventory of the failed run lay."""
    asked_in = (failed.document.get("given") or {}).get("folder", "")
    path = Path(asked_in) / failed.inventory.source
    if not path.is_file():
        raise ConfigError.at(run, f"its inventory {path} is not there any more: say --inventory")
    return path


def _absent(missing: Sequence[str], because: Because) -> str:
    """Those that were repaired by their names; of others why they are needed."""
    repaired = [host for host in missing if host in because.hosts]
    if repaired:
        return f"it has no {fold(repaired)}, which {because.run} found bad: take the inventory of that run"
    beside = f"{len(missing)} hosts beside {fold(because.hosts)} that it needs are missing"
    return f"it is not the inventory of {because.run}: {beside}"


def _other(then: Inventory, now: Inventory, hosts: Sequence[str]) -> Iterator[str]:
    for host in hosts:
        yield from other_hardware(then.topology.hosts[host], now.topology.hosts[host])


def _notes(then: Inventory, now: Inventory, hosts: Sequence[str], because: Because, path: Path) -> Iterator[str]:
    found = list(_other(then, now, hosts))
    for host in hosts:
        found += otherwise_described(then.topology.hosts[host], now.topology.hosts[host])
    if found:
        more = f"; and {len(found) - MOST} more" if found[MOST:] else ""
        told = "; ".join(found[:MOST])
        yield f"{path} describes the hosts otherwise than the inventory of {because.run}: {told}{more}"


ITERATIONS = 20
"""Of the evidence where the scenario's suite has no such probe: the default of the suite's collectives."""

DURATION_S = 5
"""The longest that a bandwidth test of the evidence is repeated: as long as the suite of a full validation."""


def quick_evidence(because: Because, scenario: Scenario) -> Because:
    """The evidence as short as the suite of the scenario is; what that leaves out is said."""
    own = {
        spec.name: spec.iterations
        for phase in scenario.phases
        for spec in phase.probes
        if isinstance(spec, AllToAllSpec | TorAllReduceSpec)
    }
    evidence: list[Evidence] = []
    kinds: dict[str, str] = {}
    for one in because.evidence:
        then = one.probe
        now = shortened(then, iterations=own.get(then.kind, ITERATIONS), duration_s=DURATION_S)
        evidence.append(replace(one, probe=now))
        if now != then:
            kinds[then.kind] = ", ".join(_shorter(then, now))
    if not kinds:
        return because
    said = "; ".join(f"{kind}: {words}" for kind, words in kinds.items())
    note = f"quick: the evidence is repeated shorter ({said}): what shows only under longer load is not covered"
    return replace(because, evidence=tuple(evidence), notes=(*because.notes, note))


def _shorter(then: Probe, now: Probe) -> list[str]:
    """Each setting that is less than it was, in words."""
    words = {"iterations": "iterations", "duration_s": "s"}
    return [
        f"{now.params[key]:,} {word} instead of {then.params[key]:,}"
        for key, word in words.items()
        if then.params.get(key) != now.params.get(key)
    ]


ACCUSING = (Outcome.FAIL, Outcome.ERROR, Outcome.MARGINAL)
"""What is measured again; INCONCLUSIVE and SKIPPED probes accuse nobody."""

NAMING = (Outcome.FAIL, Outcome.ERROR)
"""Suspects of these outcomes name their hosts: who hung or did not answer is repaired, too."""

MOST_HOSTS = 2
"""Probes over more hosts are not repeated: they would take the hosts of a whole job (a choice)."""

MOST_PAST_RUNS = 10
"""The newest earlier runs that are read (a choice: about a second each)."""

Found = tuple[list[Evidence], int, list[str]]


def suspected(run: ShownRun) -> frozenset[str]:
    """The hosts that a run names: as bad, or as those that could not be measured."""
    return frozenset(host for one in run.judged.verdict.suspects for host in one.hosts if one.outcome in NAMING)


def evidence_of(failed: ShownRun, hosts: Sequence[str]) -> Found:
    """What accused *hosts* there, each once; how many earlier runs know of it; what could not be taken, in words."""
    accused, bad = set(hosts), suspected(failed)
    kept: dict[Same, Row] = {}
    large: set[str] = set()
    partners: set[str] = set()
    for row in failed.rows:
        others = set(row.probe.hosts) - accused
        if row.verdict.outcome not in ACCUSING or not row.verdict.ran or others == set(row.probe.hosts):
            continue
        if len(row.probe.hosts) > MOST_HOSTS:
            large.add(row.probe.kind)
        elif others & bad:
            partners |= others & bad
        elif same(row.probe) not in kept or row.verdict.outcome.rank > kept[same(row.probe)].verdict.outcome.rank:
            kept[same(row.probe)] = row
    past, runs = _past(failed, set(kept))
    evidence = [_evidence(row, past.get(what, ())) for what, row in kept.items()]
    notes = [f"not repeated: {', '.join(sorted(large))} over more than {MOST_HOSTS} hosts"] if large else []
    notes += [f"not repeated: probes with {fold(sorted(partners))}, which was found bad itself"] if partners else []
    return evidence, runs, notes


def _evidence(row: Row, past_gbps: Sequence[float]) -> Evidence:
    verdict = row.verdict
    probe = replace(row.probe, params=dict(row.probe.params))
    limit = verdict.limit_gbps
    good = tuple(value for value in past_gbps if limit is None or value >= limit)
    return Evidence(probe, verdict.outcome, verdict.reason, verdict.value_gbps, limit, good)


def _past(failed: ShownRun, wanted: set[Same]) -> tuple[Mapping[Same, Sequence[float]], int]:
    """What earlier runs beside this one measured for the same probes, and how many of them measured any."""
    found: dict[Same, list[float]] = {}
    runs = 0
    for run in _earlier(failed):
        probes = [probe for probe in run.probes if same(probe) in wanted]
        measured = 0
        for probe in probes:
            result = run.results.get(probe.probe_id)
            if result is not None and result.outcome is None and bandwidths(result):
                found.setdefault(same(probe), []).append(representative(result)[0])
                measured += 1
        runs += measured > 0
    return found, runs


def _begun(path: Path) -> tuple[str, int]:
    """When a run began: the second is in its name, what is finer only in its file."""
    with suppress(OSError):
        return path.name[: len("20260101-000000")], (path / "run.json").lstat().st_mtime_ns
    return path.name[: len("20260101-000000")], 0


def _earlier(failed: ShownRun) -> Iterator[PastRun]:
    """The newest runs before it in the same results, through the same backend; what cannot be read is no past."""
    here = Path(failed.judged.path)
    there = {one: _begun(one) for one in run_folders(here.parent.parent).runs}
    before = sorted((one for one, begun in there.items() if begun < _begun(here)), key=there.__getitem__, reverse=True)
    for path in before[:MOST_PAST_RUNS]:
        try:
            run = read_past_run(path)
        except FabricError:
            continue
        if run.backend == failed.judged.backend and not run.changes:
            yield run
