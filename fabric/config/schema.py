"""JSON Schemas of the two files people write, so that an editor completes and checks them."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from fabric.config.entries import Entry
from fabric.config.inventory_file import InventoryFile
from fabric.config.scenario_file import PROBE_KINDS, ScenarioFile

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def inventory_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of an inventory file."""
    return _schema(InventoryFile)


def scenario_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a scenario file."""
    schema = _schema(ScenarioFile)
    probes = schema["$defs"]["PhaseEntry"]["properties"]["probes"]
    probes["items"]["oneOf"].append({"enum": list(PROBE_KINDS)})  # the bare word: a probe with default settings
    return schema


def _schema(model: type[Entry]) -> dict[str, Any]:
    return {"$schema": _DIALECT, **model.model_json_schema(schema_generator=_Generator)}


class _Generator(GenerateJsonSchema):
    """Leaves out what the files do not know: null, and defaults that are no JSON."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """An optional key may be left out, not be null."""
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """A key that has not the shape of a name is no key."""
        return {**super().dict_schema(schema), "additionalProperties": False}

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """The default is told where it can be written as it stands."""
        inner = self.generate_inner(schema["schema"])
        default = schema.get("default")
        kinds = inner.get("type", [])
        if isinstance(default, bool | str) or (isinstance(default, int | float) and kinds != "string"):
            return {**inner, "default": default}
        return inner
