"""A run goes on from what is on disk: what is finished stays, what changed is refused, what was judged early goes."""

import shutil
from pathlib import Path

import orjson
import pytest

from fabric.app import resume as resuming
from fabric.app import run as app
from fabric.app.analyze import analyze
from fabric.app.resume import look, resume
from fabric.app.status import status
from fabric.errors import ConfigError, MayBeLive, StoreError
from fabric.model.outcome import Outcome
from fabric.runs.events import read_events
from fabric.runs.journal import open_changes
from fabric.runs.manifest import OUTDATED_BY_MEASURING
from fabric.runs.run_lock import holding
from tests.builders import Watcher, gone_on
from tests.checks.test_held import left_behind
from tests.places import INVENTORY
from tests.runs.small_run import (
    BER,
    LATER,
    NAME,
    SCENARIO,
    begin,
    begun_after,
    cut_after,
    cut_journal,
    ended,
    finished,
    go_on,
    killed,
    run_of,
    scenario,
)


@pytest.mark.parametrize("which", [0, 3, 5])
def test_finished_probes_stay_and_the_verdict_is_the_same(tmp_path: Path, which: int) -> None:
    run = ended(tmp_path)
    seen = cut_after(run, "finished", which)
    before = finished(run)
    again = go_on(tmp_path)
    assert (again.verdict.outcome, len(finished(run))) == (Outcome.PASS, 6)
    assert {name: finished(run)[name] for name in before} == before
    assert not begun_after(run, seen).intersection(before)


def test_a_half_done_probe_is_repeated_as_its_next_attempt(tmp_path: Path) -> None:
    run = ended(tmp_path)
    for attempt in (2, 3):
        seen = cut_after(run, "started", attempt - 1)
        go_on(tmp_path)
        (probe,) = (name for name, event in finished(run).items() if event["attempt"] == attempt)
        assert probe in begun_after(run, seen)
    assert "attempt 3\n" in (run / "raw" / f"{probe.rpartition('/')[0]}.out").read_text()


def test_the_clock_goes_on_and_each_resumption_is_an_event(tmp_path: Path) -> None:
    run = ended(tmp_path)
    for which in (1, 4):
        cut_after(run, "finished", which)
        go_on(tmp_path)
    events = list(read_events(run / "events.jsonl"))
    assert [event["times"] for event in events if event["event"] == "resumed"] == [1, 2]
    assert [event["at_s"] for event in events] == sorted(event["at_s"] for event in events)


def test_an_open_change_is_taken_back_first_and_the_phase_gets_it_anew(tmp_path: Path) -> None:
    run = ended(tmp_path)
    seen = cut_after(run, "finished", 3)
    cut_journal(run, "in_force")
    said: list[str] = []
    judged = go_on(tmp_path, said=said)
    assert said[0].startswith("taken back: during/ber")
    states = [e["state"] for e in list(read_events(run / "events.jsonl"))[seen:] if e["event"] == "change"]
    assert states == ["reverted", "intent", "armed", "in_force", "reverted"]
    assert [change.state for change in judged.verdict.changes] == ["reverted"]
    assert len(judged.verdict.changes[0].windows) == 2
    assert open_changes(run / "changes.jsonl") == ()


def test_a_change_whose_phase_had_measured_all_is_not_made_again(tmp_path: Path) -> None:
    run = ended(tmp_path)
    seen = cut_after(run, "finished", 5)
    cut_journal(run, "in_force")
    assert go_on(tmp_path).verdict.outcome is Outcome.PASS
    events = list(read_events(run / "events.jsonl"))[seen:]
    assert [e["state"] for e in events if e["event"] == "change"] == ["reverted"]


def test_a_phase_with_a_time_line_is_repeated_as_a_whole(tmp_path: Path) -> None:
    scenario(tmp_path, change=LATER)
    run = ended(tmp_path)
    seen = cut_after(run, "finished", 4)
    go_on(tmp_path)
    during = {name for name in finished(run) if name.startswith("during/")}
    assert begun_after(run, seen) == during
    assert sorted(finished(run)[name]["attempt"] for name in during) == [1, 2, 2]


def test_nothing_is_measured_while_a_guard_holds_a_change_of_another_run(tmp_path: Path) -> None:
    """The run stays as it was, and can go on later."""
    run = killed(tmp_path, "finished", 3)
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    found, _ = look(tmp_path / "results" / NAME, force=False)
    with pytest.raises(MayBeLive, match=r"gpu002: change x\.1 of drill/"):
        resume(
            found,
            make_executor=lambda backend, inventory, seed: left_behind(inventory),
            observer=Watcher(),
            say=lambda text: None,
        )
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == before
    go_on(tmp_path)


