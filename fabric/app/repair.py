"""Plan the validation of repaired hosts: may they go back into service?"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, inf
from pathlib import Path

from fabric.app.analyze import reopened
from fabric.app.prepare import Asked, Given, hosts_named, prepare
from fabric.config.inventory import load_inventory
from fabric.errors import ConfigError, FabricError
from fabric.judge.normal.interval import LEAST_SAMPLES
from fabric.judge.normal.series import number_of
from fabric.judge.ports.health import clean_s
from fabric.judge.repair.accept import Same, same
from fabric.judge.repair.identity import INSIDE, differing
from fabric.judge.repair.needs import Measured, needs_of, passes_through, switches_of
from fabric.model import gathered
from fabric.model.fields.wording import nearest, quoted
from fabric.model.outcome import Outcome
from fabric.model.repair import Because, Evidence, Need
from fabric.model.scenario import Phase, ProbeSpec
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect
from fabric.plan import PhasePlan, plan_scenario
from fabric.probes.again import AgainSpec, shortened
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from fabric.report.shown_run import Row, ShownRun
from fabric.runs.run_directory import run_folders
from fabric.runs.run_document import PastRun, read_identity, read_past_run
from fabric.runs.samples import read_samples

NEIGHBOURS = 3
"""
How many good hosts of its ToR group a repaired host is measured with.

It is measured with each of two, and these also with others (a choice).
"""

QUICK_REPEAT = 3
"""Repetitions of the evidence in a quick validation: the fewest that can be judged."""

QUICK_S = 600.0
"""The planned duration of a quick validation at most: the evidence is repeated as often as the time allows."""

QUICK_WORST = 10
"""Probes of each suspect that a quick validation repeats: the worst ones (a choice)."""

MOST_S = 2 * 3600.0
"""
The longest time for which other validations repeat the evidence, in seconds.

