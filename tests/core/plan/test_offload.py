"""Activations that wait in the host's memory: their bytes by hand, when they move, and that nothing reads them before
they have come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from simfrontier.answers.study import ScheduleCache, simulated
from simfrontier.base.errors import InputError
from simfrontier.core.plan import build, make_plan
from simfrontier.core.program import Compute, Op, Schedule, check, from_json, peak_bytes, to_json
from simfrontier.core.workload import gpt
from simfrontier.inputs.scenario import Scenario, scenario_of
from tests.core.plan.grids import megatron
from tests.core.plan.test_context import LLAMA
from tests.real.schedules import PLAIN

H, S, KEYS, LAYERS = 48, 24, 16, 6
KEPT: Final = (14 * H + 2 * KEYS) * S * 2  # bf16: norms and their inputs, q, k, v, context, 4h before and after GELU


def built(num: int, stages: int = 1, grad_accum: int = 1, **keys: Any) -> Schedule:
    options = megatron(1, pipeline=stages, offload_activations=num, **keys)
    mesh = options.mesh(stages, 1, 1)
    shape = replace(LLAMA, num_layers=LAYERS)
    work = gpt(shape, 1, "none", precision="bf16", attention="fused")
    return build(work, make_plan("megatron", options, mesh), mesh, PLAIN, grad_accum)


def copies(schedule: Schedule, kind: str) -> list[tuple[str, int, int, int]]:
    """(label, layer and micro-batch of the call, layer that is copied) of each copy of a role."""
    return [
        (call.label, call.layer, call.micro, call.layer + op.reads[0].layer)
        for call in schedule.roles[0].calls
        for op in call.ops
        if op.kind == kind
    ]


def test_a_layer_leaves_beside_the_next_forward_and_comes_back_beside_the_backward_before() -> None:
    held = built(3)
    assert copies(held, "offload") == [("forward", layer + 1, 0, layer) for layer in range(3)]
    assert copies(held, "reload") == [("backward", layer + 1, 0, layer) for layer in (2, 1, 0)]
    lanes = {op.lane for op in held.ops if op.kind in ("offload", "reload")}
    assert lanes == {"offload", "reload"} and str(check(held)) == "no findings"
    assert from_json(to_json(held), "held") == held


@pytest.mark.parametrize("num", [1, 2, 3, 4])
def test_bytes_on_device_and_host_by_hand(num: int) -> None:
    """The peak is at the head, where the others hold all that they keep, and the host what has left."""
    plain, held = built(0), built(num)
    assert peak_bytes(held, on_host=True).num_bytes == num * KEPT
    assert peak_bytes(plain).num_bytes - peak_bytes(held).num_bytes == num * KEPT
    assert peak_bytes(plain, on_host=True).num_bytes == 0


def test_stages_keep_as_many_as_micro_batches_are_in_flight() -> None:
    """1F1B: two micro-batches on the first of two stages, one on the second; one of three layers of each leaves."""
    held = built(1, stages=2, grad_accum=4)
    assert [peak_bytes(held, role, on_host=True).num_bytes for role in held.roles] == [2 * KEPT, KEPT]
    assert str(check(held)) == "no findings"


def changed(schedule: Schedule, change: Callable[[Compute], Op | None]) -> Schedule:
    """The schedule with its copies back changed, or left out."""
    roles = []
    for role in schedule.roles:
        calls = []
        for call in role.calls:
            ops = (change(op) if isinstance(op, Compute) and op.kind == "reload" else op for op in call.ops)
            calls.append(replace(call, ops=tuple(op for op in ops if op is not None)))
        roles.append(replace(role, calls=tuple(calls)))
    return replace(schedule, roles=tuple(roles))


def test_a_backward_that_reads_what_has_not_come_back_is_found() -> None:
    held = built(2)
    assert "x.reload" in str(check(changed(held, lambda op: None)))
    short = changed(held, lambda op: replace(op, reads=op.reads[1:], writes=op.writes[1:]))
    assert "gelu.out.reload" in str(check(short))


def scenario(num: int, rate: float) -> Scenario:
    table = {"family": "megatron", "data": "ddp", "offload_activations": num}
    sizes = {"num_layers": LAYERS, "hidden": 512, "heads": 8, "vocabulary": 512, "sequence": 512}
    return scenario_of(
        {
            "name": "offload",
            "title": "offload",
            "machine": {"name": "toy-pair", "overrides": {"host.copy_bytes_per_s": rate}},
            "model": {"name": "own", **sizes, "attention": "fused", "checkpointing": "none"},
            "run": {"devices": [2]},
            "plans": {"tried": table},
        },
        "offload.toml",
    )


def step_s(num: int, rate: float) -> float:
    made = scenario(num, rate)
    return simulated(made, ScheduleCache().of_case(made, made.case("tried", 2)), "flow").step_s


def test_a_fast_link_hides_copies_and_a_slow_one_takes_their_bytes() -> None:
    """Both copies of three layers pass a slow link one after the other: the stream, two norms of it, queries, keys and
    values, their context, and 4 h before and after GELU, in fp16."""
    per_layer, rate = 15 * 512 * 512 * 2, 1e6
    assert step_s(3, 1e15) == pytest.approx(step_s(0, 20e9), rel=0.02)
    assert step_s(3, rate) == pytest.approx(2 * 3 * per_layer / rate, rel=0.01)


@pytest.mark.parametrize(
    ("num", "rate", "words"),
    [
        (7, 1e9, "offload_activations = 7; allowed: 0 to 6, the layers in a row of a stage"),
        (2, 0.0, "host.copy_bytes_per_s"),
    ],
)
def test_what_is_refused(num: int, rate: float, words: str) -> None:
    with pytest.raises(InputError, match=words):
        step_s(num, rate)
