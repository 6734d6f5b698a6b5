"""What a phase's ``probes:`` may hold: one of the kinds there are, and its keys."""

from __future__ import annotations

from inspect import getdoc
from typing import Annotated, Any, Literal, Union

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
    create_model,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from fabric.model.fields.entry import Entry, OneOf
from fabric.model.fields.scalars import refusal
from fabric.model.fields.wording import nearest, one_of, quoted
from fabric.model.scenario import ProbeSpec
from fabric.probes.kinds import ASKED

PROBE_KINDS = tuple(ASKED)


def _mapping(kind: type[ProbeSpec]) -> type[Entry]:
    """The mapping with the kind as its only key."""
    summary = (getdoc(kind) or "").partition("\n")[0]
    field: Any = (kind, Field(description=f"{summary} It needs {kind.needs}."))
    name = "".join(word.title() for word in kind.kind.split("_")) + "Probe"
    return create_model(name, __base__=Entry, __doc__=f"The probe kind {kind.kind}.", **{kind.kind: field})


_MAPPINGS = {kind.kind: _mapping(kind) for kind in ASKED.values()}


class _OneOfAsked(OneOf):
    """Reads ``loopback`` and ``{loopback: {...}}`` of a file and ``["loopback", {...}]`` of run.json."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = tuple(Annotated[model, Tag(kind)] for kind, model in _MAPPINGS.items())
        written: Any = Annotated[Union[choices], Discriminator(_kind), BeforeValidator(_one_kind)]  # noqa: UP007
        rows: Any = Union[tuple(tuple[Literal[kind], model] for kind, model in ASKED.items())]  # type: ignore[valid-type]  # noqa: UP007
        return core_schema.json_or_python_schema(
            json_schema=core_schema.no_info_after_validator_function(lambda row: row[1], handler.generate_schema(rows)),
            python_schema=core_schema.no_info_after_validator_function(
                lambda whole: getattr(whole, _kind(whole)), handler.generate_schema(written)
            ),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda spec: (spec.kind, spec.model_dump())),
        )

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema["python_schema"])


ProbeEntry = Annotated[ProbeSpec, _OneOfAsked(_MAPPINGS.values())]


def _kind(whole: Any) -> str:
    return str(next(iter(whole if isinstance(whole, dict) else type(whole).model_fields)))


def _one_kind(value: object) -> object:
    """The mapping of one kind to its settings; anything else is refused."""
    if isinstance(value, ProbeSpec):
        return {value.kind: value}
    whole = {value: {}} if isinstance(value, str) else value
    if not isinstance(whole, dict) or len(whole) != 1:
        raise refusal(f"one probe kind ({one_of(PROBE_KINDS)}) and its settings", value)
    kind = next(iter(whole))
    if kind not in PROBE_KINDS:
        raise PydanticCustomError("kind", f"unknown probe kind {quoted(str(kind))}{nearest(str(kind), PROBE_KINDS)}")
    return whole
