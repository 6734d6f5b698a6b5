"""What a run means for training, in words and in verdict.json."""

from __future__ import annotations

from dataclasses import replace

import jsonschema
import orjson
import pytest

from fabric.judge.training import Observed, training_impact
from fabric.model.verdict import TrainingImpact
from fabric.report.console import verdict_text
from fabric.report.markdown import summary
from fabric.report.meaning import impact_line
from fabric.report.page import page
from fabric.report.shown_run import ShownRun
from fabric.report.verdict_json import verdict_document, verdict_schema

HOUR = 3600.0
KNOWN = training_impact(16_384, Observed(13, 2000.0))  # the rate of RSC-1: 6.5 in 1,000 host-days
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
    line = impact_line(training_impact(1024, Observed(0, 1000.0)))
    assert "MTTF at least 2.6 days" in line
    assert "no failure in 1,000.0 host-days: rate at most 0.003 per host-day (95 %)" in line


def test_a_bound_that_says_nothing_is_left_out() -> None:
    line = impact_line(training_impact(65_536, Observed(0, 1.0)))
    assert "ETTR" not in line


def test_without_a_rate_nothing_is_said_but_why() -> None:
    line = impact_line(training_impact(1024, None))
    assert line.startswith("a 1,024-GPU job on this fleet: nothing can be said; no failure rate was measured")


def test_every_report_tells_what_was_measured(known_run: ShownRun) -> None:
    assert LINE in page(known_run)
    assert LINE in summary(known_run)
    assert LINE in on_console(known_run)


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