A choice: a part that failed 1 of 24 tests needs half of it.
"""

MOST_LATER_S = 8 * 3600.0
"""The longest wait for a fault that came gradually or with warmth (a choice: a night)."""

QUICK_DURATION_S = 2
"""Seconds of each bandwidth test in a quick validation (a choice)."""

BER_PHASE = "bit-errors"
"""The phase that a quick validation leaves out."""

SPARE_S = 60.0
"""Seconds that ports carry traffic beyond the time in which a link has to be free of errors (a choice: one sample)."""

LONGEST_S = 3600
"""The longest test of one pair in seconds, as in a scenario file."""


def prepare_repair(given: Given, run: Path, *, quick: bool, links: str | None = None) -> Asked:
    """
    Plan a validation: the scenario, filled with the evidence against the hosts in the run that failed them.

    It runs on these hosts and a few neighbours. With *links* (leaves, spines, cables between switches) it repeats what
    accused these, on the hosts whose probes passed through them. Without an inventory in *given*, that of the failed
    run is used. Raises ConfigError with everything that is wrong, also if that run has nothing against them, or if the
    hosts are other hardware in the inventory.
    """
    failed = reopened(run)
    hosts = _repaired_hosts(given, run, failed) if links is None else ()
    named = () if links is None else _known_links(links, failed.past.inventory.topology)
    because = _because(run, failed, hosts, named, quick=quick)
    names = _taking_part(because, failed)
    inventory, notes = inventory_of(run, failed, given.inventory, because, names)
    prepared = prepare(replace(given, inventory=inventory, hosts=fold(sorted(names))))
    because = replace(because, notes=(*because.notes, *notes))
    return filled(prepared, quick_evidence(because) if quick else because)


def filled(prepared: Asked, because: Because) -> Asked:
    """
    Return the planned scenario with the evidence in its probe ``again``; quick or not as *because* says.

    Raises ConfigError for a scenario without exactly one such probe.
    """
    scenario = prepared.scenario
    again = [phase for phase in scenario.phases for spec in phase.probes if isinstance(spec, AgainSpec)]
    if len(again) != 1:
        text = "--because needs a scenario with one probe 'again', such as scenarios/post-repair.yaml"
        raise ConfigError.at(scenario.source, f"{text}: {len(again)} here")
    kept = [phase for phase in scenario.phases if not (because.quick and phase.name == BER_PHASE)]
    kept = again if because.links else kept  # no host was repaired
    phases = tuple(replace(phase, probes=tuple(_spec(spec, because) for spec in phase.probes)) for phase in kept)
    plan = plan_scenario(replace(scenario, phases=phases), prepared.inventory)
    hosts = prepared.inventory.topology.hosts
    rates_gbps = (rnic.line_rate_gbps for name in because.hosts for rnic in hosts[name].platform.rnics)
    window_s = clean_s(min(rates_gbps, default=inf)) + SPARE_S
    others_s = sum(one.schedule.makespan_s for one in plan.phases if one.phase.name != again[0].name)
    room_s = QUICK_S - others_s if because.quick else MOST_S
    later_s = max((one.after_s for one in because.needs if one.after_s <= MOST_LATER_S), default=0.0)
    made = [
        _often_enough(one.phase, because, prepared.inventory.topology, room_s)
        if one.phase.name == again[0].name
        else _long_enough(one, max(window_s, later_s))
        for one in plan.phases
    ]
    if later_s and not because.quick:
        once = next(phase for phase in made if phase.name == again[0].name)
        made.append(replace(once, name=f"{once.name}-later", needs=tuple(phase.name for phase in made)))
    scenario = replace(scenario, phases=tuple(made))
    return replace(prepared, scenario=scenario, plan=plan_scenario(scenario, prepared.inventory))


def _often_enough(phase: Phase, because: Because, topology: Topology, room_s: float) -> Phase:
    """
    Return the phase with the evidence repeated as often as its parts need and time allows.

    The worst probes come first. The tests of one host run one after another.
    """
    (spec,) = (spec for spec in phase.probes if isinstance(spec, AgainSpec))
    needs = [(need, passes_through(need.part, topology)) for need in because.needs]
    kept: list[tuple[Evidence, list[Need]]] = []
    taken, lasts_s = Counter[str](), Counter[str]()
    for one in sorted(because.evidence, key=lambda one: (one.value_gbps or 0.0) / (one.limit_gbps or inf)):
        own = [need for need, passes in needs if passes(one.probe)]
        parts, least_s = [need.part for need in own] or [""], ceil(LEAST_SAMPLES * one.probe.duration_s)
        many = because.quick and min(taken[part] for part in parts) >= QUICK_WORST
        if not kept or not (many or any(lasts_s[host] + least_s > room_s for host in one.probe.hosts)):
            kept.append((one, own))
            taken.update(parts)
            lasts_s.update(dict.fromkeys(one.probe.hosts, least_s))
    often = [max([spec.repeat, *(ceil(need.tests / taken[need.part]) for need in own)]) for _, own in kept]
    lasts_s.clear()
    for (one, _), number in zip(kept, often, strict=True):
        lasts_s.update(dict.fromkeys(one.probe.hosts, ceil(number * one.probe.duration_s)))
    share, least = min(1.0, max(0.0, room_s) / max(lasts_s.values())), min(LEAST_SAMPLES, spec.repeat)
    fits = [max(least, int(share * number)) for number in often]
    evidence = tuple(replace(one, repeat=number) for (one, _), number in zip(kept, fits, strict=True))
    left, every = len(because.evidence) - len(kept), len(because.evidence)
    measured = f"{left} of the {every} probes that accused it are not measured again; the worst ones of each part are"
    fewer = [f"for want of time {measured}"] if left else []
    changed = spec.changed(because=replace(because, evidence=evidence, notes=(*because.notes, *fewer)))
    return replace(phase, probes=tuple(changed if one is spec else one for one in phase.probes))


def _repaired_hosts(given: Given, run: Path, failed: ShownRun) -> tuple[str, ...]:
    """Return the hosts of ``--hosts``, or else those that the run names as bad."""
    names = failed.judged.scenario.hosts
    if given.hosts is None:
        switches = failed.past.inventory.topology.switches
        beyond = [one for one in failed.judged.verdict.suspects if switches_of(one.component)[0] in switches]
        named = suspected(failed, but=beyond)
        found = tuple(name for name in names if name in named)
        if not found:
            links = f", and --links {','.join(one.component for one in beyond)} for what is no host" if beyond else ""
            raise ConfigError.at(run, f"it names no host as bad: say --hosts{links}")
        return found
    return hosts_named(given.hosts, failed.past.inventory)


def _known_links(text: str, topology: Topology) -> tuple[str, ...]:
    """Return the names in ``--links``; raise ConfigError for a switch that the topology does not have."""
    names = tuple(dict.fromkeys(text.split(",")))
    for end in (end for name in names for end in switches_of(name)):
        if end not in topology.switches:
            near = nearest(end, topology.switches)
            raise ConfigError.at("--links", f"{quoted(text)}: no switch {quoted(end)}{near}")
    return names


def _because(run: Path, failed: ShownRun, hosts: Sequence[str], links: tuple[str, ...], *, quick: bool) -> Because:
    topology, verdict = failed.past.inventory.topology, failed.judged.verdict
    about = {end for name in links for end in switches_of(name)} or set(hosts)
    listed = ((one, _switches_meant(one) if links else one.hosts) for one in verdict.suspects)
    suspects = [one for one, places in listed if not about.isdisjoint(places)]
    evidence, notes = evidence_of(failed, hosts, links, suspects)
    if not evidence:
        why = "".join(f"; {note}" for note in notes)
        raise ConfigError.at(run, f"it has nothing against {fold(links or hosts)} that can be measured again{why}")
    identity = read_identity(failed.past.path) or {}
    samples = read_samples(failed.past.path, lambda one: one.name == "module_c")
    measured = Measured(failed.past.probes, failed.past.results, verdict, topology, samples)
    bad = [one for one in suspects if one.outcome in NAMING]
    if not failed.past.ended:
        notes.append(f"{failed.past.name} was interrupted: what it did not reach could accuse nobody")
    return Because(
        run=failed.past.name,
        path=failed.judged.path,
        hosts=tuple(hosts),
        quick=quick,
        suspects=tuple(suspects),
        evidence=tuple(evidence),
        identity=tuple(identity[host] for host in hosts if host in identity),
        notes=tuple(notes),
        links=links,
        needs=needs_of(measured, [one.probe for one in evidence], bad, links or hosts),
    )


def _switches_meant(suspect: Suspect) -> list[str]:
    return [end for name in (suspect.component, *suspect.ambiguous_with) for end in switches_of(name)]


def _taking_part(because: Because, failed: ShownRun) -> list[str]:
    """Return the repaired hosts, the hosts that their evidence needs, and good neighbours under their ToRs."""
    names = dict.fromkeys(because.hosts)
    names |= dict.fromkeys(host for one in because.evidence for host in one.probe.hosts)
    bad = suspected(failed)
    for host in because.hosts:
        near = [name for name in _neighbours(host, failed.past.inventory.topology) if name not in bad]
        for name in near:
            if sum(other in names for other in near) < NEIGHBOURS:
                names[name] = None
    return list(names)


def _neighbours(host: str, topology: Topology) -> list[str]:
    """Return the other hosts of its ToR group, starting with those after it."""
    members = next((list(group) for group in topology.tor_groups if host in group), [host])
    place = members.index(host)
    return members[place + 1 :] + members[:place]


def _long_enough(planned: PhasePlan, window_s: float) -> Phase:
    """
    Return the phase of bit errors, stretched to *window_s*.

    How many pairs share a PCIe switch, and so how long it takes, depends on the platform.
    """
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
    """Return the probe with the evidence in it, shorter if the validation is quick."""
    if isinstance(spec, AgainSpec):
        return spec.changed(because=because, repeat=QUICK_REPEAT if because.quick else spec.repeat)
    if isinstance(spec, PairwiseSpec):
        return spec.changed(only=because.hosts)  # the neighbours only serve as partners
    if because.quick and isinstance(spec, LoopbackSpec | RnicToRnicSpec):
        return spec.changed(repeat=1, duration_s=min(QUICK_DURATION_S, spec.duration_s))
    if because.quick and isinstance(spec, AllToAllSpec | TorAllReduceSpec):
        return spec.changed(repeat=1)
    return spec


def inventory_of(
    run: Path, failed: ShownRun, given: Path | None, because: Because, hosts: Sequence[str]
) -> tuple[Path, tuple[str, ...]]:
    """
    Return the inventory's file, and notes on how it describes *hosts* differently from the failed *run*.

    Raises ConfigError if there is no such file, if hosts are missing in it, or if a host of the evidence has other
    parts in it: the same names would then mean something else.
    """
    path = _own(run, failed) if given is None else given
    now = load_inventory(path)
    then = failed.past.inventory
    missing = [host for host in hosts if host not in now.topology.hosts]
    if missing:
        raise ConfigError.at(path, _absent(missing, because))
    accused = set(because.hosts).union(*(one.probe.hosts for one in because.evidence))
    found = {host: differing(then.topology.hosts[host], now.topology.hosts[host]) for host in hosts}
    if other := [host for host, keys in found.items() if host in accused and not INSIDE.isdisjoint(keys)]:
        why = "the file has changed since" if given is None else "take its inventory (leave out --inventory)"
        inside = ", ".join(sorted({key for host in other for key in found[host] & INSIDE}))
        raise ConfigError.at(path, f"{fold(other)}: not the hardware that {because.run} was about ({inside}): {why}")
    if not (odd := [host for host, keys in found.items() if keys]):
        return path, ()
    all_keys = ", ".join(sorted(set[str]().union(*found.values())))
    return path, (f"{path} describes {fold(odd)} otherwise than the inventory of {because.run}: {all_keys}",)


def _own(run: Path, failed: ShownRun) -> Path:
    """Return the path of the failed run's inventory."""
    asked_in = (failed.past.document.get("given") or {}).get("folder", "")
    path = Path(asked_in) / failed.past.inventory.source
    if not path.is_file():
        raise ConfigError.at(run, f"its inventory {path} is not there any more: say --inventory")
    return path


