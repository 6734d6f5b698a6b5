"""Decode the expectations of a scenario, and check them against its phases and matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from fabric.config.document import Tree
from fabric.config.problems import KeyPath, Problems, valid_items
from fabric.model import gathered
from fabric.model.fields.entry import Entry
from fabric.model.fields.scalars import SAFE_NAME, AsWritten, Choice, Decimal, Size, Span, Word, refusal
from fabric.model.fields.wording import nearest, one_of, quoted
from fabric.model.probe import GIB
from fabric.model.scenario import (
    LEAST_ROUNDS,
    MEAN,
    STATISTICS,
    Expectation,
    ExpectedEnd,
    ExpectedRatio,
    ExpectedRecovery,
    Name,
    Phase,
    PhaseRef,
    Where,
)
from fabric.model.text import size_text

if TYPE_CHECKING:
    from fabric.config.phases import Matrix

_FORMS = "compare, or phase with statistic, ends or recovers_within"

Values = dict[Name, Annotated[str, AsWritten("a value of the matrix", most=256)]]
Bound = Annotated[float, Decimal(0, 1e6)]
Statistic = Annotated[str, Choice(STATISTICS)]
COMPARED = Word(
    f"{SAFE_NAME.pattern}(?:/{SAFE_NAME.pattern})?",
    "two phases such as degraded/healthy, or one phase (with where and against)",
)

_STATISTIC_TEXT = "Of the members (rings, pairs): cv is sigma / mean, p5 the 5th percentile, slowest/median a ratio."


class Somewhere(Entry):
    """What is expected under some values of the matrix."""

    where: Values = Field({}, max_length=6)
    """Only the phases with these values of the matrix."""


class PhaseEntry(Somewhere):
    """What is expected of one phase."""

    phase: Name
    """Which phase, by the name that is written."""


class BoundedEntry(Entry):
    """What bounds a number, and which measurements it is of."""

    at_least: Bound | None = None
    """It is not below this."""
    at_most: Bound | None = None
    """It is not above this."""
    probe: Name | None = None
    """Only probes of this name."""
    size: Annotated[int, Size(1, 256 * GIB)] | None = None
    """Only messages of this size."""


class CompareEntry(BoundedEntry, Somewhere):
    """The bandwidth of one phase, or another statistic of it, over that of another."""

    compare: Annotated[str, COMPARED]
    """degraded/healthy: the bandwidth of one over the other's."""
    against: Values | None = Field(None, min_length=1, max_length=6)
    """The values of what it is compared with; where's when left out."""
    statistic: Statistic = Field(MEAN, description=_STATISTIC_TEXT)


class StatisticEntry(BoundedEntry, PhaseEntry):
    """A statistic of a phase; p5 and mean are in Gb/s."""

    statistic: Statistic = Field(description=_STATISTIC_TEXT)


class EndsEntry(PhaseEntry):
    """How every probe of a phase ends."""

    ends: Annotated[str, Choice(("completed", "aborted"))]
    """completed, or aborted: given up by the transport (retries exceeded)."""


class RecoversEntry(PhaseEntry):
    """How soon bandwidth is back after each change of a phase."""

    recovers_within: Annotated[float, Span(0.1, 86_400)]
    """The time after each change's end."""
    since: Annotated[str, Choice(("end", "begin"))] = "end"
    """begin: the time after each change's begin."""
    to: Annotated[float, Decimal(0.01, 1)] = 0.95
    """Fraction of the median before the change."""


_ENTRIES: dict[str, type[Entry]] = {
    "compare": CompareEntry,
    "statistic": StatisticEntry,
    "ends": EndsEntry,
    "recovers_within": RecoversEntry,
}
"""Kinds of expectations, by the key that marks them; of several keys the first counts."""


def _one_form(value: object) -> object:
    """Accept a mapping with a key that says what is expected; refuse anything else."""
    if not isinstance(value, dict):
        raise refusal(_FORMS, value)
    if not any(key in value for key in _ENTRIES):
        key = next((key for key in value if key not in ("where", "phase")), None)
        unknown = f"unknown key {quoted(key)}{nearest(key, (*_ENTRIES, 'phase'))}; " if key else ""
        raise PydanticCustomError("expect", f"{unknown}expected {_FORMS}")
    return value


ExpectEntry: Any = Annotated[
    Union[tuple(Annotated[entry, Tag(key)] for key, entry in _ENTRIES.items())],  # noqa: UP007
    Discriminator(lambda value: next(key for key in _ENTRIES if key in value)),
    BeforeValidator(_one_form),
]


