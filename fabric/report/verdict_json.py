"""verdict.json: the verdict for pipelines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import orjson

from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.verdict import ChangeEffect, JudgedRun, Verdict
from fabric.report.hall import hall_document
from fabric.report.meaning import training_document
from fabric.report.plan import change_document
from fabric.report.told_verdict import KEY

VERDICT_FORMAT = 1
"""Another number when a key is taken away or means something else: who reads the old one must look."""

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


def exit_code(verdict: Verdict) -> int:
    """What the verdict means to the shell."""
    if any(result.state == "open" for result in verdict.changes):
        return MAY_BE_LIVE
    return EXIT_CODES[verdict.outcome]


def verdict_document(judged: JudgedRun) -> dict[str, Any]:
    """
    JSON-able; only probes that did not pass are listed, the counts speak of all.

    *expectations* and *changes* came with changes and are empty in a run without; *training* came with minor 1,
    *history_bytes* (how much of the run's history this rests on) with minor 2, *hall* (the scaling curve) with 3. What
    was there before is as it was, so the format is still 1.
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
        **({} if verdict.hall is None else {"hall": hall_document(verdict.hall)}),
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


Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_OUTCOME: Schema = {"enum": [outcome.value for outcome in Outcome]}
_NUMBER_OR_NOT: Schema = {"type": ["number", "null"]}
_COUNT_OR_NOT: Schema = {"type": ["integer", "null"], "minimum": 0}
_TEXT_OR_NOT: Schema = {"type": ["string", "null"]}
_WORDS: Schema = {"type": "array", "items": _TEXT}


def _record(properties: dict[str, Schema], *, optional: tuple[str, ...] = ()) -> Schema:
    """An object with these keys; a reader of an older version meets new ones, so others are allowed."""
    return {"type": "object", "properties": properties, "required": [key for key in properties if key not in optional]}


def _many(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def verdict_schema() -> Schema:
    """Draft 2020-12; says what there always is, in which type, and what the words mean."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:fabric-testbench:verdict:{VERDICT_FORMAT}.{VERDICT_MINOR}",
        "title": "verdict.json of the fabric testbench",
        "description": "Keys may be added within a format; none is taken away or changed without a new number.",
        **_record(
            {
                "format": {"const": VERDICT_FORMAT},
                "minor": {**_COUNT, "description": "grows with every key that is added; absent: 0"},
                "scenario": _TEXT,
                "run_id": _TEXT,
                "path": {**_TEXT, "description": "the run's directory, as it was called"},
                "backend": _TEXT,
                "history_bytes": {**_COUNT, "description": "so much of events.jsonl it rests on; since minor 2"},
                "judged_by": _WORDS,
                "outcome": _OUTCOME,
                "exit_code": {"enum": [0, 1, 3, 4]},
                "probes": _COUNT,
                "counts": {"type": "object", "additionalProperties": _COUNT, "propertyNames": _OUTCOME},
                "reasons": _WORDS,
                "suspects": _many(_suspect()),
                "components": _many(_record({"component": _TEXT, "outcome": _OUTCOME, "reason": _TEXT})),
                "expectations": _many(_expectation()),
                "changes": _many(_change()),
                "training": {"oneOf": [{"type": "null"}, _training()], "description": "null: no GPUs; since minor 1"},
                "hall": {**_hall(), "description": "where a scaling curve was asked for; since minor 3"},
                "not_passed": _many(_not_passed()),
            },
            optional=("minor", "training", "history_bytes", "hall"),  # what an older version wrote fits, too
        ),
    }


_PARTICULARS = ("loss", "worst_gbps", "normal_gbps", "rate", "since_s")
_WORDS_OF_PART = ("direction", "rack", "leaf", "serial", "part_number", "firmware")


def _hall() -> Schema:
    point = {"kind": _TEXT, "hosts": _COUNT, "gpus": _COUNT, "gbps": _NUMBER_OR_NOT, "bound_gbps": _NUMBER_OR_NOT}
    pairs = {"kind": _TEXT, "count": _COUNT, "least_gbps": {"type": "number"}, "median_gbps": {"type": "number"}}
    return _record(
        {
            "points": _many(_record({**point, "limit_gbps": _NUMBER_OR_NOT, "outcome": _OUTCOME, "reason": _TEXT})),
            "pairs": _many(_record({**pairs, "limit_gbps": _NUMBER_OR_NOT})),
            "bound": {**_TEXT, "description": "where bounds come from"},
            "without_limit": {**_TEXT, "description": "what a number without a limit is"},
        }
    )


def _suspect() -> Schema:
    return _record(
        {
            "component": _TEXT,
            "kind": _TEXT,
            "outcome": _OUTCOME,
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "evidence": _WORDS,
            "ambiguous_with": _WORDS,
            "next_step": _TEXT,
            "hosts": _WORDS,
            "probes": {**_WORDS, "description": "ids of the bad probes, the worst first, at most 20"},
            **dict.fromkeys(_PARTICULARS, _NUMBER_OR_NOT),
            **dict.fromkeys(_WORDS_OF_PART, _TEXT_OR_NOT),
        },
        optional=(*_PARTICULARS, *_WORDS_OF_PART),  # since minor 4
    )


def _expectation() -> Schema:
    return _record(
        {
            "text": _TEXT,
            "outcome": _OUTCOME,
            "reason": _TEXT,
            "value": {**_NUMBER_OR_NOT, "description": "a ratio, or seconds"},
            "low": _NUMBER_OR_NOT,
            "high": _NUMBER_OR_NOT,
            "n": _COUNT,
        }
    )


def _change() -> Schema:
    window = {"type": "array", "prefixItems": [{"type": "number"}, _NUMBER_OR_NOT], "items": False}
    return _record(
        {
            "change_id": _TEXT,
            "kind": _TEXT,
            "component": _TEXT,
            "scope": _TEXT,
            "phase": _TEXT,
            "is_fault": {"type": "boolean"},
            "state": {"enum": ["reverted", "refused", "failed", "lost", "open"]},
            "reason": _TEXT,
            "windows": {**_many(window), "description": "from, until in seconds; null: never seen ended"},
            "counters": {"type": "object", "additionalProperties": {"type": "number"}},
            "effect": {"oneOf": [{"type": "null"}, _effect_schema()]},
        }
    )


def _effect_schema() -> Schema:
    return _record(
        {
            "retained": _NUMBER_OR_NOT,
            "reference": _TEXT,
            "samples": _COUNT,
            "given_up": _COUNT,
            "spacing_s": _NUMBER_OR_NOT,
            "detect_s": _NUMBER_OR_NOT,
            "recover_s": _NUMBER_OR_NOT,
            "note": _TEXT,
        }
    )


def _training() -> Schema:
    return _record(
        {
            "gpus": {**_COUNT, "description": "of the job: all GPUs of the run's hosts"},
            "mttf_s": {**_NUMBER_OR_NOT, "description": "mean time to failure; null: no failure rate was measured"},
            "ettr": {**_NUMBER_OR_NOT, "description": "expected effective training time ratio (arXiv 2410.21680)"},
            "bound": {"type": "boolean", "description": "no failure was seen: both are at least as much (95 %)"},
            "step_stretch": _NUMBER_OR_NOT,
            "notes": {**_WORDS, "description": "what it rests on, and why what is null is not known"},
            "failures": _COUNT_OR_NOT,
            "host_days": {**_NUMBER_OR_NOT, "description": "how long hosts were watched, all together"},
            "flaps": {**_COUNT_OR_NOT, "description": "links that went down and no probe died of it"},
        }
    )


def _not_passed() -> Schema:
    return _record(
        {
            "probe_id": _TEXT,
            "outcome": _OUTCOME,
            "reason": _TEXT,
            "value_gbps": _NUMBER_OR_NOT,
            "limit_gbps": _NUMBER_OR_NOT,
        }
    )
