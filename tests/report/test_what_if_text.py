"""What-ifs, training, baselines and the pre-flight as text and as documents."""

import json
from dataclasses import asdict, replace

import click
import jsonschema
import orjson
import pytest

from fabric.config.what_if import load_what_if
from fabric.judge.normal.baseline import changes_between
from fabric.judge.training import Observed, training_impact
from fabric.model.finding import Checked, Finding, Severity
from fabric.model.recorded import Key, Recorded
from fabric.model.verdict import Baseline, Limit, TrainingImpact
from fabric.report.check import check_document, check_text
from fabric.report.meaning import impact_line
from fabric.report.page import page
from fabric.report.several_runs import baseline_lines, change_lines, recorded_lines
from fabric.report.shown_run import ShownRun
from fabric.report.verdict_json import verdict_document, verdict_schema
from fabric.report.verdict_text import summary, verdict_text
from fabric.report.what_if import what_if_document, what_if_text
from fabric.sim.what_if import WhatIf, what_if
from tests.places import INVENTORY

POD = INVENTORY / "pod-64.yaml"


def answer(*faults: str, pattern: str = "pairs", routing: str = "ftree,ar") -> WhatIf:
    """Two engines on the pod, hosts in order, one seed."""
    return what_if(load_what_if(pattern, POD, routing=routing, order="sorted", hosts=None, faults=faults, seeds=1))


def test_a_healthy_answer_word_by_word() -> None:
    """What was asked, shares, the busiest links, the model; no column for faults."""
    lines = [line.rstrip() for line in what_if_text(answer()).splitlines()]
    assert lines[:7] == [
        "simulated: pairs on pod-64, 64 hosts (gpu[001-064]), sorted order, 1 seed",
        "  2 levels, 32 leaves of 16 RNICs (400 Gb/s) and 16 uplinks (400 Gb/s), infiniband; "
        "RNICs that take part: 16 a leaf",
        "",
        "simulated share of line rate, per job (32 jobs over all seeds)",
        "routing     mean    median       p5      min      CV",
        "ftree      1.000     1.000    1.000    1.000    0.00",
        "ar         0.950     0.950    0.950    0.950    0.00",
    ]
    assert "  ftree       su0-leaf0->spine00                400 / 400 Gb/s = 1.00" in lines
    assert "  ar          su0-leaf0->spines                 6,400 / 6,080 Gb/s = 1.05" in lines
    assert "  ar: reaches 0.95 of a trunk; a switch on infiniband knows how full the far side is" in lines


def test_faults_show_what_they_do() -> None:
    """The links by name, a bit error rate as capacity and loss, and what each engine kept of its healthy mean."""
    text = what_if_text(answer("su0-leaf3--spine02:slow=0.25", "gpu003/mlx5_2:ber=1.5e-3"))
    assert "  fault su0-leaf3--spine02:slow=0.25\n    su0-leaf3--spine02\n" in text
    assert "  fault gpu003/mlx5_2:ber=1.5e-3 -> 82." in text
    assert "% of the capacity, packet loss 0\n    gpu003/mlx5_2--su0-leaf2\n" in text
    assert "healthy mean    kept" in text


def test_one_direction_is_written_as_one() -> None:
    """A fault of one direction names an arrow; many links are counted, not listed."""
    assert "    su0-leaf3->spine02\n" in what_if_text(answer("su0-leaf3->spine02:slow=0.25"))
    assert " and 8 more\n" in what_if_text(answer("trunk*16:slow=0.25"))


def test_what_gets_nothing_is_counted() -> None:
    """A dead access link stalls its job: the column appears, and the link carries nothing."""
    text = what_if_text(answer("gpu003/mlx5_2:down"))
    assert "got nothing" in text
    assert "400 / 0 Gb/s: carries nothing" in text
    assert "after the routes around them are in place" in text


def test_the_document_is_plain_json() -> None:
    """It can be written, says simulated, and holds what the text says."""
    document = orjson.loads(orjson.dumps(what_if_document(answer("gpu003/mlx5_2:down"))))
    assert document["simulated"] is True
    assert document["per"] == "job"
    assert document["faults"] == [
        {
            "fault": "gpu003/mlx5_2:down",
            "kind": "down",
            "value": None,
            "links": ["gpu003/mlx5_2->su0-leaf2", "su0-leaf2->gpu003/mlx5_2"],
            "capacity_factor": None,
            "loss": None,
        }
    ]
    ftree = document["engines"][0]
    assert ftree["share_of_line_rate"]["stalled"] == 1
    assert ftree["busiest"][0]["ratio"] is None
    assert set(ftree["share_of_line_rate"]) == {"count", "mean", "median", "p5", "min", "cv", "stalled"}


def test_flows_are_called_flows() -> None:
    """Permutations are judged flow by flow, and no job is spoken of."""
    text = what_if_text(answer(pattern="permutation"))
    assert "per flow (512 flows over all seeds)" in text
    assert "job" not in text


HOUR = 3600.0
KNOWN = training_impact(16_384, 2_048, Observed(13, 2000.0))  # the rate of RSC-1: 6.5 in 1,000 host-days
LINE = "a 16,384-GPU job on this fleet: MTTF 1.8 h, expected ETTR 0.70"


@pytest.fixture
def known_run(bad_run: ShownRun) -> ShownRun:
    """A run that measured a failure rate."""
    return replace(bad_run, judged=replace(bad_run.judged, verdict=replace(bad_run.judged.verdict, training=KNOWN)))