@dataclass(frozen=True)
class Expected:
    """
    Reads the expectations of a scenario whose phases are called *names* (also those that are wrong).

    *phases* are those that could be read, of every combination; *matrix* has the values. *rounds* is how often all of
    it is run; None: the file's value is wrong.
    """

    names: Sequence[str]
    phases: Sequence[Phase]
    matrix: Matrix
    rounds: int | None
    problems: Problems

    def all(self, raw: Tree | None) -> tuple[Expectation, ...]:
        """Return every entry that is well formed; check what it refers to."""
        items = valid_items(ExpectEntry, raw if isinstance(raw, list) else [], ("expect",))
        return tuple(self._one(entry, path) for path, entry in items)

    def _one(self, entry: Any, path: KeyPath) -> Expectation:
        if isinstance(entry, CompareEntry):
            return self._bounded(entry, *self._compared(entry, path), path)
        ref = self._ref(entry.phase, entry.where, path)
        if isinstance(entry, StatisticEntry):
            return self._bounded(entry, ref, None, path)
        if isinstance(entry, EndsEntry):
            return ExpectedEnd(ref, entry.ends == "completed")
        return self._recovery(entry, ref, path)

    def _compared(self, entry: CompareEntry, path: KeyPath) -> tuple[PhaseRef, PhaseRef]:
        one, slash, other = entry.compare.partition("/")
        of = self._ref(one, entry.where, path, key="compare")
        against = entry.where if entry.against is None else entry.against
        values = "where" if entry.against is None else "against"
        over = self._ref(other or one, against, path, key="compare", values=values)
        if not slash and entry.against is None:
            text = f"expected two phases such as {one}/..., or 'against': the values of what {one} is compared with"
            self.problems.add((*path, "compare"), text)
        elif of.label == over.label and not _apart(of.where, over.where):
            text = f"{quoted(of.label)} would be compared with itself: give 'where' and 'against' different values"
            self.problems.add((*path, "compare"), text)
        return of, over

    def _bounded(
        self, entry: CompareEntry | StatisticEntry, of: PhaseRef, over: PhaseRef | None, path: KeyPath
    ) -> ExpectedRatio:
        least, most = entry.at_least, entry.at_most
        if least is None and most is None:
            what = "the ratio" if over else entry.statistic
            self.problems.add(path, f"'at_least' or 'at_most' is required here: the bounds of {what}")
        if least is not None and most is not None and least > most:
            self.problems.add((*path, "at_least"), f"at_least {least:g} is above at_most {most:g}")
        expected = ExpectedRatio(of, over, least, most, entry.probe, entry.size, entry.statistic)
        self._measured(expected, path)
        return expected

    def _measured(self, expected: ExpectedRatio, path: KeyPath) -> None:
        """
        Check that the probe and the size are measured in every phase, and that a statistic is of one probe and size.
        """
        for label in dict.fromkeys(ref.label for ref in expected.refs):
            phases = self._phases_by_name.get(label, ())
            probes = [probe for phase in phases for probe in phase.probes]
            names = list(dict.fromkeys(probe.name for probe in probes))
            if names and expected.probe is not None and expected.probe not in names:
                text = f"no probe {quoted(expected.probe)} in phase {quoted(label)}{nearest(expected.probe, names)}"
                self.problems.add((*path, "probe"), text)
                continue
            wanted = [probe for probe in probes if expected.probe in (None, probe.name)]
            sizes = sorted({size for probe in wanted for size in probe.measured_sizes})
            if sizes and expected.size_bytes is not None and expected.size_bytes not in sizes:
                known, got = one_of(map(size_text, sizes)), size_text(expected.size_bytes)
                text = f"expected a size that phase {quoted(label)} measures, {known}; got {got}"
                self.problems.add((*path, "size"), text)
            elif expected.over is None or expected.statistic != MEAN:
                self._alike(expected, label, names, sizes, path)
                few = self.rounds is not None and self.rounds < LEAST_ROUNDS
                if few and not any(phase.for_s or phase.share for phase in phases):
                    text = f"{expected.statistic} needs {LEAST_ROUNDS} rounds of phase {quoted(label)} or more"
                    self.problems.add((*path, "statistic"), f"{text}: write 'rounds: {LEAST_ROUNDS}'")

    def _alike(
        self, expected: ExpectedRatio, label: str, names: Sequence[str], sizes: Sequence[int], path: KeyPath
    ) -> None:
        """Note a statistic over several probes or sizes: their measurements are not comparable."""
        texts = list(map(size_text, sizes))
        for key, given, several in (("probe", expected.probe, names), ("size", expected.size_bytes, texts)):
            if given is None and len(several) > 1:
                text = f"{expected.statistic} is of one {key}, and phase {quoted(label)} has {' and '.join(several)}"
                self.problems.add((*path, "statistic"), f"{text}: choose with '{key}'")

    def _recovery(self, entry: RecoversEntry, ref: PhaseRef, path: KeyPath) -> Expectation:
        phases = self._phases_by_name.get(ref.label, ())
        faults = [change for phase in phases for change in phase.changes if change.is_fault]
        if entry.since == "end" and all(change.lasts_s("") is None for change in faults):
            reason = "ends while it is measured: give it 'for', or use port_flap"
        elif entry.since == "begin" and all(change.when.at_s is None for change in faults):
            reason = "begins while it is measured: give it 'at'"
        else:
            reason = ""
        if phases and reason:
            self.problems.add((*path, "phase"), f"no change of phase {quoted(ref.label)} {reason}")
        return ExpectedRecovery(ref, entry.recovers_within, entry.to, entry.since)

    def _ref(
        self, label: str, where: Mapping[str, str], path: KeyPath, *, key: str = "phase", values: str = "where"
    ) -> PhaseRef:
        """Return the phases that are meant; note an unknown name or value."""
        if label not in self.names:
            self.problems.add((*path, key), f"no phase {quoted(label)}{nearest(label, self.names)}")
        for name, value in where.items():
            here = (*path, values, name)
            texts = self.matrix.values.get(name)
            if texts is None:
                if name not in self.matrix.wrong:
                    known = (*self.matrix.values, *self.matrix.wrong)
                    self.problems.add(here, f"no {quoted(name)} under matrix:{nearest(name, known)}")
            elif value not in texts:
                text = f"expected {one_of(texts)}, a value of {name} under matrix:, got {quoted(value)}"
                self.problems.add(here, text + nearest(value, texts))
        return PhaseRef(label, tuple(where.items()))

    @cached_property
    def _phases_by_name(self) -> dict[str, list[Phase]]:
        return gathered((phase.written, phase) for phase in self.phases)


def _apart(one: Where, other: Where) -> bool:
    """Return whether no combination is in both."""
    values = dict(other)
    return any(name in values and values[name] != value for name, value in one)