def _absent(missing: Sequence[str], because: Because) -> str:
    """Say which hosts are missing: repaired hosts by name, other hosts with the reason why they are needed."""
    repaired = [host for host in missing if host in because.hosts]
    if repaired:
        return f"it has no {fold(repaired)}, which {because.run} found bad: take the inventory of that run"
    beside = f"{len(missing)} hosts beside {fold(because.names)} that it needs are missing"
    return f"it is not the inventory of {because.run}: {beside}"


ITERATIONS = 20
"""Iterations of each collective in a quick validation: the default of nccl-tests."""


def quick_evidence(because: Because) -> Because:
    """Shorten evidence that takes long, and note what is then not covered."""
    short = [shortened(one.probe, iterations=ITERATIONS, duration_s=QUICK_DURATION_S) for one in because.evidence]
    pairs = list(zip(because.evidence, short, strict=True))
    kinds = sorted({now.kind for one, now in pairs if now != one.probe})
    what = f"the evidence is measured for {QUICK_DURATION_S} s or {ITERATIONS} iterations at most ({', '.join(kinds)})"
    notes = [f"quick: {what}: what shows only under longer load is not covered"] if kinds else []
    evidence = tuple(replace(one, probe=now) for one, now in pairs)
    return replace(because, evidence=evidence, notes=(*because.notes, *notes))


