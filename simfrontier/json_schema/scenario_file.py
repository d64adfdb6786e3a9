"""Scenario files as JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping

from simfrontier.collectives import libraries
from simfrontier.io import Schema, definitions_of, resolved
from simfrontier.json_schema.codec_texts import ScenarioSchema
from simfrontier.json_schema.parts import document, named_or_file, offered, reference, told
from simfrontier.json_schema.plans import EVERY_KEY, plan_definitions, plans_table
from simfrontier.machine import catalog, published_spreads
from simfrontier.plan import FAMILIES
from simfrontier.scenario import FILE_NAME, SIZE, SIZED, FileForm, SearchTable, grid_orders, scenario_keys
from simfrontier.stack import NONE, stacks
from simfrontier.workload import GptShape, MlpShape, known_models, sizes_of

FILE, SEARCH = "file", "search"  # among the forms that definitions are made of


def scenario_file() -> Schema:
    """The schema of scenario files, with the tables that extras add to them."""
    forms = {FILE: FileForm, SEARCH: SearchTable, **{family: form for family, (form, _) in FAMILIES.items()}}
    found, definitions = definitions_of(forms, ScenarioSchema)
    root = resolved(found[FILE], definitions)
    keys = root["properties"]
    keys["name"]["pattern"] = f"^{FILE_NAME.pattern}$"
    keys["stack"] |= named_or_file((NONE, *stacks()))
    _keys(keys["machine"], definitions)["name"] |= named_or_file(catalog())
    _keys(keys["library"], definitions)["name"] |= named_or_file(libraries())
    _keys(keys["run"], definitions)["devices"]["uniqueItems"] = True
    if not grid_orders():
        del _keys(found[SEARCH], definitions)["by"]
    definitions["Spread"]["properties"]["name"]["enum"] = sorted(published_spreads())
    models = {"enum": [shape.name for shape in known_models()]}
    _keys(keys["model"], definitions)["name"] |= offered(models)
    _tell(root, definitions)
    keys["at"] = _at(keys)
    keys["model"] |= _shape(models)
    plans = {family: found[family] for family in FAMILIES}
    keys["plans"] = plans_table()
    definitions |= plan_definitions(plans, found[SEARCH], definitions)
    return document("scenario", "a scenario of simfrontier", root, definitions)


def _keys(table: Schema, definitions: Mapping[str, Schema]) -> dict[str, Schema]:
    keys: dict[str, Schema] = resolved(table, definitions)["properties"]
    return keys


def _tell(root: Schema, definitions: Mapping[str, Schema]) -> None:
    """Give every key its sentence."""
    for key in scenario_keys():
        if key.families:
            continue
        *tables, last = key.name.split(".")
        node = root
        for table in tables:
            node = resolved(node["properties"][table], definitions)
        node["properties"][last] = told(node["properties"][last], key.sentence)


def _shape(models: Schema) -> Schema:
    """Keywords of a model that is no named one: it has all sizes of a GPT, or of an MLP."""
    shapes = [list(sizes_of(shape)) for shape in (GptShape, MlpShape)]
    some = {"anyOf": [{"required": [size]} for size in dict.fromkeys(shapes[0] + shapes[1])]}
    every = {"anyOf": [{"required": sizes} for sizes in shapes]}
    named = {"properties": {"name": models}}
    return {"if": some, "then": {"if": named, "else": every}, "else": named}


def _at(keys: Mapping[str, Schema]) -> Schema:
    """Tables of one size, put over those of the scenario. What is in them is read only where that size is run, so it is
    offered, and not checked."""
    tables = {name: {"type": "object", **offered(keys[name])} for name in SIZED}
    tables["plans"] = {"type": "object", "additionalProperties": offered(reference(EVERY_KEY))}
    size = {"type": "object", "properties": tables, "additionalProperties": False}
    return {**keys["at"], "patternProperties": {f"^{SIZE.pattern}$": size}, "additionalProperties": False}
