"""Baseline files: limits, what good runs recorded, and candidates; and notes on what does not fit the platforms."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field

from fabric.config.document import Tree, read_document
from fabric.config.problems import Problems, report, valid_items
from fabric.errors import ConfigError, Problem
from fabric.model.fields.entry import Entry, InFiles, written_keys
from fabric.model.fields.scalars import SAFE_NAME, Choice
from fabric.model.fields.wording import nearest, quoted, shown
from fabric.model.inventory import BACKENDS, Inventory
from fabric.model.recorded import Recorded
from fabric.model.scenario import LimitKey, Phase, Scenario
from fabric.model.text import fold, size_text
from fabric.model.topology import Platform
from fabric.model.verdict import (
    ONE_LINE,
    RING,
    Baseline,
    Limit,
    bound_by_lines,
    least_gbps,
    most_specific,
    out_of_reach,
)
from fabric.probes.loopback import link_classes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Candidate(InFiles):
    """Recorded distributions that nobody has accepted yet: for which baseline, and from which backend."""

    name: Annotated[str, SAFE_NAME]
    backend: Annotated[str, Choice(BACKENDS)]
    recorded: Annotated[tuple[Recorded, ...], Field(min_length=1, max_length=10_000)]


class BaselineFile(Entry):
    """A whole baseline file; ``fabric baseline accept`` writes *recorded*."""

    name: Annotated[str, SAFE_NAME]
    limits: Annotated[tuple[Limit, ...], Field(min_length=1, max_length=10_000)]
    recorded: Annotated[tuple[Recorded, ...], Field(min_length=1, max_length=10_000)] = ()


def load_baseline(path: Path) -> Baseline:
    """Return the baseline in a file; raise ConfigError with everything that is wrong."""
    if not path.suffix and len(path.parts) == 1 and not path.exists():
        text = f"no such file; a file is expected here, not a name: inventory/baselines/{path}.yaml"
        raise ConfigError.at(shown(str(path)), text)
    file = _loaded(BaselineFile, path, name=path.stem)
    return Baseline(file.name, str(path), file.limits, file.recorded)


def load_candidate(path: Path) -> Candidate:
    """Return the candidate in a file; raise ConfigError with everything that is wrong."""
    return _loaded(Candidate, path)


def _loaded(model: type[T], path: Path, *, name: str | None = None) -> T:
    """Read a file of limits and records, in which each key may occur once; its name must be *name*, if given."""
    problems = Problems(shown(str(path)))
    tree = read_document(path, problems, "a baseline")
    if not tree:
        problems.raise_if_any()
    made = report(model, tree, problems)
    _each_once(Limit, "limits", "the limit", tree, problems)
    _each_once(Recorded, "recorded", "the one recorded", tree, problems)
    written = tree.get("name")
    if name is not None and isinstance(written, str) and written != name:
        problems.add(("name",), f"expected {quoted(name)}, as the file is called, got {quoted(written)}")
    problems.raise_if_any()
    assert made is not None  # otherwise the problems were raised above
    return made


def _each_once(
    model: type[Limit] | type[Recorded], section: str, what: str, tree: dict[str, Tree], problems: Problems
) -> None:
    """Note each well-formed entry of a section whose key an earlier entry has."""
    first: dict[object, int] = {}
    for here, entry in valid_items(model, tree.get(section), (section,)):
        if entry.key in first:
            problems.add(here, f"the same key as {what} on line {first[entry.key]}")
        first.setdefault(entry.key, problems.lines[here])


def load_baselines(names: Iterable[str], inventory: Path) -> dict[str, Baseline]:
    """
    Return the baselines of these names beside the inventory file; raise ConfigError with everything that is wrong.
    """
    found: dict[str, Baseline] = {}
    problems: list[Problem] = []
    for name in sorted(set(names)):
        try:
            found[name] = load_baseline(baseline_path(name, inventory))
        except ConfigError as exc:
            problems.extend(exc.problems)
    if problems:
        raise ConfigError(problems)
    return found


def baseline_path(name: str, inventory: Path) -> Path:
    """Return the path of a baseline: in ``baselines/`` beside the inventory file."""
    return inventory.parent / "baselines" / f"{name}.yaml"


def baseline_problem(name: str, inventory: Path) -> str | None:
    """Return why there is no such baseline, or None if its file exists."""
    path = baseline_path(name, inventory)
    if path.is_file():
        return None
    known = sorted(other.stem for other in path.parent.glob("*.yaml"))
    file = quoted(f"baselines/{name}.yaml")
    return f"no baseline {quoted(name)}: there is no {file} beside the inventory{nearest(name, known)}"


HALF = 0.5
"""A limit on one RNIC at or below this share of its line passes a link that came up at half its speed or width."""


_JUDGES_NOTHING = "it judges nothing there"


def baseline_notes(
    scenario: Scenario | None, inventory: Inventory, baselines: Mapping[str, Baseline]
) -> tuple[str, ...]:
    """
    Return what does not fit between baselines and platforms, one line each; empty if all fits.

    Without a scenario, every platform in use and all its limits are checked. With one, only the limits that judge what
    it asks of its hosts, and also whether each kind has a limit. *baselines* holds every baseline in use, by name.
    """
    found: list[str] = []
    for platform, baseline in _used(scenario, inventory, baselines):
        asked = None if scenario is None else _asked(scenario, platform, scenario.phases)
        texts = [*_beyond_reach(platform, baseline.limits, asked)]
        if scenario is not None:
            texts += _without_limit(platform, baseline.limits, scenario)
        found += (f"platform {platform.name}, baseline {baseline.name}: {text}" for text in texts)
    return tuple(dict.fromkeys(found))


def out_of_reach_line(scenario: Scenario, inventory: Inventory, baselines: Mapping[str, Baseline]) -> str | None:
    """
    Return one line about limits that would judge this scenario but ask more than its hosts' lines carry.

    Such limits judge nothing (``judge.normal.baseline``). None if there is no such limit.
    """
    found = [note for note in baseline_notes(scenario, inventory, baselines) if note.endswith(_JUDGES_NOTHING)]
    if not found:
        return None
    more = f"; and {len(found) - 1} more limits" if len(found) > 1 else ""
    first = found[0].removesuffix(f": {_JUDGES_NOTHING}")
    return (
        "limits that ask for the line rate or more judge nothing: "
        f"{first}{more}; INCONCLUSIVE unless records or peers tell (fabric plan lists them)"
    )


def _asked(scenario: Scenario, platform: Platform, phases: Iterable[Phase]) -> list[LimitKey]:
    """Return the keys that look up the limits for some phases of a scenario on hosts of a platform."""
    specs = (spec for phase in phases for spec in phase.probes)
    return [key for spec in specs for key in spec.limit_keys(platform, hosts=len(scenario.hosts))]


def _used(
    scenario: Scenario | None, inventory: Inventory, baselines: Mapping[str, Baseline]
) -> Iterator[tuple[Platform, Baseline]]:
    """Yield every platform in use, and the baseline by which it is judged."""
    hosts = inventory.topology.hosts
    names = hosts if scenario is None else scenario.hosts
    override = None if scenario is None else scenario.judge.baseline
    for platform in {hosts[name].platform.name: hosts[name].platform for name in names}.values():
        yield platform, baselines[override or platform.baseline]


def _beyond_reach(platform: Platform, limits: Iterable[Limit], asked: Sequence[LimitKey] | None) -> Iterator[str]:
    """
    Yield limits that no healthy host of the platform meets, or that a broken one still meets.

    *asked*: only limits that judge one of these keys; None: all limits.
    """
    classes = link_classes(platform)
    for limit in limits:
        meant = [limit.algorithm or RING] if limit.link_class in (None, *classes) else []
        if asked is not None:
            meant = [str(one.algorithm) for one in asked if most_specific([limit], one)]
        least, rates = least_gbps(limit, platform), [rnic.line_rate_gbps for rnic in platform.rnics]
        lines = [[rate] for rate in rates] if limit.kind in ONE_LINE else [rates]
        reason = next(filter(None, (out_of_reach(least, line) for line in lines)), "")
        if reason and any(bound_by_lines(limit.kind, algorithm) for algorithm in meant):
            yield f"{_what(limit)}: {reason}: {_JUDGES_NOTHING}"
        faster = [rnic for rnic in platform.rnics if meant and least <= HALF * rnic.line_rate_gbps]
        if faster and limit.kind in ("rnic_to_rnic", "pairwise"):
            names, line = fold(rnic.device for rnic in faster), min(rnic.line_rate_gbps for rnic in faster)
            yield f"{_what(limit)}: {least:g} Gb/s pass, half the line rate of {names} ({line:g} Gb/s) or less"


def _what(limit: Limit | LimitKey) -> str:
    return " ".join(part for part in (limit.kind, limit.link_class, limit.algorithm) if part)


def _without_limit(platform: Platform, limits: Sequence[Limit], scenario: Scenario) -> Iterator[str]:
    """Yield what is asked for without a matching limit; a phase that an expectation judges needs none."""
    kinds = {limit.kind for limit in limits}
    expected = {ref.label for one in scenario.expect for ref in one.refs}
    for asked in _asked(scenario, platform, (phase for phase in scenario.phases if phase.written not in expected)):
        if not most_specific(limits, asked):
            yield f"no limit for {_what(asked) if asked.kind in kinds else asked.kind}: will be INCONCLUSIVE"


_HEAD = "recorded:"
_NOTE = "  # What good runs measured; written by `fabric baseline accept`, which replaces this section as a whole."
_TOP_LEVEL = re.compile(r"[^\s#\-\]\}]")


def recorded_section(entries: Iterable[Recorded]) -> str:
    """Return the section as text, one line per key, in an order independent of that of *entries*."""
    lines = sorted(_line(entry) for entry in entries)
    return "\n".join((_HEAD, _NOTE, *lines)) + "\n"


def candidate_text(candidate: Candidate) -> str:
    """Return the text of a whole candidate file."""
    return (
        "# Made by `fabric baseline record`. Nothing is judged by it until a person has read it and says\n"
        "# `fabric baseline accept` with this file.\n"
        f"name: {candidate.name}\nbackend: {candidate.backend}\n{recorded_section(candidate.recorded)}"
    )


def with_recorded(text: str, entries: Iterable[Recorded]) -> str:
    """
    Return the text of a baseline file with its section replaced, or appended if there is none.

    The section is everything from ``recorded:`` to the last line that belongs to it; comments and blank lines after it,
    before the next key, belong to that key.
    """
    lines = text.splitlines(keepends=True)
    section = recorded_section(entries)
    start = next((number for number, line in enumerate(lines) if line.startswith(_HEAD)), None)
    if start is None:
        return f"{text.rstrip()}\n{section}"
    end = next((n for n in range(start + 1, len(lines)) if _TOP_LEVEL.match(lines[n])), len(lines))
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return "".join(lines[:start]) + section + "".join(lines[end:])


_PLACES = {"line_rate_gbps": "g", "median_gbps": ".6g", "mad_gbps": ".4g", "cv": ".4g"}
"""Formats of the numbers with a fraction."""


def _line(entry: Recorded) -> str:
    given = {**asdict(entry), "runs": f"[{', '.join(entry.runs)}]", "trimmed": entry.trimmed or None}
    given["size"] = None if entry.size_bytes is None else size_text(entry.size_bytes)
    known = ((key, given[key]) for key in written_keys(Recorded) if given[key] is not None)
    return f"  - {{{', '.join(f'{key}: {format(value, _PLACES.get(key, str()))}' for key, value in known)}}}"
