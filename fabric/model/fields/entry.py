"""A mapping in a file as a frozen model: what every kind that brings its own keys is made of."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import MISSING, field, fields
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, cast, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticOmit, core_schema, to_jsonable_python

_FROM_FILE = "a file"

STRICT = ConfigDict(
    extra="forbid", frozen=True, arbitrary_types_allowed=True, validate_by_name=True, validate_by_alias=False
)
"""Of a mapping in a file: no other keys than its fields; ``with_config(STRICT)`` makes a dataclass such a mapping."""

Model = TypeVar("Model")


def from_file(model: type[Model], tree: object) -> Model:
    """A mapping as it is written in a file; raises pydantic's ValidationError with everything that is wrong."""
    adapter: TypeAdapter[Model] = _adapter(cast("Hashable", model))
    return adapter.validate_python(tree, by_alias=True, by_name=False, context=_FROM_FILE)


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    """Made once, for making it takes longer than using it."""
    return TypeAdapter(model)


def written_keys(model: Any) -> dict[str, tuple[str, Any]]:
    """By every key that a mapping in a file may have, an Entry's or a dataclass's: its field's name and type."""
    if issubclass(model, Entry):
        known = [(one.validation_alias, name, one.annotation, one.metadata) for name, one in model.model_fields.items()]
    else:
        hints = get_type_hints(model, include_extras=True)
        those = ((one.metadata.get("alias"), one.name, hints[one.name]) for one in fields(model))
        known = [(alias, name, hint, list(get_args(hint))) for alias, name, hint in those]
    return {
        str(alias or name): (name, kind)
        for alias, name, kind, metadata in known
        if not any(isinstance(one, NotInFiles) for one in metadata)
    }


def key(default: Any = MISSING, **told: Any) -> Any:
    """The default of a dataclass's field, and what pydantic's Field says of it: description, alias, bounds."""
    factory = told.pop("default_factory", MISSING)
    return field(default=default, default_factory=factory, metadata=told)


class Entry(BaseModel):
    """
    A mapping in a file: its keys are the fields, and no other key is allowed.

    A field whose key is written otherwise has that as its ``validation_alias``: ``size_bytes`` is ``size`` in a file.
    The program and run.json know fields by their own names.
    """

    model_config = STRICT

    why: ClassVar[Mapping[str, str]] = {}
    """Of a required key: what to say after "is required here"."""

    def changed(self, **values: Any) -> Self:
        """The same with other *values* of these fields."""
        return self.model_copy(update=values)


class OneOf:
    """Metadata that reads one of several mappings; *models* are these."""

    def __init__(self, models: Iterable[type]) -> None:
        self.models = tuple(models)


class WrittenAs(OneOf):
    """Metadata of a value that a file writes as another type, of which *made* makes it."""

    def __init__(self, written: Any, made: Callable[[Any], object]) -> None:
        super().__init__([written] if isinstance(written, type) else [])
        self._written, self._made = written, made

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """From a file by way of the other type; from run.json as the value that it is."""
        made = core_schema.no_info_after_validator_function(self._made, handler.generate_schema(self._written))
        told = core_schema.plain_serializer_function_ser_schema(to_jsonable_python)
        return core_schema.json_or_python_schema(handler(source), made, serialization=told)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """What an editor should accept: the other type."""
        return handler(schema["python_schema"])


class NotInFiles:
    """Metadata of a field that only the program fills: in a file its key is unknown."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        known = handler(source)
        written = core_schema.with_info_before_validator_function(self._refused, known)
        return core_schema.json_or_python_schema(json_schema=known, python_schema=written)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        raise PydanticOmit

    @staticmethod
    def _refused(value: object, info: ValidationInfo) -> object:
        if info.context == _FROM_FILE:
            raise PydanticCustomError("extra_forbidden", "only the program fills this")
        return value
