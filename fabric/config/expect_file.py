"""What a scenario's ``expect:`` may hold: every key, its type, its range and what it means."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from fabric.config.tool_settings import AsWritten
from fabric.model.command import GIB
from fabric.model.fields.entry import Entry
from fabric.model.fields.quantities import Size, Span
from fabric.model.fields.scalars import SAFE_NAME, Choice, Decimal, Word, refusal
from fabric.model.fields.wording import nearest, quoted

ENDS = ("completed", "aborted")
_FORMS = "compare, or phase with ends or with recovers_within"
_KEYS = ("compare", "ends", "recovers_within")

Name = Annotated[str, SAFE_NAME]
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


ExpectEntry = Annotated[
    Annotated[CompareEntry, Tag("compare")]
    | Annotated[EndsEntry, Tag("ends")]
    | Annotated[RecoversEntry, Tag("recovers_within")],
    Discriminator(_form),
    BeforeValidator(_one_form),
]
