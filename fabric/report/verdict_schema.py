"""The JSON Schema of verdict.json, for who reads it in a pipeline; its number is ``VERDICT_FORMAT.VERDICT_MINOR``."""

from __future__ import annotations

from typing import Any

from fabric.model.outcome import Outcome
from fabric.report.verdict_json import VERDICT_FORMAT, VERDICT_MINOR

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_OUTCOME: Schema = {"enum": [outcome.value for outcome in Outcome]}
_NUMBER_OR_NOT: Schema = {"type": ["number", "null"]}
_COUNT_OR_NOT: Schema = {"type": ["integer", "null"], "minimum": 0}
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
                "not_passed": _many(_not_passed()),
            },
            optional=("minor", "training", "history_bytes"),  # what an older version wrote fits, too
        ),
    }


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
        }
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
            "effect": {"oneOf": [{"type": "null"}, _effect()]},
        }
    )


def _effect() -> Schema:
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
