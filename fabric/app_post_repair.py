"""What a person can ask after a repair: may these hosts go back into service?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from pydantic_core import PydanticCustomError

from fabric import app
from fabric.analysis.acceptance import Measured, accept
from fabric.analysis.acceptance_ports import watched_ports
from fabric.analysis.identity import repaired
from fabric.analysis.windows import wanted
from fabric.app_judge import reopened
from fabric.app_past import evidence_of, suspected
from fabric.app_repair_inventory import inventory_of
from fabric.app_repair_quick import quick_evidence
from fabric.config.selection import HostsText, selected
from fabric.errors import ConfigError, Problem
from fabric.model.names import fold
from fabric.model.repair import Acceptance, Because
from fabric.model.scenario import Phase, Scenario
from fabric.model.topology import Topology
from fabric.plan.plan import PhasePlan, plan_scenario
from fabric.probes.again import AgainSpec
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from fabric.report.shown_run import ShownRun
from fabric.store.identity import read_identity
from fabric.store.samples import read_samples

NEIGHBOURS = 3
"""Good hosts under its ToR that a repaired one is measured with: with each of two, and these with others (a choice)."""

QUICK_REPEAT = 3
"""Repetitions of the evidence in a quick validation: the fewest that can be judged."""

QUICK_DURATION_S = 2
"""Of each bandwidth test of the suite in a quick validation (a choice)."""

BER_PHASE = "bit-errors"
"""The phase that a quick validation leaves out."""

WINDOW_S = 126 * 60.0
"""How long its ports carry traffic: NVIDIA returns a link to service after a clean test of 126 minutes."""

LONGEST_S = 3600
"""Of one pair, as in a scenario file."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked on the command line."""

    scenario: Path
    because: Path
    inventory: Path | None = None
    hosts: str | None = None
    faults: tuple[str, ...] = ()
    quick: bool = False


def prepare(asked: Wanted) -> app.Asked:
    """
    The scenario, filled with what accused the hosts in the run that failed them; runs on them and a few neighbours.

    Without an inventory of its own it is asked of that of the failed run. Raises ConfigError with everything that is
    wrong, also when that run has nothing against them, and when its hosts are not the same hardware in the inventory.
    """
    failed = reopened(asked.because)
    hosts = _repaired_hosts(asked, failed)
    because = _because(asked, failed, hosts)
    names = _taking_part(because, failed)
    inventory, notes = inventory_of(asked.because, failed, asked.inventory, because, names)
    prepared = app.prepare(asked.scenario, inventory_path=inventory, hosts=fold(sorted(names)), faults=asked.faults)
    because = replace(because, notes=(*because.notes, *notes))
    return filled(prepared, quick_evidence(because, prepared.scenario) if asked.quick else because)


def filled(prepared: app.Asked, because: Because) -> app.Asked:
    """
    The scenario of a file with the evidence in it, planned; quick or not as *because* says.

    Raises ConfigError for a scenario that has no place for it.
    """
    _require_evidence_phase(prepared.scenario)
    phases = tuple(
        _phase(phase, because) for phase in prepared.scenario.phases if not (because.quick and phase.name == BER_PHASE)
    )
    scenario = replace(prepared.scenario, phases=phases)
    plan = plan_scenario(scenario, prepared.inventory)
    phases = tuple(_long_enough(planned) for planned in plan.phases)
    scenario = replace(scenario, phases=phases)
    return replace(prepared, scenario=scenario, plan=plan_scenario(scenario, prepared.inventory))


def is_post_repair(scenario: Scenario) -> bool:
    """Whether a run of this scenario ends with a decision."""
    return because_of(scenario) is not None


def because_of(scenario: Scenario) -> Because | None:
    """What its evidence is from; None for any other scenario."""
    found = [spec.because for phase in scenario.phases for spec in phase.probes if isinstance(spec, AgainSpec)]
    return next((one for one in found if one is not None), None)


def decide(path: Path) -> Acceptance:
    """The decision of a run, from its directory alone; ``app_report.keep_decision`` keeps it beside the run."""
    return decided(reopened(path))


