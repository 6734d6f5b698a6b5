"""The figures of a run: which there are, and that they can be had as files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from fabric.app.analyze import draw_figures
from fabric.cli.main import main
from fabric.errors import ConfigError
from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect
from fabric.report.run_figures import pictures, racks_of
from fabric.report.shown_run import ShownRun
from tests.report.figures.seen import texts
from tests.report.shown import hostile


def names(run: ShownRun) -> list[str]:
    """Of all figures, in order."""
    return [one.name for one in pictures(run)]


def test_a_suspect_has_its_evidence_and_its_loopbacks_first(bad_run: ShownRun) -> None:
    found = names(bad_run)
    assert found[:2] == ["suspect-1", "loopback-1"]
    assert {"hosts", "pairs-tor_all_reduce", "timeline"} <= set(found)
    assert len(found) == len(set(found))


def test_good_numbers_of_a_suspect_are_said_to_be_no_evidence(bad_run: ShownRun) -> None:
    """A port that went down: what failed with it has its full bandwidth."""
    for outcome, none in ((Outcome.PASS, True), (Outcome.FAIL, False)):
        rows = [row for row in bad_run.rows if row.verdict.outcome is outcome and row.probe.kind == "loopback"]
        probes = tuple(row.probe.probe_id for row in rows[:3])
        one = Suspect("gpu002/mlx5_3:port", "link", Outcome.FAIL, 0.8, (), (), "", ("gpu002",), probes)
        verdict = replace(bad_run.judged.verdict, suspects=(one,))
        first = next(pictures(replace(bad_run, judged=replace(bad_run.judged, verdict=verdict))))
        assert first.words.startswith("All of these met what is required") is none


def test_within_a_run_figures_lie_in_their_own_folder_alone(bad_run: ShownRun) -> None:
    """A certificate knows that one as derived; files anywhere else it would miss."""
    for folder in ("", "pictures", "figures/old"):
        with pytest.raises(ConfigError, match=r"only .* is for figures"):
            draw_figures(bad_run, Path(bad_run.judged.path) / folder)


def test_of_a_run_with_faults_the_answer_comes_before_what_is_normal(changed_run: ShownRun) -> None:
    found = names(changed_run)
    assert found[:2] == ["expected", "bars-group_all_reduce"]
    assert "timeline" in found


def test_racks_are_in_the_order_of_the_inventory(bad_run: ShownRun) -> None:
    topology = bad_run.inventory.topology
    assert list(racks_of(topology, bad_run.judged.scenario.hosts)) == ["r0"]
    bare = {name: replace(host, rack=None) for name, host in topology.hosts.items()}
    assert list(racks_of(replace(topology, hosts=bare), ["gpu001"])) == [topology.hosts["gpu001"].leaves[0]]


def test_words_that_mean_harm_stay_words(bad_run: ShownRun) -> None:
    for one in pictures(hostile(bad_run)):
        assert all("\x1b" not in text and "\u202e" not in text for text in texts(one.figure))


def test_every_figure_is_written_as_png_and_svg(bad_rack: Path, bad_run: ShownRun, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["report", str(bad_rack), "--figures", str(tmp_path / "slides")])
    assert done.exit_code == 0
    written = {path.name for path in (tmp_path / "slides").iterdir()}
    assert written == {f"{name}.{kind}" for name in names(bad_run) for kind in ("png", "svg")}


def test_a_folder_that_cannot_be_written_is_said(bad_run: ShownRun, bad_rack: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(main, ["report", str(bad_rack), "--figures", str(tmp_path / "file" / "x")])
    assert done.exit_code != 0
    assert "cannot write" in str(done.exception or done.output)
