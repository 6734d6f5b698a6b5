"""Makes phases from what the scenario file says of them, and checks their names and what they need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fabric.config.changes import Fabric, change_specs
from fabric.config.document import Tree
from fabric.config.entries import valid, valid_items
from fabric.config.matrix import suffix
from fabric.config.problems import KeyPath, Problems
from fabric.config.scenario_file import PhaseEntry
from fabric.config.tool_settings import env_problems
from fabric.model.change import ChangeSettings, ChangeSpec
from fabric.model.fields.wording import nearest, quoted
from fabric.model.scenario import Phase, ProbeSpec, Where
from fabric.probes.again import AgainSpec
from fabric.probes.pairwise import PairwiseSpec

NAME_MOST = 128  # of a phase with its combination: it is part of ids and of file names, which end at 255
PHASES_MOST = 2000


@dataclass(frozen=True, slots=True)
class Decoder:
    """Makes the phases of one combination after the other; *fabric* is None when it is itself wrong."""

    fabric: Fabric | None
    problems: Problems

    def phases(self, raw: Tree | None, where: Where) -> tuple[Phase, ...]:
        """The phases as they are written, those that can be read."""
        found = []
        for position, item in enumerate(raw if isinstance(raw, list) else []):
            path: KeyPath = ("phases", position)
            written = item.get("changes") if isinstance(item, dict) else None
            changes = change_specs(written, self.fabric, (*path, "changes"), self.problems)
            entry = valid(PhaseEntry, item)
            if entry is not None:
                found.append(self._phase(entry, changes, path, where))
        return tuple(found)

    def _phase(self, entry: PhaseEntry, changes: tuple[ChangeSpec, ...], path: KeyPath, where: Where) -> Phase:
        _check_probes(entry.probes, (*path, "probes"), self.problems)
        probes = entry.probes
        env_problems(entry.env, (*path, "env"), self.problems)
        env = self._env(entry, changes, path)
        if env and not any(spec.collective or spec.kind == AgainSpec.kind for spec in probes):
            at = (*path, "env") if entry.env else (*path, "changes")
            self.problems.add(at, "no probe of this phase is a collective: its environment would change nothing")
        if entry.localise is not None and not any(isinstance(spec, PairwiseSpec) for spec in probes):
            self.problems.add(
                (*path, "localise"), "it needs a pairwise probe in this phase: further rounds are of pairs"
            )
        if entry.for_ is not None and entry.share is not None:
            self.problems.add((*path, "share"), "a phase has a 'for' or a 'share', not both")
        if entry.stop_host_on is not None and changes:
            text = "what fails while something is altered may be our doing: not in a phase with changes"
            self.problems.add((*path, "stop_host_on"), text)
        if entry.drill and not changes:
            self.problems.add((*path, "drill"), "a drill alters something: it needs 'changes'")
        return Phase(
            name=entry.name,
            probes=probes,
            needs=entry.needs,
            changes=changes,
            env=env,
            where=where,
            localise=entry.localise,
            for_s=None if entry.for_ is None else float(entry.for_),
            share=entry.share,
            stop_host_on=entry.stop_host_on,
            drill=entry.drill,
        )

    def _env(self, entry: PhaseEntry, changes: Iterable[ChangeSpec], path: KeyPath) -> tuple[tuple[str, str], ...]:
        """The variables of the phase: its own, and what changes of the job alone ask its collectives for."""
        env = dict(entry.env)
        settings = self.fabric.inventory.changes if self.fabric else ChangeSettings()
        for change in changes:
            asked = change.env(settings, env)
            for name in asked.keys() & env.keys():
                text = f"{quoted(name)} is set by {change.kind} with scope job: leave out one"
                self.problems.add((*path, "env", name), text)
            env |= asked
        return tuple(env.items())


def _check_probes(probes: tuple[ProbeSpec, ...], path: KeyPath, problems: Problems) -> None:
    """Each probe of a phase has a name of its own within it."""
    seen: set[str] = set()
    for position, spec in enumerate(probes):
        if spec.name in seen:
            text = f"two probes named {quoted(spec.name)} in this phase: give one another 'name'"
            problems.add((*path, position), text)
        seen.add(spec.name)


def written_names(raw: Tree | None) -> list[str]:
    """The names of all phases in the file, right or wrong, in order."""
    written = [item.get("name") for item in raw if isinstance(item, dict)] if isinstance(raw, list) else []
    return [name for name in written if isinstance(name, str)]


def check_names(raw: Tree | None, problems: Problems) -> None:
    """Names are there once; a phase needs phases that come before it."""
    names = written_names(raw)
    seen: set[str] = set()
    drills = {entry.name for _, entry in valid_items(PhaseEntry, raw, ("phases",)) if entry.drill}
    for path, entry in valid_items(PhaseEntry, raw, ("phases",)):
        if entry.name in seen:
            problems.add((*path, "name"), f"phase {quoted(entry.name)} is there twice")
        earlier = names[: names.index(entry.name)]
        for position, need in enumerate(entry.needs):
            _need(need, earlier, names, (*path, "needs", position), problems)
            if need in drills and not entry.drill:
                text = f"{quoted(need)} is a drill, which may be left out: only a drill can need it"
                problems.add((*path, "needs", position), text)
        seen.add(entry.name)


def _need(need: str, earlier: list[str], names: list[str], path: KeyPath, problems: Problems) -> None:
    if need in earlier:
        return
    if need in names:
        problems.add(path, f"phase {quoted(need)} does not come before this one")
    else:
        problems.add(path, f"no phase {quoted(need)}{nearest(need, earlier)}")


def expanded(by_combination: Iterable[tuple[int, tuple[Phase, ...]]], problems: Problems) -> tuple[Phase, ...]:
    """The phases of every round and combination, in the order they run, under names of their own."""
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
                text = (
                    f"phase {quoted(phase.name)} gets a name of more than {NAME_MOST} characters: {quoted(made.name)}"
                )
                problems.add(("matrix",), text)
            if made.name in found:
                text = f"two phases would be called {quoted(made.name)}: only letters, digits, '.', '_' and '-' count"
                problems.add(("matrix",), text)
            found[made.name] = made
    return tuple(found.values())
