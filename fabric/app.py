"""What a person can ask for, one function each; the command line only parses, calls and prints."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orjson

from fabric.analysis.conclude import conclude, failed_hosts
from fabric.analysis.judge import Judge
from fabric.config import (
    baseline_notes,
    from_resolved,
    load_baseline,
    load_baselines,
    load_scenario,
    resolved_document,
)
from fabric.engine.phase import Observer
from fabric.engine.run import run_plan
from fabric.errors import ConfigError, Interrupted, Problem, StoreError
from fabric.model.inventory import Inventory
from fabric.model.judged_run import JudgedRun
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Scenario
from fabric.model.verdict import Baseline, Limit, Verdict
from fabric.plan.plan import PhasePlan, Plan, plan_scenario
from fabric.ports import Executor
from fabric.report.verdict_json import verdict_document
from fabric.store.events import read_events
from fabric.store.measurements import write_measurements
from fabric.store.raw import raw_entries
from fabric.store.results import from_events
from fabric.store.run_directory import RUN_FORMAT, RunDirectory, write_durably

MakeExecutor = Callable[[Inventory, int], Executor]
"""Builds the executor of the chosen backend."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A scenario with everything that the command line overrides, decoded and planned."""

    scenario: Scenario
    inventory: Inventory
    baselines: Mapping[str, Baseline]
    plan: Plan
    notes: tuple[str, ...]  # where the baselines' limits do not fit what is asked


def prepare(scenario_path: Path, *, inventory_path: Path | None, hosts: str | None, faults: tuple[str, ...]) -> Asked:
    """Read and check every file, then plan; raises ConfigError with all problems before anything else happens."""
    scenario, inventory = load_scenario(scenario_path, inventory_path=inventory_path, hosts=hosts, faults=faults)
    override = scenario.judge.baseline
    used = {inventory.topology.hosts[host].platform.baseline for host in scenario.hosts}
    baselines = load_baselines(sorted({override} if override else used), Path(inventory.source))
    notes = baseline_notes(scenario, inventory, baselines)
    return Asked(scenario, inventory, baselines, plan_scenario(scenario, inventory), notes)


def run(
    asked: Asked,
    *,
    backend: str,
    make_executor: MakeExecutor,
    results: Path,
    seed: int,
    observer: Observer,
) -> JudgedRun:
    """Run the plan, then judge it from what was written down."""
    scenario, inventory = asked.scenario, asked.inventory
    executor = make_executor(inventory, seed)
    try:
        directory = RunDirectory.create(results, scenario.name, _run_document(asked, backend=backend, seed=seed))
    except StoreError:
        executor.close()
        raise
    judge = _judge(scenario, inventory, asked.baselines)

    def gate(phase_plan: PhasePlan, phase_results: Sequence[ProbeResult]) -> dict[str, str]:
        by_id = {result.probe_id: result for result in phase_results}
        return failed_hosts(_probes(phase_plan), by_id, judge=judge)

    started_s = executor.now()
    directory.events.append("run_started", started_s, {"run_id": directory.path.name})
    try:
        finished = run_plan(
            asked.plan,
            topology=inventory.topology,
            executor=executor,
            directory=directory,
            observer=observer,
            gate=gate,
        )
        elapsed_s = executor.now() - started_s
        directory.events.append("run_ended", executor.now(), {})
        by_id = {result.probe_id: result for result in finished}
        verdict = _conclude(asked.plan, by_id, inventory, judge=judge)
    except KeyboardInterrupt as exc:
        directory.events.append("run_interrupted", executor.now(), {})
        raise Interrupted(f"interrupted; what was measured until then: fabric report {directory.path}") from exc
    finally:
        executor.close()
        directory.close()
    judged = _judged(asked, verdict, directory, elapsed_s=elapsed_s, backend=backend)
    _write_derived(judged, by_id)
    return judged


def _judged(asked: Asked, verdict: Verdict, directory: RunDirectory, *, elapsed_s: float, backend: str) -> JudgedRun:
    return JudgedRun(
        scenario=asked.scenario,
        verdict=verdict,
        path=str(directory.path),
        run_id=directory.path.name,
        elapsed_s=elapsed_s,
        backend=backend,
        judged_by=_named(asked.baselines),
        again=f"fabric report {directory.path}",
    )


