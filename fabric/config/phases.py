"""Read the matrix of a scenario, and its phases with each ``$name`` replaced by a value: changes, names and needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from inspect import getdoc
from itertools import product
from math import prod
from typing import Annotated, Any

from pydantic import Field

from fabric.changes.cable_fault import CableFault, DrawnLinks
from fabric.changes.kind import Kind
from fabric.changes.kinds import KINDS, UNUSABLE
from fabric.config.document import Tree
from fabric.config.links import Links
from fabric.config.platforms import env_problems
from fabric.config.problems import KeyPath, Problems, duplicates, valid, valid_items
from fabric.model.change import CHANGES, ChangeSettings, ChangeSpec
from fabric.model.fields.scalars import NAME_MOST, SAFE_NAME, AsWritten
from fabric.model.fields.wording import nearest, quoted
from fabric.model.scenario import PROBES, Name, Phase, ProbeSpec, Where
from fabric.probes import kinds as probe_kinds
from fabric.probes.again import AgainSpec
from fabric.probes.pairwise import PairwiseSpec

MatrixValues = Annotated[tuple[Annotated[str, AsWritten("a value", most=256)], ...], Field(min_length=1, max_length=20)]


COMBINATIONS_MOST = 64
_OneName = dict[Name, MatrixValues]

REFERENCE = re.compile(rf"\$({SAFE_NAME.pattern})")
"""Matches a whole value that stands for a value of the matrix."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
FIXED_KEYS = ("name", "needs")
"""Keys of a phase that are the same in every combination."""


@dataclass(slots=True)
class Matrix:
    """
    The matrix of a scenario.

    *values* by name; *wrong*: names whose values could not be read; *used*: names that phases refer to.
    """

    values: Mapping[str, tuple[str, ...]]
    wrong: frozenset[str] = frozenset()
    used: set[str] = field(default_factory=set)

    @property
    def combinations(self) -> tuple[Where, ...]:
        """
        Return every combination in order, the last name changing fastest; without a matrix, one empty combination.
        """
        return tuple(tuple(zip(self.values, each, strict=True)) for each in product(*self.values.values()))

    def filled(self, tree: Tree, where: Where, path: KeyPath, problems: Problems) -> Tree:
        """Return the phases with every ``$name`` replaced; note unknown names."""
        values = dict(where)

        def fill(each: Tree, here: KeyPath) -> Tree:
            if isinstance(each, list):
                return [fill(item, (*here, position)) for position, item in enumerate(each)]
            if isinstance(each, dict):
                return {key: fill(item, (*here, key)) for key, item in each.items()}
            match = REFERENCE.fullmatch(each)
            if match is None:
                return each
            return self._value(match[1], values, here, problems) or each

        return fill(tree, path)

    def _value(self, name: str, values: Mapping[str, str], path: KeyPath, problems: Problems) -> str | None:
        self.used.add(name)
        if len(path) > 2 and path[2] in FIXED_KEYS:
            problems.spoil(path, f"expected a phase's name, which is the same in every combination, got '${name}'")
        elif name in values:
            problems.stands_for(path, f"${name}")
            return values[name]
        elif name in self.wrong:
            problems.silence(path)
        else:
            known = (*self.values, *self.wrong)
            problems.spoil(path, f"no {quoted(name)} under matrix:{nearest(name, known)}")
        return None


def read_matrix(tree: Mapping[str, Tree], problems: Problems) -> Matrix:
    """Return the matrix of a file, without wrong entries; note only the problems that concern it as a whole."""
    raw = tree.get("matrix", {})
    if not isinstance(raw, dict):
        return Matrix({})
    whole = {name: valid(_OneName, {name: values}) for name, values in raw.items()}
    values = {name: entry[name] for name, entry in whole.items() if entry is not None}
    for name, texts in values.items():
        for position, text in duplicates(texts):
            problems.add(("matrix", name, position), f"{quoted(text)} is there twice")
    count = prod(len(texts) for texts in values.values())
    if count > COMBINATIONS_MOST:
        problems.add(("matrix",), f"expected at most {COMBINATIONS_MOST} combinations, got {count}")
        return Matrix({}, frozenset(raw))
    return Matrix(values, frozenset(whole.keys() - values.keys()))


