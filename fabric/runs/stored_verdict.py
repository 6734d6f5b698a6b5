"""
What verdict.json of a run tells, as long as it speaks of all that was measured; and acceptance.json, what was decided
of repaired hosts.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter

from fabric.errors import StoreError
from fabric.model.outcome import Outcome
from fabric.model.repair import Decided, Decision
from fabric.model.verdict import Suspect
from fabric.runs.events import EVENTS
from fabric.runs.plain_file import MIB, read_plain, storing

VERDICT = "verdict.json"

MOST_VERDICT_BYTES = 192 * MIB
"""Of verdict.json (a choice: of 300,000 probes that all failed it takes 100 MB)."""

KEY = "history_bytes"
"""Its key for how long the history was that it rests on. Times of files would not do: they change with a copy."""


FORMAT = 1
"""Another number when a key is taken away or means something else: who reads the old one must look."""


@dataclass(frozen=True, slots=True)
class StoredProbe:
    """A probe that did not pass: its outcome in one word, the *hosts* of its id, its *share* of a limit it missed."""

    probe_id: str
    outcome: str
    hosts: tuple[str, ...]
    share: float | None

    @property
    def name(self) -> str:
        """Without phase and hosts."""
        return self.probe_id.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """
    A run as its verdict tells it; outcomes in one word, ``pass``.

    *outcome_of*: of each component; *not_passed*: the probes that did not pass. *hosts*: those that it asked for, where
    they were looked up.
    """

    path: Path
    scenario: str
    run_id: str
    backend: str
    outcome: str
    suspects: tuple[Suspect, ...]
    outcome_of: Mapping[str, str]
    not_passed: tuple[StoredProbe, ...]
    hosts: tuple[str, ...] = ()


_SUSPECTS = TypeAdapter(tuple[Suspect, ...])


def stored_verdict(run: Path) -> StoredVerdict | None:
    """
    None where there is none, or one older than what was measured, as after a crash between the two.

    Raises StoreError for one that is not as it is written here; what stands in it is not quoted.
    """
    file = run / VERDICT
    try:
        found = orjson.loads(read_plain(file, MOST_VERDICT_BYTES))
        if not is_of_all(run, found.get(KEY)):
            return None
        if found["format"] != FORMAT:
            raise ValueError(FORMAT)
        scenario, run_id, backend, outcome = (str(found[name]) for name in ("scenario", "run_id", "backend", "outcome"))
        outcome_of = {str(entry["component"]): Outcome(entry["outcome"]).value for entry in found["components"]}
        suspects, not_passed = _SUSPECTS.validate_python(found["suspects"]), tuple(map(_probe, found["not_passed"]))
        return StoredVerdict(run, scenario, run_id, backend, outcome, suspects, outcome_of, not_passed)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StoreError(f"{file}: cannot be read: {exc.strerror}") from exc
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as exc:
        text = f"{file}: not as this version writes it; fabric analyze {run} makes it again"
        raise StoreError(text) from exc


def history_bytes(run: Path) -> int:
    """The size of a run's events.jsonl (bytes), 0 where there is none; StoreError when that cannot be seen."""
    with storing(run / EVENTS, "cannot read"), suppress(FileNotFoundError, NotADirectoryError):
        return (run / EVENTS).lstat().st_size
    return 0


def is_of_all(run: Path, judged_bytes: int | None) -> bool:
    """
    Whether a verdict that rests on so much of the history (bytes) rests on all of it.

    Of a verdict that does not say so (None), and where no history is kept, it is believed.
    """
    now = history_bytes(run)
    return judged_bytes is None or now in (0, judged_bytes)


def is_judged(run: Path) -> bool:
    """Whether verdict.json speaks of all that was measured; what cannot be read does not."""
    try:
        return stored_verdict(run) is not None
    except StoreError:
        return False


def _probe(entry: Mapping[str, Any]) -> StoredProbe:
    """The id of a probe is <phase>/<who>/<name>; who is a host, two joined by +, or words such as 64-hosts."""
    value, limit = entry["value_gbps"], entry["limit_gbps"]
    missed = entry["outcome"] == "fail" and value is not None and limit is not None and value < limit
    hosts = tuple(entry["probe_id"].split("/", 2)[1].split("+"))
    return StoredProbe(entry["probe_id"], entry["outcome"], hosts, value / limit if missed else None)


DECISION = "acceptance.json"
MOST_DECISION_BYTES = 32 * MIB
"""Of acceptance.json (a choice: it takes some KB a repaired host)."""


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """
    What acceptance.json says: of all hosts or links that were repaired, and of *each*.

    *notes* are what does not change it, and whoever puts the host back must know: that nothing was replaced.
    """

    decision: Decision
    reasons: tuple[str, ...]
    each: tuple[Decided, ...] = ()
    notes: tuple[str, ...] = ()


_DECISION = TypeAdapter(StoredDecision)


def stored_decision(directory: Path) -> StoredDecision | None:
    """None where the run has no acceptance.json; StoreError where it cannot be read."""
    try:
        return _DECISION.validate_json(read_plain(directory / DECISION, MOST_DECISION_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        raise StoreError(f"{directory / DECISION}: cannot be read; fabric report {directory} makes it again") from exc


def decision_in(directory: Path) -> Decision | None:
    """What acceptance.json of a run says; None where there is none that can be read."""
    with suppress(StoreError):
        return found.decision if (found := stored_decision(directory)) else None
    return None
