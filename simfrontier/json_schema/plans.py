"""The table `plans` of scenarios as JSON Schema: the keys of each family, below the name of the family or beside
`family`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from simfrontier.io import Schema, inlined
from simfrontier.json_schema.codec_texts import compression
from simfrontier.json_schema.parts import none_of, offered, reference, told
from simfrontier.limits import PLANS
from simfrontier.plan import AXES_KEYS, DATA_AXES, FAMILIES, ZERO, TensorOptions
from simfrontier.scenario import AXES, FILE_NAME, STEP_KEYS, plan_keys, plan_sentences, scenario_keys

OF_FAMILY: Final = "plan"  # definition: a plan's table that names its family
ON_DATA: Final = "data"  # the same of the plan on the data axes
EVERY_KEY: Final = "keys-of-plans"  # of all families, for editors


def plan_definitions(
    options: Mapping[str, Schema], search: Schema, definitions: Mapping[str, Schema]
) -> dict[str, Schema]:
    """Definitions of plans' tables; `options`: the schema of the form of each family, which refers to `definitions`."""
    own = {family: inlined(schema, definitions) for family, schema in options.items()}
    made = {f"{OF_FAMILY}-{family}": _plan(family, schema, search) for family, schema in own.items()}
    made |= {f"{ON_DATA}-{family}": _on_data(family, own[family]) for family in ZERO}
    made[OF_FAMILY] = _by_family(OF_FAMILY, FAMILIES)
    made[ON_DATA] = _by_family(ON_DATA, ZERO)
    every: dict[str, Schema] = {"family": {"enum": sorted(FAMILIES)}}
    for family in FAMILIES:
        for key, value in made[f"{OF_FAMILY}-{family}"]["properties"].items():
            every.setdefault(key, value)
    made[EVERY_KEY] = {"type": "object", "properties": every}
    return made


def plans_table() -> Schema:
    """The table: a plan with the name of a family is of it unless it names another; any other names its family."""
    return {
        "type": "object",
        "description": "the plans to simulate, a table each",
        "minProperties": 1,
        "maxProperties": PLANS.most,
        "propertyNames": {"pattern": f"^{FILE_NAME.pattern}$"},
        "properties": {family: _named(family) for family in FAMILIES},
        "patternProperties": {none_of(FAMILIES): {"allOf": [reference(OF_FAMILY)], **offered(reference(EVERY_KEY))}},
    }


def _named(family: str) -> Schema:
    own = reference(f"{OF_FAMILY}-{family}")
    known = {"type": "object", "description": plan_sentences()[family]}
    return {**known, "if": {"required": ["family"]}, "then": reference(OF_FAMILY), "else": own, **offered(own)}


def _by_family(kind: str, families: Mapping[str, Any]) -> Schema:
    """A table whose keys are those of the family that it names."""
    ways = [
        {"if": {"properties": {"family": {"const": family}}}, "then": reference(f"{kind}-{family}")}
        for family in families
    ]
    family = {"type": "string", "enum": sorted(families), "description": "the family of the plan"}
    named = {"required": ["family"]}
    return {"type": "object", "properties": {"family": family}, **named, "if": named, "then": {"allOf": ways}}


def _plan(family: str, form: Schema, search: Schema) -> Schema:
    """The table of a plan of a family."""
    made = _table(family, form, AXES)
    keys = made["properties"] = {key: made["properties"][key] for key in plan_keys(family)}
    keys["search"] = told(search, _sentences()["search"])
    if issubclass(FAMILIES[family][0], TensorOptions):
        keys["data"] = told(_data(), keys["data"]["description"])
    if "compression" in keys:
        keys["compression"] = told(compression(), keys["compression"]["description"])
    return made


def _on_data(family: str, form: Schema) -> Schema:
    """The table of a plan on the data axes of another: what is of a step as a whole, that one says."""
    made = _table(family, form, DATA_AXES)
    keys = made["properties"] = {key: value for key, value in made["properties"].items() if key not in STEP_KEYS}
    if "reduction" in keys:
        keys["reduction"]["default"] = "reduce_scatter"  # other than of a plan by itself: see `TensorOptions`
    return made


def _data() -> Schema:
    """The plan on the data axes: the name of a family, or its table."""
    name = {"type": "string", "enum": sorted(ZERO)}
    way = {"if": {"type": "object"}, "then": reference(ON_DATA), "else": name}
    return {**way, **offered({"anyOf": [name, *(reference(f"{ON_DATA}-{family}") for family in ZERO)]})}


def _table(family: str, form: Schema, axes: tuple[str, ...]) -> Schema:
    """The keys of a family with a sentence each, over the axes of a mesh."""
    said, keys = _sentences(), deepcopy(form["properties"])
    keys |= {
        key: told(value, said[key]) for key, value in keys.items() if said.get(key)
    }  # one's own families have none
    keys["family"] = told({"const": family}, said["family"])
    required = [key for key in form.get("required", ()) if key != "family"]
    made = {
        "type": "object",
        "description": plan_sentences()[family],
        "properties": keys,
        "required": required,
        "additionalProperties": False,
    }
    for key, value in _lists(made):
        if key in AXES_KEYS:
            value |= {"items": {"enum": list(axes)}, "uniqueItems": True}
    return made


def _lists(table: Schema) -> Iterator[tuple[str, Schema]]:
    """The keys below a table, at any depth, that hold lists."""
    for key, value in table.get("properties", {}).items():
        if value.get("type") == "array":
            yield key, value
            yield from _lists(value.get("items", {}))


def _sentences() -> dict[str, str]:
    """A sentence on each key of plans."""
    return {key.name.rpartition(".")[2]: key.sentence for key in scenario_keys() if key.families}
