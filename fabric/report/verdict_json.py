"""verdict.json: a judged run for programs, its exit code, and the scaling curve of a hall as a table."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import orjson
from pydantic import TypeAdapter

from fabric.model.outcome import Outcome
from fabric.model.verdict import Hall, JudgedRun, Suspect, Verdict
from fabric.report.output import columns, jsonable
from fabric.report.plan import change_document
from fabric.report.templates import text_of
from fabric.runs.stored_verdict import FORMAT, HISTORY_KEY

BOUND = "the most that RNICs' lines and the cables between switches carry, by the inventory, whatever the routing"
"""The explanation of the bound."""

NO_LIMIT = "told, not judged: the baseline has no limit, and nobody publishes one"

_HALL = TypeAdapter(Hall)
_HEAD = ("what", "hosts", "GPUs", "Gb/s", "at most", "share", "limit", "")


def _rows(hall: Hall) -> Iterator[tuple[str, ...]]:
    for point in hall.points:
        share = f"{point.gbps / point.bound_gbps:.0%}" if point.gbps is not None and point.bound_gbps else ""
        numbers = (_number(point.gbps), _number(point.bound_gbps), share, _number(point.limit_gbps))
        word = point.reason or (point.outcome.name if point.limit_gbps is not None else "")
        yield (point.kind, f"{point.hosts:,}", f"{point.gpus:,}", *numbers, word)
    for pairs in hall.pairs:
        words = f"least of {pairs.count:,}, median {pairs.median_gbps:,.1f}"
        yield (pairs.kind, "", "", _number(pairs.least_gbps), "", "", _number(pairs.limit_gbps), words)


class ShownHall(NamedTuple):
    """A hall as a table: its head, its rows, and notes below it."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """Return the table in columns."""
        return [*columns([self.head, *self.rows], right=range(1, len(self.head) - 1)), *self.notes]


def shown_hall(hall: Hall) -> ShownHall:
    """
    Return one row per point, then RNIC to RNIC; the notes say what the numbers are, and which of them judge nothing.
    """
    has_unlimited = any(point.limit_gbps is None and point.gbps is not None for point in hall.points)
    bus = f"Gb/s of bus bandwidth (nccl-tests). At most: {BOUND}"
    notes = (bus, f"No limit: {NO_LIMIT}") if has_unlimited else (bus,)
    return ShownHall(_HEAD, tuple(_rows(hall)), notes)


def hall_document(hall: Hall | None) -> dict[str, Any] | None:
    """Return JSON-able values; None if there is no curve."""
    return None if hall is None else {**jsonable(hall), "bound": BOUND, "without_limit": NO_LIMIT}


def hall_from(document: Mapping[str, Any]) -> Hall:
    """Return the curve that such a document was made from."""
    return _HALL.validate_python(document)


def _number(gbps: float | None) -> str:
    return "" if gbps is None else f"{gbps:,.1f}"


VERDICT_MINOR = 4
"""
Rises by one with every added key, so that a reader can tell which there are.

1 has *training*, 2 *history_bytes*, 3 *hall*, 4 what a suspect lost, where and what it is.
"""

EXIT_CODES = {
    Outcome.PASS: 0,
    Outcome.MARGINAL: 0,
    Outcome.SKIPPED: 3,
    Outcome.INCONCLUSIVE: 3,
    Outcome.ERROR: 3,
    Outcome.FAIL: 1,
}
"""The exit code of a run's outcome: 0 good, 1 the fabric failed, 3 not measured (SKIPPED is not measured)."""


MAY_BE_LIVE = 4
"""The exit code if a change may still be live on the fabric: beats every outcome."""

SUSPECT = tuple(one.name for one in fields(Suspect) if one.name != "course")
"""The fields of a suspect in the document; its evidence says in words what its course is."""

_NOT_PASSED = ("probe_id", "outcome", "reason", "value_gbps", "limit_gbps")
_EXPECTATION = ("text", "outcome", "reason", "value", "low", "high", "n")
_EFFECT = ("retained", "reference", "samples", "given_up", "spacing_s", "detect_s", "recover_s")


def exit_code(verdict: Verdict) -> int:
    """Return the exit code of a verdict."""
    if any(result.state == "open" for result in verdict.changes):
        return MAY_BE_LIVE
    return EXIT_CODES[verdict.outcome]


def verdict_document(judged: JudgedRun) -> dict[str, Any]:
    """
    Return JSON-able values; only probes that did not pass are listed, *counts* covers all. See ``verdict_schema``.
    """
    verdict = judged.verdict
    return {
        "format": FORMAT,
        "minor": VERDICT_MINOR,
        "scenario": judged.scenario.name,
        "run_id": judged.run_id,
        "path": judged.path,
        "backend": judged.backend,
        HISTORY_KEY: judged.history_bytes,
        "judged_by": list(judged.judged_by),
        "outcome": verdict.outcome.value,
        "exit_code": exit_code(verdict),
        "probes": len(verdict.probes),
        "counts": counts(verdict),
        "reasons": list(verdict.lines),
        "suspects": [jsonable(one, SUSPECT) for one in verdict.suspects],
        "components": jsonable(verdict.components),
        "expectations": [jsonable(one, _EXPECTATION) for one in verdict.expectations],
        "changes": list(_changes(verdict)),
        "training": jsonable(verdict.training),
        **({} if verdict.hall is None else {"hall": hall_document(verdict.hall)}),
        "not_passed": [jsonable(one, _NOT_PASSED) for one in verdict.probes if one.outcome is not Outcome.PASS],
    }


def verdict_bytes(judged: JudgedRun) -> bytes:
    """Return the content of verdict.json."""
    return orjson.dumps(verdict_document(judged), option=orjson.OPT_INDENT_2) + b"\n"


def verdict_schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12): which keys always exist, their types, and what the words mean."""
    found: dict[str, Any] = orjson.loads(text_of("verdict.schema.json"))
    return found


def _changes(verdict: Verdict) -> Iterator[dict[str, Any]]:
    effects = {effect.change_id: effect for effect in verdict.effects}
    for result in verdict.changes:
        effect = effects.get(result.change.change_id)
        shown_effect = None
        if effect is not None:
            windows = [[window.detect_s, window.recover_s] for window in effect.windows]
            shown_effect = {**jsonable(effect, _EFFECT), "windows": windows, "note": effect.note}
        yield {
            **change_document(result.change),
            "phase": result.change.phase,
            "state": result.state,
            "reason": result.reason,
            "windows": [[window.began_s, window.ended_s] for window in result.windows],
            "counters": dict(result.counters),
            "effect": shown_effect,
        }


def counts(verdict: Verdict) -> dict[str, int]:
    """Return how many probes ended in each outcome; outcomes that did not occur are left out."""
    tally = Counter(probe.outcome for probe in verdict.probes)
    return {one.value: tally[one] for one in Outcome if tally[one]}
