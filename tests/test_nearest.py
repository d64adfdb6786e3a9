"""The nearest names: what newcomers type, and what they are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.errors import near
from simfrontier.plan import FAMILIES
from simfrontier.workload import MODELS
from tests.invoke import TOY, invoke, refusal


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("zero++", "zeropp"),
        ("ZeRO++", "zeropp"),
        ("zero-3", "zero3"),
        ("zero_topo", "zero-topo"),
        ("ZeroTopo", "zero-topo"),
        ("zero4", "zero3"),
        ("mega", "megatron"),
        ("axon", "axonn"),
        ("pipeline", None),
    ],
)
def test_families(typed: str, meant: str | None) -> None:
    assert near(typed, FAMILIES) == meant


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("llama-7b", "llama-2-7b"),
        ("Llama2-7B", "llama-2-7b"),
        ("gpt3", "gpt3-175b"),
        ("gpt-3", "gpt3-175b"),
        ("gpt2", "gpt2-xl"),
        ("bloom", "bloom-176b"),
        ("neox", "gpt-neox-20b"),
        ("20b", "gpt-20b"),
        ("resnet50", None),
    ],
)
def test_models(typed: str, meant: str | None) -> None:
    assert near(typed, MODELS) == meant


@pytest.mark.parametrize(
    ("setting", "meant"),
    [
        ("grad_accum=4", "training.grad_accum"),
        ("micro_batch=2", "training.micro_batch"),
        ("checkpointing=none", "model.checkpointing"),
        ("overlap=false", "engine.overlap"),
        ("accum=2", "training.grad_accum"),
        ("tensor=4", "plans.NAME.tensor"),
        ("fidelity=chunk", "run.fidelity"),
        ("devices=[8]", "run.devices"),
    ],
)
def test_a_key_without_its_table(setting: str, meant: str, tmp_path: Path) -> None:
    message = refusal("run", TOY, "--set", setting, "--out", tmp_path / "out")
    assert message == f'{TOY}: {setting.partition("=")[0]}: unknown key; did you mean "{meant}"?'


@pytest.mark.parametrize("typed", ["toi.toml", "toy", "Toy.toml", "toys.toml"])
def test_a_scenario_that_is_not_there(typed: str, tmp_path: Path) -> None:
    message = refusal("run", TOY.parent / typed, "--out", tmp_path / "out")
    assert message.endswith(f'No such file or directory; did you mean "{TOY}"?')


def test_the_names_of_other_programs(tmp_path: Path) -> None:
    for typed, meant in (("FSDP", "zero3"), ("zero", "zero3"), ("mics", "hsdp"), ("zero++", "zeropp")):
        message = refusal("run", TOY, "--plans", typed, "--out", tmp_path)
        assert message == f'{TOY}: plans: got "{typed}"; did you mean "{meant}"?'


def test_the_lattice_that_an_error_shows_works(tmp_path: Path) -> None:
    """The example at the end of the message, set, is sound."""
    hops = "plans.my-own.step_reduction"
    message = refusal("check", TOY, "--plans", "my-own", "--set", f'{hops}=[{{axes=["package"]}}]')
    example = message.partition("for example step_reduction = ")[2]
    assert invoke("check", TOY, "--plans", "my-own", "--set", f"{hops}={example}").code == 0
