"""Results of other tools in words: a diagnosis of pairs, and what ``fabric parse`` read in a log."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from pydantic_core import to_jsonable_python

from fabric.model.diagnosis import Diagnosis, PairMatrix
from fabric.model.text import size_text
from fabric.report import templates
from fabric.report.output import TEST_FIELDS, jsonable
from fabric.report.shown_verdict import MARGIN, shown_suspect
from fabric.report.verdict_json import EXIT_CODES
from fabric.tools import nccl, perftest
from fabric.tools.nccl.rows import NcclRow

_LISTED = 12
_LEAST_DRAWN = 3


def diagnosis_text(diagnosis: Diagnosis, notes: Sequence[str] = ()) -> str:
    """Return the whole diagnosis; text from files is made harmless."""
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
    """Yield a line per host: per cent of what good pairs reach, ``-`` for good pairs, ``.`` for pairs not measured."""
    width = max(map(len, matrix.hosts))
    for host, row in zip(matrix.hosts, matrix.ratios, strict=True):
        cells = ["." if one is None else "-" if one >= matrix.least else f"{100 * one:.0f}" for one in row]
        yield f"{host:<{width}} {''.join(f'{cell:>4}' for cell in cells)}"
    yield f"{'-':<{width}} is {matrix.least:.0%} or more; . was not measured"


DIAGNOSIS_FORMAT = 1
_SUSPECT = ("component", "kind", "outcome", "confidence", "evidence", "ambiguous_with", "next_step", "hosts")


def diagnosis_document(diagnosis: Diagnosis, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return JSON-able values; *notes* are those of the readers, bandwidths are Gb/s."""
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
        "next_tests": [jsonable(one, TEST_FIELDS) for one in diagnosis.next_tests],
        "notes": [*notes, *diagnosis.notes],
    }


def _margin_nats(evidence: Sequence[str]) -> float | None:
    """
    Return by how many nats a part leads the next explanation.

    Over several planes the largest lead, because the confidence is also of the surest plane. None for suspects that are
    not components of the model: pairs, groups below a limit, failed tests.
    """
    return max((float(margin[1]) for line in evidence for margin in MARGIN.finditer(line)), default=None)


_SHOWN = ("op", "ranks", "test", "device", "rows", "avg_busbw_gbps", "complete", "problems")
"""The fields of a test in a document; unknown values are null, bandwidth is Gb/s."""


def parsed_document(tool: str, text: str) -> dict[str, Any]:
    """Return the document of one log; *tool* is ``nccl-tests`` or ``perftest``."""
    log = nccl.parse(text) if tool == "nccl-tests" else perftest.parse(text)
    tests: list[dict[str, Any]] = [
        {name: to_jsonable_python(getattr(test, name)) for name in _SHOWN if hasattr(test, name)} for test in log.tests
    ]
    if isinstance(log, nccl.NcclLog):
        for test, read in zip(tests, log.tests, strict=True):
            test["rows"] = [_named(row) for row in read.rows]
    return {"tool": tool, "tests": tests, "failures": [asdict(seen) for seen in log.failures]}


def _named(row: NcclRow) -> dict[str, Any]:
    """Return a row of nccl-tests by field names; a place that was not measured has all names, without values."""
    places = {"out_of_place": row.out_of_place, "in_place": row.in_place}
    nothing = dict.fromkeys(row.in_place._fields)
    return {"size_bytes": row.size_bytes} | {name: one._asdict() if one else nothing for name, one in places.items()}


def parsed_text(documents: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Return a few lines about each named document, for a person to compare with the log."""
    tests = [[(test, _best(test["rows"])) for test in one["tests"]] for _, one in documents]
    return templates.text("parsed.txt.j2", documents=zip(documents, tests, strict=True))


def _best(rows: list[dict[str, Any]]) -> str:
    measured = [(row["size_bytes"], _bandwidth(row)) for row in rows]
    known = [(size, value) for size, value in measured if size is not None and value is not None]
    if not known:
        return ""
    size_bytes, value = max(known)
    return f", at {size_text(size_bytes)} {value:.2f} Gb/s"


def _bandwidth(row: dict[str, Any]) -> float | None:
    value = row["bw_average_gbps"] if "bw_average_gbps" in row else (row["out_of_place"] or {}).get("busbw_gbps")
    return value if isinstance(value, float) else None
