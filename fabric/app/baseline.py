"""What a person can ask of recorded baselines: record, accept, show, check them against the limits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from fabric.app.analyze import concluded
from fabric.config.baselines import Candidate, candidate_text, load_baseline, load_candidate, with_recorded
from fabric.errors import ConfigError, Problem
from fabric.judge.normal.baseline import RecordedNumber, changes_between, record
from fabric.judge.normal.keys import floor_of, key_of
from fabric.judge.normal.kinds import KINDS as CONGESTED
from fabric.judge.normal.series import number_of
from fabric.model import gathered
from fabric.model.fields.wording import nearest, quoted
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.recorded import Key, KeyChange, Recorded, key_words
from fabric.model.topology import Topology
from fabric.model.verdict import Baseline
from fabric.runs.plain_file import storing, write_durably
from fabric.runs.run_directory import run_path
from fabric.runs.run_document import PastRun, read_past_run

CANDIDATE = ".candidate.yaml"
"""The ending of a candidate file's name."""


@dataclass(frozen=True, slots=True)
class RecordedRuns:
    """A candidate, the file it was written to, and the keys that had too few samples to be recorded."""

    candidate: Candidate
    file: Path
    too_few: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class BaselineUpdate:
    """What accepting a candidate would do to a baseline file: *text* is the whole new file."""

    file: Path
    text: str
    changes: tuple[KeyChange, ...]
    kept: int


def record_runs(paths: Sequence[Path], *, name: str | None, out: Path | None) -> RecordedRuns:
    """
    Make a candidate file from runs that passed.

    A path is a run's directory, or a scenario's folder for its newest run. *name* picks one hardware class of several,
    or renames the only one. Raises ConfigError with everything that forbids it: a run that did not PASS, was
    interrupted or had changes in force; two classes in one key.
    """
    runs = [read_past_run(run_path(path)) for path in paths]
    problems = [problem for run in runs for problem in _unfit(run)]
    if len({run.name for run in runs}) < len(runs):
        problems.append(Problem("RUN", 0, "the same run is named twice: its samples would count twice"))
    if len({run.backend for run in runs}) > 1:
        problems.append(Problem("RUN", 0, "the runs were measured through different backends"))
    if problems:
        raise ConfigError(problems)
    classes = sorted({_class_of(run, probe.hosts[0]) for run in runs for probe in run.probes})
    if name not in classes and len(classes) > 1:
        text = f"the runs hold {len(classes)} hardware classes ({', '.join(classes)}): say --as with one of them"
        raise ConfigError.at("--as", text if name is None else f"expected one of {', '.join(classes)}, got {name!r}")
    wanted = name if name in classes else classes[0]
    samples = gathered(sample for run in runs for sample in _samples(run, wanted))
    candidate, too_few = _candidate(name or wanted, runs[0].backend, samples)
    file = out or runs[0].path.resolve().parent / f"{candidate.name}{CANDIDATE}"
    if file.exists():
        raise ConfigError.at(file, "is there already: remove it, or name another with --out")
    with storing(file):
        write_durably(file, candidate_text(candidate).encode())
    load_candidate(file)
    return RecordedRuns(candidate, file, too_few)


def _candidate(name: str, backend: str, samples: dict[Key, list[RecordedNumber]]) -> tuple[Candidate, tuple[Key, ...]]:
    found = {key: record(key, sampled) for key, sampled in samples.items()}
    splits = [Problem(key_words(key), 0, why) for key, why in found.items() if isinstance(why, str)]
    if splits:
        raise ConfigError(splits)
    recorded = tuple(entry for entry in found.values() if isinstance(entry, Recorded))
    too_few = tuple(key for key, entry in found.items() if entry is None)
    if not recorded:
        raise ConfigError.at("RUN", "no key has the 8 samples that a distribution needs")
    return Candidate(name, backend, recorded), too_few


def _unfit(run: PastRun) -> Iterator[Problem]:
    """Yield the reasons why a run is no example of what is normal."""
    if not run.ended:
        yield Problem(str(run.path), 0, "was interrupted: what it did not reach is not known")
        return
    if run.changes:
        yield Problem(
            str(run.path), 0, f"{len(run.changes)} changes were in force: it did not measure the plain fabric"
        )
        return
    outcome = concluded(run).outcome
    if outcome is not Outcome.PASS:
        yield Problem(str(run.path), 0, f"did not pass ({outcome.name}): fabric report {run.path}")


