"""Reports from run directories: the decision after a repair comes first; a gateway is asked at its address only."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from fabric.app.analyze import push, reopened
from fabric.cli.main import main
from fabric.errors import ConfigError, StoreError
from fabric.runs.run_lock import holding
from fabric.runs.told_verdict import DECISION as FILE
from tests.report.shown import run_of
from tests.scenario.repaired_rack import BAD, HEALTHY, POST_REPAIR, checked


@pytest.fixture(scope="module")
def rejected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a validation of gpu003, which is as bad as before."""
    failed = checked(tmp_path_factory.mktemp("failed"), BAD)
    folder = tmp_path_factory.mktemp("validated")
    words = ["run", POST_REPAIR, "--because", failed, "--inventory", HEALTHY, "--quick", "--fault", BAD]
    CliRunner().invoke(main, [str(word) for word in (*words, "--results", folder)], standalone_mode=False)
    return (folder / "post-repair" / "latest").resolve()


def above(run: Path) -> str:
    """What the page says before anything else."""
    return (run / "report.html").read_text("utf-8").partition("<nav>")[0]


def report(run: Path, *words: str) -> None:
    """``fabric report RUN``."""
    CliRunner().invoke(main, ["report", str(run), *words], standalone_mode=False)


def test_the_first_page_of_a_validation_has_its_decision(rejected: Path) -> None:
    assert "REJECT gpu003" in above(rejected)
    assert "REJECT gpu003" in (rejected / "summary.md").read_text("utf-8")


def test_a_page_is_not_made_again_while_the_decision_is_the_same(rejected: Path) -> None:
    before = (rejected / "report.html").stat().st_mtime_ns, (rejected / FILE).stat().st_mtime_ns
    report(rejected)
    assert ((rejected / "report.html").stat().st_mtime_ns, (rejected / FILE).stat().st_mtime_ns) == before


def test_no_decision_is_kept_while_the_run_goes_on(rejected: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(rejected, tmp_path / "post-repair" / rejected.name))
    (run / FILE).unlink()
    with holding(tmp_path, "post-repair", ["gpu003"], run=run.name):
        report(run)
    assert not (run / FILE).exists()
    report(run)
    assert (run / FILE).exists()


def test_a_page_that_is_made_again_decides_first(rejected: Path, tmp_path: Path) -> None:
    run = shutil.copytree(rejected, tmp_path / rejected.name)
    (run / FILE).unlink()
    report(run, "--html")
    assert "REJECT gpu003" in above(run)


def test_a_page_that_is_older_than_the_decision_is_made_again(rejected: Path, tmp_path: Path) -> None:
    """The decision was made, and then the disk was full: the page still asks for it."""
    run = shutil.copytree(rejected, tmp_path / rejected.name)
    (run / "report.html").write_text("an old page")
    os.utime(run / "report.html", ns=(0, 0))
    report(run)
    assert "REJECT gpu003" in above(run)


def test_a_decision_without_a_page_makes_none(rejected: Path, tmp_path: Path) -> None:
    run = shutil.copytree(rejected, tmp_path / rejected.name)
    for name in ("report.html", FILE):
        (run / name).unlink()
    report(run)
    assert (run / FILE).exists()
    assert not (run / "report.html").exists()


@pytest.mark.parametrize("url", ["", "ftp://gateway:9091", "file:///etc/passwd"])
def test_what_is_no_address_of_a_gateway_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="expected http://"):
        push(reopened(run_of(tmp_path, hosts="gpu001")), url)


def test_a_gateway_that_is_not_there_is_told_in_plain_words(tmp_path: Path) -> None:
    with socket.socket() as unheard:  # bound and never listening: nobody answers there
        unheard.bind(("127.0.0.1", 0))
        with pytest.raises(StoreError, match=r"cannot push: .*Connection refused") as said:
            push(reopened(run_of(tmp_path, hosts="gpu001")), f"http://127.0.0.1:{unheard.getsockname()[1]}")
    assert "urlopen" not in str(said.value)