def test_nothing_is_measured_while_a_change_cannot_be_taken_back(tmp_path: Path) -> None:
    run = ended(tmp_path)
    seen = cut_after(run, "finished", 3)
    cut_journal(run, "in_force")
    text = (run / "run.json").read_text().replace('"gpu001"', '"gpu901"')  # how to reach its host is lost
    (run / "run.json").write_text(text)
    with pytest.raises((MayBeLive, ConfigError)):
        go_on(tmp_path, force=True)
    assert len(list(read_events(run / "events.jsonl"))) == seen


def test_a_run_that_ended_is_refused_with_what_to_do(tmp_path: Path) -> None:
    ended(tmp_path)
    with pytest.raises(ConfigError, match=r"has ended: see it .fabric report .* anew .fabric run"):
        go_on(tmp_path)


def test_a_run_killed_before_its_first_line_runs_whole(tmp_path: Path) -> None:
    (ended(tmp_path) / "events.jsonl").unlink()
    assert (go_on(tmp_path).verdict.outcome, len(finished(run_of(tmp_path)))) == (Outcome.PASS, 6)


def test_a_changed_scenario_is_refused_and_told_and_force_goes_on_as_it_was(tmp_path: Path) -> None:
    killed(tmp_path, "finished", 2)
    file = scenario(tmp_path)
    file.write_text(file.read_text().replace("repeat: 3", "repeat: 4"))
    with pytest.raises(ConfigError, match=r"scenario\..*repeat.*was 3, is 4") as told:
        go_on(tmp_path)
    assert any("--force" in str(problem) for problem in told.value.problems)
    go_on(tmp_path, force=True)
    assert len(finished(run_of(tmp_path))) == 6


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (("versions", "fabric-testbench"), "the run was begun with 9"),
        (("baselines", "h100-ndr", "limits", 0, "at_least_gbps"), r"limits\[0\]\.at_least_gbps: was 9, is"),
        (("asked", "inventory", "ssh", "user"), r"inventory\.ssh\.user: was \"?u9\"?, is"),
    ],
)
def test_another_version_baseline_or_inventory_is_refused(
    tmp_path: Path, path: tuple[str | int, ...], told: str
) -> None:
    killed(tmp_path, "finished", 2)
    file = run_of(tmp_path) / "run.json"
    document = orjson.loads(file.read_bytes())
    place = document
    for step in path[:-1]:
        place = place[step]
    assert path[-1] in place
    place[path[-1]] = "u9" if path[-1] == "user" else "9"
    file.write_bytes(orjson.dumps(document))
    with pytest.raises(ConfigError, match=told.replace(" 9", ' "?9"?')):
        go_on(tmp_path)


@pytest.mark.parametrize("inventory", [None, Path("inventory/r.yaml")])
def test_a_run_begun_with_relative_paths_goes_on_though_nothing_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inventory: Path | None
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("inventory", "scenarios"):
        Path(folder).mkdir()
    shutil.copy(INVENTORY / "demo-rack-healthy.yaml", "inventory/r.yaml")
    shutil.copytree(INVENTORY / "baselines", "inventory/baselines")
    file = Path("scenarios/small.yaml")
    file.write_text(SCENARIO.format(inventory="../inventory/r.yaml", change=BER, sample=""))
    begin(Path(), file=file, inventory=inventory)
    cut_after(run_of(Path()), "finished", 2)
    assert look(run_of(Path()), force=False)[1] == ()
    file.write_text(file.read_text().replace("repeat: 3", "repeat: 4"))
    with pytest.raises(ConfigError, match="was 3, is 4"):
        look(run_of(Path()), force=False)


def test_a_scenario_that_is_gone_is_refused(tmp_path: Path) -> None:
    killed(tmp_path, "finished", 2)
    (tmp_path / "small.yaml").rename(tmp_path / "moved.yaml")
    with pytest.raises(ConfigError, match="cannot be read as then"):
        look(run_of(tmp_path), force=False)


@pytest.mark.parametrize(
    ("which", "told"), [(0, "1 probe is done and kept, 0 were"), (1, "2 probes are done and kept, 0 were")]
)
def test_how_many_are_kept_is_said_in_words_that_fit(tmp_path: Path, which: int, told: str) -> None:
    killed(tmp_path, "finished", which)
    said: list[str] = []
    go_on(tmp_path, said=said)
    assert said[-1].startswith(told)


