"""A diagnosis of pair results for people: the verdict, suspects, link classes, a small matrix, what to test next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from fabric.model.diagnosis import Diagnosis, PairMatrix
from fabric.report import templates
from fabric.report.output import jsonable
from fabric.report.shown_verdict import shown_suspect
from fabric.report.verdict_json import EXIT_CODES

_LISTED = 12
_LEAST_DRAWN = 3


def diagnosis_text(diagnosis: Diagnosis, notes: Sequence[str] = ()) -> str:
    """All of it; text from files is made harmless."""
    suspects = [shown_suspect(one) for one in diagnosis.suspects]
    return templates.text(
        "diagnosis.txt.j2",
        it=diagnosis,
        notes=[*notes, *diagnosis.notes],
        suspects=suspects,
        width=min(max([7, *(len(one.component) for one in diagnosis.suspects[:_LISTED])]), 40),
        matrices=[(one, list(_matrix(one))) for one in diagnosis.matrices if len(one.hosts) >= _LEAST_DRAWN],
        most=_LISTED,
    )


def _matrix(matrix: PairMatrix) -> Iterator[str]:
    """A line a host: per cent of what good pairs reach, ``-`` for what is good, ``.`` for what was not measured."""
    width = max(map(len, matrix.hosts))
    for host, row in zip(matrix.hosts, matrix.ratios, strict=True):
        cells = ["." if one is None else "-" if one >= matrix.least else f"{100 * one:.0f}" for one in row]
        yield f"{host:<{width}} {''.join(f'{cell:>4}' for cell in cells)}"
    yield f"{'-':<{width}} is {matrix.least:.0%} or more; . was not measured"


DIAGNOSIS_FORMAT = 1
_SUSPECT = ("component", "kind", "outcome", "confidence", "evidence", "ambiguous_with", "next_step", "hosts")

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
            {**jsonable(suspect, _SUSPECT), "margin_nats": _margin_nats(suspect.evidence)}
            for suspect in diagnosis.suspects
        ],
        "classes": [
            {
                **jsonable(found, ("name", "test", "rail", "samples", "groups")),
                "reference_gbps": round(found.gbps, 3),
                "noise_cv": round(found.noise, 5),
            }
            for found in diagnosis.classes
        ],
        "next_tests": jsonable(diagnosis.next_tests),
        "notes": [*notes, *diagnosis.notes],
    }


def _margin_nats(evidence: Sequence[str]) -> float | None:
    """
    By how many nats a part leads the next explanation; of several planes the most, as its confidence is of the surest.

    None for what is no component of the model: pairs, groups below a limit, failed tests.
    """
    return max((float(said[1]) for line in evidence for said in _MARGIN.finditer(line)), default=None)
