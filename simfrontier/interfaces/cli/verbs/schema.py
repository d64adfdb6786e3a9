"""`simfrontier schema`: JSON Schema (draft 2020-12) of the TOML files that simfrontier reads, for editors."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticSerializationError, core_schema

from simfrontier.answers.sweep import StudyFile
from simfrontier.base.errors import InputError, unknown
from simfrontier.base.wholefile import filled, write_whole
from simfrontier.core.codecs import Codec
from simfrontier.core.collectives import Calibration, Library, TwoLevelFile, libraries
from simfrontier.core.machine import MachineFile, catalog
from simfrontier.core.machine.stack import NONE, Stack, stacks
from simfrontier.core.plan import FAMILIES
from simfrontier.core.workload import known_models
from simfrontier.inputs.scenario import FileForm, SearchTable, plan_keys, plan_sentences, scenario_keys
from simfrontier.inputs.scenario.aliases import ALIASES
from simfrontier.inputs.scenario.words import OF_MEGATRON, PLAN_KEYS

Schema = dict[str, Any]  # a node of JSON Schema
SCHEMAS: Final[Mapping[str, str]] = {
    "scenario": "scenario files: machine, model, sizes, plans",
    "machine": "files of machines",
    "library": "files of collective libraries",
    "stack": "files of software stacks",
    "calibration": "files of measured numbers and times",
    "study": "studies: scenarios, axes, filters",
}
_FORMS: Final[Mapping[str, Any]] = {
    "scenario": FileForm,
    "machine": MachineFile,
    "library": Library | TwoLevelFile,
    "stack": Stack,
    "calibration": Calibration,
    "study": StudyFile,
}
_OWN_FILE: Final = r"/|\.toml$"  # in a name: the path of a file of one's own


class TomlSchema(GenerateJsonSchema):
    """Generator of JSON Schema by pydantic, adapted to TOML: TOML has no null, and a codec is written as text."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def is_instance_schema(self, schema: core_schema.IsInstanceSchema) -> JsonSchemaValue:
        return {"type": "string"} if schema["cls"] is Codec else super().is_instance_schema(schema)

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False, so that no titles are generated: a title would only repeat the key."""
        return False

    def encode_default(self, dft: Any) -> Any:
        """Return a default value as it is written in a TOML file. Raises PydanticSerializationError if it has no TOML
        form."""
        if isinstance(dft, Codec):
            return str(dft)
        if isinstance(dft, bool | int | str | list | tuple) or (isinstance(dft, float) and math.isfinite(dft)):
            return super().encode_default(dft)
        raise PydanticSerializationError("not a value of TOML")


def schema_text(name: str) -> str:
    """Return the schema of that name as JSON text. Raises InputError for an unknown name."""
    return json.dumps(json_schema(name), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def file_name(name: str) -> str:
    """Return the file name of a schema."""
    return f"simfrontier-{name}.schema.json"


def json_schema(name: str) -> Schema:
    """Return the schema of a kind of file, with the tables and plans of installed extras. Raises InputError for an
    unknown name."""
    if name not in _FORMS:
        raise InputError(unknown(name, _FORMS), where="schema")
    schema = _generated(_FORMS[name])
    match name:
        case "scenario":
            _complete_scenario(schema)
        case "machine" | "stack" | "library":
            _allow_base(schema, {"machine": catalog, "stack": stacks, "library": libraries}[name]())
    head = {"$schema": GenerateJsonSchema.schema_dialect, "$id": f"urn:simfrontier:{name}"}
    return {**head, **schema, "title": f"{name} of simfrontier"}


def _generated(form: Any) -> Schema:
    return TypeAdapter(form).json_schema(schema_generator=TomlSchema)


def _allow_base(schema: Schema, names: Iterable[str]) -> None:
    """Make no key required, since a file may take every key from its `base`, in all tables that are merged with those
    of the base (a number with its source is replaced as a whole)."""
    base = {**_name_or_file(names), "description": "the file of which this one says what differs"}
    forms = [schema] if "properties" in schema else list(map(schema["$defs"].get, ("Library", "TwoLevelFile")))
    tables = [*forms, *schema["$defs"].values()]
    for form in forms:
        form["properties"]["base"] = base
        form |= {"if": {"required": ["base"]}, "else": {"required": form["required"]}}
    for table in tables:
        if "source" not in table.get("properties", {}) or table in forms:
            table.pop("required", None)


# ── scenarios ──


def _complete_scenario(schema: Schema) -> None:
    """Add to the schema of scenarios the names in the catalogs, the description of every key, and the keys of plans."""
    names = {
        "machine.name": _name_or_file(catalog()),
        "library.name": _name_or_file(libraries()),
        "stack": _name_or_file((NONE, *stacks())),
        "model.name": {"type": "string", **_offered({"enum": [shape.name for shape in known_models()]})},
    }
    for key in scenario_keys():
        if not key.families:
            node = _property(schema, key.name)
            node |= {**names.get(key.name, {}), "description": key.sentence}
    for place, aliases in ALIASES.items():
        for short, full in aliases.items() if place != "plans" else ():
            node = {**_property(schema, f"{place}.{full}"), "description": f"short for {full}"}
            schema["$defs"][f"{place.title()}Table"]["properties"][short] = node
    definitions = schema["$defs"]
    for family, table in _tables_of_plans(definitions):
        definitions[family] = table
    every = {key: part for family in FAMILIES for key, part in definitions[family]["properties"].items()}
    degrees = [key for key in every if PLAN_KEYS.get(key, key) in OF_MEGATRON]
    definitions["plan"] = {
        "type": ["object", "string"],  # a table, or words
        "properties": {"family": {"enum": sorted(FAMILIES)}},
        "if": {"anyOf": [{"required": [key]} for key in ("family", *degrees)]},
        "else": {"required": ["family"]},
        "allOf": [
            {
                "if": {"type": "object", "properties": {"family": {"const": family}}, "required": ["family"]},
                "then": _reference(family),
            }
            for family in FAMILIES
        ],
        **_offered({"properties": {**every, "family": {"enum": sorted(FAMILIES)}}}),
    }
    schema["properties"]["plans"] |= {
        "properties": {family: _named_after(family) for family in FAMILIES},
        "additionalProperties": _reference("plan"),
    }


def _tables_of_plans(definitions: dict[str, Schema]) -> Iterator[tuple[str, Schema]]:
    """Yield each plan family's name and schema; the definitions that the schema refers to are added to
    `definitions`."""
    sentences = {key.name.rpartition(".")[2]: key.sentence for key in scenario_keys() if key.families}
    for family, (form, _) in FAMILIES.items():
        table = _generated(form)
        definitions |= table.pop("$defs", {})
        own = {**{key: table["properties"][key] for key in plan_keys(family)}, "family": {"const": family}}
        for key in own.keys() & {"data", "compression"}:
            own[key] = {"type": ["string", "object"]}  # read by functions of their own
        own |= {short: own[full] for short, full in PLAN_KEYS.items() if full in own}
        search = _generated(SearchTable)
        definitions |= search.pop("$defs", {})
        own["search"] = search
        table["properties"] = {
            key: {**part, "description": sentences.get(PLAN_KEYS.get(key, key), "")} for key, part in own.items()
        }
        table["required"] = [key for key in table.get("required", ()) if key != "family"]
        yield family, {**table, "description": plan_sentences()[family]}


def _named_after(family: str) -> Schema:
    """Return the schema of a plan that has the name of a family: it belongs to this family unless its key `family`
    names another."""
    own = _reference(family)
    return {"if": {"required": ["family"]}, "then": _reference("plan"), "else": own, **_offered(own)}


def _property(schema: Schema, name: str) -> Schema:
    """Return the node of the schema at a dotted key; the tables on the way are definitions."""
    node = schema
    *tables, last = name.split(".")
    for table in tables:
        part = node["properties"][table]
        node = schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    found: Schema = node["properties"][last]
    return found


def _reference(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _offered(schema: Schema) -> Schema:
    """Return schema keywords that allow everything but make an editor suggest the values in `schema`: Taplo completes
    from `properties` and `anyOf`, not from `if`, `then` and `else`."""
    return {"anyOf": [schema, True]}


def _name_or_file(names: Iterable[str]) -> Schema:
    """Return schema keywords for a text that is one of the names or the path of the user's own file."""
    known = {"enum": list(names)}
    return {"type": "string", **_offered(known), "if": {"pattern": _OWN_FILE}, "else": known}


def schema(
    what: Annotated[
        str | None,
        typer.Argument(help="scenario, machine, library, stack, calibration or study (default: list the formats)"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="file to write instead of printing; without a format: folder for all schemas"),
    ] = None,
) -> None:
    """Print the JSON Schema of a file format, for completion and checks in editors."""
    if what is None and out is not None:
        _write_all(out)
    elif what is None:
        width = max(map(len, SCHEMAS))
        for name, sentence in SCHEMAS.items():
            typer.echo(f"{name:<{width}}  {sentence}")
    elif out is None:
        typer.echo(schema_text(what), nl=False)
    else:
        write_whole(out, schema_text(what))
        typer.echo(f"Written to {out}")


def _write_all(folder: Path) -> None:
    """Write every schema into a folder. Raises InputError."""
    with filled(folder) as new:
        for name in SCHEMAS:
            (new / file_name(name)).write_text(schema_text(name), encoding="utf-8")
    for name in SCHEMAS:
        typer.echo(f"Written to {folder / file_name(name)}")
