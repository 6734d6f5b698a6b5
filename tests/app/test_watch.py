"""What is seen of a run while it goes on, from its growing history."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.app.status import HostState, RunStatus, Watched
from fabric.errors import ConfigError, StoreError
from fabric.runs.run_lock import holding
from tests.builders import asked, on_mock
from tests.places import INVENTORY, SCENARIOS
from tests.runs.small_run import begin, cut_after, run_of


@pytest.fixture(scope="module")
def bad_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight hosts, one RNIC dead and one host at half its speed."""
    faults = ("gpu002/mlx5_3:broken", "gpu005:slow=0.5")
    given = asked(SCENARIOS / "self-check.yaml", inventory=INVENTORY / "demo-rack-healthy.yaml", faults=faults)
    return Path(on_mock(given, tmp_path_factory.mktemp("results")).path)


def seen_until(run: Path, folder: Path, bytes_: int) -> tuple[Watched, RunStatus, Path]:
    """The run as far as so many bytes of its history, and the copy that it was looked at in."""
    copy = folder / run.parent.name / run.name
    copy.mkdir(parents=True)
    (copy / "run.json").write_bytes((run / "run.json").read_bytes())
    (copy / "events.jsonl").write_bytes((run / "events.jsonl").read_bytes()[:bytes_])
    watched = Watched(copy)
    return watched, watched.look(), copy


def test_half_way_the_dead_rnic_and_the_slow_host_are_seen(bad_run: Path, tmp_path: Path) -> None:
    size = (bad_run / "events.jsonl").stat().st_size
    _, seen, _ = seen_until(bad_run, tmp_path, size // 2)
    assert 0 < seen.done < seen.planned
    assert list(seen.named) == ["gpu002/mlx5_3"]
    assert (seen.hosts["gpu002"], seen.hosts["gpu005"]) == (HostState.FAILED, HostState.SLOW)
    assert {seen.hosts[name] for name in seen.hosts if name not in ("gpu002", "gpu005")} <= {
        HostState.RUNNING,
        HostState.WELL,
    }
    assert seen.state == "killed"


def test_looking_on_gives_what_one_look_at_the_end_does(bad_run: Path, tmp_path: Path) -> None:
    """A torn last line is read when it is whole."""
    data = (bad_run / "events.jsonl").read_bytes()
    watched, _, copy = seen_until(bad_run, tmp_path, len(data) // 3)
    for share in (0.5, 0.8, 1.0):
        (copy / "events.jsonl").write_bytes(data[: int(share * len(data))])
        seen = watched.look()
    whole = Watched(bad_run).look()
    assert (seen.done, seen.planned, seen.hosts, seen.named) == (whole.done, whole.planned, whole.hosts, whole.named)
    assert (whole.state, whole.done, whole.left_s) == ("ended", whole.planned, None)
    assert {one.component.partition("/")[0] for one in whole.suspects or ()} == {"gpu002", "gpu005"}


def test_a_run_that_somebody_works_on_is_running(tmp_path: Path) -> None:
    begin(tmp_path)
    run = run_of(tmp_path)
    cut_after(run, "finished", 1)
    with holding(tmp_path / "results", "small", ["gpu001"], run=run.name):
        assert Watched(run).look().state == "running"


def test_a_history_that_became_shorter_is_of_another_run(bad_run: Path, tmp_path: Path) -> None:
    watched, _, copy = seen_until(bad_run, tmp_path, 20_000)
    (copy / "events.jsonl").write_bytes(b"")
    with pytest.raises(StoreError, match="shorter than it was"):
        watched.look()


def test_no_run_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        Watched(tmp_path)
