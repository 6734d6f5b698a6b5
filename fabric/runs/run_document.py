"""The documents that a run begins with, and the run as read back from its directory (PastRun).

run.json has everything that the run was asked to do, enough to judge it again, to resume it, or to take changes back.
identity.json lists which parts were in the hosts.
"""

import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from fabric.config.document import near_path
from fabric.config.resolved import from_resolved, resolved_document
from fabric.errors import ConfigError, StoreError
from fabric.model.change import Change
from fabric.model.inventory import Inventory
from fabric.model.outcome import Reason
from fabric.model.probe import Probe, ProbeResult
from fabric.model.repair import HostIdentity
from fabric.model.scenario import Scenario
from fabric.model.verdict import Baseline
from fabric.plan import Plan, plan_scenario
from fabric.runs.events import EVENTS, History, history_of, read_events
from fabric.runs.plain_file import MIB, read_plain, reading, storing, write_durably
from fabric.runs.run_directory import RUN, RUN_FORMAT

_BASELINES, _HOSTS = TypeAdapter(dict[str, Baseline]), TypeAdapter(tuple[HostIdentity, ...])

MOST_BYTES = 64 * MIB
"""Limit of run.json (a choice: for 2,048 hosts it takes 2 MB)."""


def run_document(
    scenario: Scenario,
    inventory: Inventory,
    baselines: Mapping[str, Baseline],
    *,
    backend: str,
    seed: int,
    given: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """
    Return the document that is written when a run begins; RunDirectory adds its format and id.

    *given*: the files and words that it was asked with, and their folder, to read them again; ``yes`` if the command
    line allowed altering the fabric without a question.
    """
    return {
        "argv": [word.encode("utf-8", "backslashreplace").decode() for word in sys.argv],
        "backend": backend,
        "seed": seed,
        "versions": {"fabric-testbench": own_version(), "python": platform.python_version()},
        "baselines": {name: asdict(baseline) for name, baseline in baselines.items()},
        "given": dict(given or {}),
        "asked": resolved_document(scenario, inventory),
    }


def go_on_command(run: Path | str, document: Mapping[str, Any]) -> str:
    """Return the command that resumes a run; with ``--yes`` if the run was begun so, and is not resumed without."""
    yes = (document.get("given") or {}).get("yes") is True
    return f"fabric resume {run}{' --yes' if yes else ''}"


def version_of(distribution: str) -> str | None:
    """Return the version of an installed package; None when it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def own_version() -> str:
    """Return the version of this tool."""
    return version_of("fabric-testbench") or "not installed"


def read_run(path: Path) -> dict[str, Any]:
    """Read the document of a run directory; ConfigError when it is no such directory, or of another format."""
    file = path / RUN
    with reading(file):
        try:
            document = orjson.loads(read_plain(file, MOST_BYTES))
        except (FileNotFoundError, NotADirectoryError) as exc:
            raise ConfigError.at(path, f"not a run directory: {RUN}: {exc.strerror}{near_path(path)}") from exc
        except orjson.JSONDecodeError as exc:
            raise ConfigError.at(file, f"not readable as JSON: {exc}") from exc
    if not isinstance(document, dict) or document.get("format") != RUN_FORMAT:
        run_format = str(document.get("format"))[:40] if isinstance(document, dict) else "none"
        text = (
            f"a run of format {run_format}, where this version reads {RUN_FORMAT}: "
            "read it with the version that wrote it"
        )
        raise ConfigError.at(file, text)
    missing = [key for key in ("run_id", "backend", "baselines", "asked") if key not in document]
    if missing:
        raise ConfigError.at(file, f"lacks {', '.join(missing)}")
    return document


def baselines_from(document: Mapping[str, Any], file: Path) -> dict[str, Baseline]:
    """Return the limits that a run was judged by."""
    try:
        return _BASELINES.validate_python(document["baselines"])
    except ValidationError as exc:
        raise ConfigError.at(file, f"'baselines' is not as this version writes it: {_first(exc)}") from exc


def _first(exc: ValidationError) -> str:
    """Return the first of all problems, on one line."""
    problem = exc.errors(include_url=False)[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"


IDENTITY = "identity.json"
"""Which parts were in the hosts when a run began; a source of the run, never made again."""

IDENTITY_FORMAT = 1
MOST_IDENTITY_BYTES = 128 * MIB
"""Limit of identity.json (a choice: 2,048 hosts of some 30 parts take 12 MB)."""


def write_identity(run: Path, hosts: Iterable[HostIdentity]) -> None:
    """Write identity.json; raises StoreError when the disk fails."""
    body = {"format": IDENTITY_FORMAT, "hosts": [asdict(host) for host in hosts]}
    with storing(run / IDENTITY):
        write_durably(run / IDENTITY, orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n")


def read_identity(run: Path) -> dict[str, HostIdentity] | None:
    """Read identity.json, by host; None if the run did not ask. Raises StoreError for another format."""
    file = run / IDENTITY
    try:
        document = orjson.loads(read_plain(file, MOST_IDENTITY_BYTES))
        if document["format"] != IDENTITY_FORMAT:
            raise StoreError(f"{file}: format {document['format']!r} where {IDENTITY_FORMAT} is known")
        return {host.host: host for host in _HOSTS.validate_python(document["hosts"])}
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StoreError(f"{file}: cannot read: {exc.strerror}") from exc
    except (ValueError, KeyError, TypeError) as exc:
        why = _first(exc) if isinstance(exc, ValidationError) else exc
        raise StoreError(f"{file}: not as this version writes it: {why}") from exc


@dataclass(frozen=True)
class PastRun:
    """A past run: what its *document*, run.json, asks for; its plan; and its history, if that was read."""

    path: Path
    document: Mapping[str, Any]
    scenario: Scenario
    inventory: Inventory
    baselines: Mapping[str, Baseline]
    plan: Plan
    history: History = field(default_factory=History)

    @property
    def name(self) -> str:
        """Scenario and id: ``self-check/20260101-000000``."""
        return f"{self.scenario.name}/{self.document['run_id']}"

    @property
    def backend(self) -> str:
        """How its hosts were reached."""
        return str(self.document["backend"])

    @property
    def results(self) -> Mapping[str, ProbeResult]:
        """The result of every probe that has one, by probe id."""
        return self.history.results

    @cached_property
    def probes(self) -> tuple[Probe, ...]:
        """The probes that were planned beforehand, then those that were planned during the run."""
        return (*self.plan.planned, *self.history.added)

    @property
    def notes(self) -> tuple[Reason, ...]:
        """What was asked and could not be planned."""
        return tuple(note for phase in self.plan.phases for note in phase.notes)

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes that were planned."""
        return tuple(change for phase in self.plan.phases for change in phase.changes)

    @property
    def ended(self) -> bool:
        """False when its history stops before the run did."""
        return any(event["event"] == "run_ended" for event in self.history.others)


def read_past_run(path: Path) -> PastRun:
    """
    Read a run and its history. ConfigError when it is no run directory, StoreError when the history is another run's.
    """
    path = path.parent / path.readlink() if path.is_symlink() else path
    document = read_run(path)
    scenario, inventory = from_resolved(document["asked"])
    history = history_of(read_events(path / EVENTS))
    if history.first is not None and history.first.get("run_id") != document["run_id"]:
        raise StoreError(f"{path / EVENTS}: the history of another run ({history.first.get('run_id')})")
    baselines = baselines_from(document, path / RUN)
    return PastRun(path, document, scenario, inventory, baselines, plan_scenario(scenario, inventory), history)


def refuse_own_record(run: str, baseline: Baseline) -> None:
    """
    Raise ConfigError when a baseline's recorded numbers came from the run it shall judge: no run proves itself.

    *run* is ``scenario/run-id``.
    """
    if any(run in entry.runs for entry in baseline.recorded):
        text = f"its recorded numbers came from {run}, which it would judge: a run cannot be compared with itself"
        raise ConfigError.at(baseline.source, text)
