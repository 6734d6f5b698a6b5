"""Mappings in files as frozen models: base classes, values of one of several kinds, and other packages' kinds."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import MISSING, field, fields
from functools import cache
from importlib.metadata import entry_points
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, cast, get_args, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
    TypeAdapter,
    ValidationInfo,
    create_model,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticOmit, core_schema, to_jsonable_python

from fabric.model.fields.scalars import refusal
from fabric.model.fields.wording import nearest, one_of, quoted

_FROM_FILE = "a file"

_STRICT = ConfigDict(
    extra="forbid", frozen=True, arbitrary_types_allowed=True, validate_by_name=True, validate_by_alias=False
)

Model = TypeVar("Model")


def from_file(model: type[Model], tree: object) -> Model:
    """Decode a mapping as it is written in a file; raise pydantic's ValidationError with everything that is wrong."""
    known: TypeAdapter[Model] = adapter(cast("Hashable", model))
    return known.validate_python(tree, by_alias=True, by_name=False, context=_FROM_FILE)


@cache
def adapter(model: Any) -> TypeAdapter[Any]:
    """Return the validator of a model; cached, because making it takes longer than using it."""
    return TypeAdapter(model)


def written_keys(model: Any) -> dict[str, tuple[str, Any]]:
    """
    Return every key that the mapping of an Entry or a dataclass may have in a file, with its field's name and type.
    """
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


def key(default: Any = MISSING, **metadata: Any) -> Any:
    """Declare a dataclass field: its default, and what pydantic's Field says of it (description, alias, bounds)."""
    factory = metadata.pop("default_factory", MISSING)
    return field(default=default, default_factory=factory, metadata=metadata)


class InFiles:
    """
    The base of a dataclass that is a mapping in a file: its keys are the fields, and no other key is allowed.

    The program makes one at no cost, because only what comes from files is checked. ``key`` says more of a field.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    def fields_of(self, kind: type["InFiles"]) -> dict[str, Any]:
        """Return the fields that it has from one of its bases, by name."""
        return {one.name: getattr(self, one.name) for one in fields(kind)}  # type: ignore[arg-type]


class Entry(BaseModel):
    """
    A mapping in a file: its keys are the fields, and no other key is allowed.

    A field whose key is written otherwise has that as its ``validation_alias``: ``size_bytes`` is ``size`` in a file.
    The program and run.json know fields by their own names.
    """

    model_config = _STRICT

    why: ClassVar[Mapping[str, str]] = {}
    """For a required key: what to say after "is required here"."""

    def changed(self, **values: Any) -> Self:
        """Return a copy with other *values* of these fields."""
        return self.model_copy(update=values)


class OneOf:
    """Metadata of a type that is read as one of several mappings; *models* are their types."""

    def __init__(self, models: Iterable[type]) -> None:
        self.models = tuple(models)


class WrittenAs(OneOf):
    """Metadata of a value that a file writes as another type; *made* converts it."""

    def __init__(self, written: Any, made: Callable[[Any], object]) -> None:
        super().__init__([written] if isinstance(written, type) else [])
        self._written, self._made = written, made

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read it from a file by way of the other type, and from run.json as the value itself."""
        made = core_schema.no_info_after_validator_function(self._made, handler.generate_schema(self._written))
        serialization = core_schema.plain_serializer_function_ser_schema(to_jsonable_python)
        return core_schema.json_or_python_schema(handler(source), made, serialization=serialization)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return what an editor should accept: the other type."""
        return handler(schema["python_schema"])


class NotInFiles:
    """Metadata of a field that only the program fills: a file may not have its key."""

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


_Kind = TypeVar("_Kind", bound=Entry)


class Named:
    """Metadata of one of several kinds: run.json writes a row of the kind's name and its value, ``["ber", {...}]``."""

    def __init__(self, kinds: dict[str, type]) -> None:
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

    The code that reads files fills in the kinds before anything is read: *what* they are called, why some are
    *unusable*, by name, and what the JSON Schema says *about* each. A kind that has its own name among its keys is
    written in the file directly, not below its name.
    """

    def __init__(self) -> None:
        Named.__init__(self, {})
        OneOf.__init__(self, ())

    def fill(
        self,
        kinds: Mapping[str, type[Any]],
        unusable: Mapping[str, str],
        *,
        what: str,
        about: Callable[[type[Any]], str],
    ) -> None:
        """Fill in the kinds that exist."""
        self.kinds.update(kinds)
        self._unusable, self._what = unusable, what
        self._written = {name: self._as_written(kind, about(kind)) for name, kind in kinds.items()}
        self.models = tuple(self._written.values())

    def _as_written(self, kind: type[Any], about: str) -> type[Entry]:
        key: Any = (kind, Field(description=about))
        below = self.stands_below(kind)
        return create_model(f"{kind.__name__}Entry", __base__=Entry, **{kind.kind: key}) if below else kind

    def stands_below(self, kind: type[Any]) -> bool:
        """Return whether its keys are written below its name, not beside it."""
        return str(kind.kind) not in written_keys(kind)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = tuple(Annotated[model, Tag(name)] for name, model in self._written.items())
        written: Any = Annotated[Union[choices], Discriminator(self._name_in), BeforeValidator(self._one_of_them)]  # noqa: UP007
        rows = super().__get_pydantic_core_schema__(source, handler)
        asked = core_schema.no_info_after_validator_function(self._asked, handler.generate_schema(written))
        return core_schema.json_or_python_schema(rows, asked, serialization=rows["serialization"])

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema["python_schema"])

    def _one_of_them(self, value: object) -> object:
        """Accept a mapping with one kind among its keys, or the kind's name alone; refuse anything else."""
        entry = {value: {}} if isinstance(value, str) else value
        if not isinstance(entry, dict) or not entry:
            raise refusal(f"one {self._what} ({one_of(self.kinds)}) and its settings", value)
        found = [key for key in entry if key in self.kinds]
        if len(found) > 1:
            text = f"{' and '.join(found)} are {self._what}s of their own: an entry for each"
            raise PydanticCustomError("kind", text)
        if not found:
            meant = (key for key in entry if key in self._unusable or nearest(key, self.kinds))
            key = next(meant, next(iter(entry)))
            why = f": {self._unusable[key]}" if key in self._unusable else nearest(key, self.kinds)
            text = f"unknown {self._what} {quoted(key)}{why or f'; expected {one_of(self.kinds)}'}"
            raise PydanticCustomError("kind", text)
        return entry

    def _name_in(self, value: Any) -> str:
        return next(str(name) for name in value if name in self.kinds)

    def _asked(self, entry: Any) -> Any:
        return entry if type(entry) in self.kinds.values() else next(iter(dict(entry).values()))


def add_others(kinds: dict[str, type[_Kind]], base: type[_Kind], *, group: str) -> dict[str, str]:
    """
    Add the kinds of other packages, from entry points of a *group*; each is a subclass of *base*.

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
