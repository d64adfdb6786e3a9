"""Forms of files as JSON Schema (draft 2020-12), which editors read. Imports pydantic, which takes long."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ConfigDict, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, NoDefault
from pydantic_core import core_schema

from simfrontier.io.bounds import JSON_SCHEMA

Schema = dict[str, Any]  # a node of JSON Schema
DEFINITIONS: Final = "#/$defs/"
_STRICT: Final = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class FormSchema(GenerateJsonSchema):
    """pydantic's generator, for what a TOML file holds: nothing is null, what is derived is not there, and a default is
    what the file would have to say for it."""

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """A bound that stands after a check (`Rule`) has its name of Python where pydantic leaves it."""
        made = super().generate_inner(schema)
        for name, keyword in self.ValidationsMapping.numeric.items():
            if isinstance(made.get(name), int | float):
                made[keyword] = made.pop(name)
        return made

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_is_present(self, field: Any) -> bool:
        """Not where a field follows of the others (`Derived`)."""
        inner = field["schema"]
        while "schema" in inner and inner["type"] != "custom-error":
            inner = inner["schema"]
        return bool(inner.get("custom_error_type") != "derived")

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never: a title says no more than the key."""
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner, default = self.generate_inner(schema["schema"]), self.get_default_value(schema)
        said = None if default is NoDefault else self.written_default(default)
        if said is None:
            return inner
        if inner.get("type") == "object":  # a number whose table has its source
            return {**inner, "description": f"Without it: {said:g}."}
        return {**inner, "default": said}

    def written_default(self, default: Any) -> Any:
        """A default as a file would write it; None where it is nothing that has to be said, or cannot be."""
        if isinstance(default, tuple | list):
            parts = [self.written_default(part) for part in default]
            return None if not parts or None in parts else parts
        if isinstance(default, float):
            return default if math.isfinite(default) else None
        return default if isinstance(default, bool | int | str) else None

    def function_after_schema(self, schema: core_schema.AfterValidatorFunctionSchema) -> JsonSchemaValue:
        return {**super().function_after_schema(schema), **_keywords(schema)}

    def function_plain_schema(self, schema: core_schema.PlainValidatorFunctionSchema) -> JsonSchemaValue:
        return _keywords(schema) or super().function_plain_schema(schema)

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """A table whose keys are known has them as properties, so that an editor offers them."""
        table = super().dict_schema(schema)
        names = table.get("propertyNames", {})
        if "enum" in names or "const" in names:
            del table["propertyNames"]
            values = table.pop("additionalProperties")
            table["properties"] = dict.fromkeys(names.get("enum", [names.get("const")]), values)
        return {**table, "additionalProperties": False} if "additionalProperties" not in table else table


def _keywords(schema: Any) -> Schema:
    """What a check of `io.bounds` says of itself."""
    said: Schema = schema.get("metadata", {}).get(JSON_SCHEMA, dict)()
    return said


def definitions_of(
    forms: Mapping[str, Any], generator: type[GenerateJsonSchema] = FormSchema
) -> tuple[dict[str, Schema], dict[str, Schema]]:
    """The schema of each form, and the definitions, by name, that all of these refer to as `#/$defs/NAME`."""
    fields: dict[str, Any] = {name: (form, ...) for name, form in forms.items()}
    whole = create_model("Whole", __config__=_STRICT, **fields).model_json_schema(schema_generator=generator)
    definitions: dict[str, Schema] = whole.get("$defs", {})
    for definition in definitions.values():
        definition.pop("title", None)
    return whole["properties"], definitions


def resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """The definition that a schema refers to, or the schema itself."""
    reference = schema.get("$ref", "")
    return definitions[reference.removeprefix(DEFINITIONS)] if reference else schema


def inlined(schema: Any, definitions: Mapping[str, Schema]) -> Any:
    """A copy of a schema with its definitions in the places where it refers to them; no definition holds itself."""
    if isinstance(schema, list):
        return [inlined(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        beside = {key: part for key, part in schema.items() if key != "$ref"}
        return {**inlined(resolved(schema, definitions), definitions), **beside}
    return {key: inlined(part, definitions) for key, part in schema.items()}
