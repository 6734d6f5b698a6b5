"""A diagnosis of pair results for people: the verdict, suspects, link classes, a small matrix, what to test next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from fabric.model.diagnosis import Diagnosis, LinkClass, PairMatrix, PairTest
from fabric.model.text import fold
from fabric.model.verdict import Suspect
from fabric.report.output import jsonable, visible
from fabric.report.shown_verdict import shown_suspect
from fabric.report.verdict_json import EXIT_CODES

_LISTED = 12
_LEAST_DRAWN = 3


def diagnosis_text(diagnosis: Diagnosis, notes: Sequence[str] = ()) -> str:
    """All of it; text from files is made harmless."""
    lines = [
        f"{diagnosis.outcome.value.upper()}: {len(diagnosis.hosts)} hosts, {diagnosis.samples:,} results",
        *_limited(list(diagnosis.reasons), "  "),
        *_suspects(diagnosis.suspects),
        *_classes(diagnosis.classes),
        *_matrices(diagnosis.matrices),
        *_next(diagnosis.next_tests),
        *(f"note: {note}" for note in _limited([*notes, *diagnosis.notes], "")),
    ]
    return "\n".join(visible(line) for line in lines) + "\n"


def _limited(lines: list[str], indent: str) -> list[str]:
    more = [f"{indent}... and {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
    return [f"{indent}{line}" for line in lines[:_LISTED]] + more


def _suspects(suspects: Sequence[Suspect]) -> Iterator[str]:
    if not suspects:
        return
    yield ""
    width = min(max(len(suspect.component) for suspect in suspects[:_LISTED]), 40)
    yield f"  {'suspect':<{width}}  kind     confidence"
    for suspect in suspects[:_LISTED]:
        name = f"{suspect.component:<{width}}"
        yield f"  {name}  {suspect.kind:<7}  {suspect.confidence:.2f}  {suspect.outcome.value}"
        if suspect.ambiguous_with:
            yield f"      cannot be told apart from {', '.join(suspect.ambiguous_with)}"
        yield from (f"      {text}" for text in shown_suspect(suspect).evidence)
        yield f"      next: {suspect.next_step}"
    if len(suspects) > _LISTED:
        yield f"  ... and {len(suspects) - _LISTED} more: {fold(sorted({s.component for s in suspects[_LISTED:]}))}"


def _classes(classes: Sequence[LinkClass]) -> Iterator[str]:
    yield ""
    yield "  what good pairs reach        Gb/s   noise  results"
    for found in classes[:_LISTED]:
        name = ", ".join(part for part in (found.name, found.test, found.rail or "") if part)
        yield f"  {name:<26}  {found.gbps:>6,.1f}  {found.noise:>5.1%}  {found.samples:>7,}"
        if found.groups and found.name.startswith("within"):
            yield f"      groups by their results: {'; '.join(fold(group) for group in found.groups[:_LISTED])}"
    if len(classes) > _LISTED:
        yield f"  ... and {len(classes) - _LISTED} more"


def _matrices(matrices: Sequence[PairMatrix]) -> Iterator[str]:
    for matrix in matrices:
        if len(matrix.hosts) < _LEAST_DRAWN:
            continue
        said = ", ".join(part for part in (matrix.test, matrix.rail or "") if part)
        way = "row sends, column receives: a slow row is a sender, a column a receiver, a cell a path"
        yield ""
        yield f"  percent of what good pairs reach{f' ({said})' if said else ''}"
        yield f"  {way}" if matrix.directed else "  a slow row is a host, a cell is a path"
        width = max(map(len, matrix.hosts))
        for host, row in zip(matrix.hosts, matrix.ratios, strict=True):
            yield f"  {host:<{width}} {''.join(_cell(ratio, matrix.least) for ratio in row)}"
        yield f"  {'-':<{width}} is {matrix.least:.0%} or more; . was not measured"


def _cell(ratio: float | None, least: float) -> str:
    if ratio is None:
        return "   ."
    return "   -" if ratio >= least else f"{100 * ratio:>4.0f}"


def _next(tests: Sequence[PairTest]) -> Iterator[str]:
    if not tests:
        return
    yield ""
    yield "  test next (each host once)"
    for test in tests[:_LISTED]:
        via = f" over {test.via}" if test.via else ""
        yield f"    {test.a} with {test.b}{via}: {test.why}"
    if len(tests) > _LISTED:
        yield f"    ... and {len(tests) - _LISTED} more (--json lists them)"


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