def on_console(run: ShownRun) -> str:
    """What a person is shown."""
    return verdict_text(run.judged)


def test_the_line_that_is_shown() -> None:
    assert impact_line(TrainingImpact(1024, 7.9 * HOUR, 0.93)) == (
        "a 1,024-GPU job on this fleet: MTTF 7.9 h, expected ETTR 0.93"
    )


def test_the_papers_rate_gives_the_papers_time() -> None:
    assert impact_line(KNOWN) == f"{LINE}; 13 failures in 2,000.0 host-days: 0.0065 per host-day"


def test_a_bound_says_at_least() -> None:
    line = impact_line(training_impact(1024, 128, Observed(0, 1000.0)))
    assert "MTTF at least 2.6 days" in line
    assert "no failure in 1,000.0 host-days: rate at most 0.003 per host-day (95 %)" in line


def test_a_bound_that_says_nothing_is_left_out() -> None:
    line = impact_line(training_impact(65_536, 8_192, Observed(0, 1.0)))
    assert "ETTR" not in line


def test_without_a_rate_nothing_is_said_but_why() -> None:
    line = impact_line(training_impact(1024, 128, None))
    assert line.startswith("a 1,024-GPU job on this fleet: nothing can be said; no failure rate was measured")


@pytest.mark.slow
def test_every_report_tells_what_was_measured(known_run: ShownRun) -> None:
    assert LINE in page(known_run)
    assert LINE in summary(known_run)
    assert LINE in on_console(known_run)


@pytest.mark.slow
def test_what_was_not_measured_is_no_number(bad_run: ShownRun) -> None:
    training = verdict_document(bad_run.judged)["training"]
    assert training["mttf_s"] is None
    assert training["notes"] == ["no failure rate was measured: mean time to failure and ETTR are not known"]
    assert "nothing can be said; no failure rate was measured" in page(bad_run)
    assert "MTTF" not in on_console(bad_run)


def test_the_verdict_with_it_fits_its_schema(known_run: ShownRun) -> None:
    document = orjson.loads(orjson.dumps(verdict_document(known_run.judged)))
    jsonschema.validate(document, verdict_schema())
    assert (document["format"], document["minor"]) == (1, 4)
    assert document["training"]["failures"] == 13
    document["training"]["gpus"] = "many"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, verdict_schema())


def test_a_verdict_of_the_version_before_still_fits(bad_run: ShownRun) -> None:
    document = orjson.loads(orjson.dumps(verdict_document(bad_run.judged)))
    del document["training"], document["minor"], document["history_bytes"]
    jsonschema.validate(document, verdict_schema())


KEY = Key("loopback", "perftest", "pix", 8 << 20, direction="one_way", line_rate_gbps=400.0)
GOOD, LESS = (
    Recorded(**asdict(KEY), median_gbps=median, mad_gbps=0.5, n=40, cv=0.002, runs=("self-check/1",))
    for median in (397.6, 380.0)
)
PIX = Limit("loopback", 380.0, "a source", "pix", min_size_bytes=1 << 20)


def test_the_unit_belongs_to_the_number_and_the_line_rate_is_called_so() -> None:
    [line] = recorded_lines([GOOD])
    assert line.startswith("loopback pix 8M one_way line rate 400 Gb/s  median 397.6 Gb/s  CV 0.0020")
    assert change_lines(changes_between([GOOD], [LESS])) == [
        "loopback pix 8M one_way line rate 400 Gb/s  397.6 Gb/s  ->  380.0 Gb/s  -4.4%"
    ]
    assert any("at least 380 Gb/s" in line for line in baseline_lines(Baseline("b", "b.yaml", (PIX,))))


HOSTILE = "\x1b[2J\x1b]0;pwned\x07 \u202egnp [red]x[/red] \n next"


def _shown(checked: Checked) -> str:
    return click.unstyle(check_text(checked))


def _checked(*found: Finding, hosts: tuple[str, ...] = ("gpu001", "gpu002")) -> Checked:
    return Checked("s", "i.yaml", "ssh", hosts, found, 2.0)


def test_hostile_text_is_harmless() -> None:
    """No control or direction character, and no markup, reaches the terminal or the document."""
    checked = _checked(Finding("reach", Severity.PROBLEM, ("gpu001",), HOSTILE, HOSTILE, HOSTILE))
    for text in (_shown(checked), json.dumps(check_document(checked), ensure_ascii=False)):
        assert not any(letter in text for letter in "\x1b\x07\u202e")
    assert "[red]x[/red]" in _shown(checked)


def test_hosts_are_folded() -> None:
    """Two thousand of them fit in one cell."""
    hosts = tuple(f"gpu{number:04d}" for number in range(1, 2049))
    text = _shown(_checked(Finding("clock", Severity.WARNING, hosts, "what", "why", "advice"), hosts=hosts))
    assert "gpu[0001-2048] (2,048)" in " ".join(text.split())
    assert "READY" in text


def test_what_is_true_of_this_machine_says_so() -> None:
    """There is no host to name."""
    checked = _checked(Finding("orchestrator", Severity.PROBLEM, (), "what", "why", "advice"))
    assert "this machine" in _shown(checked)
    assert check_document(checked)["findings"][0]["hosts"] is None


def test_very_many_findings_are_cut_and_said_to_be() -> None:
    """The document has them all."""
    found = [Finding("c", Severity.WARNING, ("gpu001",), f"w{number}", "y", "a") for number in range(60)]
    assert "and 10 more" in _shown(_checked(*found))
    assert len(check_document(_checked(*found))["findings"]) == 60
