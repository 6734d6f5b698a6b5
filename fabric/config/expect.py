"""Makes what a scenario expects from what its file says, and checks it against the phases and the matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from fabric.config.document import Tree
from fabric.config.problems import KeyPath, Problems, valid_items
from fabric.model.command import GIB
from fabric.model.fields.entry import Entry
from fabric.model.fields.quantities import Size, Span
from fabric.model.fields.scalars import SAFE_NAME, AsWritten, Choice, Decimal, Word, refusal
from fabric.model.fields.wording import nearest, one_of, quoted
from fabric.model.scenario import (
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
    from fabric.config.matrix import Matrix

ENDS = ("completed", "aborted")
_FORMS = "compare, or phase with ends or with recovers_within"
_KEYS = ("compare", "ends", "recovers_within")

Values = dict[Name, Annotated[str, AsWritten("a value of the matrix", most=256)]]
Ratio = Annotated[float, Decimal(0, 1000)]
COMPARED = Word(
    f"{SAFE_NAME.pattern}(?:/{SAFE_NAME.pattern})?",
    "two phases such as degraded/healthy, or one phase (with where and against)",
)

_WHERE_TEXT = "Only the phases with these values of the matrix."


class CompareEntry(Entry):
    """The bandwidth of one phase over that of another."""

    compare: Annotated[str, COMPARED] = Field(description="degraded/healthy: the bandwidth of one over the other's.")
    where: Values = Field({}, max_length=6, description=_WHERE_TEXT)
    against: Values | None = Field(
        None, min_length=1, max_length=6, description="The values of what it is compared with; where's when left out."
    )
    at_least: Ratio | None = Field(None, description="The ratio is not below this.")
    at_most: Ratio | None = Field(None, description="The ratio is not above this.")
    probe: Name | None = Field(None, description="Only probes of this name.")
    size: Annotated[int, Size(1, 256 * GIB)] | None = Field(None, description="Only messages of this size.")


class EndsEntry(Entry):
    """How every probe of a phase ends."""

    phase: Name = Field(description="Which phase, by the name that is written.")
    where: Values = Field({}, max_length=6, description=_WHERE_TEXT)
    ends: Annotated[str, Choice(ENDS)] = Field(
        description="completed, or aborted: given up by the transport (retries exceeded)."
    )


class RecoversEntry(Entry):
    """How soon bandwidth is back after each change of a phase has ended."""

    phase: Name = Field(description="Which phase, by the name that is written.")
    where: Values = Field({}, max_length=6, description=_WHERE_TEXT)
    recovers_within: Annotated[float, Span(0.1, 86_400)] = Field(description="The time after the end of each change.")
    to: Annotated[float, Decimal(0.01, 1)] = Field(0.95, description="Fraction of the median before the change.")


def _form(value: Any) -> str:
    return next(key for key in _KEYS if key in value)


def _one_form(value: object) -> object:
    """A mapping with the key that says what is expected; anything else is refused."""
    if not isinstance(value, dict):
        raise refusal(_FORMS, value)
    if not any(key in value for key in _KEYS):
        known = (*_KEYS, "phase")
        key = next((key for key in value if key not in ("where", "phase")), None)
        said = f"unknown key {quoted(key)}{nearest(key, known)}; " if key else ""
        raise PydanticCustomError("expect", f"{said}expected {_FORMS}")
    return value


ExpectEntry: Any = Annotated[
    Annotated[CompareEntry, Tag("compare")]
    | Annotated[EndsEntry, Tag("ends")]
    | Annotated[RecoversEntry, Tag("recovers_within")],
    Discriminator(_form),
    BeforeValidator(_one_form),
]


@dataclass(frozen=True)
class Expected:
    """
    Reads expectations of a scenario whose phases are called *names* (also those that are wrong).

    *phases* are those that could be read, of every combination; *matrix* has the values.
    """

    names: Sequence[str]
    phases: Sequence[Phase]
    matrix: Matrix
    problems: Problems

    def all(self, raw: Tree | None) -> tuple[Expectation, ...]:
        """Every entry that is well formed; what it refers to is checked."""
        items = valid_items(ExpectEntry, raw if isinstance(raw, list) else [], ("expect",))
        return tuple(self._one(entry, path) for path, entry in items)

    def _one(self, entry: CompareEntry | EndsEntry | RecoversEntry, path: KeyPath) -> Expectation:
        if isinstance(entry, CompareEntry):
            return self._ratio(entry, path)
        ref = self._ref(entry.phase, entry.where, path)
        if isinstance(entry, EndsEntry):
            return ExpectedEnd(ref, entry.ends == "completed")
        return self._recovery(entry, ref, path)

    def _ratio(self, entry: CompareEntry, path: KeyPath) -> ExpectedRatio:
        one, slash, other = entry.compare.partition("/")
        of = self._ref(one, entry.where, path, key="compare")
        against = entry.where if entry.against is None else entry.against
        over = self._ref(
            other or one, against, path, key="compare", values="where" if against is entry.where else "against"
        )
        if not slash and entry.against is None:
            text = f"expected two phases such as {one}/..., or 'against': the values of what {one} is compared with"
            self.problems.add((*path, "compare"), text)
        elif of.label == over.label and not _apart(of.where, over.where):
            text = f"{quoted(of.label)} would be compared with itself: give 'where' and 'against' different values"
            self.problems.add((*path, "compare"), text)
        self._bounds(entry, path)
        self._measured(entry, (of, over), path)
        return ExpectedRatio(of, over, entry.at_least, entry.at_most, entry.probe, entry.size)

    def _bounds(self, entry: CompareEntry, path: KeyPath) -> None:
        least, most = entry.at_least, entry.at_most
        if least is None and most is None:
            self.problems.add(path, "'at_least' or 'at_most' is required here: the bounds of the ratio")
        if least is not None and most is not None and least > most:
            self.problems.add((*path, "at_least"), f"at_least {least:g} is above at_most {most:g}")

    def _measured(self, entry: CompareEntry, refs: Iterable[PhaseRef], path: KeyPath) -> None:
        """The probe and the size are measured in both phases."""
        for label in dict.fromkeys(ref.label for ref in refs):
            probes = [probe for phase in self._phases_by_name.get(label, ()) for probe in phase.probes]
            names = list(dict.fromkeys(probe.name for probe in probes))
            if names and entry.probe is not None and entry.probe not in names:
                text = f"no probe {quoted(entry.probe)} in phase {quoted(label)}{nearest(entry.probe, names)}"
                self.problems.add((*path, "probe"), text)
                continue
            wanted = [probe for probe in probes if entry.probe in (None, probe.name)]
            sizes = sorted({size for probe in wanted for size in probe.measured_sizes})
            if sizes and entry.size is not None and entry.size not in sizes:
                known = one_of(size_text(size) for size in sizes)
                text = f"expected a size that phase {quoted(label)} measures, {known}; got {size_text(entry.size)}"
                self.problems.add((*path, "size"), text)

    def _recovery(self, entry: RecoversEntry, ref: PhaseRef, path: KeyPath) -> ExpectedRecovery:
        phases = self._phases_by_name.get(ref.label, ())
        if phases and not any(_ends_while_measured(phase) for phase in phases):
            text = f"no change of phase {quoted(ref.label)} ends while it is measured: give it 'for', or use port_flap"
            self.problems.add((*path, "phase"), text)
        return ExpectedRecovery(ref, entry.recovers_within, entry.to)

    def _ref(
        self, label: str, where: Mapping[str, str], path: KeyPath, *, key: str = "phase", values: str = "where"
    ) -> PhaseRef:
        """The phases that are meant; a name or a value that is not there is noted."""
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
        found: dict[str, list[Phase]] = {}
        for phase in self.phases:
            found.setdefault(phase.written, []).append(phase)
        return found


def _apart(one: Where, other: Where) -> bool:
    """Whether no combination is in both."""
    values = dict(other)
    return any(name in values and values[name] != value for name, value in one)


def _ends_while_measured(phase: Phase) -> bool:
    """Whether traffic is measured after some change is over."""
    return any(change.is_fault and change.lasts_s("") is not None for change in phase.changes)
