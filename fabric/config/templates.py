"""Names with numbers in them, ``su{unit:02}-leaf{rail}``: four fields, zero padding, and nothing of str.format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError

from fabric.model.fields.scalars import Scalar, refusal
from fabric.model.fields.wording import nearest, one_of, quoted

_PIECE = re.compile(r"\{([^{}]*)\}|([^{}]+)")
_FIELD = re.compile(r"(name|unit|rack|rail)(?::0([1-9]))?")
_LITERAL = re.compile(r"[A-Za-z0-9._:-]+")
_TEXT_MOST = 128


@dataclass(frozen=True, slots=True)
class Template:
    """Literal text and fields in turn; a field is (name, width)."""

    parts: tuple[str | tuple[str, int], ...]

    @property
    def fields(self) -> frozenset[str]:
        """The fields that are used."""
        return frozenset(part[0] for part in self.parts if isinstance(part, tuple))

    def text(self, values: Mapping[str, str | int]) -> str:
        """The text with every field replaced."""
        return "".join(
            part if isinstance(part, str) else str(values[part[0]]).rjust(part[1], "0") for part in self.parts
        )


@dataclass(frozen=True)
class TemplateText(Scalar):
    """Reads a template that may use only the given *fields*."""

    fields: tuple[str, ...]

    def parse(self, value: object) -> Template:
        """The template, or a refusal that names the field that is not known here."""
        expected = f"text with {one_of('{' + field + '}' for field in self.fields)}, such as rack{{rack:02}}"
        if not isinstance(value, str) or not 0 < len(value) <= _TEXT_MOST:
            raise refusal(expected, value)
        pieces = list(_PIECE.finditer(value))
        if "".join(piece[0] for piece in pieces) != value:
            raise refusal(expected, value, hint=" (a brace has no partner)")
        return Template(tuple(self._part(piece, value) for piece in pieces))

    def _part(self, piece: re.Match[str], value: str) -> str | tuple[str, int]:
        field, literal = piece[1], piece[2]
        if literal is not None:
            if not _LITERAL.fullmatch(literal):
                raise refusal("letters, digits, '.', '_', ':', '-' and fields", value)
            return literal
        match = _FIELD.fullmatch(field)
        if not match or match[1] not in self.fields or (match[1] == "name" and match[2]):
            hint = nearest(field.partition(":")[0], self.fields)
            known = one_of("{" + name + "}" for name in self.fields)
            text = f"field {quoted('{' + field + '}')} is not known here; known are {known}{hint}"
            raise PydanticCustomError("field", text)
        return (match[1], int(match[2] or 0))

    def json_schema(self) -> JsonSchemaValue:
        """Text with fields in braces."""
        return {"type": "string", "pattern": r"^([A-Za-z0-9._:-]|\{(name|unit|rack|rail)(:0[1-9])?\})+$"}


@dataclass(frozen=True)
class TemplateOrList(Scalar):
    """Reads one template for all rails, or a list with one for each."""

    one: TemplateText

    def parse(self, value: object) -> tuple[Template, ...]:
        """One template, or as many as the list has."""
        if isinstance(value, list) and value:
            return tuple(self.one.parse(item) for item in value)
        return (self.one.parse(value),)

    def json_schema(self) -> JsonSchemaValue:
        """A template or a list of them."""
        one = self.one.json_schema()
        return {"oneOf": [one, {"type": "array", "minItems": 1, "items": one}]}
