"""``fabric watch`` without a terminal: one screen."""

from __future__ import annotations

from pathlib import Path

from fabric.app.status import HostState, PhaseProgress, RunStatus
from fabric.cli.status import screen
from tests.cli.command_line import called
from tests.runs.small_run import begin, run_of


def test_one_screen_of_a_run_that_ended(tmp_path: Path) -> None:
    begin(tmp_path)
    found = called(["watch", str(run_of(tmp_path))])
    assert found.returncode == 0
    assert "small: ended" in found.stdout
    assert "6 of 6 probes (100 %)" in found.stdout


def test_no_run_yet_is_an_error_with_the_folder(tmp_path: Path) -> None:
    found = called(["watch", "--results", str(tmp_path)])
    assert found.returncode == 2
    assert "no run here yet" in found.stderr


def test_2048_hosts_fit_and_who_is_not_well_has_a_name() -> None:
    hosts = dict.fromkeys((f"gpu{n:04d}" for n in range(1, 2049)), HostState.WELL)
    hosts |= {"gpu0017": HostState.FAILED, "gpu1500": HostState.OUT}
    seen = RunStatus(
        "results/x/1",
        "x",
        "running",
        done=10,
        planned=100,
        left_s=540.0,
        at_s=60.0,
        phases=(PhaseProgress("soak", 100, 10, failed=2),),
        hosts=hosts,
        named={"gpu0017/mlx5_3": 2},
        out={"gpu1500": "silent\x1b[31m"},
    )
    lines = [str(line) for line in screen(seen, width=120)]
    assert len(lines) < 45
    assert any(line.startswith("failed") and "gpu0017" in line for line in lines)
    assert any("about 9 min" in line for line in lines)
    assert not any("\x1b" in line for line in lines)
    assert "2 failed" in "\n".join(lines)