def check_all_used(matrix: Matrix, problems: Problems) -> None:
    """Note the names that no phase refers to."""
    for name in matrix.values:
        if name not in matrix.used:
            problems.add(("matrix", name), f"no phase uses '${name}'")


def suffix(where: Where, round_number: int) -> str:
    """Return what a combination and a round add to a phase's name: ``.adaptive_routing-on.r2``; empty for round 1."""
    parts = [f".{name}-{_UNSAFE.sub('-', value)}" for name, value in where]
    return "".join(parts) + (f".r{round_number}" if round_number > 1 else "")


def rounds(combinations: tuple[Where, ...], count: int, order: str) -> Iterator[tuple[int, Where]]:
    """Yield every round and combination in running order; with ``abba`` every second round runs backwards."""
    for number in range(1, count + 1):
        backwards = order == "abba" and number % 2 == 0
        for where in reversed(combinations) if backwards else combinations:
            yield number, where


def read_phases(raw: Tree | None, where: Where, links: Links | None, problems: Problems) -> tuple[Phase, ...]:
    """Return the phases of a file that can be read; *links* is None if the inventory is wrong."""
    found = []
    for position, item in enumerate(raw if isinstance(raw, list) else []):
        path: KeyPath = ("phases", position)
        written = item.get("changes") if isinstance(item, dict) else None
        changes = tuple(_changes(written, links, (*path, "changes"), problems))
        phase = valid(Phase, item)
        if phase is not None:
            env = _env(phase, changes, links, path, problems)
            found.append(replace(phase, changes=changes, env=env, where=where))
            _check_together(found[-1], path, own_env=bool(phase.env), problems=problems)
    return tuple(found)


def _check_together(phase: Phase, path: KeyPath, *, own_env: bool, problems: Problems) -> None:
    """Note problems between keys that are each right alone."""
    for position, name in duplicates(spec.name for spec in phase.probes):
        text = f"two probes named {quoted(name)} in this phase: give one another 'name'"
        problems.add((*path, "probes", position), text)
    if phase.env and not any(spec.collective or spec.kind == AgainSpec.kind for spec in phase.probes):
        at = (*path, "env") if own_env else (*path, "changes")
        problems.add(at, "no probe of this phase is a collective: its environment would change nothing")
    if phase.localise is not None and not any(isinstance(spec, PairwiseSpec) for spec in phase.probes):
        problems.add((*path, "localise"), "it needs a pairwise probe in this phase: further rounds are of pairs")
    if phase.for_s is not None and phase.share is not None:
        problems.add((*path, "share"), "a phase has a 'for' or a 'share', not both")
    if phase.stop_host_on is not None and phase.changes:
        text = "what fails while something is altered may be our doing: not in a phase with changes"
        problems.add((*path, "stop_host_on"), text)
    if phase.drill and not phase.changes:
        problems.add((*path, "drill"), "a drill alters something: it needs 'changes'")


def _env(
    phase: Phase, changes: Iterable[ChangeSpec], links: Links | None, path: KeyPath, problems: Problems
) -> tuple[tuple[str, str], ...]:
    """Return the variables of the phase: its own, and those that changes with scope job ask for."""
    env = dict(phase.env)
    env_problems(env, (*path, "env"), problems)
    settings = links.context.settings if links else ChangeSettings()
    for change in changes:
        asked = change.env(settings, env)
        for name in asked.keys() & env.keys():
            text = f"{quoted(name)} is set by {change.kind} with scope job: leave out one"
            problems.add((*path, "env", name), text)
        env |= asked
    return tuple(env.items())


_Change: Any = Annotated[ChangeSpec, CHANGES]


