"""A decoded scenario as plain rows and back: what asks for a probe, a change or an expectation is named by its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Literal, TypeVar, Union

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from fabric.config.changes import ChangeEntry
from fabric.config.probe_file import ProbeEntry
from fabric.model.scenario import Expectation, ExpectedEnd, ExpectedRatio, ExpectedRecovery, Phase, Scenario

_Kind = TypeVar("_Kind")


class _Named:
    """Metadata: a row names the kind of what follows, ``["ber", {...}]``."""

    def __init__(self, kinds: Mapping[str, Any]) -> None:
        self._kinds = kinds
        self._names = {kind: name for name, kind in kinds.items()}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        rows: Any = Union[tuple(tuple[Literal[name], kind] for name, kind in self._kinds.items())]  # type: ignore[valid-type]  # noqa: UP007
        return core_schema.no_info_after_validator_function(
            lambda row: row[1],
            handler.generate_schema(rows),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda one: (self._names[type(one)], asdict(one))
            ),
        )


_EXPECTED = {"ratio": ExpectedRatio, "end": ExpectedEnd, "recovery": ExpectedRecovery}


@dataclass(frozen=True, slots=True)
class _PhaseRow(Phase):
    probes: tuple[ProbeEntry, ...]
    changes: tuple[ChangeEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class ScenarioRow(Scenario):
    """A scenario as it stands in run.json; what has a default came later, and a run before that is without it."""

    phases: tuple[_PhaseRow, ...]
    expect: tuple[Annotated[Expectation, _Named(_EXPECTED)], ...] = ()


def scenario_row(scenario: Scenario) -> ScenarioRow:
    """The scenario with rows that name their kinds."""
    return _as(ScenarioRow, scenario, phases=tuple(_as(_PhaseRow, phase) for phase in scenario.phases), lines=())


def scenario_of(row: ScenarioRow) -> Scenario:
    """What ``scenario_row`` was made from."""
    return _as(Scenario, row, phases=tuple(_as(Phase, phase) for phase in row.phases))


def _as(kind: type[_Kind], one: Any, **other: Any) -> _Kind:
    """The same fields as an object of another class."""
    return kind(**{field.name: getattr(one, field.name) for field in fields(kind)} | other)  # type: ignore[arg-type]