ACCUSING = (Outcome.FAIL, Outcome.ERROR, Outcome.MARGINAL)
"""Outcomes of probes that are measured again; INCONCLUSIVE and SKIPPED accuse nobody."""

NAMING = (Outcome.FAIL, Outcome.ERROR)
"""Outcomes of suspects that name their hosts: a host that hung or did not answer is repaired, too."""

MOST_HOSTS = 2
"""Probes over more hosts are not repeated: they would need the hosts of a whole job (a choice)."""

MOST_PAST_RUNS = 10
"""How many earlier runs are read, the newest ones (a choice: each takes about a second)."""

Found = tuple[list[Evidence], list[str]]


def suspected(run: ShownRun, *, but: Sequence[Suspect] = ()) -> frozenset[str]:
    """Return the hosts that a run names as bad or unmeasurable, ignoring the suspects in *but*."""
    named = (one for one in run.judged.verdict.suspects if one.outcome in NAMING and one not in but)
    return frozenset(host for one in named for host in one.hosts)


def evidence_of(failed: ShownRun, hosts: Sequence[str], links: Sequence[str], suspects: Sequence[Suspect]) -> Found:
    """
    Return the probes that accused *hosts* or *links* in the failed run, each once, and notes on what was left out.

    Probes that *suspects* rest on are included even if they passed: a course consists of such probes.
    """
    accused, bad = set(hosts), suspected(failed, but=suspects if links else ())
    passes = [passes_through(name, failed.past.inventory.topology) for name in links]
    named = {name for one in suspects for name in one.probes}
    kept: dict[Same, Row] = {}
    large, partners = set[str](), set[str]()
    for row in failed.rows:
        what, others = same(row.probe), set(row.probe.hosts) - accused
        is_evidence = row.verdict.ran and (row.verdict.outcome in ACCUSING or row.probe.probe_id in named)
        if not is_evidence or not (any(one(row.probe) for one in passes) if links else others != set(row.probe.hosts)):
            continue
        if len(row.probe.hosts) > MOST_HOSTS:
            large.add(row.probe.kind)
        elif others & bad:
            partners |= others & bad
        elif what not in kept or row.verdict.outcome.rank > kept[what].verdict.outcome.rank:
            kept[what] = row
    past = _past(failed, set(kept))
    evidence = [_evidence(row, past.get(what, ())) for what, row in kept.items()]
    notes = [f"not repeated: {', '.join(sorted(large))} over more than {MOST_HOSTS} hosts"] if large else []
    notes += [f"not repeated: probes with {fold(sorted(partners))}, which was found bad itself"] if partners else []
    return evidence, notes


