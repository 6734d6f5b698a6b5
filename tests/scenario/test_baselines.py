"""Record, accept, judge, compare: through the command line, on the simulated rack."""

import json
import shutil
from pathlib import Path

import pytest

from tests.places import INVENTORY, SCENARIOS
from tests.scenario.test_self_check import HEALTHY, fabric, verdict

pytestmark = pytest.mark.slow

LATEST = "self-check/latest"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a healthy rack."""
    folder = tmp_path_factory.mktemp("good")
    verdict("--inventory", HEALTHY, "--seed", "1", "--results", folder, cwd=folder)
    return (folder / LATEST).resolve()


@pytest.fixture(scope="module")
def bad(good: Path) -> Path:
    """Results of one with a slow RNIC, -10 %; beside the good one, so that their ids differ within a second, too."""
    folder = good.parents[1]
    fault = "gpu002/mlx5_3:slow=0.9"
    verdict("--inventory", HEALTHY, "--seed", "2", "--fault", fault, "--results", folder, cwd=folder)
    return (folder / LATEST).resolve()


@pytest.fixture
def baselines(tmp_path: Path) -> Path:
    """A copy of the shipped baselines."""
    shutil.copytree(INVENTORY / "baselines", tmp_path / "inventory" / "baselines")
    return tmp_path / "inventory" / "baselines"


def test_record_accept_and_judge(tmp_path: Path, good: Path, bad: Path, baselines: Path) -> None:
    """The whole way; only the section changes, and the run that it came from is not judged by it."""
    before = (baselines / "h100-ndr.yaml").read_text()
    done = fabric("baseline", "record", good, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "loopback pix 8M one_way line rate 400 Gb/s" in done.stdout
    candidate = good.parent / "h100-ndr.candidate.yaml"
    refused = fabric("baseline", "accept", candidate, "--yes", cwd=tmp_path)
    assert (refused.returncode, "--simulated accepts them" in refused.stderr) == (2, True)
    unasked = fabric("baseline", "accept", candidate, "--simulated", cwd=tmp_path)
    assert (unasked.returncode, "say --yes" in unasked.stderr) == (2, True)
    assert (baselines / "h100-ndr.yaml").read_text() == before
    accepted = fabric("baseline", "accept", candidate, "--simulated", "--yes", cwd=tmp_path)
    assert accepted.returncode == 0, accepted.stderr
    after = (baselines / "h100-ndr.yaml").read_text()
    assert after.startswith(before)
    assert "recorded:" in after
    assert sorted(path.name for path in baselines.iterdir()) == sorted(
        path.name for path in (INVENTORY / "baselines").iterdir()
    )
    own = fabric("analyze", good, "--baseline", baselines / "h100-ndr.yaml", cwd=tmp_path)
    assert (own.returncode, "a run cannot be compared with itself" in own.stderr) == (2, True)
    other = fabric("analyze", bad, "--baseline", baselines / "h100-ndr.yaml", "--json", cwd=tmp_path)
    assert [suspect["component"] for suspect in json.loads(other.stdout)["suspects"]] == ["gpu002/mlx5_3"]
    assert fabric("baseline", "check", "h100-ndr", cwd=tmp_path).returncode == 0
    shown = json.loads(fabric("baseline", "show", "h100-ndr", "--json", cwd=tmp_path).stdout)
    assert len(shown["recorded"]) == 9


def test_a_run_that_did_not_pass_is_no_example(tmp_path: Path, bad: Path, good: Path) -> None:
    """FAIL is refused, also as the newest run of its folder, a run named twice too, and nothing is written."""
    for named in (bad, bad.parent):
        done = fabric("baseline", "record", named, cwd=tmp_path)
        assert (done.returncode, f"{bad.name}: did not pass (FAIL)" in done.stderr) == (2, True)
    twice = fabric("baseline", "record", good, good, cwd=tmp_path)
    assert (twice.returncode, "named twice" in twice.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_is_no_example(tmp_path: Path, good: Path) -> None:
    """A history without its end."""
    copy = tmp_path / good.name
    shutil.copytree(good, copy)
    events = copy / "events.jsonl"
    lines = events.read_text().splitlines(keepends=True)
    events.write_text("".join(line for line in lines if '"run_ended"' not in line))
    done = fabric("baseline", "record", copy, cwd=tmp_path)
    assert (done.returncode, "was interrupted" in done.stderr) == (2, True)


def test_a_run_with_changes_is_no_example(tmp_path: Path) -> None:
    """A fabric that was altered on purpose is not the plain one."""
    ran = fabric("run", SCENARIOS / "flap-tolerance.yaml", "--json", cwd=tmp_path)
    path = tmp_path / json.loads(ran.stdout)["path"]
    done = fabric("baseline", "record", path, cwd=tmp_path)
    assert (done.returncode, "changes were in force" in done.stderr) == (2, True)


def test_a_baseline_does_not_sink_unseen(tmp_path: Path, good: Path, baselines: Path) -> None:
    """A candidate whose medians are lower than those on record needs a word more."""
    fabric("baseline", "record", good, cwd=tmp_path)
    candidate = good.parent / "h100-ndr.candidate.yaml"
    fabric("baseline", "accept", candidate, "--simulated", "--yes", cwd=tmp_path)
    text = candidate.read_text()
    lower = text.replace("median_gbps: 39", "median_gbps: 35")
    assert lower != text
    candidate.write_text(lower)
    sinking = fabric("baseline", "accept", candidate, "--simulated", "--yes", cwd=tmp_path)
    assert (sinking.returncode, "the median would sink by" in sinking.stderr) == (2, True)
    assert fabric("baseline", "accept", candidate, "--simulated", "--yes", "--lower", cwd=tmp_path).returncode == 0
    wrong = fabric("baseline", "check", "h100-ndr", cwd=tmp_path)
    assert (wrong.returncode, "above the recorded" in wrong.stdout) == (2, True)


def test_runs_that_cannot_be_compared_are_refused(tmp_path: Path, good: Path) -> None:
    """Another platform under the same names: said of all hosts at once, exit 2."""
    other = tmp_path / "other.yaml"
    other.write_text(HEALTHY.read_text().replace("dgx-h100", "hgx-h100"))
    shutil.copytree(HEALTHY.parent / "baselines", tmp_path / "baselines")
    verdict("--inventory", other, "--hosts", "gpu[001-002]", "--results", tmp_path / "b", cwd=tmp_path)
    platform = fabric("compare", good, tmp_path / "b" / LATEST, cwd=tmp_path)
    assert (platform.returncode, "gpu[001-002] of another platform: dgx-h100, then hgx-h100" in platform.stderr) == (
        2,
        True,
    )


def test_runs_of_other_hosts_are_compared_where_that_is_asked(tmp_path: Path, good: Path) -> None:
    """What one run did not measure leaves it open, in either direction; --hosts asks of what both measured."""
    one = ("--inventory", HEALTHY, "--hosts", "gpu001", "--results", tmp_path / "one")
    few = Path(verdict(*one, cwd=tmp_path)["path"])
    few = few if few.is_absolute() else tmp_path / few
    for pair in ((few, good), (good, few)):
        done = fabric("compare", *pair, cwd=tmp_path)
        assert (done.returncode, "not everything was measured in both" in done.stdout) == (3, True)
        assert fabric("compare", *pair, "--hosts", "gpu001", cwd=tmp_path).returncode == 0
