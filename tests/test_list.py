"""`simfrontier list`: every name with a sentence, every key with what it may hold, none missing and none left over."""

from __future__ import annotations

import json

import pytest

from simfrontier.plan import FAMILIES
from simfrontier.scenario.keys import _sentences, plan_sentences, scenario_keys
from tests.invoke import invoke, refusal

KINDS = ("models", "plans", "machines", "libraries", "stacks", "keys")


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_has_a_sentence(kind: str) -> None:
    listed = json.loads(invoke("list", kind, "--json").out)
    assert len(listed) >= 10 and all(one["name"] and one["sentence"] for one in listed)
    words = invoke("list", kind).out.splitlines()
    assert [line.split()[0] for line in words] == [one["name"] for one in listed]
    assert len({one["name"] for one in listed}) == len(listed)


def test_every_key_has_a_sentence_and_every_sentence_a_key() -> None:
    keys = {key.name for key in scenario_keys()}
    told = _sentences()
    assert {f"plans.NAME.{name}" for name in told["plans"]} | set(told["keys"]) == keys
    assert set(told["families"]) == set(FAMILIES) == set(plan_sentences())


@pytest.mark.parametrize(
    ("name", "allowed", "default", "families"),
    [
        ("training.grad_accum", "whole number from 1 to 1000", "1", ()),
        ("model.precision", '"fp16" or "bf16" or "fp32" or "fp64"', "fp16", ()),
        ("engine.overlap", "true or false", "true", ()),
        ("run.devices", "list of whole number from 1", "", ()),
        ("tune.max_error", "number from 0 below 1", "", ()),
        ("plans.NAME.weight_codec", "codec", "int8:6144", ("zeropp", "zero-topo")),
        ("plans.NAME.shard", "list of text", "[package, gcd]", ("hsdp",)),
    ],
)
def test_a_key_says_what_it_may_hold(name: str, allowed: str, default: str, families: tuple[str, ...]) -> None:
    (key,) = [key for key in scenario_keys() if key.name == name]
    assert (key.allowed, key.default, key.families) == (allowed, default, families)


def test_another_kind_is_refused_with_the_nearest() -> None:
    assert refusal("list", "model") == "what: got 'model'; did you mean \"models\"?"
