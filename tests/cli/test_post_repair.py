"""A repair from failure to certificate, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fabric.cli.main import main
from fabric.errors import ConfigError
from tests.scenario.repaired_rack import BAD, HEALTHY, POST_REPAIR, checked


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


def test_the_decision_comes_first_and_the_exit_code_says_it(failed: Path) -> None:
    good = validate(failed, "--fault", "gpu003/mlx5_3:replaced")
    assert good.return_value == 0
    assert good.stdout.startswith("ACCEPT gpu003 (quick: bit errors not covered)\n")
    bad = validate(failed, "--fault", BAD)
    assert bad.return_value == 1
    assert bad.stdout.startswith("REJECT gpu003")
    assert "nothing was replaced" in bad.stdout
    assert len(bad.stdout.splitlines()) < 60  # a page
    rows = fabric("status", "--results", failed.parents[1]).stdout.splitlines()
    said = [word for row in rows for word in ("ACCEPT (pass)", "REJECT (fail)") if word in row]
    assert said == ["REJECT (fail)", "ACCEPT (pass)"]


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
