"""The nearest names: what newcomers type, and what they are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.base.errors import near, not_modelled
from simfrontier.core.plan import FAMILIES
from simfrontier.core.workload import MODELS
from tests.invoke import TOY, invoke, refusal


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("zero++", "zeropp"),
        ("zero_topo", "zero-topo"),
        ("mega", "megatron"),
        ("pipeline", None),
    ],
)
def test_families(typed: str, meant: str | None) -> None:
    assert near(typed, FAMILIES) == meant


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("llama-7b", "llama-2-7b"),
        ("gpt-3", "gpt3-175b"),
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
        ("checkpointing=none", "model.checkpointing"),
        ("tensor=4", "plans.NAME.tensor"),
    ],
)
def test_a_key_without_its_table(setting: str, meant: str, tmp_path: Path) -> None:
    message = refusal("run", TOY, "--set", setting, "--out", tmp_path / "out")
    assert message == f'{TOY}: {setting.partition("=")[0]}: unknown key; did you mean "{meant}"?'


@pytest.mark.parametrize("typed", ["toi.toml", "toy"])
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


@pytest.mark.parametrize(
    ("setting", "missing"),
    [
        ("model.num_experts=8", "mixtures of experts"),
        ("model.name=Mixtral-8x22B", "mixtures of experts"),
        ("expert_parallel=8", "expert parallelism"),
        ("plans.ddp.cp=2", "context parallelism"),
    ],
)
def test_what_is_not_modelled_is_no_slip(setting: str, missing: str) -> None:
    line = refusal("run", str(TOY), "--set", setting)
    assert line.endswith(f" not modelled yet: {missing}")


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (("run", str(TOY), "--plans", "ddp,ring-attention"), "context parallelism"),
        (("tune", str(TOY), "--pin", "expert=8"), "expert parallelism"),
        (("compare", "--machine", "frontier", "--model", "mixtral-8x7b", "--devices", "8"), "mixtures of experts"),
    ],
)
def test_what_is_not_modelled_is_no_slip_in_options(arguments: tuple[str, ...], missing: str) -> None:
    assert refusal(*arguments).endswith(f"not modelled yet: {missing}")


@pytest.mark.parametrize(
    "name", ["deepseek-7b", "sequence_parallel_size", "context_length", "a100", "topology", "step"]
)
def test_a_name_of_something_else_is_not_said_to_be_missing(name: str) -> None:
    assert not_modelled(name) is None


def test_a_letter_too_many_is_a_slip() -> None:
    line = refusal("run", str(TOY), "--set", "plans.own={family='megatron',search={top_k=4}}")
    assert 'did you mean "top"?' in line
