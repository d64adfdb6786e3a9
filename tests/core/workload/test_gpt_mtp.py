"""Multi-token prediction by hand: parameters, flops, what a pipeline's last stage holds, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.plan import build, make_plan
from simfrontier.core.plan.families import FAMILIES
from simfrontier.core.program import Schedule, check
from simfrontier.core.workload import GptShape, find_model, gpt
from tests.real.schedules import PLAIN

H, HEADS, L, V, S, F = 16, 2, 4, 40, 8, 24
SHAPE = GptShape(
    name="further",
    num_layers=L,
    hidden=H,
    heads=HEADS,
    vocabulary=V,
    sequence=S,
    source="",
    residual="sequential",
    ffn_hidden=F,
    gated=True,
    norm="rmsnorm",
    biases=False,
    positions="rotary",
    causal=True,
    mtp_layers=1,
)
LAYER = 4 * H * H + 3 * H * F + 2 * H  # qkv and dense, the MLP, two norms
DEPTH = LAYER + 2 * H * H + 3 * H  # a layer, the projection, and three norms


def schedule(stages: int, **keys: Any) -> Schedule:
    plan = FAMILIES["megatron"][0](family="megatron", pipeline=stages, **keys)
    plan.refuse_shape(SHAPE)
    mesh = plan.mesh(stages, per_node=1, per_package=1)
    work = gpt(SHAPE, 1, "none", precision="bf16", attention="fused")
    return build(work, make_plan("megatron", plan, mesh), mesh, PLAIN, 4)


def test_deepseek_v3_has_685_billion_parameters_with_its_further_module() -> None:
    """Its published weights repeat the tables of the embedding and the head (deepseek-ai/DeepSeek-V3,
    README_WEIGHTS.md: 671B, and 11.5B of the module's own, 0.9B of either table)."""
    shape = find_model("deepseek-v3")
    assert isinstance(shape, GptShape)
    with_further = replace(shape, mtp_layers=1)
    own = with_further.num_parameters - shape.num_parameters
    mla = 7168 * (1536 + 512 + 64) + 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168 + 1536 + 512
    experts = 7168 * 256 + 257 * 3 * 7168 * 2048
    assert own == mla + experts + 2 * 7168 + 2 * 7168**2 + 3 * 7168
    assert shape.num_parameters == pytest.approx(671e9, rel=1e-4)
    assert with_further.num_parameters + 2 * 129280 * 7168 == pytest.approx(684.5e9, rel=1e-4)
    assert gpt(with_further, 1, "none", attention="fused").num_parameters == with_further.num_parameters


@pytest.mark.parametrize("depths", [0, 1, 2])
def test_parameters_and_flops_of_each_depth(depths: int) -> None:
    """Six flops for each element of a matrix and token, and 12 h for each of (s + 1) / 2 positions attended to."""
    shape = replace(SHAPE, mtp_layers=depths)
    assert shape.num_parameters == L * LAYER + H + 2 * V * H + depths * DEPTH
    matrices = (L + depths) * (LAYER - 2 * H) + depths * 2 * H * H + (1 + depths) * V * H
    by_hand = 6 * matrices + (L + depths) * 6 * H * (S + 1)
    work = gpt(shape, 3, "none", attention="fused")
    assert shape.model_flops_per_token == by_hand
    # the backward of fused attention computes the scores again: a sixth of its flops
    assert work.matmul_flops == 3 * S * (by_hand + (L + depths) * H * (S + 1))


def test_the_last_stage_has_the_depth_and_a_table_of_the_embedding() -> None:
    """Layers 2 + 2 + (none but the depth): bf16 weights and gradients, fp32 masters and two moments, of 16 bytes."""
    held = schedule(3, layers=(2, 2, 1))
    assert str(check(held)) == "no findings"
    states = []
    for role in held.roles:
        refs = {(ref.name, ref.layer + call.layer) for call in role.calls for op in call.ops for ref in touched(op)}
        each = {(name, layer * held.tensors[name].per_layer) for name, layer in refs}
        kept = [held.tensors[name] for name, _ in each]
        states.append(sum(tensor.local_bytes(held.mesh) for tensor in kept if tensor.persistent and tensor.weight))
    layers, table = 2 * LAYER * 16, V * H * 16
    assert states == [layers + table, layers, DEPTH * 16 + 2 * table + H * 16]  # and the final norm


def touched(op: Any) -> tuple[Any, ...]:
    return (*op.reads, *op.writes, *op.accumulates)


@pytest.mark.parametrize(
    ("stages", "keys", "words"),
    [
        (5, {"layers": (1, 1, 1, 2, 0)}, "mtp_layers = 1 beside the head, on a stage of 0 layers; allowed: 0 or fewer"),
        (2, {"layers": (2, 2)}, "4 layers; allowed: the 5 of further"),
        (2, {}, 'or layers = "even"'),
    ],
)
def test_stages_that_cannot_be(stages: int, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        schedule(stages, **keys)
