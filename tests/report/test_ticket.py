"""Tickets, and what ``fabric parse`` shows of a log."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fabric.app.analyze import write_tickets
from fabric.report.markdown import tickets
from fabric.report.parsed import parsed_document, parsed_lines
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


GOLDEN = Path(__file__).parents[1] / "golden"


def test_nothing_of_the_tool_is_said() -> None:
    """A file without any output of the tool is not silently fine."""
    document = parsed_document("perftest", "hello")
    assert list(parsed_lines(document, "f")) == ["f: no perftest output found"]


def test_the_nccl_document_has_exactly_these_keys() -> None:
    """Scripts rely on them; unknown values are null."""
    text = (GOLDEN / "nccl-tests" / "trace-replay-in-place-only.txt").read_text()
    document = parsed_document("nccl-tests", text)
    assert document["tool"] == "nccl-tests"
    (test,) = document["tests"]
    assert list(test) == ["op", "ranks", "rows", "avg_busbw_gbps", "complete", "problems"]
    nothing = dict.fromkeys(("time_us", "algbw_gbps", "busbw_gbps", "wrong"))
    in_place = {"time_us": 57.09, "algbw_gbps": 18.37 * 8, "busbw_gbps": 32.14 * 8, "wrong": 0}
    assert test["rows"][0] == {"size_bytes": 1048576, "out_of_place": nothing, "in_place": in_place}
    assert json.loads(json.dumps(document)) == document


def test_the_nccl_document_lists_failures() -> None:
    """With the host that printed each."""
    text = (GOLDEN / "nccl-tests" / "cuda-crash-and-retries.txt").read_text()
    document = parsed_document("nccl-tests", text)
    assert document["tests"] == []
    assert [(seen["host"], seen["kind"]) for seen in document["failures"]] == [
        ("gpu009", "cuda_error"),
        ("gpu008", "ib_completion_error"),
        (None, "launcher_error"),
    ]


def test_the_perftest_document_has_exactly_these_keys() -> None:
    """A peak that was not measured is null."""
    text = (GOLDEN / "perftest" / "duration-client.txt").read_text()
    assert parsed_document("perftest", text) == {
        "tool": "perftest",
        "tests": [
            {
                "test": "RDMA_Write BW",
                "device": "mlx5_2",
                "rows": [{"size_bytes": 8388608, "iterations": 60321, "bw_peak_gbps": None, "bw_average_gbps": 391.27}],
                "problems": [],
            }
        ],
        "failures": [],
    }


def test_the_perftest_document_lists_failures() -> None:
    """Kind and text."""
    document = parsed_document("perftest", "Couldn't connect to 10.0.0.9:18600\n")
    assert document["failures"] == [{"kind": "cannot_connect", "text": "Couldn't connect to 10.0.0.9:18600"}]