def _changes(raw: Tree | None, links: Links | None, path: KeyPath, problems: Problems) -> Iterator[ChangeSpec]:
    """Yield the well-formed changes of one phase; without *links* no link is looked up."""
    seen: set[tuple[str, str]] = set()
    spec: Kind
    for here, spec in valid_items(_Change, raw if isinstance(raw, list) else [], path):
        below = (*here, spec.kind) if CHANGES.stands_below(type(spec)) else here
        if isinstance(spec, CableFault):
            spec = spec.changed(links=_links(spec, links, (*below, "links"), problems))
        for where, text in spec.problems(links.context if links else None):
            problems.add((*below, *where), text)
        scope = getattr(spec, "scope", "")
        if scope and (spec.kind, scope) in seen:
            problems.add((*here, spec.kind), f"{spec.kind} with scope {scope} is in this phase twice")
        seen.add((spec.kind, scope))
        yield spec


def _links(spec: CableFault, links: Links | None, path: KeyPath, problems: Problems) -> tuple[str, ...]:
    """Return the names of links as the model writes them; note what is wrong with any of them."""
    if links is None:
        return ()
    if isinstance(spec.links, DrawnLinks):
        return links.drawn(spec.links, path, problems)
    names: list[str] = []
    for at, text in enumerate(spec.link_names):
        name = links.named(text, (*path, at), problems)
        if name in names:
            problems.add((*path, at), f"link {quoted(text)} is there twice")
        elif name is not None:
            names.append(name)
    return tuple(names)


def written_names(raw: Tree | None) -> list[str]:
    """Return the names of all phases in the file, right or wrong, in order."""
    written = [item.get("name") for item in raw if isinstance(item, dict)] if isinstance(raw, list) else []
    return [name for name in written if isinstance(name, str)]


def check_names(raw: Tree | None, problems: Problems) -> None:
    """Check that each name occurs once, and that a phase needs only phases before it."""
    names = written_names(raw)
    phases = list(valid_items(Phase, raw, ("phases",)))
    for at, name in duplicates(entry.name for _, entry in phases):
        problems.add((*phases[at][0], "name"), f"phase {quoted(name)} is there twice")
    drills = {entry.name for _, entry in phases if entry.drill}
    for path, entry in phases:
        earlier = names[: names.index(entry.name)]
        for position, need in enumerate(entry.needs):
            here = (*path, "needs", position)
            if need not in names:
                problems.add(here, f"no phase {quoted(need)}{nearest(need, earlier)}")
            elif need not in earlier:
                problems.add(here, f"phase {quoted(need)} does not come before this one")
            if need in drills and not entry.drill:
                problems.add(here, f"{quoted(need)} is a drill, which may be left out: only a drill can need it")


def expanded(by_combination: Iterable[tuple[int, tuple[Phase, ...]]], problems: Problems) -> tuple[Phase, ...]:
    """Return the phases of every round and combination, in running order, each with a name of its own."""
    found: dict[str, Phase] = {}
    for number, phases in by_combination:
        for phase in phases:
            ending = suffix(phase.where, number)
            made = replace(
                phase,
                name=phase.name + ending,
                needs=tuple(need + ending for need in phase.needs),
                label=phase.name,
                round=number,
            )
            if len(made.name) > NAME_MOST:
                long = f"a name of more than {NAME_MOST} characters: {quoted(made.name)}"
                problems.add(("matrix",), f"phase {quoted(phase.name)} gets {long}")
            if made.name in found:
                text = f"two phases would be called {quoted(made.name)}: only letters, digits, '.', '_' and '-' count"
                problems.add(("matrix",), text)
            found[made.name] = made
    return tuple(found.values())


def _about(kind: type[ProbeSpec]) -> str:
    return f"{(getdoc(kind) or '').partition(chr(10))[0]} It needs {kind.needs}."


PROBES.fill(probe_kinds.ASKED, probe_kinds.UNUSABLE, what="probe", about=_about)
CHANGES.fill(KINDS, UNUSABLE, what="change", about=lambda kind: str(kind.about))
