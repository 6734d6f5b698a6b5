"""Reads verdict.json of a run, if it covers all that was measured, and acceptance.json (decisions on repairs)."""

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
"""Limit of verdict.json (a choice: for 300,000 probes that all failed it takes 100 MB)."""

HISTORY_KEY = "history_bytes"
"""Its key for the length of the history that it rests on. File times would not do: they change with a copy."""


FORMAT = 1
"""Increased when a key is removed or changes its meaning, so that readers of the old one must look."""


@dataclass(frozen=True, slots=True)
class StoredProbe:
    """A probe that did not pass: its outcome in one word, the *hosts* of its id, its *share* of a limit it missed."""

    probe_id: str
    outcome: str
    hosts: tuple[str, ...]
    share: float | None

    @property
    def name(self) -> str:
        """The probe's name without phase and hosts."""
        return self.probe_id.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """
    A run as read from its verdict; outcomes in one word, such as ``pass``.

    *outcome_of*: the outcome of each component. *not_passed*: the probes that did not pass. *hosts*: those that it
    asked for, where they were looked up.
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
    Return the stored verdict; None without one, or if it is older than the history, as after a crash between the two.

    Raises StoreError for a file in another format than this version writes; the message does not quote its content.
    """
    file = run / VERDICT
    try:
        found = orjson.loads(read_plain(file, MOST_VERDICT_BYTES))
        if not covers_history(run, found.get(HISTORY_KEY)):
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
    """Return the size of a run's events.jsonl (bytes), 0 without one; StoreError when that cannot be seen."""
    with storing(run / EVENTS, "cannot read"), suppress(FileNotFoundError, NotADirectoryError):
        return (run / EVENTS).lstat().st_size
    return 0


def covers_history(run: Path, judged_bytes: int | None) -> bool:
    """
    Return whether a verdict that rests on *judged_bytes* of the history rests on all of it.

    True for a verdict that does not say so (None), and where no history is kept.
    """
    now = history_bytes(run)
    return judged_bytes is None or now in (0, judged_bytes)


def is_judged(run: Path) -> bool:
    """Return whether verdict.json covers all that was measured; an unreadable one does not."""
    with suppress(StoreError):
        return stored_verdict(run) is not None
    return False


def _probe(entry: Mapping[str, Any]) -> StoredProbe:
    """
    Make a StoredProbe. A probe id is <phase>/<who>/<name>; who is a host, two joined by +, or words such as 64-hosts.
    """
    value, limit = entry["value_gbps"], entry["limit_gbps"]
    missed = entry["outcome"] == "fail" and value is not None and limit is not None and value < limit
    hosts = tuple(entry["probe_id"].split("/", 2)[1].split("+"))
    return StoredProbe(entry["probe_id"], entry["outcome"], hosts, value / limit if missed else None)


DECISION = "acceptance.json"
MOST_DECISION_BYTES = 32 * MIB
"""Limit of acceptance.json (a choice: it takes some KB a repaired host)."""


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """
    The content of acceptance.json: the decision on all repaired hosts or links, and on *each*.

    *notes* do not change the decision, but whoever puts the host back must know them: that nothing was replaced.
    """

    decision: Decision
    reasons: tuple[str, ...]
    each: tuple[Decided, ...] = ()
    notes: tuple[str, ...] = ()


_DECISION = TypeAdapter(StoredDecision)


def stored_decision(directory: Path) -> StoredDecision | None:
    """Return the decision; None where the run has no acceptance.json; StoreError when it cannot be read."""
    try:
        return _DECISION.validate_json(read_plain(directory / DECISION, MOST_DECISION_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        raise StoreError(f"{directory / DECISION}: cannot be read; fabric report {directory} makes it again") from exc


def decision_in(directory: Path) -> Decision | None:
    """Return the decision in a run's acceptance.json; None where there is none that can be read."""
    with suppress(StoreError):
        return found.decision if (found := stored_decision(directory)) else None
    return None
