"""What pipelines read, read back by the libraries that they use; tickets; what is alike is told in a line or two."""

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import jsonschema
import orjson
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped
from prometheus_client.parser import text_string_to_metric_families

from fabric.app.analyze import load, write_tickets
from fabric.model.change import Change
from fabric.model.comparison import WHOLE, Compared, Difference
from fabric.model.outcome import Outcome
from fabric.report.diagnosis import parsed_document, parsed_text
from fabric.report.exports import cell, csv_lines, junit_xml, metrics_text
from fabric.report.progress import HOLD_S, FoldedOuts, FoldedStates
from fabric.report.several_runs import merged
from fabric.report.shown_run import ShownRun
from fabric.report.templates import plain
from fabric.report.verdict_json import verdict_document, verdict_schema
from fabric.report.verdict_text import summary, tickets
from fabric.runs.manifest import differences, manifest
from fabric.runs.tables import TABLES
from tests.changes.asked import ber
from tests.report.shown import HOSTILE, hostile


def cases(run: ShownRun) -> dict[str, object]:
    """Result type by the name of the case, as a JUnit reader sees it."""
    document = JUnitXml.fromstring(junit_xml(run).encode())
    return {case.name: type(case.result[0]) if case.result else None for suite in document for case in suite}


def with_outcome(run: ShownRun, outcome: Outcome) -> ShownRun:
    """The same run with this outcome for every probe."""
    verdict = run.judged.verdict
    probes = tuple(replace(probe, outcome=outcome, reason="because") for probe in verdict.probes)
    return replace(run, judged=replace(run.judged, verdict=replace(verdict, probes=probes)))


def test_junit_has_one_case_for_each_host_and_kind(bad_run: ShownRun) -> None:
    found = cases(bad_run)
    assert found["gpu002 loopback"] is Failure
    assert found["gpu001 loopback"] is None
    assert len(found) == len({(row.probe.phase, row.probe.hosts, row.probe.kind) for row in bad_run.rows})


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (Outcome.PASS, None),
        (Outcome.MARGINAL, None),
        (Outcome.SKIPPED, Skipped),
        (Outcome.INCONCLUSIVE, Error),
        (Outcome.ERROR, Error),
        (Outcome.FAIL, Failure),
    ],
)
def test_junit_keeps_outcomes_apart(bad_run: ShownRun, outcome: Outcome, result: object) -> None:
    assert set(cases(with_outcome(bad_run, outcome)).values()) == {result}


def test_junit_survives_what_xml_cannot_hold(bad_run: ShownRun) -> None:
    assert Error in set(cases(hostile(bad_run)).values())


def test_junit_counts_are_those_of_its_cases(bad_run: ShownRun) -> None:
    document = JUnitXml.fromstring(junit_xml(bad_run).encode())
    found = list(cases(bad_run).values())
    assert (document.tests, document.failures, document.skipped) == (
        len(found),
        found.count(Failure),
        found.count(Skipped),
    )


def test_metrics_are_read_back_by_prometheus_own_parser(bad_run: ShownRun) -> None:
    families = {family.name: family for family in text_string_to_metric_families(metrics_text(bad_run))}
    outcome = {s.labels["outcome"]: s.value for s in families["fabric_run_outcome"].samples}
    assert outcome["fail"] == 1.0
    assert sum(outcome.values()) == 1.0
    probes = sum(sample.value for sample in families["fabric_probes"].samples)
    assert probes == len(bad_run.rows)
    least = families["fabric_bandwidth_least_bits_per_second"].samples
    assert {s.value for s in least if s.labels["kind"] == "loopback"} == {
        min(r.verdict.value_gbps or 1e9 for r in bad_run.rows if r.probe.kind == "loopback") * 1e9
    }


def test_hostile_labels_stay_labels(bad_run: ShownRun) -> None:
    families = list(text_string_to_metric_families(metrics_text(hostile(bad_run))))
    sure = next(family for family in families if family.name == "fabric_suspect_confidence_ratio")
    assert any("<script>" in sample.labels["component"] for sample in sure.samples)


def test_changes_are_counted_by_how_they_ended(changed_run: ShownRun) -> None:
    families = {family.name: family for family in text_string_to_metric_families(metrics_text(changed_run))}
    states = {sample.labels["state"]: sample.value for sample in families["fabric_changes"].samples}
    assert states == {"open": 0.0, "reverted": float(len(changed_run.judged.verdict.changes))}


