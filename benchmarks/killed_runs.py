"""Runs in processes of their own that are killed at an instant and go on: what tests and a benchmark of it share."""

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from fabric.runs.events import history_of, read_events
from fabric.runs.run_directory import raw_entries
from fabric.runs.run_document import read_run
from fabric.runs.samples import read_samples

ROOT = Path(__file__).resolve().parents[1]

SCENARIO = """\
name: killed
inventory: {inventory}
hosts: gpu[001-004]
sample: {{every: 5s}}
phases:
  - name: intra-host
    probes: [{{loopback: {{size: 8M, duration: 5s}}}}]
  - name: tor
    needs: [intra-host]
    probes: [{{tor_all_reduce: {{sizes: [1G], algorithm: RING, repeat: 4}}}}]
  - name: degraded
    needs: [intra-host]
    changes: [{{ber: {{links: gpu001/mlx5_0, effective: 1e-6, direction: up}}}}]
    probes: [{{tor_all_reduce: {{sizes: [1G], algorithm: RING, repeat: 4}}}}]
  - name: after
    needs: [tor]
    probes: [{{group_all_reduce: {{sizes: [1G], repeat: 4}}}}]
judge: {{marginal: 0.005}}
expect: [{{compare: degraded/tor, at_least: 0.1}}]
"""

_DEADLINE_S = 100.0

Main = Callable[[Sequence[str], Path], int]
"""Begins ``fabric`` with some words in a process of its own, its output in a file; returns the process id."""


def write_scenario(folder: Path) -> Path:
    """A small run with a gate, a fault of the rack, a change and samples."""
    file = folder / "killed.yaml"
    file.write_text(SCENARIO.format(inventory=ROOT / "inventory" / "demo-rack.yaml"))
    return file


