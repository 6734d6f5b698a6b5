"""Reports from run directories: decisions first, whole or not there; what a command line says is kept."""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from fabric.app.prepare import Given
from fabric.cli.main import main
from fabric.runs.plain_file import write_durably
from fabric.runs.run_lock import holding
from fabric.runs.stored_verdict import DECISION as FILE
from tests.scenario.repaired_rack import BAD, HEALTHY, POST_REPAIR, checked


@pytest.fixture(scope="module")
def validation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """A validation of gpu003, which is as bad as before, and where its results are."""
    failed = checked(tmp_path_factory.mktemp("failed"), BAD)
    folder = tmp_path_factory.mktemp("validated")
    words = ["run", POST_REPAIR, "--because", failed, "--inventory", HEALTHY, "--quick", "--fault", BAD]
    words += ["--results", folder]
    return CliRunner().invoke(main, list(map(str, words)), standalone_mode=False), folder


@pytest.fixture(scope="module")
def rejected(validation: tuple[Result, Path]) -> Path:
    """The directory of that run."""
    return (validation[1] / "post-repair" / "latest").resolve()


def above(run: Path) -> str:
    """What the page says before anything else."""
    return (run / "report.html").read_text("utf-8").partition("<nav>")[0]


def report(run: Path, *words: str) -> None:
    """``fabric report RUN``."""
    CliRunner().invoke(main, ["report", str(run), *words], standalone_mode=False)


@pytest.mark.slow
def test_the_rejection_comes_first_and_the_exit_code_says_it(validation: tuple[Result, Path]) -> None:
    said, folder = validation
    assert said.return_value == 1
    assert said.stdout.startswith("REJECT gpu003")
    assert "nothing was replaced" in said.stdout
    assert len(said.stdout.splitlines()) < 60  # a page
    rows = CliRunner().invoke(main, ["status", "--results", str(folder)], standalone_mode=False).stdout
    assert rows.count("REJECT (fail)") == 1


@pytest.mark.slow
def test_the_first_page_of_a_validation_has_its_decision(rejected: Path) -> None:
    assert "REJECT</span> gpu003" in above(rejected)
    assert "REJECT gpu003" in (rejected / "summary.md").read_text("utf-8")


@pytest.mark.slow
def test_a_page_is_not_made_again_while_the_decision_is_the_same(rejected: Path) -> None:
    before = (rejected / "report.html").stat().st_mtime_ns, (rejected / FILE).stat().st_mtime_ns
    report(rejected)
    assert ((rejected / "report.html").stat().st_mtime_ns, (rejected / FILE).stat().st_mtime_ns) == before


@pytest.mark.slow
def test_no_decision_is_kept_while_the_run_goes_on(rejected: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(rejected, tmp_path / "post-repair" / rejected.name))
    (run / FILE).unlink()
    with holding(tmp_path, "post-repair", ["gpu003"], run=run.name):
        report(run)
    assert not (run / FILE).exists()
    report(run)
    assert (run / FILE).exists()


@pytest.mark.slow
def test_a_page_that_is_made_again_decides_first(rejected: Path, tmp_path: Path) -> None:
    run = shutil.copytree(rejected, tmp_path / rejected.name)
    (run / FILE).unlink()
    report(run, "--html")
    assert "REJECT</span> gpu003" in above(run)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB, on which a report finds no place."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root, to mount a small file system")
    place = tmp_path / "full"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if subprocess.run(words, check=False, capture_output=True, timeout=10).returncode != 0:
        pytest.skip("this machine lets nobody mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True, timeout=10)


def test_a_full_disk_is_an_error_and_leaves_the_old_report_and_nothing_else(full_disk: Path) -> None:
    page = full_disk / "report.html"
    write_durably(page, b"old")
    with pytest.raises(OSError, match="No space left") as caught:
        write_durably(page, b"x" * 200_000)
    assert caught.value.errno == errno.ENOSPC
    assert page.read_text() == "old"
    assert [path.name for path in full_disk.iterdir()] == ["report.html"]


WORDS = (
    Given(Path("scenarios/s.yaml")),
    Given(Path("s.yaml"), Path("i.yaml"), "gpu[001-004]", ("gpu001:slow=0.5",), 3600.0, 60.0),
)


@pytest.mark.parametrize("given", WORDS)
def test_the_words_are_read_again_wherever_one_stands(
    given: Given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths are seen from the folder in which they were said."""
    monkeypatch.chdir(tmp_path)
    written = orjson.loads(orjson.dumps(given.document))
    monkeypatch.chdir("/")
    again = Given.of(written)
    inventory = given.inventory and tmp_path / given.inventory
    assert (again.scenario, again.inventory) == (tmp_path / given.scenario, inventory)
    assert (again.hosts, again.faults) == (given.hosts, given.faults)
    assert again.lasts_s == given.lasts_s


def test_that_nobody_was_asked_is_written_only_where_it_is_so() -> None:
    assert "yes" not in WORDS[0].document
    assert Given(Path("s.yaml"), yes=True).document["yes"] is True