def decided(run: ShownRun) -> Acceptance:
    """The decision of a run that was read back; ConfigError for one that is no post-repair validation."""
    scenario, verdict = run.judged.scenario, run.judged.verdict
    because = because_of(scenario)
    if because is None:
        raise ConfigError([Problem(run.judged.path, 0, "no post-repair validation: it was not run with --because")])
    directory = Path(run.judged.path)
    topology = run.inventory.topology
    now = read_identity(directory)
    before = {host.host: host for host in because.identity} or None
    measured = Measured(run.probes, run.results, verdict, topology, run.complete)
    watched = watched_ports(read_samples(directory, wanted), topology, because.hosts, verdict.changes)
    phase = next(
        phase.name for phase in scenario.phases if any(isinstance(spec, AgainSpec) for spec in phase.probes)
    )  # fmt: skip
    return accept(because, measured, watched, repaired(before, now, because.hosts, because.suspects), phase)


def _repaired_hosts(asked: Wanted, failed: ShownRun) -> tuple[str, ...]:
    """The hosts of --hosts, else those that the run named."""
    names = failed.judged.scenario.hosts
    if asked.hosts is None:
        found = tuple(name for name in names if name in suspected(failed))
        if not found:
            text = "it names no host as bad: say --hosts"
            raise ConfigError([Problem(str(asked.because), 0, text)])
        return found
    try:
        wanted = HostsText().parse(asked.hosts)
    except PydanticCustomError as exc:
        raise ConfigError([Problem("--hosts", 0, exc.message())]) from exc
    said: list[Problem] = []
    inventory = failed.inventory
    found = selected(
        wanted, inventory.topology, lambda text: said.append(Problem("--hosts", 0, text)), source=inventory.source
    )
    if said:
        raise ConfigError(said)
    return found


def _because(asked: Wanted, failed: ShownRun, hosts: Sequence[str]) -> Because:
    evidence, past_runs, notes = evidence_of(failed, hosts)
    if not evidence:
        text = f"it has nothing against {fold(list(hosts))} that can be measured again"
        raise ConfigError([Problem(str(asked.because), 0, text)])
    identity = read_identity(Path(failed.judged.path)) or {}
    suspects = [one for one in failed.judged.verdict.suspects if set(one.hosts) & set(hosts)]
    return Because(
        run=f"{failed.judged.scenario.name}/{failed.judged.run_id}",
        path=failed.judged.path,
        hosts=tuple(hosts),
        quick=asked.quick,
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


def _require_evidence_phase(scenario: Scenario) -> None:
    again = [phase.name for phase in scenario.phases for spec in phase.probes if isinstance(spec, AgainSpec)]
    if len(again) != 1:
        text = (
            f"--because needs a scenario with one probe 'again', such as scenarios/post-repair.yaml: {len(again)} here"
        )
        raise ConfigError([Problem(scenario.source, 0, text)])


def _phase(phase: Phase, because: Because) -> Phase:
    """With the evidence in it, and shorter where the validation is quick."""
    return replace(phase, probes=tuple(_spec(spec, because) for spec in phase.probes))


def _long_enough(planned: PhasePlan) -> Phase:
    """The window of bit errors, as long as it takes: how many pairs share a PCIe switch depends on the platform."""
    phase, makespan_s = planned.phase, planned.schedule.makespan_s
    if phase.name != BER_PHASE or makespan_s <= 0.0:
        return phase
    stretch = WINDOW_S / makespan_s
    return replace(phase, probes=tuple(_stretched(spec, stretch) for spec in phase.probes))


def _stretched(spec: Any, stretch: float) -> Any:
    if not isinstance(spec, PairwiseSpec):
        return spec
    return spec.changed(duration_s=max(1, min(LONGEST_S, ceil(stretch * spec.duration_s))))


def _spec(spec: Any, because: Because) -> Any:
    if isinstance(spec, AgainSpec):
        return spec.changed(because=because, repeat=QUICK_REPEAT if because.quick else spec.repeat)
    if isinstance(spec, PairwiseSpec):
        return spec.changed(only=because.hosts)  # the neighbours are needed for nothing else
    if because.quick and isinstance(spec, LoopbackSpec | RnicToRnicSpec):
        return spec.changed(repeat=1, duration_s=min(QUICK_DURATION_S, spec.duration_s))
    if because.quick and isinstance(spec, AllToAllSpec | TorAllReduceSpec):
        return spec.changed(repeat=1)
    return spec
