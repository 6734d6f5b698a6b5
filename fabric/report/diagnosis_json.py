"""A diagnosis of pair results as plain JSON values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fabric.model.diagnosis import Diagnosis
from fabric.report.verdict_json import EXIT_CODES

DIAGNOSIS_FORMAT = 1

_MARGIN = re.compile(r"\(margin (-?\d+\.\d) nats\)")  # as pairs/findings.py ends the line that says the odds


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
                "margin_nats": _margin_nats(suspect.evidence),
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


def _margin_nats(evidence: Sequence[str]) -> float | None:
    """
    By how many nats a part leads the next explanation; of several planes the most, as its confidence is of the surest.

    None for what is no component of the model: pairs, groups below a limit, failed tests.
    """
    return max((float(said[1]) for line in evidence for said in _MARGIN.finditer(line)), default=None)
