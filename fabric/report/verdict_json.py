"""verdict.json: the verdict for pipelines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import orjson

from fabric.model.outcome import Outcome
from fabric.model.verdict import JudgedRun, Verdict
from fabric.report.hall import hall_document
from fabric.report.output import jsonable
from fabric.report.plan import change_document
from fabric.runs.told_verdict import FORMAT, KEY

VERDICT_MINOR = 4
"""One more with every key that is added: 1 has *training*, 2 *history_bytes*, 3 *hall*, 4 what a suspect lost, where
and what it is; a reader can tell by it."""

EXIT_CODES = {
    Outcome.PASS: 0,
    Outcome.MARGINAL: 0,
    Outcome.SKIPPED: 3,
    Outcome.INCONCLUSIVE: 3,
    Outcome.ERROR: 3,
    Outcome.FAIL: 1,
}
"""What a run's outcome means to the shell: 0 good, 1 the fabric failed, 3 not measured (SKIPPED is not measured)."""


MAY_BE_LIVE = 4
"""A change may still be live on the fabric: beats every outcome."""

_NOT_PASSED = ("probe_id", "outcome", "reason", "value_gbps", "limit_gbps")
_EXPECTATION = ("text", "outcome", "reason", "value", "low", "high", "n")
_EFFECT = ("retained", "reference", "samples", "given_up", "spacing_s", "detect_s", "recover_s")


def exit_code(verdict: Verdict) -> int:
    """What the verdict means to the shell."""
    if any(result.state == "open" for result in verdict.changes):
        return MAY_BE_LIVE
    return EXIT_CODES[verdict.outcome]


def verdict_document(judged: JudgedRun) -> dict[str, Any]:
    """JSON-able; only probes that did not pass are listed, the counts speak of all. ``verdict_schema`` explains it."""
    verdict = judged.verdict
    return {
        "format": FORMAT,
        "minor": VERDICT_MINOR,
        "scenario": judged.scenario.name,
        "run_id": judged.run_id,
        "path": judged.path,
        "backend": judged.backend,
        KEY: judged.history_bytes,
        "judged_by": list(judged.judged_by),
        "outcome": verdict.outcome.value,
        "exit_code": exit_code(verdict),
        "probes": len(verdict.probes),
        "counts": counts(verdict),
        **{name: jsonable(getattr(verdict, name)) for name in ("reasons", "suspects", "components")},
        "expectations": [jsonable(one, _EXPECTATION) for one in verdict.expectations],
        "changes": list(_changes(verdict)),
        "training": jsonable(verdict.training),
        **({} if verdict.hall is None else {"hall": hall_document(verdict.hall)}),
        "not_passed": [jsonable(one, _NOT_PASSED) for one in verdict.probes if one.outcome is not Outcome.PASS],
    }


def verdict_bytes(judged: JudgedRun) -> bytes:
    """What is in verdict.json."""
    return orjson.dumps(verdict_document(judged), option=orjson.OPT_INDENT_2) + b"\n"


def verdict_schema() -> dict[str, Any]:
    """Draft 2020-12; says what there always is, in which type, and what the words mean."""
    text = files("fabric.report").joinpath("templates", "verdict.schema.json").read_bytes()
    found: dict[str, Any] = orjson.loads(text)
    return found


def _changes(verdict: Verdict) -> Iterator[dict[str, Any]]:
    effects = {effect.change_id: effect for effect in verdict.effects}
    for result in verdict.changes:
        effect = effects.get(result.change.change_id)
        told = None
        if effect is not None:
            windows = [[window.detect_s, window.recover_s] for window in effect.windows]
            told = {**jsonable(effect, _EFFECT), "windows": windows, "note": effect.note}
        yield {
            **change_document(result.change),
            "phase": result.change.phase,
            "state": result.state,
            "reason": result.reason,
            "windows": [[window.began_s, window.ended_s] for window in result.windows],
            "counters": dict(result.counters),
            "effect": told,
        }


def counts(verdict: Verdict) -> dict[str, int]:
    """How many probes ended in each outcome; outcomes that did not occur are left out."""
    tally = Counter(probe.outcome for probe in verdict.probes)
    return {one.value: tally[one] for one in Outcome if tally[one]}
