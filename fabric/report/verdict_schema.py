"""The JSON Schema of verdict.json, for who reads it in a pipeline; its number is ``VERDICT_FORMAT``."""

from __future__ import annotations

from typing import Any

from fabric.model.outcome import Outcome
from fabric.report.verdict_json import VERDICT_FORMAT

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_OUTCOME: Schema = {"enum": [outcome.value for outcome in Outcome]}
_NUMBER_OR_NOT: Schema = {"type": ["number", "null"]}
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
        "title": "verdict.json of the fabric testbench",
        "description": "Keys may be added within a format; none is taken away or changed without a new number.",
        **_record(
            {
                "format": {"const": VERDICT_FORMAT},
                "scenario": _TEXT,
                "run_id": _TEXT,
                "path": {**_TEXT, "description": "the run's directory, as it was called"},
                "backend": _TEXT,
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
                "not_passed": _many(_not_passed()),
            }
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
