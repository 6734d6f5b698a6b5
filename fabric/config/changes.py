"""What a phase's ``changes:`` may hold: one entry a kind, as its kind says; checked against the inventory."""

from __future__ import annotations

from dataclasses import dataclass
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

from fabric.changes.cable_fault import CableFault, DrawnLinks
from fabric.changes.kind import Context, Kind
from fabric.changes.kinds import kinds, unusable
from fabric.config.document import Tree
from fabric.config.entries import valid_items
from fabric.config.links import Links
from fabric.config.problems import KeyPath, Problems
from fabric.model.change import ChangeSpec
from fabric.model.fields.entry import Entry, OneOf
from fabric.model.fields.scalars import refusal
from fabric.model.fields.wording import nearest, one_of, quoted
from fabric.model.inventory import Inventory


def _below(kind: type[Kind]) -> bool:
    """Its keys stand below its name, not beside it."""
    return kind.kind not in kind.written_keys()


def _mapping(kind: type[Kind]) -> type[Entry]:
    """The entry as it is written."""
    key: Any = (kind, Field(description=kind.about))
    return create_model(f"{kind.__name__}Change", __base__=Entry, **{kind.kind: key}) if _below(kind) else kind


_MAPPINGS = {name: _mapping(kind) for name, kind in kinds().items()}


class _OneOfKinds(OneOf):
    """Reads ``{ber: {...}}`` of a file and ``["ber", {...}]`` of run.json."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices = tuple(Annotated[model, Tag(kind)] for kind, model in _MAPPINGS.items())
        written: Any = Annotated[Union[choices], Discriminator(_kind), BeforeValidator(_one_change)]  # noqa: UP007
        rows: Any = Union[tuple(tuple[Literal[name], kind] for name, kind in kinds().items())]  # type: ignore[valid-type]  # noqa: UP007
        return core_schema.json_or_python_schema(
            json_schema=core_schema.no_info_after_validator_function(lambda row: row[1], handler.generate_schema(rows)),
            python_schema=core_schema.no_info_after_validator_function(_asked, handler.generate_schema(written)),
            serialization=core_schema.plain_serializer_function_ser_schema(_row),
        )

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema["python_schema"])


ChangeEntry = Annotated[ChangeSpec, _OneOfKinds(_MAPPINGS.values())]


def _row(spec: Kind) -> tuple[str, dict[str, Any]]:
    return spec.kind, spec.model_dump(mode="json")


def _kind(value: Any) -> str:
    return next(str(key) for key in value if key in kinds())


def _one_change(value: object) -> object:
    """A mapping with one kind of change among its keys; anything else is refused."""
    names = tuple(kinds())
    if not isinstance(value, dict) or not value:
        raise refusal(f"one change ({one_of(names)}) and its settings", value)
    found = [key for key in value if key in names]
    if not found:
        key = next((key for key in value if key != "scope"), "scope")
        why = f": {unusable()[key]}" if key in unusable() else f"{nearest(key, names)}; expected {one_of(names)}"
        raise PydanticCustomError("change", "{text}", {"text": f"unknown change {quoted(key)}{why}"})
    if len(found) > 1:
        raise PydanticCustomError("change", f"{' and '.join(found)} are changes of their own: an entry for each")
    return value


def _asked(entry: Any) -> Any:
    return entry if isinstance(entry, Kind) else next(iter(dict(entry).values()))


class _ChangeItem(Entry):
    """One entry of ``changes:`` alone, so that mistakes elsewhere do not hide it."""

    change: ChangeEntry


@dataclass(frozen=True, slots=True)
class Fabric:
    """What changes are checked against: the inventory and the links of the run."""

    inventory: Inventory
    links: Links


def change_specs(raw: Tree | None, fabric: Fabric | None, path: KeyPath, problems: Problems) -> tuple[ChangeSpec, ...]:
    """The changes of one phase that are well formed; without *fabric* (it is itself wrong) no link is looked up."""
    seen: set[tuple[str, str]] = set()
    specs = []
    items = [{"change": item} for item in raw] if isinstance(raw, list) else []
    for at, item in valid_items(_ChangeItem, items, ()):
        spec, here = item.change, (*path, *at)
        assert isinstance(spec, Kind)
        below = (*here, spec.kind) if _below(type(spec)) else here
        if isinstance(spec, CableFault):
            names = _links(spec, fabric, (*below, "links"), problems)
            spec = spec.model_copy(update={"links": names})
        for where, text in spec.problems(_context(fabric)):
            problems.add((*below, *where), text)
        scope = getattr(spec, "scope", "")
        if scope and (spec.kind, scope) in seen:
            problems.add((*here, spec.kind), f"{spec.kind} with scope {scope} is in this phase twice")
        seen.add((spec.kind, scope))
        specs.append(spec)
    return tuple(specs)


def _context(fabric: Fabric | None) -> Context | None:
    if fabric is None:
        return None
    return Context(fabric.inventory.topology, fabric.inventory.changes, hosts=fabric.links.hosts)


def _links(spec: CableFault, fabric: Fabric | None, path: KeyPath, problems: Problems) -> tuple[str, ...]:
    """The names of links as the model writes them; what is wrong with any of them is noted."""
    if fabric is None:
        return ()
    if isinstance(spec.links, DrawnLinks):
        return fabric.links.drawn(spec.links, path, problems)
    names: list[str] = []
    for at, text in enumerate(spec.link_names):
        name = fabric.links.named(text, (*path, at), problems)
        if name in names:
            problems.add((*path, at), f"link {quoted(text)} is there twice")
        elif name is not None:
            names.append(name)
    return tuple(names)
