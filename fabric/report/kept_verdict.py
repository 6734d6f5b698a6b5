"""
judged.json: the whole verdict and all results of a large run, kept beside it, so that its reports need not plan, read
and judge 300,000 probes again.

It counts only while nothing that the verdict rests on has changed: the files of the run and the code of this tool are
in a digest inside it. Whatever is wrong with it, the run is judged again.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import orjson

from fabric.model.inventory import Inventory
from fabric.model.outcome import Outcome
from fabric.model.probe import NamedPart, Probe, ProbeResult
from fabric.model.scenario import Scenario
from fabric.model.training import TrainingImpact
from fabric.model.verdict import ComponentVerdict, ExpectationVerdict, ProbeVerdict, Suspect, Verdict
from fabric.probes.kinds import expand_phase
from fabric.report.kept_results import packed, results_document, results_from, unpacked
from fabric.report.shown_run import ShownRun
from fabric.report.training import training_document
from fabric.store import events, run_document, samples
from fabric.store.plain_file import MIB, is_there, plain_stream, read_plain
from fabric.store.results import planned_fields, replanned

FILE = "judged.json"
FEWEST_PROBES = 20_000
"""Smaller runs are judged in less than a second (measured); they are not worth a file more (a choice)."""

MOST_BYTES = 192 * MIB
"""Of judged.json (a choice: of 300,000 probes it takes 20 MB)."""

_FORMAT = 2
_INPUTS = {"run.json": run_document.MOST_BYTES, "events.jsonl": events.MOST_BYTES, "samples.log": samples.MOST_BYTES}
_JUDGING = ("judge", "changes", "config", "model", "plan", "probes", "store")
"""The rooms of the package that a verdict rests on, beside ``_FILES``."""

_FILES = ("app/run.py", "app/analyze.py")


@dataclass(frozen=True, slots=True)
class Kept:
    """What reading and judging a run gave, the probes in planned order; *elapsed_s* is by the run's own clock."""

    verdict: Verdict
    probes: Sequence[Probe]
    results: Mapping[str, ProbeResult]
    elapsed_s: float
    complete: bool
    judged_by: tuple[str, ...]


def kept_text(run: ShownRun, directory: Path) -> bytes | None:
    """
    What to keep of a run; None for a small one, for one that goes on, and for one with changes: those may be taken back
    later.

    Raises OSError when a file of the run cannot be read.
    """
    verdict = run.judged.verdict
    if len(verdict.probes) < FEWEST_PROBES or verdict.changes or run.judged.goes_on:
        return None
    ids = [probe.probe_id for probe in run.probes]
    asked = {probe.probe_id: place for place, probe in enumerate(asked_for(run.judged.scenario, run.inventory))}
    added = [probe for probe in run.probes if probe.probe_id not in asked]
    places = asked | {probe.probe_id: len(asked) + number for number, probe in enumerate(added)}
    document = {
        "format": _FORMAT,
        "inputs": inputs_digest(directory),
        "elapsed_s": run.judged.elapsed_s,
        "complete": run.complete,
        "judged_by": run.judged.judged_by,
        "outcome": verdict.outcome.value,
        "reasons": verdict.reasons,
        "suspects": [asdict(one) for one in verdict.suspects],
        "components": [(one.component, one.outcome.value, one.reason) for one in verdict.components],
        "expectations": [asdict(one) for one in verdict.expectations],
        "training": training_document(verdict.training),
        **_columns(verdict.probes),
        "added": [planned_fields(probe) for probe in added],
        "order": packed(array("I", [places[probe_id] for probe_id in ids])),
        "results": results_document(ids, run.results),
    }
    return orjson.dumps(document)


def asked_for(scenario: Scenario, inventory: Inventory) -> list[Probe]:
    """The probes of a scenario as they are written there: which of them runs when is not decided."""
    return [probe for phase in scenario.phases for probe in expand_phase(phase, inventory.topology, scenario.hosts)]


