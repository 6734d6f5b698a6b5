"""The certificate of a run: what was tested, how long, against which limits, what was found, and from which files.

It says PASSED, FAILED or INCONCLUSIVE, and never claims more than the run: a rack that was only partly measured has not
passed. For a post-repair validation the decision counts.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from fabric.model import gathered
from fabric.model.outcome import Outcome
from fabric.model.repair import Acceptance
from fabric.model.text import fold
from fabric.model.verdict import LinkCoverage
from fabric.report.decision import OUTCOMES, acceptance_document
from fabric.report.output import jsonable
from fabric.report.shown_run import ShownRun
from fabric.report.templates import page
from fabric.report.verdict_json import hall_document, hall_from, shown_hall
from fabric.runs.manifest import SourceFile, digest

FORMAT = 1
KIND = "fabric-certificate"
JUDGED_WITH = "judged with fabric-testbench"
"""The key, among the versions, of the tool that made the certificate."""

NOT_REAL = "SIMULATED: no real hardware was tested"

PASSED, FAILED, INCONCLUSIVE = "PASSED", "FAILED", "INCONCLUSIVE"

_RESULT = {Outcome.PASS: PASSED, Outcome.MARGINAL: PASSED, Outcome.FAIL: FAILED}

EXIT_CODES = {PASSED: 0, FAILED: 1, INCONCLUSIVE: 3}


def result_of(run: ShownRun, decided: Acceptance | None) -> str:
    """Return PASSED, FAILED or INCONCLUSIVE."""
    if any(change.state == "open" for change in run.judged.verdict.changes):
        return INCONCLUSIVE  # a change may still be live
    if decided is not None:
        return _RESULT.get(OUTCOMES[decided.decision], INCONCLUSIVE)
    found = _RESULT.get(run.judged.verdict.outcome, INCONCLUSIVE)
    return INCONCLUSIVE if found == PASSED and not run.judged.complete else found


def certificate_document(
    run: ShownRun,
    decided: Acceptance | None,
    files: Sequence[SourceFile],
    identity: Sequence[Mapping[str, Any]],
    *,
    judged_with: str,
) -> dict[str, Any]:
    """
    Return the certificate as JSON-able values.

    *files* are the run's sources, *identity* the parts of its hosts if they were read, *judged_with* the version of
    this tool.
    """
    judged = run.judged
    verdict = judged.verdict
    return {
        "kind": KIND,
        "format": FORMAT,
        "result": result_of(run, decided),
        "simulated": run.simulated,
        "run": f"{judged.scenario.name}/{judged.run_id}",
        "began": run.began,
        "duration_s": round(judged.elapsed_s, 3),
        "complete": judged.complete,
        "hosts": list(judged.scenario.hosts),
        "tested": _tested(run),
        "hall": hall_document(verdict.hall),
        "limits": _limits(run),
        "coverage": _coverage(run),
        "reasons": list(verdict.lines),
        "suspects": [
            {**jsonable(one, ("component", "evidence")), "confidence": round(one.confidence, 3)}
            for one in verdict.suspects
        ],
        "components": jsonable(verdict.components),
        "changes": [
            {**jsonable(one.change, ("phase", "kind", "component")), "state": one.state} for one in verdict.changes
        ],
        "decision": None
        if decided is None
        else {**acceptance_document(decided), "decision": _RESULT.get(OUTCOMES[decided.decision], INCONCLUSIVE)},
        "identity": list(identity),
        "backend": judged.backend,
        "versions": {**run.versions, JUDGED_WITH: judged_with},
        "manifest": [asdict(one) for one in files],
        "digest": {"algorithm": "sha256", "over": "lines '<sha256>  <path>' of the manifest", "value": digest(files)},
    }


def encoded(document: Mapping[str, Any]) -> bytes:
    """Return the bytes of certificate.json: the same for the same document, so that they can be signed."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _tested(run: ShownRun) -> list[dict[str, Any]]:
    """Return for each phase and kind how many probes there were, how long they took, and how they ended."""
    groups = gathered(((row.probe.phase, row.probe.kind), row) for row in run.rows)
    return [
        {
            "phase": phase,
            "kind": kind,
            "probes": len(rows),
            "outcomes": dict(Counter(row.verdict.outcome.value for row in rows)),
            "probe_seconds": round(sum(row.took_s for row in rows)),
        }
        for (phase, kind), rows in groups.items()
    ]


def _limits(run: ShownRun) -> list[dict[str, Any]]:
    """Return every limit of the baselines that judged the run, with its source."""
    kinds = {row.probe.kind for row in run.rows}
    return [
        {
            "baseline": name,
            "file": body["source"],
            "limits": [
                {key: value for key, value in limit.items() if value not in (None, False, 0)}
                for limit in body["limits"]
                if limit["kind"] in kinds
            ],
        }
        for name, body in run.past.document.get("baselines", {}).items()
    ]


def _coverage(run: ShownRun) -> dict[str, Any]:
    """Return what was planned and how much of it was measured."""
    counts = Counter(one.outcome.value for one in run.judged.verdict.components)
    measured = [row for row in run.rows if row.result is not None and row.result.outcome is None]
    hosts = {host for row in measured for host in row.probe.hosts}
    without = [host for host in run.judged.scenario.hosts if host not in hosts]
    return {
        "probes_planned": len(run.rows),
        "probes_measured": len(measured),
        "components": dict(counts),
        "hosts_without_a_measurement": fold(without) if without else "",
        "sampled": run.judged.scenario.sample is not None,
        "links": None if run.judged.verdict.links is None else asdict(run.judged.verdict.links),
    }


_MOST_ROWS = 200


def certificate_html(document: Mapping[str, Any]) -> str:
    """
    Return the certificate as one page, with the SHA-256 of the certificate.json that it was made from.

    Raises UndefinedError of jinja2, or LookupError, if something is missing in the document.
    """
    hall, links = document["hall"], document["coverage"].get("links")
    return page(
        "certificate.html.j2",
        it=document,
        not_real=NOT_REAL,
        links=None if links is None else str(LinkCoverage(**links)),
        hall=None if hall is None else shown_hall(hall_from(hall)),
        components=sorted(document["components"], key=lambda one: -Outcome(one["outcome"]).rank),
        parts=[(host["host"], part) for host in document["identity"] for part in host["parts"]],
        most=_MOST_ROWS,
        own=hashlib.sha256(encoded(document)).hexdigest(),
    )
