"""GPUs against the inventory, and who uses them."""

from __future__ import annotations

import pytest

from fabric.checks.gpus import GPUS, JOBS, LIST
from fabric.model.finding import Finding, Severity
from tests.checks.asked import answer, found

EIGHT = "".join(f"{number}, NVIDIA H100 80GB HBM3, Disabled, Enabled\n" for number in range(8))


def _read(listed: str = EIGHT, jobs: str = "", *, status: int = 0, stderr: str = "") -> list[Finding]:
    first = answer(LIST, listed, stderr, status)
    return found(GPUS, {LIST: first, JOBS: answer(JOBS, jobs)})


def test_a_driver_that_starts_anew_for_every_program_is_a_warning() -> None:
    """A probe over eight GPUs may then run out of time."""
    (one,) = _read(EIGHT.replace("Enabled", "Disabled"))
    assert (one.severity, one.what) == (Severity.WARNING, "persistence mode is off")


@pytest.mark.parametrize(
    ("listed", "status", "severity", "words"),
    [
        (EIGHT[: EIGHT.index("7, ")], 0, Severity.PROBLEM, "7 GPUs, the inventory has 8"),
        ("No devices were found\n", 6, Severity.PROBLEM, "0 GPUs, the inventory has 8"),
        (EIGHT + "8, NVIDIA H100 80GB HBM3, Disabled, Enabled\n", 0, Severity.WARNING, "GPU 8 is not measured"),
        (EIGHT.replace("3, NVIDIA H100 80GB HBM3, Disabled", "3, NVIDIA H100 80GB HBM3, Enabled"), 0,
         Severity.PROBLEM, "MIG is on: GPU 3"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", 9,
         Severity.PROBLEM, "NVIDIA-SMI has failed"),
        ("Unable to determine the device handle for GPU 0000:43:00.0: GPU is lost.\n", 15,
         Severity.PROBLEM, "GPU is lost"),
        ("", 0, Severity.UNKNOWN, "which GPUs there are was not said"),
        ("what?\n", 0, Severity.UNKNOWN, "which GPUs there are was not said"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_gpus(listed: str, status: int, severity: Severity, words: str) -> None:
    """One finding, of the right weight."""
    (one,) = _read(listed, status=status)
    assert one.severity is severity
    assert words in one.what


def test_a_missing_tool_is_a_problem() -> None:
    """Without the driver's tools nothing is known, and nothing would run."""
    (one,) = _read("", status=127, stderr="env: 'nvidia-smi': No such file or directory\n")
    assert (one.severity, one.what) == (Severity.PROBLEM, "nvidia-smi is not there")


def test_a_running_job_is_a_problem() -> None:
    """Its programs are named, without their folders."""
    jobs = "GPU-5b1f, 4242, /usr/bin/python3\nGPU-77aa, 4243, /usr/bin/python3\n"
    (one,) = _read(jobs=jobs)
    assert (one.severity, one.what) == (Severity.PROBLEM, "2 GPU processes: python3")
