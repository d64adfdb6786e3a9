"""Files of machines, libraries, stacks and calibrations as JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from simfrontier.collectives import Calibration, LibraryFile, TwoLevelFile, libraries, two_level_libraries
from simfrontier.io import Schema, definitions_of, resolved
from simfrontier.json_schema.parts import document, named_or_file, offered, told
from simfrontier.machine import MachineFile, catalog
from simfrontier.stack import Stack, stacks
from simfrontier.units import unit_of

LEVELS: Final = "levels"
BASED: Final[Schema] = {"required": ["base"]}


def machine_file() -> Schema:
    """The schema of machines' files."""
    root, definitions = _form(MachineFile)
    root["properties"]["library"] |= offered({"enum": list(libraries())})
    return document(
        "machine", "a machine of simfrontier", _on_base(root, definitions, named_or_file(catalog())), definitions
    )


def stack_file() -> Schema:
    """The schema of software stacks' files."""
    root, definitions = _form(Stack)
    return document(
        "stack", "a software stack of simfrontier", _on_base(root, definitions, {"enum": list(stacks())}), definitions
    )


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
    needed_one, needed_two = (_needed(form, definitions) for form in (one, two))
    levels_needed = {"properties": {LEVELS: needed_two["properties"][LEVELS]}}
    _leave_to_base(definitions)
    on_two = _based_on(two_level_libraries())
    root = {
        "type": "object",
        "description": one["description"],
        "properties": {"base": _base({"enum": list(libraries())}), **two["properties"], **one["properties"]},
        "additionalProperties": False,
        "if": {"anyOf": [{"required": [LEVELS]}, on_two]},
        "then": {**_keys_of(two), "if": BASED, "then": {"if": on_two, "else": levels_needed}, "else": needed_two},
        "else": {**_keys_of(one), "if": BASED, "else": needed_one},
    }
    return document("library", "a collective library of simfrontier", root, definitions)


def _keys_of(form: Schema) -> Schema:
    """Keywords that allow the keys of a form and no others, whatever they hold."""
    keys = ("base", *form["properties"])
    return {"properties": dict.fromkeys(keys, True), "additionalProperties": False}


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


def _on_base(root: Schema, definitions: Mapping[str, Schema], known: Schema) -> Schema:
    """A form whose file may leave everything to a `base`: without one it needs what it needs, table by table."""
    needed = _needed(root, definitions)
    _leave_to_base(definitions)
    return {**root, "properties": {"base": _base(known), **root["properties"]}, "if": BASED, "else": needed}


def _base(known: Schema) -> Schema:
    return told({"type": "string", **known}, "the file of which this one says what differs")


def _based_on(names: Iterable[str]) -> Schema:
    return {**BASED, "properties": {"base": {"enum": list(names)}}}


def _leave_to_base(definitions: Mapping[str, Schema]) -> None:
    """Require nothing of a table that is merged with the base's."""
    for definition in definitions.values():
        if not _is_whole(definition):
            definition.pop("required", None)


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
