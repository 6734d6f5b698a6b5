"""JSON Schemas of the two files that people write, so that an editor can complete and check them."""

import ast
import inspect
import json
import re
import sys
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from fabric.config.inventory import InventoryFile
from fabric.config.phases import FIXED_KEYS, REFERENCE
from fabric.config.scenario import ScenarioFile
from fabric.model.fields.entry import Entry, InFiles, written_keys
from fabric.probes.kinds import ASKED

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def inventory_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an inventory file."""
    return _schema(InventoryFile)


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a scenario file."""
    schema = _schema(ScenarioFile)
    probes = schema["$defs"]["Phase"]["properties"]["probes"]
    probes["items"]["oneOf"].append({"enum": list(ASKED)})  # the bare word: a probe with default settings
    for name in sorted(_used_by("Phase", schema["$defs"])):
        properties = schema["$defs"][name]["properties"]
        for key in properties:
            if name != "Phase" or key not in FIXED_KEYS:
                properties[key] = _or_reference(properties[key])
    return schema


def _used_by(name: str, definitions: dict[str, Any]) -> set[str]:
    """Return the definitions that one of them refers to, itself among them."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        here = waiting.pop()
        if here not in found:
            found.add(here)
            waiting += re.findall(r"#/\$defs/(\w+)", json.dumps(definitions[here]))
    return found


def _or_reference(part: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with ``$name`` allowed in place of every single value."""
    if "$ref" in part:
        return part
    if "oneOf" in part:
        return {**part, "oneOf": [_or_reference(each) for each in part["oneOf"]]}
    if part.get("type") == "array":
        return {**part, "items": _or_reference(part["items"])}
    if part.get("type") == "object":
        inner = {key: _or_reference(each) for key, each in part["patternProperties"].items()}
        return {**part, "patternProperties": inner}
    annotations: dict[str, Any] = {key: part[key] for key in ("title", "description", "default") if key in part}
    checked = {key: value for key, value in part.items() if key not in annotations}
    return {**annotations, "anyOf": [checked, {"type": "string", "pattern": f"^{REFERENCE.pattern}$"}]}


def _schema(model: type[Entry | InFiles]) -> dict[str, Any]:
    return {"$schema": _DIALECT, **TypeAdapter(model).json_schema(by_alias=True, schema_generator=_Generator)}


@cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """Return the docstring of each field of each class of a module, on one line; none without its source."""
    try:
        source = inspect.getsource(sys.modules[module])
    except OSError:
        return {}
    return {
        one.name: {
            field.target.id: " ".join(following.value.value.split())
            for field, following in pairwise(one.body)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        }
        for one in ast.parse(source).body
        if isinstance(one, ast.ClassDef)
    }


class _Generator(GenerateJsonSchema):
    """Describes each key with its field's docstring; omits null, and defaults that JSON cannot hold."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Add the descriptions of its keys."""
        return self._described(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        """Add the descriptions of its keys."""
        return self._described(super().dataclass_schema(schema), schema["cls"])

    @staticmethod
    def _described(made: JsonSchemaValue, model: type) -> JsonSchemaValue:
        docstrings = [_docstrings(one.__module__).get(one.__name__, {}) for one in model.__mro__[:-1]]
        for key, (name, _) in written_keys(model).items():
            text = next((one[name] for one in docstrings if name in one), None)
            if text is not None:
                made["properties"][key].setdefault("description", text)
        return made

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """Allow an optional key to be left out, but not to be null."""
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Forbid keys that do not have the shape of a name."""
        return {**super().dict_schema(schema), "additionalProperties": False}

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Give the default if it can be written in a file as it is."""
        inner = self.generate_inner(schema["schema"])
        default = schema.get("default")
        kinds = inner.get("type", [])
        if isinstance(default, bool | str) or (isinstance(default, int | float) and kinds != "string"):
            return {**inner, "default": default}
        return inner
