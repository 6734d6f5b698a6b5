"""A diagnosis of pair results as plain JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fabric.model.diagnosis import Diagnosis
from fabric.report.verdict_json import EXIT_CODES

DIAGNOSIS_FORMAT = 1


def diagnosis_document(diagnosis: Diagnosis, notes: Sequence[str] = ()) -> dict[str, Any]:
    """*notes* are the readers' own; bandwidths are Gb/s."""
    return {
        "format": DIAGNOSIS_FORMAT,
        "outcome": diagnosis.outcome.value,
        "exit_code": EXIT_CODES[diagnosis.outcome],
        "reasons": list(diagnosis.reasons),
        "hosts": len(diagnosis.hosts),
        "host_names": list(diagnosis.hosts),
        "samples": diagnosis.samples,
        "suspects": [
            {
                "component": suspect.component,
                "kind": suspect.kind,
                "outcome": suspect.outcome.value,
                "confidence": suspect.confidence,
                "evidence": list(suspect.evidence),
                "ambiguous_with": list(suspect.ambiguous_with),
                "next_step": suspect.next_step,
                "hosts": list(suspect.hosts),
            }
            for suspect in diagnosis.suspects
        ],
        "classes": [
            {
                "name": found.name,
                "test": found.test,
                "rail": found.rail,
                "reference_gbps": round(found.gbps, 3),
                "noise_cv": round(found.noise, 5),
                "samples": found.samples,
                "groups": [list(group) for group in found.groups],
            }
            for found in diagnosis.classes
        ],
        "next_tests": [{"a": test.a, "b": test.b, "via": test.via, "why": test.why} for test in diagnosis.next_tests],
        "notes": [*notes, *diagnosis.notes],
    }
