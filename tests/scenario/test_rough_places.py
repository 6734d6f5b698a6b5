"""The command line holds where pipes break, disks are full, runs are killed, files are damaged or no regular files."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.special_files import ENDED, KILLED, Case, make_base, try_one
from tests.cli.command_line import called
from tests.places import INVENTORY, ROOT, SCENARIOS

pytestmark = pytest.mark.slow

SCENARIO = SCENARIOS / "self-check.yaml"
HEALTHY = INVENTORY / "demo-rack-healthy.yaml"
HALL = INVENTORY / "hall-2048.yaml"
FABRIC = f'{sys.executable} -c "from fabric.cli.main import run; run()"'
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A line of bash in which ``fabric`` is this checkout's."""
    script = f'set -o pipefail; fabric() {{ {FABRIC} "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-c", script], cwd=cwd, capture_output=True, text=True, env=ENV, timeout=100, check=False
    )


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two healthy hosts."""
    folder = tmp_path_factory.mktemp("ended")
    done = called(["run", str(SCENARIO), f"--inventory={HEALTHY}", "--hosts=gpu[001-002]", "--json"], folder)
    assert done.returncode == 0
    return folder / json.loads(done.stdout)["path"]


@pytest.fixture
def run(ended: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage."""
    return Path(shutil.copytree(ended, tmp_path / ended.name))


@pytest.mark.parametrize("tail", ["| true", "--json | head -c 1", "2>&-", "2>/dev/full", "2> >(true)"])
def test_nobody_listening_changes_no_verdict(tmp_path: Path, tail: str) -> None:
    """A reader that goes away, or a closed or full stderr, neither stops a healthy run nor makes it a failure."""
    done = shell(f"fabric run {SCENARIO} --inventory {HEALTHY} --hosts gpu[001-002] {tail}", tmp_path)
    assert done.returncode == 0
    events = (tmp_path / "results/self-check/latest/events.jsonl").read_text()
    assert '"run_ended"' in events.rstrip().rsplit("\n", 1)[-1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ended_in_the_middle(tmp_path: Path, number: signal.Signals) -> None:
    """A run that is ended keeps what it measured: the report is inconclusive and says that it was interrupted."""
    argv = [sys.executable, "-c", "from fabric.cli.main import run; run()", "run", str(SCENARIO), f"--inventory={HALL}"]
    child = subprocess.Popen(
        [*argv, "--hosts=gpu[0001-0096]"],
        cwd=tmp_path,
        env=ENV,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts background jobs with SIGINT ignored, nohup all with SIGHUP, and children inherit that.
        preexec_fn=lambda: [signal.signal(one, signal.SIG_DFL) for one in (signal.SIGINT, signal.SIGHUP)],
    )
    events = tmp_path / "results/self-check/latest/events.jsonl"
    while child.poll() is None and not (events.exists() and events.stat().st_size > 50_000):
        os.sched_yield()
    child.send_signal(number)
    _, stderr = child.communicate(timeout=60)
    if number is not signal.SIGKILL:
        assert child.returncode == 3
        assert "interrupted; what was measured until then: fabric report results/self-check/" in stderr
    assert "Traceback" not in stderr
    shown = called(["report", "results/self-check/latest", "--json"], tmp_path)
    document = json.loads(shown.stdout)
    assert (shown.returncode, document["outcome"]) == (3, "inconclusive")
    assert document["counts"]["pass"] > 0
    assert document["reasons"][0].startswith("the run was interrupted")


def _without_tenth_line(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(lines[:9] + lines[10:])


DAMAGE: list[tuple[str, Callable[[bytes], bytes], int, str]] = [
    ("run.json", lambda data: b"{}", 2, "a run of format None, where this version reads 2"),
    ("run.json", lambda data: b'{"format":2}', 2, "lacks run_id"),
    ("run.json", lambda data: data.replace(b'"at_least_gbps"', b'"at_most_gbps"'), 2, "'baselines' is not as"),
    ("run.json", lambda data: data[:100], 2, "not readable as JSON"),
    ("events.jsonl", lambda data: data.replace(b"bandwidth", b"bandwith", 1), 3, "not a line of this tool"),
    ("events.jsonl", lambda data: b"".join(reversed(data.splitlines(keepends=True))), 3, "where 1 should be"),
    ("events.jsonl", _without_tenth_line, 3, "line 11 where 10 should be"),
]


@pytest.mark.parametrize(("name", "damage", "code", "message"), DAMAGE, ids=[row[3] for row in DAMAGE])
def test_damaged_run(run: Path, name: str, damage: Callable[[bytes], bytes], code: int, message: str) -> None:
    """A run whose files were changed is refused with what is wrong, never judged."""
    file = run / name
    changed = damage(file.read_bytes())
    assert changed != file.read_bytes()
    file.write_bytes(changed)
    done = called(["report", str(run)])
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_report_of_a_read_only_run(run: Path) -> None:
    """An archive can be read: nothing needs to be written for a report."""
    (run / "verdict.json").unlink()
    (run / "measurements.parquet").unlink()
    (run / "measurements.parquet").mkdir()
    assert called(["report", str(run)]).returncode == 0


def test_missing_ssh_key_is_found_before_anything_runs(tmp_path: Path) -> None:
    """A key file that is not there is a mistake of the file: exit code 2, one line, no run directory."""
    inventory = tmp_path / "inventory"
    inventory.mkdir()
    (inventory / "baselines").symlink_to(INVENTORY / "baselines")
    text = HEALTHY.read_text().replace("backend: mock", "backend: ssh", 1)
    (inventory / "mine.yaml").write_text(re.sub(r"key_file: \S+", "key_file: /nowhere/key", text, count=1))
    done = called(["run", str(SCENARIO), "--inventory=inventory/mine.yaml"], tmp_path)
    assert (done.returncode, "ssh: /nowhere/key does not exist" in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "results").exists()


CASES = [
    Case("FIFO", "else/run/changes.jsonl", "restore"),
    Case("-> secret", "else/run/changes.jsonl", "run"),
    Case("FIFO", f"{KILLED}/changes.jsonl", "resume"),
    Case("-> /dev/zero", f"{ENDED}/events.jsonl", "report"),
    Case("FIFO", f"{ENDED}/measurements.parquet", "history"),
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs that ended, and one that was killed with a change open."""
    folder = tmp_path_factory.mktemp("base")
    make_base(folder)
    return folder


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind} {Path(case.target).name} {case.command}")
def test_a_special_file_is_neither_waited_for_nor_read_nor_written(case: Case, base: Path) -> None:
    """The command ends, within its memory, and neither prints nor alters what lies elsewhere."""
    found = try_one(case, base)
    assert found.wrong == "", found.output
