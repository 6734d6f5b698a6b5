"""Judge as one several runs that measured parts of a fleet (an array of jobs, one rack each).

Their samples, counters and cables become those of one run, on one clock, and go through the same judge. A leaf or an
uplink that two runs cross is named once, by what both saw of it. Nothing is written.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fabric.app.analyze import concluded, seen_of, shown_run, to_judge
from fabric.errors import ConfigError, Problem
from fabric.judge.normal.keys import grouped
from fabric.judge.ports.verdict import SeenCounters
from fabric.model.outcome import note
from fabric.model.probe import ProbeResult
from fabric.model.sampling import CounterCourse, CounterReading, Samples
from fabric.model.text import fold
from fabric.plan import PhasePlan, Plan
from fabric.report.shown_run import ShownRun
from fabric.runs.events import History
from fabric.runs.run_document import PastRun
from fabric.runs.samples import LinkSamples
from fabric.runs.tables import WallClock


def judged_together(paths: Sequence[Path], *, baseline_path: Path | None = None) -> ShownRun:
    """
    Return the verdict over several runs of one scenario that share no host.

    Raises ConfigError for runs that cannot be one: named twice; with other phases, inventories or limits; with a host
    that another run has; not ended; or with changes of their own.
    """
    parts = [to_judge(path, baseline_path) for path in paths]
    _refuse_unlike(parts)
    offsets_s = _offsets_s(parts)
    whole = _whole(parts, offsets_s)
    verdict = concluded(whole, _seen(parts, whole, offsets_s))
    apart = note(f"{len(parts)} runs judged together: between the hosts of two of them nothing was measured")
    first, document = parts[0], {**whole.document, "run_id": f"{parts[0].document['run_id']}+{len(parts) - 1}"}
    again = f"fabric analyze {' '.join(str(one.path) for one in parts)}"
    shown = shown_run(
        replace(whole, document=document),
        replace(verdict, reasons=(*verdict.reasons, apart)),
        again=again if baseline_path is None else f"{again} --baseline {baseline_path}",
        read_bytes=0,
        parts=[one.path for one in parts],
    )
    named = [probe for one in shown.judged.verdict.suspects for probe in one.probes][:1]
    there = (one for one in parts if any(probe in one.results for probe in named))
    where = str(next(there, first).path)  # the run whose raw output is worth reading
    return replace(shown, judged=replace(shown.judged, path=where))


def _refuse_unlike(parts: Sequence[PastRun]) -> None:
    """Raise ConfigError with everything that keeps the runs from being judged as one."""
    first, problems, of_host = parts[0], list[Problem](), dict[str, PastRun]()
    alike = _alike(first)
    for one in parts:
        where = str(one.path)
        for name, mine in _alike(one).items():
            if mine != alike[name]:
                problems.append(Problem(where, 0, f"another {name} than {first.path}: they are judged one by one"))
        twice = [host for host in one.scenario.hosts if host in of_host]
        if twice:
            problems.append(Problem(where, 0, f"{fold(twice)}: measured by {of_host[twice[0]].path}, too"))
        of_host |= dict.fromkeys(one.scenario.hosts, one)
        if not one.ended:
            problems.append(Problem(where, 0, "has not ended: together are judged runs that are over"))
        if one.changes:
            problems.append(Problem(where, 0, "altered the fabric, maybe while others measured: judge it by itself"))
    if problems:
        raise ConfigError(problems)


def _alike(one: PastRun) -> dict[str, object]:
    """
    Return by name what must be equal in all runs.

    The faults of a simulated rack may differ between runs, and files may have been moved.
    """
    mock = replace(one.inventory.mock, faults=(), timed_faults=())
    return {
        "scenario": replace(one.scenario, hosts=(), source="", inventory=""),
        "inventory": replace(one.inventory, source="", mock=mock),
        "backend": one.backend,
        "limits": {baseline.name: replace(baseline, source="") for baseline in one.baselines.values()},
    }


def _offsets_s(parts: Sequence[PastRun]) -> list[float]:
    """Return the seconds to add to each run's times, so that all are on the first run's clock."""
    clocks = [WallClock(one.history.others, str(one.document["run_id"])).at([0.0])[0] for one in parts]
    return [0.0 if np.isnat(one - clocks[0]) else float((one - clocks[0]) / np.timedelta64(1, "s")) for one in clocks]


def _whole(parts: Sequence[PastRun], offsets_s: Sequence[float]) -> PastRun:
    """Return one run that planned and measured all that the parts did; its path is the first one's."""
    results: dict[str, ProbeResult] = {}
    for one, by_s in zip(parts, offsets_s, strict=True):
        for name, result in one.results.items():
            results[name] = replace(result, started_s=result.started_s + by_s, ended_s=result.ended_s + by_s)
    began_s = [(one.history.first or {"at_s": 0.0})["at_s"] + by for one, by in zip(parts, offsets_s, strict=True)]
    history = History(
        results=results,
        others=parts[0].history.others,  # on the first run's clock, which all now share
        first={"at_s": min(began_s)},
        at_s=max(one.history.at_s + by_s for one, by_s in zip(parts, offsets_s, strict=True)),
        added=tuple(probe for one in parts for probe in one.history.added),
    )
    hosts = tuple(host for one in parts for host in one.scenario.hosts)
    phases = grouped((phase for one in parts for phase in one.plan.phases), lambda plan: plan.phase.name)
    return replace(
        parts[0],
        scenario=replace(parts[0].scenario, hosts=hosts),
        baselines={name: baseline for one in parts for name, baseline in one.baselines.items()},
        plan=Plan(tuple(map(_phase, phases.values()))),
        history=history,
    )


