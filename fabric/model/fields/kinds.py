"""A value of one of several kinds, which a file and run.json name by its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Annotated, Any, Literal, TypeVar, Union

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
from pydantic_core import CoreSchema, core_schema, to_jsonable_python

from fabric.model.fields.entry import Entry, OneOf, written_keys

_Kind = TypeVar("_Kind", bound=Entry)


class Named:
    """Metadata of one of several kinds: in run.json a row names the kind of what follows, ``["ber", {...}]``."""

    def __init__(self, kinds: Mapping[str, type]) -> None:
        self.kinds = kinds

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        rows: Any = Union[tuple(tuple[Literal[name], kind] for name, kind in self.kinds.items())]  # type: ignore[valid-type]  # noqa: UP007
        return core_schema.no_info_after_validator_function(
            lambda row: row[1],
            handler.generate_schema(rows),
            serialization=core_schema.plain_serializer_function_ser_schema(self._row),
        )

    def _row(self, one: Any) -> tuple[str, Any]:
        name = next(name for name, kind in self.kinds.items() if type(one) is kind)
        return name, to_jsonable_python(one, by_alias=False)


class Kinds(Named, OneOf):
    """
    Metadata of one of several kinds of Entry: ``{ber: {...}}`` in a file, a row in run.json.

    Whoever reads files fills in which there are, before anything is read. *about* says what the JSON Schema tells of
    one, *one_of_them* turns what a file says into a mapping with one kind among its keys, or refuses it. A kind that
    has its name among its own keys stands in the file by itself, not below its name.
    """

    def __init__(self) -> None:
        Named.__init__(self, {})
        OneOf.__init__(self, ())

    def fill(
        self,
        kinds: Mapping[str, type[Any]],
        *,
        about: Callable[[type[Any]], str],
        one_of_them: Callable[[object], object],
    ) -> None:
        """Say which kinds there are."""
        self.kinds, self._one_of_them = kinds, one_of_them
        self._written = {name: self._as_written(kind, about(kind)) for name, kind in kinds.items()}
        self.models = tuple(self._written.values())

    def _as_written(self, kind: type[Any], about: str) -> type[Entry]:
        key: Any = (kind, Field(description=about))
        below = self.stands_below(kind)
        return create_model(f"{kind.__name__}Entry", __base__=Entry, **{kind.kind: key}) if below else kind

    def stands_below(self, kind: type[Any]) -> bool:
        """Its keys stand below its name, not beside it."""
        return str(kind.kind) not in written_keys(kind)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = tuple(Annotated[model, Tag(name)] for name, model in self._written.items())
        written: Any = Annotated[Union[choices], Discriminator(self._name_in), BeforeValidator(self._one_of_them)]  # noqa: UP007
        rows = super().__get_pydantic_core_schema__(source, handler)
        asked = core_schema.no_info_after_validator_function(self._asked, handler.generate_schema(written))
        return core_schema.json_or_python_schema(rows, asked, serialization=rows["serialization"])

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema["python_schema"])

    def _name_in(self, value: Any) -> str:
        return next(str(name) for name in value if name in self.kinds)

    def _asked(self, entry: Any) -> Any:
        return entry if type(entry) in self.kinds.values() else next(iter(dict(entry).values()))


def add_others(kinds: dict[str, type[_Kind]], base: type[_Kind], *, group: str) -> dict[str, str]:
    """
    Add the kinds that other packages bring by entry points of a *group*, each a class made from *base*.

    Returns why some cannot be used, by name.
    """
    unusable = {}
    for point in sorted(entry_points(group=group), key=lambda one: (one.name, one.value)):
        try:
            kind = point.load()
            if not (isinstance(kind, type) and issubclass(kind, base)):
                raise TypeError(f"{point.value} is no subclass of {base.__module__}.{base.__name__}")
            if getattr(kind, "kind", None) != point.name:
                raise ValueError(f"its class calls itself {getattr(kind, 'kind', None)!r}")
            if point.name in kinds:
                raise ValueError("there is a kind of that name already")
            kinds[point.name] = kind
        except Exception as exc:  # noqa: BLE001 - whatever somebody else's module raises while it is imported
            package = f"{point.dist.name} {point.dist.version}" if point.dist else "a package"
            why = f"{type(exc).__name__}: {exc}"
            unusable[point.name] = f"kind {point.name!r} of {package} ({group}: {point.value}) cannot be used: {why}"
    return unusable
