"""The schemas themselves: valid, complete, what editors are offered, and what is told of faults in hand-made files."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

from simfrontier.json_schema import SCHEMAS, json_schema, scenario_file, schema_text
from simfrontier.json_schema.parts import none_of
from simfrontier.plan import FAMILIES
from simfrontier.scenario import grid_orders, options_of, plan_keys, plan_sentences, scenario_keys
from tests.invoke import TOY
from tests.json_schema.kinds import KINDS, Kind, faults, schema_of

Schema = dict[str, Any]
SCENARIO = """
name = "mine"
title = "Mine"
machine.name = "frontier"
model.name = "gpt-13b"
run.devices = [8, 16]
"""


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_valid_and_the_same_each_time(name: str) -> None:
    Draft202012Validator.check_schema(schema_of(name))
    assert json.loads(schema_text(name)) == json_schema(name)
    assert schema_text(name) == schema_text(name)


def test_every_kind_is_tried() -> None:
    assert [kind.name for kind in KINDS] == list(SCHEMAS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_shipped_file_is_valid(kind: Kind) -> None:
    found = {path.name: faults(kind.name, document) for path, document in kind.documents.items()}
    assert {name: said for name, said in found.items() if said} == {}


def test_no_schema_allows_null_or_has_words_of_python() -> None:
    for name in SCHEMAS:
        text = schema_text(name)
        assert '"null"' not in text and ": null" not in text and "Infinity" not in text and '"le"' not in text


# ── hand-made files ──


@pytest.mark.parametrize(
    ("plans", "said"),
    [
        ("[plans.zero3]", []),
        ("[plans.zero-topo]\nsecond_copy = 'int8'\npublish_codec = 'fp16'", []),
        ("[plans.zero-topo]\nqwz = true", [("$.plans['zero-topo']", "'qwz' was unexpected")]),
        ("[plans.zero-topo]\nsecond_copy = 'int4'", [("$.plans['zero-topo'].second_copy", "'int4' is not one of")]),
        ("[plans.fast]\nfamily = 'zeropp'\nqwz = false", []),
        ("[plans.fast]\nqwz = false", [("$.plans.fast", "'family' is a required property")]),
        ("[plans.fast]\nfamily = 'zero+'", [("$.plans.fast.family", "'zero+' is not one of")]),
        ("[plans.zero3]\nfamily = 'zeropp'\nqwz = false", []),  # a name means its family where none is said
        ("[plans.zero3]\nqwz = false", [("$.plans.zero3", "'qwz' was unexpected")]),
        ("[plans.megatron]\ntensor = 2\ndata = 'zero1'", []),
        ("[plans.megatron]\ndata = 'zero9'", [("$.plans.megatron.data", "'zero9' is not one of")]),
        ("[plans.megatron.data]\nfamily = 'zeropp'\nsecondary = ['package', 'gcd']", []),
        (
            "[plans.megatron.data]\nfamily = 'zeropp'\nsecondary = ['node']",  # the data axes are data, package, gcd
            [("$.plans.megatron.data.secondary[0]", "'node' is not one of")],
        ),
        (
            "[plans.megatron.data]\nfamily = 'zero1'\nmicro_batch = 2",
            [("$.plans.megatron.data", "'micro_batch' was unexpected")],
        ),
        ("[plans.megatron]\ngradient_codec = 'int8:64'", [("$.plans.megatron", "'gradient_codec' was unexpected")]),
        ("[plans.megatron]\ncompression = 'naive-zfp:8'", []),
        ("[plans.megatron.compression]\ndp = 'zfp:8'\nzero = 'plain'", []),
        ("[plans.megatron]\ncompression = 'zfp'", [("$.plans.megatron.compression", "'zfp' does not match")]),
        ("[plans.megatron.compression]\ndq = 'mpc'", [("$.plans.megatron.compression", "'dq' was unexpected")]),
        ("[plans.zeropp]\nweight_codec = 'int9:64'", [("$.plans.zeropp.weight_codec", "'int9:64' does not match")]),
        ("[plans.lattice]\nweight = ['gcd']\noptimizer = []", [("$.plans.lattice", "'accumulator' is a required")]),
        ("[plans.axonn]\nx = 0", [("$.plans.axonn.x", "0 is less than the minimum of 1")]),
        ("[plans.axonn.search]\nvalues = { x = [1, 2] }\ntop = 5", []),
        ("[plans.axonn.search]\nvalues = { x = [] }", [("$.plans.axonn.search.values.x", "[] should be non-empty")]),
        ("[plans.'a b']\nfamily = 'zero3'", [("$.plans", "'a b' does not match")]),
        ("[plans]", [("$.plans", "{} should be non-empty")]),
    ],
)
def test_a_plan_has_the_keys_of_its_family(plans: str, said: list[tuple[str, str]]) -> None:
    found = faults("scenario", tomllib.loads(f"{SCENARIO}{plans}\n"))
    assert [place for place, _ in found] == [place for place, _ in said], found
    assert all(part in message for (_, message), (_, part) in zip(found, said, strict=True)), found


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("machine", {"name": "fontier"}, "$.machine.name"),
        ("machine", {"name": "mine.toml"}, None),
        ("machine", {"name": "machines/mine"}, None),
        ("machine", {}, "$.machine"),
        ("library", {"name": "rcl"}, "$.library.name"),
        ("stack", "deepsped", "$.stack"),
        ("stack", "own/stack.toml", None),
        ("model", {"name": "gpt-13"}, "$.model.name"),
        ("model", {"name": "mine", "num_layers": 2, "hidden": 64}, "$.model"),
        (
            "model",
            {"name": "mine", "num_layers": 2, "hidden": 64, "heads": 4, "vocabulary": 128, "sequence": 32},
            None,
        ),
        ("model", {"name": "mine", "num_layers": 2, "hidden": 64, "inputs": 8, "classes": 3}, None),
        ("model", {"name": "gpt-13b", "hidden": 64}, None),
        ("run", {"devices": [8, 8]}, "$.run.devices"),
        ("run", {"devices": []}, "$.run.devices"),
        ("run", {"devices": [8], "fidelity": "flow "}, "$.run.fidelity"),
        ("engine", {"overlap": 1}, "$.engine.overlap"),
        ("colour", 1, "$"),
        ("name", "a/b", "$.name"),
        ("at", {"08": {}}, "$.at"),
        ("at", {"8": {"run": {}}}, "$.at['8']"),
        ("at", {"8": {"model": "tiny"}}, "$.at['8'].model"),
        ("at", {"8": {"model": {"hidden": 64}, "plans": {"zero3": {"micro_batch": 2}}}}, None),
        ("perturbation", {"spread": [{"name": "not-all-gpus"}]}, "$.perturbation.spread[0].name"),
        ("perturbation", {"slow": [{"device": 0, "factor": 1.5}]}, "$.perturbation.slow[0].factor"),
    ],
)
def test_a_key_of_a_scenario(key: str, value: object, place: str | None) -> None:
    document = {**tomllib.loads(f"{SCENARIO}[plans.zero3]"), key: value}
    assert [found for found, _ in faults("scenario", document)] == ([] if place is None else [place])


# ── bases ──


def test_a_machine_on_a_base_says_what_differs_and_one_without_says_all() -> None:
    share = {"value": 0.7, "kind": "measured", "source": "osu"}
    own = {"base": "frontier", "name": "mine", "link_classes": {"nic": {"share": share}}}
    assert faults("machine", own) == []
    assert faults("machine", {**own, "base": "fontier"})[0][0] == "$.base"
    del own["base"]
    said = faults("machine", own)
    assert ("$.link_classes.nic", "'bytes_per_s' is a required property") in said
    assert {message.split("'")[1] for place, message in said if place == "$"} == {
        *("title", "library", "num_nodes", "devices_per_node", "devices_per_package", "node", "device", "host")
    }


def test_a_number_has_its_source_with_or_without_a_base() -> None:
    number = {"value": 0.7, "kind": "measured"}
    said = faults("machine", {"base": "frontier", "link_classes": {"nic": {"share": number}}})
    assert said == [("$.link_classes.nic.share", "'source' is a required property")]
    said = faults(
        "machine", {"base": "frontier", "link_classes": {"nic": {"share": {**number, "source": "x", "low": 0.6}}}}
    )
    assert said == [("$.link_classes.nic.share", "'high' is a dependency of 'low'")]


@pytest.mark.parametrize(
    ("document", "places"),
    [
        ({"base": "rccl", "name": "mine"}, []),
        ({"base": "hierarchical-mpi-rccl", "name": "mine"}, []),
        (
            {
                "base": "hierarchical-mpi-rccl",
                "levels": {"between": {"kind": "assumed", "source": "x", "library": "nccl"}},
            },
            [],
        ),
        ({"base": "hierarchical-mpi-rccl", "paced": True}, ["$"]),  # a key of libraries of one level
        ({"base": "rccl", "levels": {}}, ["$.levels", "$.levels"]),  # the base has no levels that it could leave out
        ({"base": "rccl", "ring": {"base_s": 1e-5}}, ["$.ring.base_s"]),
    ],
)
def test_a_library_of_two_levels_is_told_from_one(document: Schema, places: list[str]) -> None:
    assert [place for place, _ in faults("library", document)] == places


# ── what is offered, told and said by default ──


def offered(schema: Schema, *path: str) -> dict[str, Schema]:
    """The keys that taplo offers below a path: by `properties`, `patternProperties`, `additionalProperties`, `anyOf`
    and `allOf`, not by `if` (tamasfe/taplo, crates/taplo-common/src/schema/mod.rs, `collect_schemas`)."""
    out: dict[str, Schema] = {}
    waiting = [(schema, path)]
    while waiting:
        node, rest = waiting.pop()
        if not isinstance(node, dict):
            continue
        if "$ref" in node:
            waiting.append((schema["$defs"][node["$ref"].rpartition("/")[2]], rest))
            continue
        waiting += [(each, rest) for word in ("anyOf", "allOf", "oneOf") for each in node.get(word, ())]
        if not rest:
            out |= node.get("properties", {})
            continue
        waiting += [(each, rest[1:]) for name, each in node.get("properties", {}).items() if name == rest[0]]
        waiting += [(node["additionalProperties"], rest[1:])] if "additionalProperties" in node else []
        patterns = node.get("patternProperties", {}).items()
        waiting += [(each, rest[1:]) for pattern, each in patterns if re.search(pattern, rest[0])]
    return out


def test_under_the_name_of_a_family_its_keys_are_offered_and_no_others() -> None:
    schema = schema_of("scenario")
    for family in FAMILIES:
        keys = offered(schema, "plans", family)
        assert set(keys) == {*plan_keys(family), "search"}
        assert all(value["description"] for value in keys.values())
    assert set(offered(schema, "plans")) == set(FAMILIES)


def test_under_another_name_the_keys_of_all_families_are_offered() -> None:
    keys = offered(schema_of("scenario"), "plans", "mine")
    assert set(keys) == {key for family in FAMILIES for key in plan_keys(family)} | {"search"}
    assert set(offered(schema_of("scenario"), "at", "8", "plans", "mine")) == set(keys)


def test_machines_and_keys_of_device_are_offered() -> None:
    name = offered(schema_of("scenario"), "machine")["name"]
    assert "frontier" in name["anyOf"][0]["enum"]
    assert {"hbm_bytes", "fp32", "codecs"} <= set(offered(schema_of("machine"), "device"))
    assert set(offered(schema_of("machine"), "device", "codecs")) == {"int8", "int4", "zfp", "mpc"}


def test_the_schema_and_list_keys_have_the_same_keys_with_the_same_sentences() -> None:
    schema = schema_of("scenario")
    for key in scenario_keys():
        *tables, last = key.name.split(".")
        if key.families:
            said = {family for family in FAMILIES if last in offered(schema, "plans", family)}
            assert said == set(key.families), key.name
        elif key.name not in ("at", "plans"):
            assert offered(schema, *tables)[last]["description"] == key.sentence
    assert set(offered(schema)) == {key.name.partition(".")[0] for key in scenario_keys()}


def test_without_an_order_of_grids_no_search_has_one() -> None:
    with mock.patch.object(scenario_file, "grid_orders", dict):
        assert "by" not in offered(json_schema("scenario"), "plans", "axonn", "search")
    assert ("by" in offered(schema_of("scenario"), "plans", "axonn", "search")) == bool(grid_orders())


def test_a_family_is_told_by_its_sentence() -> None:
    plans = schema_of("scenario")["properties"]["plans"]["properties"]
    assert {family: plan["description"] for family, plan in plans.items()} == plan_sentences()


def test_defaults_are_those_of_the_program() -> None:
    keys = offered(schema_of("scenario"), "plans", "zeropp")
    assert (keys["weight_codec"]["default"], keys["qwz"]["default"]) == ("int8:6144", True)
    assert keys["secondary"]["default"] == ["package", "gcd"]
    data = schema_of("scenario")["$defs"]["data-zero1"]["properties"]["reduction"]["default"]
    assert data == options_of("megatron", {"data": "zero1"}).data.reduction
    own = schema_of("scenario")["$defs"]["plan-zero1"]["properties"]["reduction"]["default"]
    assert own == options_of("zero1", {}).reduction


def test_a_number_of_a_machine_says_its_unit() -> None:
    link = schema_of("machine")["$defs"]["LinkClass"]["properties"]
    assert link["bytes_per_s"]["description"] == "In bytes/s."
    assert link["half_bytes"]["description"] == "In bytes. Without it: 0."


@given(
    words=st.sets(st.text(alphabet="ab-1.", min_size=1, max_size=4), min_size=1, max_size=6),
    text=st.text(alphabet="ab-1.c", min_size=1, max_size=5),
)
def test_none_of_matches_every_text_but_the_words(words: set[str], text: str) -> None:
    pattern = re.compile(none_of(words))
    assert (pattern.search(text) is None) == (text in words)
    assert not any(pattern.search(word) for word in words)


def test_no_pattern_looks_ahead() -> None:
    for name in SCHEMAS:
        assert not re.search(r"\(\?[=!<]", schema_text(name))


def test_a_fault_in_a_shipped_file_is_found_where_it_is() -> None:
    document = tomllib.loads(TOY.read_text(encoding="utf-8"))
    changed = copy.deepcopy(document)
    changed["run"]["fidelty"] = "flow"
    (found,) = faults("scenario", changed)
    assert found[0] == "$.run" and "'fidelty' was unexpected" in found[1]