def read_kept(directory: Path, scenario: Scenario, inventory: Inventory) -> Kept | None:
    """
    What was kept of the run in a directory, where it is there and still counts; None otherwise: it must be judged.
    """
    try:
        document = orjson.loads(read_plain(directory / FILE, MOST_BYTES))
        if document["format"] != _FORMAT or document["inputs"] != inputs_digest(directory):
            return None
        unordered = [
            *asked_for(scenario, inventory),
            *replanned({"event": "replanned", **one} for one in document["added"]),
        ]
        probes = [unordered[place] for place in unpacked("I", document["order"])]
        ids = [probe.probe_id for probe in probes]
        verdict = Verdict(
            outcome=Outcome(document["outcome"]),
            reasons=tuple(document["reasons"]),
            suspects=tuple(suspect_from(entry) for entry in document["suspects"]),
            components=tuple(ComponentVerdict(c, Outcome(o), reason) for c, o, reason in document["components"]),
            probes=_probes(document, ids),
            expectations=tuple(
                ExpectationVerdict(**{**entry, "outcome": Outcome(entry["outcome"])})
                for entry in document["expectations"]
            ),
            training=_training(document["training"]),
        )
        results = results_from(document["results"], ids)
        return Kept(verdict, probes, results, document["elapsed_s"], document["complete"], tuple(document["judged_by"]))
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None  # absent, torn, or not as this version writes it


def inputs_digest(directory: Path) -> str:
    """Of all that a verdict rests on: the run's own files and this tool's code. Raises OSError."""
    found = sha256(_code_digest())
    for name, most in _INPUTS.items():
        path = directory / name
        found.update(name.encode())
        if is_there(path):
            with plain_stream(path, most) as file:
                found.update(file_digest(file, "sha256").digest())
    return found.hexdigest()


@cache
def _code_digest() -> bytes:
    """A version number does not change while somebody works on the code; the code does."""
    package = Path(__file__).resolve().parent.parent
    found = sha256()
    rooms = (path for room in _JUDGING for path in (package / room).rglob("*.py"))
    for path in sorted([*(package / name for name in _FILES), *rooms]):
        found.update(str(path.relative_to(package)).encode())
        found.update(path.read_bytes())
    return found.digest()


def _columns(probes: Sequence[ProbeVerdict]) -> dict[str, Any]:
    """All but the value is the same for nearly all probes: those are a number of a few shapes."""
    shapes: dict[tuple[Any, ...], int] = {}
    numbers, values = [], []
    for one in probes:
        shape = (one.outcome, one.reason, one.limit_gbps, one.named, one.ran, one.expected_gbps, one.against)
        numbers.append(shapes.setdefault(shape, len(shapes)))
        values.append(one.value_gbps)
    ids = sha256("\n".join(one.probe_id for one in probes).encode()).hexdigest()
    return {"shapes": list(shapes), "shape": numbers, "value_gbps": values, "probes": ids}


def _probes(document: Mapping[str, Any], ids: Sequence[str]) -> tuple[ProbeVerdict, ...]:
    if document["probes"] != sha256("\n".join(ids).encode()).hexdigest():
        raise ValueError("other probes")
    shapes = [
        (Outcome(outcome), reason, limit, NamedPart(**named) if named else None, ran, expected, against)
        for outcome, reason, limit, named, ran, expected, against in document["shapes"]
    ]
    found = []
    for probe_id, value, number in zip(ids, document["value_gbps"], document["shape"], strict=True):
        outcome, reason, limit, named, ran, expected, against = shapes[number]
        found.append(ProbeVerdict(probe_id, outcome, reason, value, limit, named, ran, expected, against))
    return tuple(found)


def _training(entry: Mapping[str, Any] | None) -> TrainingImpact | None:
    return None if entry is None else TrainingImpact(**{**entry, "notes": tuple(entry["notes"])})


def suspect_from(entry: Mapping[str, Any]) -> Suspect:
    """A suspect as JSON has it; TypeError, KeyError or ValueError where it is none."""
    found: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
    found["outcome"] = Outcome(entry["outcome"])
    return Suspect(**found)
