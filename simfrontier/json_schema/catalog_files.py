"""Files of machines, libraries, stacks and calibrations as JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from simfrontier.collectives import Calibration, LibraryFile, TwoLevelFile, libraries, two_level_libraries
from simfrontier.io import Schema, definitions_of, resolved
from simfrontier.json_schema.parts import document, named_or_file, offered
from simfrontier.machine import MachineFile, catalog
from simfrontier.stack import Stack, stacks
from simfrontier.units import unit_of

LEVELS: Final = "levels"


def machine_file() -> Schema:
    """The schema of machines' files."""
    root, definitions = _form(MachineFile)
    root["properties"]["library"] |= offered({"enum": list(libraries())})
    return document("machine", "a machine of simfrontier", _on_base(root, definitions, catalog()), definitions)


def stack_file() -> Schema:
    """The schema of software stacks' files."""
    root, definitions = _form(Stack)
    return document("stack", "a software stack of simfrontier", _on_base(root, definitions, stacks()), definitions)


def calibration_file() -> Schema:
    """The schema of calibrations."""
    return document("calibration", "a calibration of simfrontier", *_form(Calibration))


def library_file() -> Schema:
    """The schema of libraries' files: of one level, or, with `levels`, of two."""
    found, definitions = definitions_of({"one": LibraryFile, "two": TwoLevelFile})
    _tell_units(definitions)
    one, two = (resolved(found[level], definitions) for level in ("one", "two"))
    for level in ("BetweenLibrary", "InsideLibrary"):
        definitions[level]["properties"]["library"] |= named_or_file(libraries())
    one, two = (_on_base(form, definitions, libraries()) for form in (one, two))
    has_levels = {
        "anyOf": [
            {"required": [LEVELS]},
            {"required": ["base"], "properties": {"base": {"enum": list(two_level_libraries())}}},
        ]
    }
    root = {
        "type": "object",
        "description": one["description"],
        "properties": {**two["properties"], **one["properties"]},
        "additionalProperties": False,
        "if": has_levels,
        "then": _alone(two),
        "else": _alone(one),
    }
    return document("library", "a collective library of simfrontier", root, definitions)


def _alone(form: Schema) -> Schema:
    """What a form demands where the properties stand beside it: no other keys, and those that it needs."""
    demanded = {key: form[key] for key in ("if", "else")}
    return {"properties": dict.fromkeys(form["properties"], True), "additionalProperties": False, **demanded}


def _form(form: type) -> tuple[Schema, dict[str, Schema]]:
    found, definitions = definitions_of({"file": form})
    _tell_units(definitions)
    return resolved(found["file"], definitions), definitions


def _tell_units(definitions: Mapping[str, Schema]) -> None:
    """Say of each number that carries its source in what unit it is."""
    for definition in definitions.values():
        for key, value in definition.get("properties", {}).items():
            unit = unit_of(key)
            if "source" in value.get("properties", {}) and unit not in ("", "count"):
                value["description"] = " ".join(filter(None, (f"In {unit}.", value.get("description"))))


def _on_base(root: Schema, definitions: Mapping[str, Schema], names: Iterable[str]) -> Schema:
    """A form whose file may leave everything to a `base`: without one it needs what it needs, table by table."""
    needed = _needed(root, definitions)
    for definition in (root, *definitions.values()):
        if not _is_whole(definition):
            definition.pop("required", None)
    base = {
        "type": "string",
        "enum": list(names),
        "description": "the file of the catalog of which this one says what differs",
    }
    return {**root, "properties": {"base": base, **root["properties"]}, "if": {"required": ["base"]}, "else": needed}


def _is_whole(table: Schema) -> bool:
    """Whether a base's table is replaced by one of its key, and not merged with it: it carries its source."""
    return "source" in table.get("required", ())


def _needed(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """What a schema requires, and its tables, and theirs."""
    table = resolved(schema, definitions)
    if table.get("type") != "object" or _is_whole(table):
        return {}
    made: Schema = {"required": table["required"]} if "required" in table else {}
    inner = {key: _needed(value, definitions) for key, value in table.get("properties", {}).items()}
    if inner := {key: value for key, value in inner.items() if value}:
        made["properties"] = inner
    values: Any = table.get("additionalProperties")
    if isinstance(values, dict) and (each := _needed(values, definitions)):
        made["additionalProperties"] = each
    return made
