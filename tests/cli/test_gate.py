"""``fabric gate``, and a repair from failure to certificate, as a user types them."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fabric.cli.main import main
from fabric.errors import ConfigError
from tests.app.test_scheduler import judged
from tests.cli.command_line import called
from tests.places import SCENARIOS
from tests.scenario.repaired_rack import BAD, HEALTHY, POST_REPAIR, checked

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
    for name, words in (("squeue", "7 7 gpu[002-003]"), ("scontrol", "gpu002\\ngpu003")):
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


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checked(tmp_path_factory.mktemp("failed"), BAD)


def fabric(*words: object) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(main, [str(word) for word in words], standalone_mode=False)


def validate(failed: Path, *words: object) -> Result:
    """``fabric run`` after the repair; results beside the failed run."""
    given = (
        "--inventory",
        HEALTHY,
        "--results",
        failed.parents[1],
        "--no-html",
        "--quick",
        "--because",
        failed.parent,
    )
    return fabric("run", POST_REPAIR, *given, *words)


@pytest.mark.slow
def test_the_decision_comes_first_and_the_exit_code_says_it(failed: Path) -> None:
    """Of a host that may return; one that may not: ``test_report``."""
    good = validate(failed, "--fault", "gpu003/mlx5_3:replaced")
    assert good.return_value == 0
    assert good.stdout.startswith("ACCEPT gpu003 (quick: bit errors not covered)\n")
    assert fabric("status", "--results", failed.parents[1]).stdout.count("ACCEPT (pass)") == 1


@pytest.mark.slow
def test_the_decision_is_shown_again_and_certified_and_verified(failed: Path) -> None:
    document = json.loads(validate(failed, "--fault", BAD, "--json").stdout)
    assert (document["exit_code"], document["acceptance"]["decision"]) == (1, "REJECT")
    run = Path(document["path"])
    again = fabric("report", run)
    assert again.return_value == 1
    assert again.stdout.startswith("REJECT gpu003")
    made = fabric("report", run, "--certificate")
    assert made.return_value == 1
    assert made.stdout == f"FAILED: {run / 'certificate.html'}\n"
    assert fabric("verify", run).return_value == 0
    (run / "identity.json").write_text("{}")
    told = fabric("verify", run / "certificate.json")
    assert told.return_value == 1
    assert told.stdout.startswith("NOT TRUE: ")
    assert "  identity.json: changed\n" in told.stdout
    assert json.loads(fabric("verify", run, "--json").stdout)["exit_code"] == 1


@pytest.mark.parametrize("option", [["--quick"], ["--links", "su0-leaf0"]])
def test_quick_or_links_without_a_reason_are_refused(option: list[str]) -> None:
    done = fabric("run", POST_REPAIR, *option)
    assert isinstance(done.exception, ConfigError)
    assert f"{option[0]}: it goes with --because RUN" in str(done.exception)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--links", "su0-leaf3--spin2"], "'su0-leaf3--spin2': no switch 'spin2'"),
        (["--links", ""], "no switch ''"),
        (["--links", "su0-leaf3", "--hosts", "gpu003"], "--links: not with --hosts"),
    ],
)
def test_links_that_are_none_are_refused(failed: Path, words: list[str], said: str) -> None:
    done = validate(failed, *words)
    assert isinstance(done.exception, ConfigError)
    assert said in str(done.exception)
