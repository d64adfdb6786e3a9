"""`simfrontier schema`: every shipped file is valid, faults are found where they are, and editors are offered keys."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from simfrontier.core import collectives, machine
from simfrontier.core.machine import stack
from simfrontier.core.plan import FAMILIES
from simfrontier.inputs.scenario import plan_keys
from simfrontier.inputs.scenario.words import PLAN_KEYS
from simfrontier.interfaces.cli.verbs.schema import SCHEMAS, file_name, json_schema, schema_text
from tests.invoke import invoke
from tests.scenario_files import SCENARIOS, STUDIES

SHIPPED = [
    *(("scenario", path) for path in SCENARIOS),
    *(("study", path) for path in STUDIES),
    *(("machine", path) for path in machine.CATALOG.glob("*.toml")),
    *(("library", path) for path in collectives.CATALOG.glob("*.toml")),
    *(("stack", path) for path in stack.CATALOG.glob("*.toml")),
]
SCENARIO = """
name = "mine"
title = "Mine"
machine.name = "frontier"
model.name = "gpt-13b"
run.devices = [8, 64]
"""

schema_of = cache(json_schema)


def faults(kind: str, document: dict[str, Any]) -> list[tuple[str, str]]:
    """Return place and message of each fault that the schema finds."""
    found = Draft202012Validator(schema_of(kind)).iter_errors(document)
    return sorted((error.json_path, error.message) for error in found)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_valid_and_is_printed(name: str) -> None:
    Draft202012Validator.check_schema(schema_of(name))
    assert invoke("schema", name).out == schema_text(name)


@pytest.mark.parametrize(("kind", "path"), SHIPPED, ids=lambda part: getattr(part, "stem", part))
def test_every_shipped_file_is_valid(kind: str, path: Path) -> None:
    assert faults(kind, tomllib.loads(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("lines", "place", "said"),
    [
        ("colour = 1\n[plans.zero3]", "$", "'colour' was unexpected"),
        ("engine.overlap = 1\n[plans.zero3]", "$.engine.overlap", "1 is not of type 'boolean'"),
        ("[plans.zero-topo]\nsecond_copy = 'int4'", "$.plans['zero-topo'].second_copy", "'int4' is not one of"),
        ("[plans.fast]\nqwz = false", "$.plans.fast", "'family' is a required property"),
        ("[plans.zero3]\nqwz = false", "$.plans.zero3", "'qwz' was unexpected"),
        ("[plans.narrow]\nfamily = 'megatron'\ntensor = 0", "$.plans.narrow.tensor", "less than the minimum of 1"),
    ],
)
def test_a_fault_is_found_where_it_is(lines: str, place: str, said: str) -> None:
    ((found, message),) = faults("scenario", tomllib.loads(SCENARIO + lines))
    assert found == place and said in message


def test_words_and_short_names_are_valid() -> None:
    lines = "model.seq = 4096\ntraining.global_batch = '4M tokens'\nplans.words = 'tp 8 pp 2'\n[plans.short]\ntp = 8"
    assert faults("scenario", tomllib.loads(SCENARIO + lines)) == []


def test_a_machine_is_of_the_catalog_or_a_file() -> None:
    document = tomllib.loads(f"{SCENARIO}[plans.zero3]\nfamily = 'zeropp'\nqwz = false")
    assert faults("scenario", document) == []
    assert faults("scenario", {**document, "machine": {"name": "machines/mine.toml"}}) == []
    ((place, _),) = faults("scenario", {**document, "machine": {"name": "fontier"}})
    assert place == "$.machine.name"


def test_a_file_on_a_base_says_what_differs_and_one_without_says_all() -> None:
    share = {"value": 0.7, "kind": "measured", "source": "osu"}
    own = {"name": "mine", "link_classes": {"nic": {"share": share}}}
    assert faults("machine", {"base": "frontier", **own}) == []
    assert ("$", "'num_nodes' is a required property") in faults("machine", own)
    del share["source"]
    assert faults("machine", {"base": "frontier", **own}) != []


@pytest.mark.parametrize("family", FAMILIES)
def test_the_keys_of_a_family_are_offered_with_their_sentences(family: str) -> None:
    keys = schema_of("scenario")["$defs"][family]["properties"]
    short = {key for key, full in PLAN_KEYS.items() if full in plan_keys(family)}
    assert set(keys) == {*plan_keys(family), *short, "search"}
    assert all(part["description"] for part in keys.values())


def test_all_schemas_are_written_into_a_folder(tmp_path: Path) -> None:
    assert invoke("schema", "--out", tmp_path / "schemas").code == 0
    written = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "schemas").iterdir()}
    assert written == {file_name(name): schema_text(name) for name in SCHEMAS}
