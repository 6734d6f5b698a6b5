"""A whole run of a few probes on the mock backend, in this process, going on with it, and waiting for something."""

import atexit
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from fabric.model.verdict import JudgedRun
from fabric.runs.events import read_events
from tests.builders import Watcher, asked, gone_on, on_mock
from tests.places import INVENTORY

NAME = "small"

SCENARIO = """\
name: small
inventory: {inventory}
hosts: gpu[001-002]
{sample}phases:
  - name: before
    probes: [{{tor_all_reduce: {{sizes: [1G], algorithm: RING, repeat: 3}}}}]
  - name: during
    needs: [before]
    changes: [{change}]
    probes: [{{tor_all_reduce: {{sizes: [1G], algorithm: RING, repeat: 3}}}}]
expect: [{{compare: during/before, at_least: 0.1}}]
"""
BER = "{ber: {links: gpu001/mlx5_0, effective: 1e-6, direction: up}}"
EVERY_5_S = "sample: {every: 5s}\n"
"""Counters, optics and cables beside the probes: five times the work of such a run."""
LATER = "{ber: {links: gpu001/mlx5_0, effective: 1e-6, direction: up, at: 5s, for: 10s}}"


def scenario(folder: Path, *, change: str = BER, sample: str = "") -> Path:
    """Its file; the demonstration rack without faults."""
    file, rack = folder / "small.yaml", INVENTORY / "demo-rack-healthy.yaml"
    if not file.exists():
        file.write_text(SCENARIO.format(inventory=rack, change=change, sample=sample))
    return file


def begin(folder: Path, *, file: Path | None = None, inventory: Path | None = None) -> JudgedRun:
    """Run it, or the scenario in *file*, on *inventory* instead of its own."""
    return on_mock(asked(file or scenario(folder), inventory=inventory), folder / "results", observer=Watcher())


def go_on(folder: Path, *, force: bool = False, said: list[str] | None = None) -> JudgedRun:
    """Resume its newest run."""
    return gone_on(folder / "results" / NAME, force=force, say=(said if said is not None else []).append)


def run_of(folder: Path) -> Path:
    """The directory of the one run."""
    (file,) = (folder / "results" / NAME).glob("2*/run.json")
    return file.parent


_MADE: dict[str, Path] = {}  # by the scenario's text: where it was run once


def ended(folder: Path) -> Path:
    """The directory of one that was run to its end: each scenario is run once, and copied with its paths."""
    text = scenario(folder).read_text()
    if text not in _MADE:
        place = _MADE[text] = Path(tempfile.mkdtemp(prefix="fabric-small-"))
        atexit.register(shutil.rmtree, place, ignore_errors=True)
        shutil.copy(scenario(folder), place)
        begin(place)
    shutil.copytree(_MADE[text] / "results", folder / "results", symlinks=True)
    document = run_of(folder) / "run.json"
    document.write_text(document.read_text().replace(str(_MADE[text]), str(folder)))
    return run_of(folder)


def killed(folder: Path, event: str = "finished", which: int = 0) -> Path:
    """The directory of one that was killed right behind this event."""
    run = ended(folder)
    cut_after(run, event, which)
    return run


def finished(run: Path) -> dict[str, Mapping[str, Any]]:
    """The last ``finished`` event of each probe; nothing without a history."""
    if not (run / "events.jsonl").exists():
        return {}
    return {event["probe"]: event for event in read_events(run / "events.jsonl") if event["event"] == "finished"}


def begun_after(run: Path, seen: int) -> set[str]:
    """The probes that were begun behind so many events."""
    events = list(read_events(run / "events.jsonl"))[seen:]
    return {probe for event in events if event["event"] == "started" for probe in event["probes"]}


def cut_after(run: Path, event: str, which: int = 0) -> int:
    """As if it had been killed right behind this event (the *which*-th of its kind); how many events are left."""
    file = run / "events.jsonl"
    places = [n for n, one in enumerate(read_events(file)) if one["event"] == event]
    keep = places[which] + 1
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:keep]))
    for name in ("verdict.json", "measurements.parquet"):
        (run / name).unlink(missing_ok=True)
    return keep


def cut_journal(run: Path, state: str) -> None:
    """As if it had died in this state of its change."""
    lines = (run / "changes.jsonl").read_bytes().splitlines(keepends=True)
    last = max(
        n for n, line in enumerate(lines) if orjson.loads(line.rpartition(b',"crc32"')[0] + b"}")["state"] == state
    )
    (run / "changes.jsonl").write_bytes(b"".join(lines[: last + 1]))


def wait_until(true: Callable[[], object], *, deadline_s: float = 60.0) -> None:
    """Until it is true; AssertionError after the deadline."""
    until_s = time.monotonic() + deadline_s
    pause = threading.Event()
    while not true():
        assert time.monotonic() < until_s, "it did not become true"
        pause.wait(0.01)