def test_csv_has_the_columns_and_rows_of_the_samples(bad_rack: Path) -> None:
    samples = load(bad_rack).samples
    rows = list(csv.DictReader(io.StringIO("".join(csv_lines(samples)))))
    assert tuple(rows[0]) == tuple(TABLES["samples"].columns)
    assert [float(row["gbps"] or "nan") for row in rows] == pytest.approx(list(samples.gbps), nan_ok=True)


@given(st.text())
def test_no_cell_is_a_formula(text: str) -> None:
    shown = cell(text)
    assert not shown.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert "\n" not in shown


def test_hostile_csv_has_its_columns_and_no_formula() -> None:
    frame = pd.DataFrame({"reason": pd.Categorical([*HOSTILE, None]), "gbps": 1.0})
    rows = list(csv.reader(io.StringIO("".join(csv_lines(frame)))))
    assert {len(row) for row in rows} == {2}
    assert len(rows) == len(HOSTILE) + 2
    assert not any(row[0].startswith(("=", "+", "-", "@")) for row in rows)


def test_summary_says_where_how_sure_and_what_to_do(bad_run: ShownRun) -> None:
    text = summary(bad_run)
    assert text.startswith("# FAIL: self-check on 4 hosts")
    for part in (
        "gpu002/mlx5\\_3 (rnic): FAIL, sure: 9",
        "**the fabric is bad. 1 fault: gpu002 RNIC mlx5\\_3**",
        "**next**: check link width",
        "Simulated",
    ):
        assert part in text


def test_summary_of_changes_lists_expectations(changed_run: ShownRun) -> None:
    assert "| PASS | degraded / healthy at least 0.9" in summary(changed_run)


@given(st.text())
def test_markdown_reads_nothing_into_hostile_text(text: str) -> None:
    shown = plain(text)
    assert "\n" not in shown
    for sign in "<[`*|&":
        assert shown.count(sign) == shown.count(f"\\{sign}")


@pytest.mark.parametrize("name", ["bad_run", "changed_run"])
def test_verdict_fits_its_schema(name: str, request: pytest.FixtureRequest) -> None:
    run: ShownRun = request.getfixturevalue(name)
    jsonschema.Draft202012Validator.check_schema(verdict_schema())
    jsonschema.validate(orjson.loads(orjson.dumps(verdict_document(run.judged))), verdict_schema())


def test_schema_notices_a_missing_key(bad_run: ShownRun) -> None:
    document = orjson.loads(orjson.dumps(verdict_document(bad_run.judged)))
    jsonschema.validate(document, verdict_schema())
    del document["suspects"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, verdict_schema())


def test_schema_knows_every_key_of_the_verdict(changed_run: ShownRun) -> None:
    """The hall is only there where it was measured."""
    assert {*verdict_document(changed_run.judged), "hall"} == set(verdict_schema()["properties"])


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
    assert parsed_text([("f", document)]) == "f: no perftest output found\n"


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
        ("gpu009", "launcher_error"),
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


NAMES = [f"gpu{number:03}" for number in range(1, 9)]
ADDRESSES = {name: f"10.0.0.{number}" for number, name in enumerate(NAMES, start=1)}