def _evidence(row: Row, past_gbps: Sequence[float]) -> Evidence:
    verdict = row.verdict
    probe = replace(row.probe, params=dict(row.probe.params))
    limit = verdict.limit_gbps
    good = tuple(value for value in past_gbps if limit is None or value >= limit)
    return Evidence(probe, verdict.outcome, verdict.reason, verdict.value_gbps, limit, good)


def _past(failed: ShownRun, wanted: set[Same]) -> Mapping[Same, Sequence[float]]:
    """Return what earlier runs beside the failed one measured for the same probes."""
    again = ((run, probe) for run in _earlier(failed) for probe in run.probes if same(probe) in wanted)
    numbers = ((same(probe), number_of(run.results.get(probe.probe_id))) for run, probe in again)
    return gathered((what, number[0]) for what, number in numbers if number is not None)


def _earlier(failed: ShownRun) -> Iterator[PastRun]:
    """Yield the newest earlier runs in the same results, through the same backend; unreadable runs are skipped."""
    here = failed.past.path
    before = [one for one in run_folders(here.parent.parent).runs if one.name < here.name]  # named by time
    for path in sorted(before, key=lambda one: one.name, reverse=True)[:MOST_PAST_RUNS]:
        try:
            run = read_past_run(path)
        except FabricError:
            continue
        if run.backend == failed.past.backend and not run.changes:
            yield run
