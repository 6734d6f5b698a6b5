"""
Every instant at which the machine can die, with every state its disk can then be in: nothing acknowledged is lost.

One small run is recorded as what reached the disk's cache, what was made durable and what was renamed. A result is
acknowledged when the fsync of its line has returned. For every prefix of the steps and several fates of what was not
yet durable, the run is loaded from what is left, and resumed from each different point of progress.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from fabric.model.outcome import Outcome
from fabric.runs import line_log, plain_file, run_directory
from fabric.runs.events import progress_of, read_events
from fabric.runs.run_directory import raw_entries
from fabric.runs.run_document import read_run
from fabric.runs.samples import read_samples
from tests.runs.crash_disk import Disk, Trace, crashes
from tests.runs.small_run import EVERY_5_S, begin, begun_after, finished, go_on, scenario

WHOLE = re.compile(r"Avg bus bandwidth[^$]*\[exit 0 after [0-9.]+ s\]\n\Z")
"""The end of what every probe of the small run prints."""

WRITERS = (plain_file, line_log, run_directory)
"""What writes to the run's directory while it goes on."""


def recorded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """One whole run."""
    folder.mkdir()
    scenario(folder, sample=EVERY_5_S)
    trace = Trace(folder)
    with monkeypatch.context() as patch:
        for module in WRITERS:
            patch.setattr(module, "os", trace.namespace())
        begin(folder)
    return trace


LEFT_OUT = {
    "no fsync of the history": "events.jsonl",
    "no fsync of the run's folder": "",
}


def _is(step: tuple[str, Path, Any], wrong: str) -> bool:
    """Whether it is a step that a program of this mistake would not do."""
    what, path, _ = step
    name = "" if not path.suffix else path.name
    return bool(wrong) and what == "sync" and name == LEFT_OUT[wrong]


def acknowledged(trace: Trace, count: int) -> set[str]:
    """The probes whose line was written and synced (as the run believes) within so many steps."""
    written, safe = b"", b""
    for what, path, value in trace.steps[:count]:
        if path.name == "events.jsonl":
            written += value if what == "write" else b""
            safe = written if what == "sync" else safe
    lines = [orjson.loads(line) for line in safe.splitlines()]
    return {line["probe"] for line in lines if line["event"] == "finished"}


def put(files: Mapping[Path, bytes], root: Path, folder: Path) -> Path | None:
    """The disk after a crash, in another place; the run's directory, None when there is none any more."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for path, data in files.items():
        target = folder / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return next((file.parent for file in folder.glob("results/small/2*/run.json")), None)


def lost(trace: Trace, count: int, files: Mapping[Path, bytes], folder: Path) -> set[str]:
    """The results that were acknowledged and are not there; raises when a file is not readable."""
    run = put(files, trace.root, folder)
    if run is None:
        return acknowledged(trace, count)
    read_run(run)
    read_samples(run)
    return acknowledged(trace, count) - set(finished(run))


def printed(run: Path, probe: str, attempt: int) -> bool:
    """Whether what its commands printed is there, to the last word."""
    entries = [f"=== {text}" for text in raw_entries(run, probe).split("=== ")[1:]]
    return any(text.startswith(f"=== {probe} attempt {attempt}\n") and WHOLE.search(text) for text in entries)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_crash_loses_an_acknowledged_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = recorded(tmp_path / "whole", monkeypatch)
    folder, states, resumed = tmp_path / "crash", 0, set()
    for count, variant, files in crashes(trace):
        states += 1
        assert not lost(trace, count, files, folder), (count, variant)
        run = next((file.parent for file in folder.glob("results/small/2*/run.json")), None)
        if run is None:
            continue
        history = list(read_events(run / "events.jsonl")) if (run / "events.jsonl").exists() else []
        done = progress_of(history)
        progress = (len(done.results), len(done.half_done), done.ended, variant)
        if done.over or progress in resumed:
            continue
        resumed.add(progress)
        shutil.copy(scenario(tmp_path / "whole"), folder / "small.yaml")
        assert go_on(folder).verdict.outcome is Outcome.PASS, (count, variant)
        assert len(finished(run)) == 6
        begun = begun_after(run, len(history))
        assert all(printed(run, name, finished(run)[name]["attempt"]) for name in begun), (count, variant)
        assert not begun.intersection(done.results), (count, variant)
    assert states > 60
    assert len(resumed) > 15


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["", *LEFT_OUT])
def test_a_wrong_order_is_caught(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fsync of the lines, or of the folder, something is lost; with both of them nothing."""
    trace = recorded(tmp_path / "whole", monkeypatch)
    assert len(acknowledged(trace, len(trace.steps))) == 6
    something = False
    for count in range(0, len(trace.steps) + 1, 2):
        steps = [step for step in trace.steps[:count] if not _is(step, wrong)]
        disk = Disk(trace.root, steps).after_crash("nothing unsynced")
        something = something or bool(lost(trace, count, disk, tmp_path / "crash"))
    assert something == bool(wrong)