class Watched:
    """What was said, by a clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.said: list[str] = []
        self.outs = FoldedOuts(self.said.append, ADDRESSES, clock=lambda: self.now_s)

    def out(self, *names: str, why: str = "does not resolve") -> None:
        """These hosts stop answering, each with its own name and address in the reason."""
        for name in names:
            self.outs.take(name, f"connecting: {ADDRESSES[name]} {why}")


def test_the_first_is_said_at_once_and_the_others_in_one_line() -> None:
    watched = Watched()
    watched.out(*NAMES)
    assert watched.said == ["gpu001 is out of the run: connecting: 10.0.0.1 does not resolve"]
    watched.outs.flush()
    assert watched.said[1:] == ["gpu[002-008] (7) are out of the run for the same reason as gpu001"]


def test_another_reason_is_said_at_once() -> None:
    watched = Watched()
    watched.out("gpu001", "gpu002")
    watched.out("gpu003", why="refuses")
    assert watched.said[-1] == "gpu003 is out of the run: connecting: 10.0.0.3 refuses"
    watched.outs.flush()
    assert watched.said[-1] == "gpu002 is out of the run for the same reason as gpu001"


def test_nobody_is_held_back_for_long() -> None:
    watched = Watched()
    watched.out("gpu001", "gpu002", "gpu003")
    watched.outs.pause()
    assert len(watched.said) == 1
    watched.now_s = HOLD_S
    watched.outs.pause()
    assert watched.said[1:] == ["gpu[002-003] (2) are out of the run for the same reason as gpu001"]
    watched.out("gpu004")  # much later is not together
    assert watched.said[-1].startswith("gpu004 is out of the run: connecting: 10.0.0.4")


def test_who_was_told_is_not_told_again() -> None:
    watched = Watched()
    watched.out("gpu001", "gpu002")
    watched.outs.flush()
    watched.outs.flush()
    assert len(watched.said) == 2


BER = Change("p/ber.l0", "p", "l0", "port", ber("l0", raw="1e-5"))
FOUR = [replace(BER, change_id=f"p/ber.l{number}", component=f"l{number}") for number in range(4)]


def folded() -> tuple[FoldedStates, list[str]]:
    """Of a phase with four links."""
    said: list[str] = []
    states = FoldedStates(said.append)
    states.planned(FOUR)
    return states, said


def test_all_of_one_sort_are_one_line_at_once() -> None:
    states, said = folded()
    for change in FOUR:
        assert said == []
        states.take(change, "is in force")
    assert said == ["p: 4 links (l0, l1, ...): ber raw 1e-5 is in force"]


def test_one_that_went_otherwise_has_its_own_line_and_comes_in_order() -> None:
    states, said = folded()
    states.take(FOUR[0], "is in force")
    states.take(FOUR[1], "is in force")
    states.take(FOUR[2], "FAILED: no answer")
    states.take(FOUR[3], "is in force")
    states.flush()
    assert said == [
        "p: 2 links (l0, l1): ber raw 1e-5 is in force",
        "p: l2: ber raw 1e-5 FAILED: no answer",
        "p: l3: ber raw 1e-5 is in force",
    ]


def test_the_next_phase_says_what_was_held_back() -> None:
    states, said = folded()
    states.take(FOUR[0], "is taken back")
    states.planned(())
    states.planned(())
    assert said == ["p: l0: ber raw 1e-5 is taken back"]


def row(
    component: str, change: Difference = Difference.WORSE, *, kind: str = "loopback", ratio: float = 0.9
) -> Compared:
    return Compared(component, kind, 8, change, 10, ratio)


def test_a_host_that_changed_as_a_whole_is_one_line_with_the_count() -> None:
    """The worst of its rows stands for all."""
    parts = [row(f"gpu002/mlx5_{number}", ratio=0.9 + number / 100) for number in range(8)]
    found = merged([row(WHOLE), *parts, row("gpu002"), row("gpu003")])
    assert [one.component for one in found] == [WHOLE, "gpu002", "gpu003"]
    assert found[1].ratio == 0.9
    assert "worst of 9 rows of 9 components (loopback): gpu002/mlx5_0; all of them: --json" in found[1].note


def test_two_bad_parts_of_one_host_stay_two() -> None:
    """A part with three rows is one line of that part."""
    rows = [row(f"gpu002/{part}", kind=kind) for part in ("mlx5_1", "gpu3") for kind in ("a", "b", "c")]
    assert [one.component for one in merged(rows)] == ["gpu002/mlx5_1", "gpu002/gpu3"]


def test_what_is_the_same_and_what_is_of_several_hosts_is_never_folded() -> None:
    rows = [row(f"gpu002/mlx5_{number}", Difference.SAME) for number in range(8)]
    rows += [row("gpu001/mlx5_0+gpu002/mlx5_0"), row("leaf0--spine1"), row(WHOLE)] * 3
    assert merged(rows) == tuple(sorted(rows, key=rows.index))


def test_worse_and_better_rows_of_one_host_are_two_lines() -> None:
    rows = [
        row("gpu002", change, kind=kind) for change in (Difference.WORSE, Difference.BETTER) for kind in ("a", "b", "c")
    ]
    assert [(one.component, one.change) for one in merged(rows)] == [
        ("gpu002", Difference.WORSE),
        ("gpu002", Difference.BETTER),
    ]
