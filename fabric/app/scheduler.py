"""
What a verdict does to the scheduler (Slurm): bad hosts are drained, repaired ones given back.

Slurm has no compare-and-swap: a second drain replaces ours, and whoever ends a drain ends anybody's. So a node is read,
altered and read again, and only a drain whose reason is the very one written here is ended. A line in the ledger of the
results folder is on disk before Slurm is told anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fabric.app.gate import MOST_PARTS, Standing, standing, told_hosts
from fabric.errors import ConfigError, ExecutorError, StoreError, ToolError
from fabric.hosts.process import ProcessExecutor
from fabric.model.command import Command, CommandResult
from fabric.model.outcome import Outcome
from fabric.ports import run_once
from fabric.runs.journal import LEDGER, Written, drains
from fabric.tools import slurm
from fabric.tools.driver import complaint

OURS = "fabric: "
"""How the reason of a drain of ours begins: its first word is its owner, as node health checks have it."""

_TIMEOUT_S = 30.0
"""For one answer of Slurm (a choice: ``scontrol`` itself gives up on a controller that is away after 9 s, measured)."""

_ALL_DAYS = 36_500

Run = Callable[[tuple[str, ...]], CommandResult]
"""Runs one command here."""


def run_here(argv: tuple[str, ...]) -> CommandResult:
    """Run one command on this machine; ToolError where it cannot be started or does not answer in time."""
    executor = ProcessExecutor(agents=False)
    try:
        return run_once(executor, Command("here", argv, _TIMEOUT_S))
    except (OSError, ExecutorError) as exc:
        raise ToolError(f"{argv[0]}: {exc}") from exc
    finally:
        executor.close()


def act(path: Path, *, run: Run = run_here) -> Iterator[str]:
    """
    Drain the hosts of which a run found a part to be bad, or give back those that a post-repair run accepted.

    Says what was done, and what was not and why. Raises ConfigError for a run of the simulated fabric, StoreError for
    one that is not judged. Where the ledger cannot be written, Slurm is told nothing.
    """
    told = told_hosts(path)
    if told is None:
        raise StoreError(f"{path}: not judged to its end: nobody is drained")
    if told.backend == "mock":
        raise ConfigError.at("--act", f"{path} is of the simulated fabric: no real host is drained")
    results = path.resolve().parent.parent
    if told.too_many:
        yield told.too_many
    for host, parts in told.bad.items() if not told.too_many else ():
        now = standing(host, results, days=_ALL_DAYS)
        if now.outcome is Outcome.PASS:
            yield f"{host}: not drained: found to be good since, by {now.run}"
        else:
            yield _drained(host, _reason(tuple(parts), told.name), results, run)
    for host in told.accepted:
        yield _given_back(host, told.name, results, run)
    for part in told.wide:
        yield f"{part}: it is no part of one host: nobody is drained for it"


def drain(standing: Standing, results: Path, *, run: Run = run_here) -> str:
    """Drain the host that a gate found to be bad; says what was done, and what was not and why."""
    told = told_hosts(Path(standing.run or ""))
    if told is not None and told.too_many:
        return f"{standing.host}: not drained: {told.too_many}"
    name = "/".join(Path(standing.run or "").parts[-2:])
    return _drained(standing.host, _reason([standing.why], name), results, run)


def _reason(parts: Sequence[str], run: str) -> str:
    more = f" and {len(parts) - MOST_PARTS} more" if len(parts) > MOST_PARTS else ""
    return f"{OURS}{', '.join(parts[:MOST_PARTS])}{more}; run {run}"


def _node(host: str, run: Run) -> slurm.SlurmNode | None:
    said = run(slurm.show_node(host))
    return slurm.node(host, said.stdout, said.stderr, said.exit_status)


def _drained(host: str, reason: str, results: Path, run: Run) -> str:
    """Read, write, read again."""
    told = False
    try:
        before = _node(host, run)
        if before is None:
            return f"{host}: Slurm knows no node of that name"
        if before.is_drained:
            return f"{host}: is drained already ({before.by}: {before.reason}); left as it is"
        with Written(results / LEDGER, host, "drain", reason=reason) as written:
            command = slurm.drain(host, reason)
            told = True
            said = run(command)
            after = _node(host, run)
            ours = after is not None and after.is_drained and after.reason == reason
            written.state = "done" if ours else "not seen"
    except (ToolError, StoreError, ValueError) as exc:
        return f"{host}: {'told to drain, and not seen' if told else 'not drained'}: {exc}"
    if ours:
        return f"{host}: drained ({reason})"
    now = "not drained" if after is None or not after.is_drained else f"drained by {after.by}: {after.reason}"
    return f"{host}: {now}" + (f" ({complaint(said.stdout, said.stderr)})" if said.exit_status else "")


def _given_back(host: str, accepted_by: str, results: Path, run: Run) -> str:
    """Only where the reason of the drain is the last that was written here for this node, for an older run."""
    try:
        before = _node(host, run)
        if before is None or not before.is_drained:
            return f"{host}: is not drained" if before else f"{host}: Slurm knows no node of that name"
        if before.reason != drains(results).get(host):
            return f"{host}: drained by {before.by}: {before.reason}; not by us, left as it is"
        if before.reason.rpartition("/")[2] >= accepted_by.rpartition("/")[2]:
            return f"{host}: drained since ({before.reason}), left as it is"
        with Written(results / LEDGER, host, "undrain", reason=before.reason) as written:
            run(slurm.undrain(host))
            after = _node(host, run)
            free = after is not None and not after.is_drained
            written.state = "done" if free else "not seen"
    except (ToolError, StoreError, ValueError) as exc:
        return f"{host}: not given back, or not seen to be: {exc}"
    return f"{host}: given back to Slurm" if free else f"{host}: still drained"
