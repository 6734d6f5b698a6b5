"""verdict.json: the verdict for pipelines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import orjson

from fabric.model.change import ChangeResult
from fabric.model.judged_run import JudgedRun
from fabric.model.outcome import Outcome
from fabric.model.verdict import ChangeEffect, Verdict
from fabric.report.plan_changes import change_document
from fabric.report.told_verdict import KEY
from fabric.report.training_text import training_document

VERDICT_FORMAT = 1
"""Another number when a key is taken away or means something else: who reads the old one must look."""

VERDICT_MINOR = 2
"""One more with every key that is added: 1 has *training*, 2 *history_bytes*; a reader can tell what to expect."""

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


def exit_code(verdict: Verdict) -> int:
    """What the verdict means to the shell."""
    if any(result.state == "open" for result in verdict.changes):
        return MAY_BE_LIVE
    return EXIT_CODES[verdict.outcome]


def verdict_document(judged: JudgedRun) -> dict[str, Any]:
    """
    JSON-able; only probes that did not pass are listed, the counts speak of all.

    *expectations* and *changes* came with changes and are empty in a run without; *training* came with minor 1,
    *history_bytes* (how much of the run's history this rests on) with minor 2. What was there before is as it was, so
    the format is still 1.
    """
    verdict = judged.verdict
    return {
        "format": VERDICT_FORMAT,
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
        "reasons": list(verdict.reasons),
        "suspects": [{**asdict(suspect), "outcome": suspect.outcome.value} for suspect in verdict.suspects],
        "components": [
            {"component": c.component, "outcome": c.outcome.value, "reason": c.reason} for c in verdict.components
        ],
        "expectations": [{**asdict(found), "outcome": found.outcome.value} for found in verdict.expectations],
        "changes": _changes(verdict.changes, verdict.effects),
        "training": training_document(verdict.training),
        "not_passed": [
            {
                "probe_id": probe.probe_id,
                "outcome": probe.outcome.value,
                "reason": probe.reason,
                "value_gbps": probe.value_gbps,
                "limit_gbps": probe.limit_gbps,
            }
            for probe in verdict.probes
            if probe.outcome is not Outcome.PASS
        ],
    }


def verdict_bytes(judged: JudgedRun) -> bytes:
    """What is in verdict.json."""
    return orjson.dumps(verdict_document(judged), option=orjson.OPT_INDENT_2) + b"\n"


def _changes(changes: Sequence[ChangeResult], effects: Sequence[ChangeEffect]) -> list[dict[str, Any]]:
    by_id = {effect.change_id: effect for effect in effects}
    found = []
    for result in changes:
        effect = by_id.get(result.change.change_id)
        found.append(
            {
                **change_document(result.change),
                "phase": result.change.phase,
                "state": result.state,
                "reason": result.reason,
                "windows": [[window.began_s, window.ended_s] for window in result.windows],
                "counters": dict(result.counters),
                "effect": None if effect is None else _effect(effect),
            }
        )
    return found


def _effect(effect: ChangeEffect) -> dict[str, Any]:
    return {
        "retained": effect.retained,
        "reference": effect.reference,
        "samples": effect.samples,
        "given_up": effect.given_up,
        "spacing_s": effect.spacing_s,
        "detect_s": effect.detect_s,
        "recover_s": effect.recover_s,
        "windows": [[window.detect_s, window.recover_s] for window in effect.windows],
        "note": effect.note,
    }


def counts(verdict: Verdict) -> dict[str, int]:
    """How many probes ended in each outcome; outcomes that did not occur are left out."""
    tally = Counter(probe.outcome for probe in verdict.probes)
    return {outcome.value: tally[outcome] for outcome in Outcome if tally[outcome]}
