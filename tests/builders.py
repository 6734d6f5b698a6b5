"""What many tests make the same way: a run of a scenario on the simulated hosts."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from fabric.app.prepare import Asked, Given, prepare
from fabric.app.resume import look, resume
from fabric.app.run import run as run_asked
from fabric.engine.observer import Observer
from fabric.judge.locate.suspects import locate
from fabric.model.change import Change
from fabric.model.inventory import Inventory, TimedFault
from fabric.model.outcome import Outcome
from fabric.model.probe import FailureKind, Measurement, Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.model.verdict import JudgedRun, ProbeVerdict, Suspect
from fabric.ports import Executor
from fabric.report.progress import ConsoleProgress
from fabric.tools import nccl, perftest
from fabric.wiring import BACKENDS
from fabric.wiring import make_executor as wired


def asked(
    path: Path,
    *,
    inventory: Path | None = None,
    hosts: str | None = None,
    faults: Sequence[str] = (),
    timed: Sequence[TimedFault] = (),
) -> Asked:
    """The scenario of a file as it would be run; *timed*: faults that come and go, in place of the inventory's."""
    found = prepare(Given(path, inventory=inventory, hosts=hosts, faults=tuple(faults)))
    return with_timed(found, *timed) if timed else found


def with_timed(wanted: Asked, *faults: TimedFault) -> Asked:
    """The same on hosts with these timed faults and no others."""
    mock = replace(wanted.inventory.mock, timed_faults=faults)
    return replace(wanted, inventory=replace(wanted.inventory, mock=mock))


def on_mock(
    wanted: Asked,
    results: Path,
    *,
    seed: int = 1,
    observer: Observer | None = None,
    reports: bool = False,
    make_executor: Callable[[Inventory, int], Executor] = BACKENDS["mock"],
) -> JudgedRun:
    """It was run on the simulated hosts, or by *make_executor*, and judged."""
    return run_asked(
        wanted,
        backend="mock",
        executor=make_executor(wanted.inventory, seed),
        results=results,
        seed=seed,
        observer=observer or ConsoleProgress(quiet=True),
        reports=reports,
    ).judged


def gone_on(
    run: Path, *, force: bool = False, observer: Observer | None = None, say: Callable[[str], None] = lambda _: None
) -> JudgedRun:
    """A run that was interrupted, resumed on the simulated hosts and judged."""
    past, _ = look(run, force=force)
    return resume(
        past,
        make_executor=wired,
        observer=observer or Watcher(),
        say=say,
        reports=False,
        force=force,
    ).judged


class Watcher(ConsoleProgress):
    """Remembers what became of changes, how often somebody interrupted and who went out of the run."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.states: list[tuple[str, str]] = []
        self.interruptions: list[tuple[int, int]] = []
        self.out: list[str] = []

    def out_of_run(self, component: str, reason: str) -> None:
        """Remember it."""
        self.out.append(component)

    def change_state(self, change: Change, state: str, reason: str) -> None:
        """Remember it."""
        self.states.append((change.kind, state))

    def interrupted(self, open_changes: int, again: int) -> None:
        """Remember it."""
        self.interruptions.append((open_changes, again))


Case = TypeVar("Case")


def accepted(
    cases: Iterable[Case], read: Callable[[Case], object], error: type[Exception], words: str = "."
) -> list[Case]:
    """Those that are not refused with *words*: a table of small cases in one test, which costs as much as one."""
    found = []
    for case in cases:
        try:
            read(case)
        except error as exc:
            if re.search(words, str(exc)):
                continue
        found.append(case)
    return found


def failure_in(text: str) -> FailureKind | None:
    """The kind that the readers of nccl-tests or perftest give these words."""
    found = (*nccl.parse(text).failures, *perftest.parse(text).failures)
    return next((one.known for one in found if one.known is not None), None)


def suspects(
    probes: Sequence[Probe],
    verdicts: Mapping[str, ProbeVerdict],
    *,
    topology: Topology,
    outcome: Outcome,
    results: Mapping[str, ProbeResult] | None = None,
) -> tuple[Suspect, ...]:
    """
    The parts that explain these verdicts.

    Without *results* each probe measured once what its verdict says, one after the other.
    """
    results = results or {one.probe_id: _measured(verdicts[one.probe_id], at_s) for at_s, one in enumerate(probes)}
    return locate(probes, verdicts, results, topology=topology, outcome=outcome).suspects


def _measured(verdict: ProbeVerdict, at_s: float) -> ProbeResult:
    name, value = verdict.probe_id, verdict.value_gbps
    if value is None:
        return ProbeResult(name, 1, (), verdict.outcome, verdict.reason, at_s, at_s + 1)
    return ProbeResult(name, 1, (Measurement(name, "bandwidth", value, "Gb/s"),), None, "", at_s, at_s + 1)
