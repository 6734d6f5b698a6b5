"""judged.json: what was judged once is not judged again, unless something that it rests on has changed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from fabric.app import analyze as judging
from fabric.app import report as reports
from fabric.app.analyze import reopened
from fabric.cli.main import main
from fabric.report import kept_verdict
from fabric.report.derived import keep_verdict, write_reports
from fabric.report.html.page import page
from fabric.report.kept_results import packed, unpacked
from fabric.report.kept_verdict import FILE, kept_text
from fabric.report.shown_run import ShownRun


@pytest.fixture
def kept(bad_rack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the bad rack's run whose verdict was kept, as that of a large run is."""
    monkeypatch.setattr(kept_verdict, "FEWEST_PROBES", 1)
    copy = tmp_path / "run"
    shutil.copytree(bad_rack, copy)
    keep_verdict(reopened(copy), copy)
    return copy


def test_what_is_kept_is_what_was_judged(kept: Path) -> None:
    found, judged = reports.as_kept(kept), reopened(kept)
    assert found is not None
    assert found.judged == judged.judged
    assert (found.complete, found.probes, found.results) == (judged.complete, judged.probes, judged.results)
    assert page(found) == page(judged)


def test_reports_are_made_without_judging(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_reopened", None)
    assert "gpu002/mlx5_3" in reports.make_reports(kept).read_text()


def test_a_verdict_json_older_than_what_is_kept_is_made_again(kept: Path) -> None:
    """As after a resumption that was killed while its reports were made."""
    file = kept / "verdict.json"
    file.write_bytes(orjson.dumps({**orjson.loads(file.read_bytes()), "history_bytes": 1}))
    reports.judged_run(kept)
    assert orjson.loads(file.read_bytes())["history_bytes"] == (kept / "events.jsonl").stat().st_size


@pytest.mark.parametrize("name", ["run.json", "events.jsonl"])
def test_another_input_is_judged_again(kept: Path, name: str) -> None:
    with (kept / name).open("ab") as file:
        file.write(b" ")
    assert reports.as_kept(kept) is None


def test_a_file_of_samples_that_came_later_is_an_input(kept: Path) -> None:
    (kept / "samples.log").write_bytes(b"")
    assert reports.as_kept(kept) is None


def test_other_code_judges_again(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_verdict, "_code_digest", lambda: b"another version")
    assert reports.as_kept(kept) is None


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_torn_file_is_no_verdict(kept: Path, share: float) -> None:
    data = (kept / FILE).read_bytes()
    (kept / FILE).write_bytes(data[: int(len(data) * share)])
    assert reports.as_kept(kept) is None


def test_a_small_run_and_one_with_changes_keep_nothing(
    bad_run: ShownRun, changed_run: ShownRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept_text(bad_run, tmp_path) is None
    monkeypatch.setattr(kept_verdict, "FEWEST_PROBES", 1)
    assert kept_text(changed_run, tmp_path) is None


def test_a_run_that_goes_on_keeps_nothing(bad_run: ShownRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its next probe changes it, and its words are of a run that goes on."""
    monkeypatch.setattr(kept_verdict, "FEWEST_PROBES", 1)
    assert kept_text(bad_run, tmp_path) is not None
    assert kept_text(replace(bad_run, judged=replace(bad_run.judged, goes_on=True)), tmp_path) is None


def test_a_run_keeps_its_verdict_with_its_reports(bad_run: ShownRun, kept: Path) -> None:
    (kept / FILE).unlink()
    write_reports(bad_run, kept)
    assert (kept / FILE).is_file()


def test_the_console_shows_what_was_kept_and_judges_nothing(
    kept: Path, bad_rack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = CliRunner().invoke(main, ["report", str(bad_rack)], standalone_mode=False)
    for name in ("analyze", "reopened", "concluded"):
        monkeypatch.setattr(judging, name, None)
    shown = CliRunner().invoke(main, ["report", str(kept)], standalone_mode=False)
    assert shown.exception is None
    assert (shown.return_value, shown.output) == (1, judged.output.replace(str(bad_rack), str(kept)))


def test_results_that_do_not_add_up_are_no_verdict(kept: Path) -> None:
    document = orjson.loads((kept / FILE).read_bytes())
    values = unpacked("d", document["results"]["values"])
    values.append(1.0)
    document["results"]["values"] = packed(values)
    (kept / FILE).write_bytes(orjson.dumps(document))
    assert reports.as_kept(kept) is None


@pytest.mark.parametrize("false", [{"suspects": ["x"]}, {"training": "x"}, {"components": 1}, {"results": []}])
def test_what_is_of_another_kind_is_no_verdict(kept: Path, false: dict[str, object]) -> None:
    """Somebody else wrote it; nothing breaks."""
    (kept / FILE).write_bytes(orjson.dumps({**orjson.loads((kept / FILE).read_bytes()), **false}))
    assert reports.as_kept(kept) is None


def test_training_is_kept_too(kept: Path) -> None:
    found = reports.as_kept(kept)
    assert found is not None
    assert found.judged.verdict.training is not None
    assert found.judged.verdict.training == reopened(kept).judged.verdict.training
