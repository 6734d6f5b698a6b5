"""A validation after a repair that was killed goes on with what accused the host when it began."""

import shutil
from pathlib import Path

import pytest

from fabric.app.analyze import decided, reopened
from fabric.app.prepare import Given
from fabric.app.repair import prepare_repair
from fabric.app.resume import look
from fabric.errors import ConfigError
from tests.builders import gone_on
from tests.runs.small_run import begun_after, cut_after, finished
from tests.scenario.repaired_rack import BAD, HEALTHY, POST_REPAIR, checked, measured

pytestmark = pytest.mark.slow  # tests/app/test_resume.py says it of smaller runs

REPAIRED = "gpu003/mlx5_3:replaced"


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checked(tmp_path_factory.mktemp("failed"), BAD)


def copied(failed: Path, folder: Path) -> Path:
    """The failed run among results of its own, and the scenario beside them."""
    shutil.copytree(failed.parents[1], folder / "results")
    text = POST_REPAIR.read_text().replace("../inventory/demo-rack.yaml", str(HEALTHY))
    (folder / "post-repair.yaml").write_text(text)
    return folder / "results" / "check" / failed.name


def begun(because: Path, fault: str) -> Path:
    """The run of the validation, to its end."""
    scenario = because.parents[2] / "post-repair.yaml"
    return measured(prepare_repair(Given(scenario, faults=(fault,)), because, quick=True), because.parents[1], seed=2)


@pytest.fixture(scope="module")
def validation(failed: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The run of one validation, and a copy of its whole folder: it is at home in its own place only."""
    home = tmp_path_factory.mktemp("validation") / "home"
    home.mkdir()
    run = begun(copied(failed, home), REPAIRED)
    shutil.copytree(home, home.with_name("copy"))
    return run, home


@pytest.fixture
def repaired(validation: tuple[Path, Path]) -> Path:
    """That run as it was when it had ended, whatever a test before did to it."""
    run, home = validation
    shutil.rmtree(home)
    shutil.copytree(home.with_name("copy"), home)
    return run


def cut_and_gone_on(run: Path, which: int) -> None:
    """It decides as if undisturbed, and what was measured stays."""
    undisturbed = decided(reopened(run))
    seen = cut_after(run, "finished", which)
    before = finished(run)
    gone_on(run)
    assert decided(reopened(run)).decision is undisturbed.decision
    assert {name: finished(run)[name] for name in before} == before
    assert not begun_after(run, seen).intersection(before)


@pytest.mark.parametrize("which", [0, 200])
def test_it_goes_on_unforced_and_decides_as_if_undisturbed(repaired: Path, which: int) -> None:
    cut_and_gone_on(repaired, which)


def test_the_run_that_failed_the_host_need_not_be_there_any_more(repaired: Path) -> None:
    cut_after(repaired, "finished", 9)
    shutil.rmtree(repaired.parents[1] / "check")
    gone_on(repaired)
    assert decided(reopened(repaired)).decision.value == "ACCEPT"


def test_a_scenario_that_has_changed_is_refused_and_told(repaired: Path) -> None:
    cut_after(repaired, "finished", 9)
    file = repaired.parents[2] / "post-repair.yaml"
    file.write_text(file.read_text().replace("duration: 5s, queue_pairs: 2", "duration: 5s, queue_pairs: 3"))
    with pytest.raises(ConfigError, match=r"queue_pairs: was 2, is 3"):
        look(repaired, force=False)