def spawned(words: Sequence[str], output: Path) -> int:
    """A new Python, as a shell would begin it."""
    fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    main = "import sys; sys.argv[0] = 'fabric'; from fabric.cli.main import run; run()"
    actions = [(os.POSIX_SPAWN_DUP2, fd, 1), (os.POSIX_SPAWN_DUP2, fd, 2)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    try:
        return os.posix_spawn(sys.executable, [sys.executable, "-c", main, *words], environment, file_actions=actions)
    finally:
        os.close(fd)


def forked(words: Sequence[str], output: Path) -> int:
    """A copy of this process, in which everything is imported: most of its life is the run itself."""
    from fabric.cli.main import run

    pid = os.fork()
    if pid:
        return pid
    fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    sys.argv = ["fabric", *words]
    code = 99
    try:
        run()
    except SystemExit as exc:
        code = int(exc.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(code)


def ended(pid: int) -> int:
    """The exit status of a process, -9 when it was killed; it is killed itself when it takes too long."""
    until_s = time.monotonic() + _DEADLINE_S
    pause = threading.Event()
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until_s:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise TimeoutError(f"process {pid} did not end within {_DEADLINE_S:g} s")
        pause.wait(0.005)


@dataclass(frozen=True)
class Told:
    """What a verdict says, as far as it must not depend on interruptions."""

    outcome: str
    suspects: tuple[tuple[str, str], ...]
    parts: tuple[tuple[str, str], ...]
    probes: int
    not_passed: tuple[tuple[str, str], ...]
    expected: tuple[str, ...]


def told(run: Path) -> Told:
    """Of a run that has ended."""
    body = orjson.loads((run / "verdict.json").read_bytes())
    suspects = tuple((one["component"], one["outcome"]) for one in body["suspects"])
    return Told(
        body["outcome"],
        suspects,
        tuple((one["component"], one["outcome"]) for one in body["components"]),
        body["probes"],
        tuple(sorted((one["probe_id"], one["outcome"]) for one in body["not_passed"])),
        tuple(one["outcome"] for one in body["expectations"]),
    )


def only_run(results: Path) -> Path | None:
    """The directory of the one run there is, once it has a run.json."""
    found = list(results.glob("killed/2*/run.json"))
    return found[0].parent if found else None


def finished(run: Path) -> dict[str, dict[str, Any]]:
    """The last ``finished`` event of each probe that says that it stands."""
    if not (run / "events.jsonl").exists():
        return {}
    events = [dict(event) for event in read_events(run / "events.jsonl") if event["event"] == "finished"]
    return {event["probe"]: event for event in events if not event.get("again")}


@dataclass(frozen=True)
class Killed:
    """One run that was killed once or more: what was acknowledged then, and what is wrong with how it ended."""

    after_s: float
    kept: int
    half_done: int
    phase: str
    wrong: tuple[str, ...]


def whole_run(main: Main, folder: Path) -> tuple[Told, float]:
    """Undisturbed: what it says, and how long it takes from its run.json to its end (seconds)."""
    results, output = folder / "whole", folder / "whole.txt"
    pid = main(words(folder, results), output)
    began_s = _began(results)
    code = ended(pid)
    took_s = time.monotonic() - began_s
    run = only_run(results)
    assert run is not None, output.read_text()
    assert code in (0, 1), output.read_text()
    return told(run), took_s


def words(folder: Path, results: Path) -> list[str]:
    """What is asked of ``fabric``."""
    return ["run", str(folder / "killed.yaml"), "--results", str(results), "--no-html", "--json"]


def _began(results: Path) -> float:
    """When the run has a run.json."""
    until_s = time.monotonic() + _DEADLINE_S
    pause = threading.Event()
    while only_run(results) is None:
        assert time.monotonic() < until_s, "the run did not begin"
        pause.wait(0.001)
    return time.monotonic()


def killed_and_resumed(main: Main, folder: Path, number: int, *, after_s: Sequence[float], as_whole: Told) -> Killed:
    """Kill a run so long after it began, each resumption so long after it was begun, and let the last one end."""
    results, output = folder / f"run{number}", folder / f"run{number}.txt"
    pid = main(words(folder, results), output)
    _began(results)
    _kill_after(pid, after_s[0])
    run = only_run(results)
    assert run is not None
    for moment_s in after_s[1:]:
        _kill_after(main(["resume", str(run), "--no-html", "--json"], output), moment_s)
    acknowledged, seen = finished(run), _events(run)
    half_done, phase = _half_done(run)
    was_over = _is_over(run)
    code = 1 if was_over else ended(main(["resume", str(run), "--no-html", "--json"], output))
    if was_over:
        code = ended(main(["analyze", str(run), "--json"], output))
    wrong = list(_wrong(run, acknowledged, as_whole, seen=seen))
    if code not in (0, 1):
        wrong.insert(0, f"exit {code}: {output.read_text()[:500]}")
    return Killed(after_s[0], len(acknowledged), half_done, phase, tuple(wrong))


def _kill_after(pid: int, after_s: float) -> None:
    threading.Event().wait(after_s)
    os.kill(pid, signal.SIGKILL)
    ended(pid)


def _half_done(run: Path) -> tuple[int, str]:
    events = list(read_events(run / "events.jsonl")) if (run / "events.jsonl").exists() else []
    begun = Counter(probe for event in events if event["event"] == "started" for probe in event["probes"])
    phases = [event["phase"] for event in events if event["event"] == "phase_started"]
    over = any(event["event"] == "run_ended" for event in events)
    return len([probe for probe in begun if probe not in finished(run)]), "over" if over else (phases or ["-"])[-1]


def _events(run: Path) -> int:
    """How many there are."""
    return len(list(read_events(run / "events.jsonl"))) if (run / "events.jsonl").exists() else 0


def _is_over(run: Path) -> bool:
    return _half_done(run)[1] == "over"


def _wrong(run: Path, acknowledged: dict[str, dict[str, Any]], as_whole: Told, *, seen: int) -> list[str]:
    """What is wrong with a run that was killed and went on; the files are read one by one."""
    wrong: list[str] = []
    try:
        read_run(run)
        read_samples(run)
        events = list(read_events(run / "events.jsonl"))
        said = told(run)
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is what is looked for
        return [f"unreadable: {exc!r}"]
    now = finished(run)
    wrong += [f"lost or altered: {name}" for name, event in acknowledged.items() if now.get(name) != event]
    again = {probe for event in events[seen:] if event["event"] == "started" for probe in event["probes"]}
    wrong += [f"repeated: {name}" for name in again.intersection(acknowledged)]
    if said != as_whole:
        unlike = {key for key, value in asdict(said).items() if value != asdict(as_whole)[key]}
        wrong.append(f"another verdict: {said.outcome}, undisturbed {as_whole.outcome}; unlike: {sorted(unlike)}")
    begun = Counter(probe for event in events if event["event"] == "started" for probe in event["probes"])
    wrong += [f"attempt: {name}" for name, event in now.items() if event["attempt"] != begun.get(name, 0)]
    for name in list(now)[:: max(1, len(now) // 20)]:
        if now[name]["attempt"] and f"=== {name} attempt {now[name]['attempt']}\n" not in raw_entries(run, name):
            wrong.append(f"no output: {name}")
    if len(history_of(events).results) != as_whole.probes:
        wrong.append(f"{len(history_of(events).results)} results of {as_whole.probes} probes")
    return wrong
