"""junit.xml: one case for each component and phase, so that a pipeline shows which part failed where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fabric.model.outcome import Outcome
from fabric.model.repair import Decision
from fabric.model.text import fold
from fabric.report.decision import decision_of
from fabric.report.output import visible
from fabric.report.shown_run import Row, ShownRun

if TYPE_CHECKING:
    from junitparser.junitparser import FinalResult

_MOST_REASONS = 10
_DECIDED = {
    Decision.ACCEPT: Outcome.PASS,
    Decision.REJECT: Outcome.FAIL,
    Decision.INCONCLUSIVE: Outcome.INCONCLUSIVE,
}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(slots=True)
class _Case:
    """What is known of one component in one phase."""

    outcome: Outcome | None = None
    took_s: float = 0.0
    reasons: list[str] = field(default_factory=list)


def junit_xml(run: ShownRun) -> str:
    """
    A suite a phase; a case a host and kind of probe (a set of hosts where several measure together).

    FAIL is ``failure`` (the fabric is bad), ERROR and INCONCLUSIVE are ``error`` (we could not tell), SKIPPED is
    ``skipped``. MARGINAL and PASS passed. Expectations, changes and the decision after a repair have suites of their
    own; a suspect is in the text of the cases that it was found by.
    """
    from junitparser import JUnitXml, TestCase, TestSuite

    document = JUnitXml(_clean(run.judged.scenario.name))
    for suite_name, cases in _suites(run):
        suite = TestSuite(_clean(suite_name))
        listed = []
        for name, kind, case in cases:
            made = TestCase(_clean(name), classname=_clean(f"{run.judged.scenario.name}.{suite_name}.{kind}"))
            made.time = round(case.took_s, 3)
            made.result = _result(case)
            listed.append(made)
        suite.add_testcases(listed)  # one by one it counts all again each time
        document.add_testsuite(suite)
    document.update_statistics()  # type: ignore[no-untyped-call]
    text = document.tostring()  # type: ignore[no-untyped-call]
    return text.decode() if isinstance(text, bytes) else str(text)


def _suites(run: ShownRun) -> Iterator[tuple[str, list[tuple[str, str, _Case]]]]:
    phases: dict[str, dict[tuple[str, str], _Case]] = {}
    for row in run.rows:
        cases = phases.setdefault(row.probe.phase, {})
        _take(cases.setdefault((_who(row), row.probe.kind), _Case()), row)
    for phase, cases in phases.items():
        yield phase, [(f"{who} {kind}", kind, case) for (who, kind), case in cases.items()]
    decided = decision_of(run)
    if decided is not None and decided.decision is not None:
        reasons = [f"{decided.line}: {'; '.join(decided.reasons)}"]
        yield "decision", [(decided.line, "acceptance", _Case(_DECIDED[decided.decision], 0.0, reasons))]
    verdict = run.judged.verdict
    if verdict.expectations:
        yield (
            "expected",
            [(one.text, "expect", _Case(one.outcome, 0.0, [one.reason])) for one in verdict.expectations],
        )
    if verdict.changes:
        yield (
            "changes",
            [(one.change.change_id, one.change.kind, _changed(one.state, one.reason)) for one in verdict.changes],
        )


def _who(row: Row) -> str:
    hosts = row.probe.hosts
    return " + ".join(hosts) if len(hosts) <= 2 else fold(hosts)


def _take(case: _Case, row: Row) -> None:
    outcome = row.verdict.outcome
    if case.outcome is None or (outcome is not case.outcome and outcome.rank > case.outcome.rank):
        case.outcome = outcome
    if row.result is not None:
        case.took_s += max(row.result.ended_s - row.result.started_s, 0.0)
    if outcome is not Outcome.PASS:
        case.reasons.append(f"{outcome.name} {row.probe.probe_id}: {row.verdict.reason}")


def _changed(state: str, reason: str) -> _Case:
    """A change that came back as asked passed; one that may still be live is an error of ours."""
    outcome = {"reverted": Outcome.PASS, "refused": Outcome.SKIPPED}.get(state, Outcome.ERROR)
    return _Case(outcome, 0.0, [f"{state}: {reason}"])


def _result(case: _Case) -> list[FinalResult]:
    from junitparser import Error, Failure, Skipped

    outcome = case.outcome
    if outcome is None or outcome in (Outcome.PASS, Outcome.MARGINAL):
        return []
    # A sort by outcome would hide the first reason, which is the one that counts.
    worst = [reason for reason in case.reasons if reason.startswith(outcome.name)] or case.reasons
    kinds = {Outcome.FAIL: Failure, Outcome.SKIPPED: Skipped}
    made = kinds.get(outcome, Error)(_clean(worst[0]) if worst else outcome.name, outcome.name)
    rest = len(case.reasons) - _MOST_REASONS
    lines = case.reasons[:_MOST_REASONS] + ([f"and {rest} more"] if rest > 0 else [])
    made.text = "\n".join(_clean(line) for line in lines)
    return [made]


def _clean(text: str) -> str:
    """Without what XML 1.0 cannot hold, also not as an escape."""
    return _NOT_XML.sub("\ufffd", visible(text))
