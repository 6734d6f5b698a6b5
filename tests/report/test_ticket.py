"""A ticket says what is wrong, where, against what, and what was printed; nothing in it is read as markup."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fabric.app.analyze import write_tickets
from fabric.report.markdown import tickets
from fabric.report.shown_run import ShownRun
from fabric.runs.manifest import differences, manifest
from tests.report.shown import hostile


def test_a_slow_rnic_has_a_ticket_with_its_numbers_place_and_output(bad_run: ShownRun) -> None:
    [(name, text)] = tickets(bad_run).items()
    assert name.startswith("gpu002-mlx5_3")
    [suspect] = bad_run.judged.verdict.suspects
    assert suspect.loss == pytest.approx(0.4, abs=0.03)
    for words in (
        "| loss | 4",
        f"{suspect.worst_gbps:.1f} Gb/s, normal",
        "| rack | r0 |",
        "| serial | ",
        "ib_write_bw",
    ):
        assert words in text, words


def test_names_and_output_of_a_hostile_host_are_neither_paths_nor_markup(bad_run: ShownRun) -> None:
    found = tickets(hostile(bad_run))
    assert len(found) == len(hostile(bad_run).judged.verdict.suspects)
    assert all("/" not in name and not name.startswith(".") for name in found)
    for text in found.values():
        outside = [line for line in text.splitlines() if not line.startswith(("    ", "`"))]
        assert [line for line in outside if re.search(r"(?<!\\)<[!/a-z]", line)] == []
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_tickets_are_derived_and_those_of_an_older_verdict_go(bad_run: ShownRun, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(bad_run.judged.path, run)
    files = manifest(run)
    assert not any(one.path.startswith("tickets/") for one in files)
    write_tickets(bad_run, run)
    assert len(list((run / "tickets").iterdir())) == 1
    well = replace(bad_run.judged, verdict=replace(bad_run.judged.verdict, suspects=()))
    write_tickets(replace(bad_run, judged=well), run)
    assert list((run / "tickets").iterdir()) == []
    assert differences(files, run) == []
    (run / "tickets" / "notes.txt").write_text("mine")
    assert differences(files, run) == ["tickets/notes.txt: was not there"]


def test_nothing_is_written_through_a_link(bad_run: ShownRun, tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    shutil.copytree(bad_run.judged.path, run)
    shutil.rmtree(run / "tickets")
    elsewhere.mkdir()
    (run / "tickets").symlink_to(elsewhere)
    with pytest.raises(NotADirectoryError):
        write_tickets(bad_run, run)
    assert list(elsewhere.iterdir()) == []