def _phase(plans: Sequence[PhasePlan]) -> PhasePlan:
    """Merge what each run planned for a phase; all of it was done at once."""
    schedules = [one.schedule for one in plans]
    longest = max(schedules, key=lambda one: one.makespan_s)
    slots = sorted((slot for one in schedules for slot in one.slots), key=lambda slot: slot.start_s)
    return replace(
        plans[0],
        schedule=replace(longest, slots=tuple(slots)),
        notes=tuple(dict.fromkeys(remark for one in plans for remark in one.notes)),
    )


def _seen(parts: Sequence[PastRun], whole: PastRun, offsets_s: Sequence[float]) -> SeenCounters:
    """Merge what any of the runs read of ports, and what those that looked at cables read of them."""
    seen = [seen_of(one) for one in parts]
    looked = [(one.links, by_s) for one, by_s in zip(seen, offsets_s, strict=True) if one.links is not None]
    links = looked and LinkSamples(
        _merged((one.samples, by_s) for one, by_s in looked),
        tuple(dict.fromkeys(cable for one, _ in looked for cable in one.cables)),
        {end: module for one, _ in looked for end, module in one.modules.items()},
        next((one.failed for one, _ in looked if one.failed), ""),
    )
    samples = _merged((one.samples, by_s) for one, by_s in zip(seen, offsets_s, strict=True))
    return replace(seen[0], samples=samples, hosts=whole.scenario.hosts, links=links or None)


def _merged(read: Iterable[tuple[Samples, float]]) -> Samples:
    """Merge the courses of all runs, on one clock; a counter that two runs read becomes one course."""
    courses: dict[CounterReading, CounterCourse] = {}
    every_s = 0.0
    for samples, by_s in read:
        every_s = max(every_s, samples.every_s)
        for reading, course in samples.courses.items():
            known = courses.get(reading, CounterCourse())
            later = ((at_s + by_s, value) for at_s, value in zip(course.at_s, course.values, strict=True))
            rows = sorted((*zip(known.at_s, known.values, strict=True), *later), key=lambda row: row[0])
            until_s = max(known.until_s, course.until_s + by_s)
            courses[reading] = CounterCourse([at_s for at_s, _ in rows], [value for _, value in rows], until_s)
    return Samples(every_s, courses)
