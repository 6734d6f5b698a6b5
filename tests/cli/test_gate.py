"""``fabric gate``, and what of Slurm a command line takes, as a user types them."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.app.test_scheduler import judged
from tests.cli.command_line import called
from tests.places import SCENARIOS

SELF_CHECK = str(SCENARIOS / "self-check.yaml")


@pytest.mark.parametrize(
    ("host", "code", "word"), [("gpu003", 1, "FAIL"), ("gpu001", 0, "PASS"), ("x", 3, "INCONCLUSIVE")]
)
def test_the_exit_code_is_the_answer(tmp_path: Path, host: str, code: int, word: str) -> None:
    """And one line says why."""
    judged(tmp_path, f"{datetime.now(UTC):%Y%m%d-%H%M%S}", gpu003=["gpu003/mlx5_2"])
    said = called(["gate", host, "--results", str(tmp_path)])
    assert (said.returncode, said.stdout.split()[:2]) == (code, [word, f"{host}:"])
    document = json.loads(called(["gate", host, "--results", str(tmp_path), "--json"]).stdout)
    assert (document["exit_code"], document["host"], document["outcome"]) == (code, host, word.lower())


def test_no_results_are_a_clear_error(tmp_path: Path) -> None:
    """A prolog on a host without the shared folder must not pass for an answer."""
    said = called(["gate", "gpu001", "--results", str(tmp_path / "none")])
    assert said.returncode == 2
    assert "no folder of runs" in said.stderr


@pytest.mark.parametrize(("option", "done"), [(("--act", "drain"), "drained"), (("--reserve",), "reserved")])
def test_a_simulated_run_tells_slurm_nothing(option: tuple[str, ...], done: str) -> None:
    """Said before anything is measured."""
    said = called(["run", SELF_CHECK, *option])
    assert said.returncode == 2
    assert f"no real host is {done}" in said.stderr


def test_the_hosts_come_from_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Slurm or from the command line; here from a ``squeue`` and ``scontrol`` that know one job."""
    for name, words in (("squeue", "gpu[002-003]"), ("scontrol", "gpu002\\ngpu003")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nprintf '{words}\\n'\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    both = called(["plan", SELF_CHECK, "--slurm-job", "7", "--hosts", "all"])
    assert (both.returncode, "give one" in both.stderr) == (2, True)
    planned = json.loads(called(["plan", SELF_CHECK, "--slurm-job", "7", "--json"]).stdout)
    assert planned["hosts"] == ["gpu002", "gpu003"]


def test_a_host_stays_bad_where_it_cannot_be_drained(tmp_path: Path) -> None:
    """Exit 1 as without ``--act``: a prolog lets anything else begin."""
    judged(tmp_path, f"{datetime.now(UTC):%Y%m%d-%H%M%S}", gpu003=["gpu003/mlx5_2"])
    (tmp_path / "scheduler.jsonl").mkdir()
    said = called(["gate", "gpu003", "--results", str(tmp_path), "--act", "drain"])
    assert (said.returncode, "gpu003: not drained" in said.stderr) == (1, True)


def test_a_report_prints_one_document_or_acts_alone(tmp_path: Path) -> None:
    """A simulated run is refused before its verdict is printed; nothing is asked for in vain."""
    done = called(["run", SELF_CHECK, "--hosts", "gpu[001-002]", "--no-html", "--results", str(tmp_path), "--json"])
    run = json.loads(done.stdout)["path"]
    refused = called(["report", run, "--act", "drain", "--json"])
    assert (refused.returncode, json.loads(refused.stdout)["exit_code"]) == (2, 2)
    assert "--act goes with the verdict alone" in called(["report", run, "--act", "drain", "--csv"]).stderr
