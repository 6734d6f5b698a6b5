"""junit.xml: one case for each component and phase, so that a pipeline shows which part failed where."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fabric.model.change import ChangeResult
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


class _Case(NamedTuple):
    """What is known of one component in one phase."""

    name: str
    kind: str
    outcome: Outcome
    reasons: list[str]
    took_s: float = 0.0


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
        for case in cases:
            group = f"{run.judged.scenario.name}.{suite_name}.{case.kind}"
            made = TestCase(_clean(case.name), classname=_clean(group), time=round(case.took_s, 3))
            made.result = _result(case)
            listed.append(made)
        suite.add_testcases(listed)  # one by one it counts all again each time
        document.add_testsuite(suite)
    document.update_statistics()  # type: ignore[no-untyped-call]
    text = document.tostring()  # type: ignore[no-untyped-call]
    return text.decode() if isinstance(text, bytes) else str(text)


def _suites(run: ShownRun) -> Iterator[tuple[str, list[_Case]]]:
    phases: dict[str, dict[tuple[str, str], list[Row]]] = {}
    for row in run.rows:
        phases.setdefault(row.probe.phase, {}).setdefault((_who(row), row.probe.kind), []).append(row)
    for phase, cases in phases.items():
        yield phase, [_measured(f"{who} {kind}", kind, rows) for (who, kind), rows in cases.items()]
    decided, verdict = decision_of(run), run.judged.verdict
    if decided is not None and decided.decision is not None:
        reasons = [f"{decided.line}: {'; '.join(decided.reasons)}"]
        yield "decision", [_Case(decided.line, "acceptance", _DECIDED[decided.decision], reasons)]
    if verdict.expectations:
        yield "expected", [_Case(one.text, "expect", one.outcome, [one.reason]) for one in verdict.expectations]
    if verdict.changes:
        yield "changes", [_changed(one) for one in verdict.changes]


def _who(row: Row) -> str:
    hosts = row.probe.hosts
    return " + ".join(hosts) if len(hosts) <= 2 else fold(hosts)


def _measured(name: str, kind: str, rows: Sequence[Row]) -> _Case:
    took_s = sum(max(row.result.ended_s - row.result.started_s, 0.0) for row in rows if row.result is not None)
    bad = [row for row in rows if row.verdict.outcome is not Outcome.PASS]
    reasons = [f"{row.verdict.outcome.name} {row.probe.probe_id}: {row.verdict.reason}" for row in bad]
    return _Case(name, kind, max((row.verdict.outcome for row in rows), key=lambda one: one.rank), reasons, took_s)


def _changed(one: ChangeResult) -> _Case:
    """A change that came back as asked passed; one that may still be live is an error of ours."""
    outcome = {"reverted": Outcome.PASS, "refused": Outcome.SKIPPED}.get(one.state, Outcome.ERROR)
    return _Case(one.change.change_id, one.change.kind, outcome, [f"{one.state}: {one.reason}"])


def _result(case: _Case) -> list[FinalResult]:
    from junitparser import Error, Failure, Skipped

    outcome = case.outcome
    if outcome in (Outcome.PASS, Outcome.MARGINAL):
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
