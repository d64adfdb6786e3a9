"""Tables of single sizes in a scenario: what they mean, what a setting does to them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simfrontier.scenario import load_scenario
from simfrontier.workload import GptShape
from tests.invoke import TOY, said_of


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ("at={x={}}", 'at.x: got "x", allowed: a number of devices'),
        ("at={08={model={hidden=128}}}", 'at.08: got "08", allowed: a number of devices'),
        ('at={"٨"={model={hidden=128}}}', 'at.٨: got "٨", allowed: a number of devices'),
        (
            "at={8={plans={megatorn={tensor=2}}}}",
            'at.8.plans: "megatorn" is not a plan of this scenario; allowed: ddp, hsdp, my-own, zero-topo, zero1, '
            "zero2, zero3, zeropp",
        ),
        ("at={8={run={}}}", "at.8.run: unknown key; allowed: engine, model, plans, training"),
        ("at={8={modle={}}}", 'at.8.modle: unknown key; did you mean "model"?'),
        ("at={8={model={num_layer=4}}}", 'at.8.model.num_layer: unknown key; did you mean "num_layers"?'),
        (
            "at={8={plans={megatron={tensor=3}}}}",
            "at.8.plans.megatron: at 8 devices: tensor = 3 does not divide heads = 4; nearest that do: 2 and 4",
        ),
        (
            "at={8={training={batch=9}}}",
            "at.8.plans.megatron: at 8 devices: training.batch = 9 does not divide over 8 data-parallel ranks × "
            "micro-batch 1 = 8; nearest batches that do: 8 and 16",
        ),
    ],
)
def test_a_table_of_a_size_that_cannot_be_names_the_size(tmp_path: Path, table: str, wrong: str) -> None:
    assert said_of([table], tmp_path, "megatron") == wrong


def test_a_size_has_its_own_model_batch_and_grid_and_the_others_keep_theirs() -> None:
    settings = {
        "at": {
            "16": {
                "model": {"num_layers": 4, "hidden": 128},
                "training": {"batch": 64},
                "plans": {"megatron": {"tensor": 4}},
            }
        },
        "training.batch": 32,
        "tensor": 2,
    }
    scenario = load_scenario(TOY, {"plans.megatron.tensor": settings.pop("tensor"), **settings}, ("megatron",), (8, 16))
    small, large = scenario.case("megatron", 8), scenario.case("megatron", 16)
    assert (small.shape.num_layers, small.shape.hidden, small.samples, small.mesh["tensor"]) == (2, 64, 32, 2)
    assert (large.shape.num_layers, large.shape.hidden, large.samples, large.mesh["tensor"]) == (4, 128, 64, 4)
    assert isinstance(large.shape, GptShape) and large.shape.heads == 4  # what the size does not say is the scenario's


def test_a_setting_holds_at_every_size_also_where_a_table_says_otherwise(tmp_path: Path) -> None:
    text = TOY.read_text() + "\n[plans.megatron]\n[at.16]\nmodel = { num_layers = 4, hidden = 128 }\n"
    path = tmp_path / "sized.toml"
    path.write_text(text + "plans.megatron.tensor = 4\n")

    def of(**settings: Any) -> tuple[int, int, int]:
        one = load_scenario(
            path, {key.replace("__", "."): each for key, each in settings.items()}, ("megatron",), (16,)
        )
        case = one.case("megatron", 16)
        assert isinstance(case.shape, GptShape)
        return case.shape.num_layers, case.shape.hidden, case.mesh["tensor"]

    assert of() == (4, 128, 4)
    assert of(model__num_layers=6) == (6, 128, 4)
    assert of(plans__megatron__tensor=2) == (4, 128, 2)
    assert of(at__16__model__num_layers=8, model__num_layers=6) == (8, 128, 4)  # of the size alone
