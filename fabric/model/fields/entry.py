"""A mapping in a file as a frozen model: what every kind that brings its own keys is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticOmit, core_schema

_FROM_FILE = "a file"


class Entry(BaseModel):
    """
    A mapping in a file: its keys are the fields, and no other key is allowed.

    A field whose key is written otherwise has that as its ``validation_alias``: ``size_bytes`` is ``size`` in a file.
    The program and run.json know fields by their own names.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, validate_by_name=True, validate_by_alias=False
    )

    why: ClassVar[Mapping[str, str]] = {}
    """Of a required key: what to say after "is required here"."""

    @classmethod
    def written_keys(cls) -> dict[str, FieldInfo]:
        """The fields that a file may give, by the key that it writes."""
        given = ((name, field) for name, field in cls.model_fields.items() if not NotInFiles.marks(field))
        return {str(field.validation_alias or name): field for name, field in given}

    @classmethod
    def from_file(cls, tree: object) -> Self:
        """The mapping as it is written in a file; raises pydantic's ValidationError with everything that is wrong."""
        return cls.model_validate(tree, by_alias=True, by_name=False, context=_FROM_FILE)

    def changed(self, **values: Any) -> Self:
        """The same with other *values* of these fields."""
        return self.model_copy(update=values)


class OneOf:
    """Metadata that reads one of several mappings; *models* are these."""

    def __init__(self, models: Iterable[type[Entry]]) -> None:
        self.models = tuple(models)


class NotInFiles:
    """Metadata of a field that only the program fills: in a file its key is unknown."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        known = handler(source)
        written = core_schema.with_info_before_validator_function(self._refused, known)
        return core_schema.json_or_python_schema(json_schema=known, python_schema=written)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        raise PydanticOmit

    @staticmethod
    def marks(field: FieldInfo) -> bool:
        """Whether a field is such a one."""
        return any(isinstance(one, NotInFiles) for one in field.metadata)

    @staticmethod
    def _refused(value: object, info: ValidationInfo) -> object:
        if info.context == _FROM_FILE:
            raise PydanticCustomError("extra_forbidden", "only the program fills this")
        return value
