"""The nearest names: what newcomers type, and what they are told."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from simfrontier.base.errors import near, technique
from simfrontier.core.plan import FAMILIES
from simfrontier.core.workload import MODELS
from tests.invoke import TOY, invoke, refusal


@pytest.mark.parametrize(
    ("typed", "names", "meant"),
    [
        ("zero++", FAMILIES, "zeropp"),
        ("zero_topo", FAMILIES, "zero-topo"),
        ("mega", FAMILIES, "megatron"),
        ("pipeline", FAMILIES, None),
        ("llama-7b", MODELS, "llama-2-7b"),
        ("gpt-3", MODELS, "gpt3-175b"),
        ("20b", MODELS, "gpt-20b"),
        ("resnet50", MODELS, None),
    ],
)
def test_the_nearest_of_families_and_models(typed: str, names: Iterable[str], meant: str | None) -> None:
    assert near(typed, names) == meant


@pytest.mark.parametrize(
    ("setting", "meant"),
    [
        ("grad_accum=4", "training.grad_accum"),
        ("tensor=4", "plans.NAME.tensor"),
        ("plans.own={family='megatron',search={top_k=4}}", "top"),  # a slip, no mixture of experts
    ],
)
def test_a_key_without_its_table_or_with_a_letter_too_many(setting: str, meant: str, tmp_path: Path) -> None:
    message = refusal("run", TOY, "--set", setting, "--out", tmp_path / "out")
    assert f'unknown key; did you mean "{meant}"?' in message


def test_the_lattice_that_an_error_shows_works() -> None:
    """The example at the end of the message, set, is sound."""
    hops = "plans.my-own.step_reduction"
    message = refusal("check", TOY, "--plans", "my-own", "--set", f'{hops}=[{{axes=["package"]}}]')
    example = message.partition("for example step_reduction = ")[2]
    assert invoke("check", TOY, "--plans", "my-own", "--set", f"{hops}={example}").code == 0


@pytest.mark.parametrize(
    "name", ["deepseek-7b", "sequence_parallel_size", "context_length", "a100", "topology", "step"]
)
def test_a_name_of_something_else_is_not_said_to_be_missing(name: str) -> None:
    assert technique(name) is None