def test_parts_that_changed_their_names_are_refused(tmp_path: Path) -> None:
    """After a reboot ``mlx5_0`` is what ``mlx5_1`` was: a verdict would name one of them for what both measured."""
    file = scenario(tmp_path)
    file.write_text(file.read_text().replace("hosts:", "identity: true\nhosts:", 1))
    run = killed(tmp_path)
    text = (run / "identity.json").read_text()
    swapped = text.replace('"part": "mlx5_0"', '"part": "x"').replace('"part": "mlx5_1"', '"part": "mlx5_0"')
    (run / "identity.json").write_text(swapped.replace('"part": "x"', '"part": "mlx5_1"'))
    with pytest.raises(ConfigError) as refused:
        go_on(tmp_path)
    words = [problem.text for problem in refused.value.problems]
    assert any("another part goes by this name by now: gpu002/mlx5_1: replaced: SN" in text for text in words), words
    said: list[str] = []
    assert go_on(tmp_path, force=True, said=said).verdict.outcome is Outcome.PASS
    assert any(text.startswith("gone on all the same: another part goes by this name") for text in said)


def test_a_torn_line_is_cut_off_and_told(tmp_path: Path) -> None:
    run = killed(tmp_path, "finished", 2)
    with (run / "events.jsonl").open("ab") as file:
        file.write(b'{"seq":9,"torn')
    said: list[str] = []
    go_on(tmp_path, said=said)
    assert "cut off 14 bytes of a torn last line" in said[0]


@pytest.mark.parametrize(("where", "named"), [("", None), (".", "."), ("raw", "..")])
def test_it_goes_on_wherever_a_person_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, named: str | None
) -> None:
    """In the folder of the scenario by the run's name, in the run itself, or below it."""
    run = killed(tmp_path, "finished", 3)
    monkeypatch.chdir(run / where if named else run.parent)
    judged = gone_on(Path(named or run.name))
    assert (judged.verdict.outcome, len(finished(run))) == (Outcome.PASS, 6)


class Killed(BaseException):
    """A signal that nothing in the program can catch."""


def judged_early(folder: Path) -> Path:
    """A run that was interrupted, judged then with all its reports, and more besides."""
    run = killed(folder, which=3)
    analyze(run, baseline_path=None, rewrite=True)
    for name in ("acceptance.json", "compare.html"):
        (run / name).write_text("of an earlier interruption")
    (run / "certificate.json").write_text("signed")
    return run


@pytest.mark.slow
def test_nothing_that_was_judged_earlier_outlives_a_kill_between_the_end_and_the_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = judged_early(tmp_path)
    of_older_versions = {"samples.parquet"}
    written = {name for name in OUTDATED_BY_MEASURING if (run / name).exists()}
    assert written == {*OUTDATED_BY_MEASURING} - of_older_versions
    told = status(run)
    assert (told.judged, told.outcome) == (True, "error")

    def died(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(app, "write_derived", died)
        with pytest.raises(Killed):
            go_on(tmp_path)
    assert [name for name in OUTDATED_BY_MEASURING if (run / name).exists()] == []
    assert (run / "certificate.json").exists()  # it says what it is about
    assert len(finished(run)) == 6
    told = status(run)
    assert (told.state, told.judged, told.outcome) == ("ended", False, "")
    with pytest.raises(ConfigError, match=f"is not judged yet: fabric analyze {run}"):
        go_on(tmp_path)
    assert analyze(run, rewrite=True).judged.verdict.outcome is Outcome.PASS
    assert status(run).outcome == "pass"


def test_what_was_judged_earlier_goes_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also durably: the folder is synced behind the last removal and before the first line."""
    run = judged_early(tmp_path)
    size = (run / "events.jsonl").stat().st_size
    seen = []

    def synced(folder: Path) -> None:
        left = [name for name in OUTDATED_BY_MEASURING if (run / name).exists()]
        seen.append((folder, left, (run / "events.jsonl").stat().st_size))

    monkeypatch.setattr("fabric.runs.plain_file.sync_folder", synced)
    go_on(tmp_path)
    assert (run, [], size) in seen


def test_what_was_judged_earlier_and_cannot_go_stops_it_before_it_measures(tmp_path: Path) -> None:
    run = judged_early(tmp_path)
    (run / "summary.md").unlink()
    (run / "summary.md").mkdir()  # as little to be removed as a file of somebody else in a sticky folder
    before = (run / "events.jsonl").read_bytes()
    with pytest.raises(StoreError, match=r"summary\.md: cannot remove: .*nothing was measured"):
        go_on(tmp_path)
    assert (run / "events.jsonl").read_bytes() == before
    assert not status(run).judged
    (run / "summary.md").rmdir()
    assert go_on(tmp_path).verdict.outcome is Outcome.PASS


@pytest.mark.parametrize("other", [False, True], ids=["this run", "another of the scenario"])
def test_a_run_that_goes_on_is_refused_before_anything_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: bool
) -> None:
    run = killed(tmp_path, "finished", 2)
    monkeypatch.setattr(resuming, "plan_scenario", None)
    with (
        holding(tmp_path / "results", "small", ["gpu001"], run="another" if other else run.name),
        pytest.raises(StoreError, match="is going on"),
    ):
        resuming.look(run, force=False)