def analyze(path: Path, *, baseline_path: Path | None, rewrite: bool) -> JudgedRun:
    """
    Judge a run again from its directory alone, with today's code and, if given, another baseline.

    With *rewrite* what is derived is made again; without, only what is missing.
    """
    path = path.parent / path.readlink() if path.is_symlink() else path
    document = _read_run(path)
    scenario, inventory = from_resolved(document["asked"])
    baselines = _baselines_from(document, path / "run.json")
    if baseline_path is not None:
        other = load_baseline(baseline_path)
        baselines = {name: other for name in baselines}
    plan = plan_scenario(scenario, inventory)
    events = list(read_events(path / "events.jsonl"))
    if events and events[0].get("run_id") != document["run_id"]:
        raise StoreError(f"{path / 'events.jsonl'}: the history of another run ({events[0].get('run_id')})")
    by_id = from_events(events)
    verdict = _conclude(plan, by_id, inventory, judge=_judge(scenario, inventory, baselines))
    if not any(event["event"] == "run_ended" for event in events):
        verdict = replace(
            verdict, reasons=("the run was interrupted: what it did not reach is not judged", *verdict.reasons)
        )
    again = f"fabric report {path}" if baseline_path is None else f"fabric analyze {path} --baseline {baseline_path}"
    judged = JudgedRun(
        scenario=scenario,
        verdict=verdict,
        path=str(path),
        run_id=document["run_id"],
        elapsed_s=events[-1]["at_s"] - events[0]["at_s"] if events else 0.0,
        backend=document["backend"],
        judged_by=_named(baselines),
        again=again,
    )
    if rewrite:
        _write_derived(judged, by_id)
    elif not (path / "verdict.json").exists():
        with suppress(StoreError):  # an archive may be read-only; what is shown needs no file
            _write_derived(judged, by_id)
    return judged


def raw_output(path: Path, probe_id: str) -> str:
    """What the commands of one probe printed; raises ConfigError naming the nearest probe that there is."""
    text = raw_entries(path, probe_id)
    if not text:
        known = from_events(read_events(path / "events.jsonl"))
        near = get_close_matches(probe_id, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError([Problem(str(path), 0, f"nothing was printed by a probe {probe_id!r}{hint}")])
    return text


def _named(baselines: Mapping[str, Baseline]) -> tuple[str, ...]:
    return tuple(f"{baseline.name} ({baseline.source})" for baseline in {id(b): b for b in baselines.values()}.values())


def _judge(scenario: Scenario, inventory: Inventory, baselines: Mapping[str, Baseline]) -> Judge:
    settings = scenario.judge
    return Judge(baselines, topology=inventory.topology, marginal=settings.marginal, override=settings.baseline)


def _probes(phase_plan: PhasePlan) -> list[Probe]:
    return [slot.probe for component in phase_plan.schedule.components for slot in component]


def _conclude(plan: Plan, by_id: Mapping[str, ProbeResult], inventory: Inventory, *, judge: Judge) -> Verdict:
    probes = [probe for phase_plan in plan.phases for probe in _probes(phase_plan)]
    notes = [note for phase_plan in plan.phases for note in phase_plan.notes]
    return conclude(probes, by_id, topology=inventory.topology, judge=judge, notes=notes)


def _write_derived(judged: JudgedRun, by_id: Mapping[str, ProbeResult]) -> None:
    path = Path(judged.path)
    document = orjson.dumps(verdict_document(judged), option=orjson.OPT_INDENT_2) + b"\n"
    try:
        measured = (m for result in by_id.values() for m in result.measurements)
        write_measurements(path / "measurements.parquet", measured)
        write_durably(path / "verdict.json", document)
    except OSError as exc:
        raise StoreError(f"{path}: cannot write: {exc.strerror or exc}") from exc


def _run_document(asked: Asked, *, backend: str, seed: int) -> dict[str, Any]:
    try:
        own = version("fabric-testbench")
    except PackageNotFoundError:
        own = "not installed"
    return {
        "argv": [word.encode("utf-8", "backslashreplace").decode() for word in sys.argv],
        "backend": backend,
        "seed": seed,
        "versions": {"fabric-testbench": own, "python": platform.python_version()},
        "baselines": {name: asdict(baseline) for name, baseline in asked.baselines.items()},
        "asked": resolved_document(asked.scenario, asked.inventory),
    }


def _read_run(path: Path) -> dict[str, Any]:
    file = path / "run.json"
    try:
        document = orjson.loads(file.read_bytes())
    except OSError as exc:
        raise ConfigError([Problem(str(path), 0, f"not a run directory: {file.name}: {exc.strerror}")]) from exc
    except orjson.JSONDecodeError as exc:
        raise ConfigError([Problem(str(file), 0, f"not readable as JSON: {exc}")]) from exc
    if not isinstance(document, dict) or document.get("format") != RUN_FORMAT:
        raise ConfigError([Problem(str(file), 0, f"not a run of format {RUN_FORMAT}")])
    missing = [key for key in ("run_id", "backend", "baselines", "asked") if key not in document]
    if missing:
        raise ConfigError([Problem(str(file), 0, f"lacks {', '.join(missing)}")])
    return document


def _baselines_from(document: Mapping[str, Any], file: Path) -> dict[str, Baseline]:
    try:
        return {
            name: Baseline(name, body["source"], tuple(Limit(**limit) for limit in body["limits"]))
            for name, body in document["baselines"].items()
        }
    except (AttributeError, KeyError, TypeError) as exc:
        raise ConfigError([Problem(str(file), 0, f"'baselines' is not as this version writes it: {exc}")]) from exc
