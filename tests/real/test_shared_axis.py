"""One axis that cuts tokens in most ops and heads in attention: all-to-alls between, and the weights of the unsharded
model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.core.plan import Engine, Plan, build
from simfrontier.core.plan.families import FAMILIES
from simfrontier.core.plan.moves import Hop
from simfrontier.core.program import Mesh, Schedule, check
from simfrontier.core.workload import Attention, gpt
from simfrontier_real.train.train import train_in_one_process
from tests.real.grids import SHAPES
from tests.real.schedules import PLAIN, distance, training, unsharded

OF_HEADS = ("attention", "scores", "softmax", "context")
MESH = Mesh((("data", 2), ("tokens", 2)))


def plan_of(data: str) -> Plan:
    """A plan of the data axis, whose weights are the same along `tokens` and summed over it at the end of the step."""
    plan: Plan = FAMILIES[data][1]("shared", FAMILIES[data][0](family=data), MESH, ("data",))
    return replace(
        plan,
        hops=dict(plan.hops)
        | {"step_reduction": (*plan.hops["step_reduction"], Hop(("tokens",))), "scalar": (Hop(MESH.names),)},
        sequence="tokens",
        cuts_of_kind={(kind, "a"): ("tokens",) for kind in OF_HEADS},
        gathers_again=False,
        gathers_inputs_again=False,
        hooks=False,
        groups="lane",
    )


def schedule_of(shape: str, attention: Attention, data: str, engine: Engine = PLAIN) -> Schedule:
    workload = gpt(SHAPES[shape], 4, "full", precision="fp64", attention=attention)
    return build(workload, plan_of(data), MESH, engine, grad_accum=2)


@pytest.mark.parametrize(
    ("shape", "attention", "data"),
    [
        ("sequential", "plain", "ddp"),
        ("llama", "fused", "zero1"),
        ("tied", "plain", "zero3"),
        ("gpt-2", "fused", "zero3"),
        ("bloom", "plain", "ddp"),
    ],
)
def test_attention_by_heads_beside_tokens_trains_like_the_unsharded_model(
    shape: str, attention: Attention, data: str
) -> None:
    made = schedule_of(shape, attention, data)
    assert str(check(made)) == "no findings"
    ours, theirs = train_in_one_process(made, training(2)), unsharded(made, training(2), "fp64")
    assert distance(ours.weights, theirs.weights) <= 1e-10