def _class_of(run: PastRun, host: str) -> str:
    return run.scenario.judge.baseline or run.inventory.topology.hosts[host].platform.baseline


def _samples(run: PastRun, wanted: str) -> Iterator[tuple[Key, RecordedNumber]]:
    topology = run.inventory.topology
    for probe in run.probes:
        number = None if probe.kind in CONGESTED else number_of(run.results.get(probe.probe_id))
        if number is not None and _class_of(run, probe.hosts[0]) == wanted:
            value, size_bytes = number
            yield (
                key_of(probe, size_bytes, topology),
                RecordedNumber(value, probe.hosts, _parts(probe, topology), run.name),
            )


def _parts(probe: Probe, topology: Topology) -> tuple[str, ...]:
    """Return the RNICs, endpoint and platform that a sample went through: what tells two hardware classes apart."""
    named = [str(probe.params[end]) for end in ("rnic", "peer_rnic", "endpoint") if end in probe.params]
    platform = topology.hosts[probe.hosts[0]].platform.name
    return (*named, platform)


def prepare_update(path: Path, *, baselines: Path, lower: bool, simulated: bool) -> BaselineUpdate:
    """
    Return what accepting a candidate would write; write nothing yet.

    Keys of the candidate replace those of the file, other keys stay. Raises ConfigError if the candidate is not a
    candidate, if there is no such baseline, if a median would sink by more than what matters (*lower* allows it: a
    baseline that follows a fabric down hides its decay), or for simulated numbers (*simulated* allows them).
    """
    candidate = load_candidate(path)
    file = baselines / f"{candidate.name}.yaml"
    present = load_baseline(file)
    problems = []
    if candidate.backend == "mock" and not simulated:
        text = "its numbers are simulated: real hosts must not be judged by them"
        problems.append(Problem(str(path), 0, f"{text}; --simulated accepts them, to try it out"))
    changes = changes_between(present.recorded, candidate.recorded)
    for change in changes:
        sinks = change.old is not None and change.new is not None and change.ratio < 1 - floor_of(change.key.kind)
        if sinks and not lower:
            text = f"the median would sink by {1 - change.ratio:.1%}: say --lower if it is right"
            problems.append(Problem(str(path), 0, f"{key_words(change.key)}: {text}"))
    if problems:
        raise ConfigError(problems)
    merged = {entry.key: entry for entry in (*present.recorded, *candidate.recorded)}
    text = with_recorded(file.read_text(encoding="utf-8"), merged.values())
    touched = tuple(change for change in changes if change.new is not None)
    return BaselineUpdate(file, text, touched, len(merged) - len(candidate.recorded))


def accept(update: BaselineUpdate) -> None:
    """Write the new baseline file, after reading it as a baseline and checking that its limits are unchanged."""
    file = update.file
    before = load_baseline(file)
    with storing(file), TemporaryDirectory(prefix=f".{file.stem}.", dir=file.parent) as folder:
        trial = Path(folder) / file.name  # a baseline has the name of its file
        trial.write_text(update.text, encoding="utf-8")
        after = load_baseline(trial)
    if after.limits != before.limits:
        raise ConfigError.at(file, "its limits would not stay as they are: is 'recorded:' written oddly?")
    with storing(file):
        write_durably(file, update.text.encode())


def named_baseline(name: str, *, baselines: Path) -> Baseline:
    """
    Return the baseline with this name, or in the file with this path; raise ConfigError that lists the known ones.
    """
    path = Path(name)
    if path.suffix:
        return load_baseline(path)
    file = baselines / f"{name}.yaml"
    if not file.exists():
        known = sorted(other.stem for other in baselines.glob("*.yaml") if not other.name.endswith(CANDIDATE))
        there = f"there are: {', '.join(known)}" if known else "there is none; --baselines names another folder"
        raise ConfigError.at(baselines, f"no baseline {quoted(name)} ({there}){nearest(name, known)}")
    return load_baseline(file)
