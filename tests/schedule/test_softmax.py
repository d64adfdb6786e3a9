"""Kernels of a softmax: how much memory they move, by hand; stored, read back, shown and refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest

from simfrontier.errors import InputError
from simfrontier.plan import Engine, build, make_plan
from simfrontier.schedule import Compute, Mesh, Ref, Schedule, Tensor, digest
from simfrontier.schedule.as_text import render
from simfrontier.schedule.cost import traffic_bytes
from simfrontier.schedule.placement import REPLICATE
from simfrontier.schedule.softmax import KERNELS
from simfrontier.schedule.store import from_json, to_json
from simfrontier.workload import GptShape, MlpShape, Softmax, gpt, mlp
from tests.plan.grids import SHAPE, megatron, schedule_of
from tests.schedule.builders import mesh_of, options_of
from tests.schedule.mutations import changed, lines, mutated, where

MESH = Mesh((("gcd", 1),))
PASSES = {"": 2, "fused": 2, "two-pass": 3, "three-pass-recompute": 4, "three-pass-reload": 5}


def made(softmax: Softmax, model: Any = SHAPE, ranks: int = 2) -> Schedule:
    options, mesh = options_of("ddp"), mesh_of(1, 1, ranks)
    if isinstance(model, GptShape):
        work = gpt(model, ranks, "full", precision="fp32", softmax=softmax)
    else:
        work = mlp(model, ranks, "none", precision="fp32", softmax=softmax)
    return build(work, make_plan("ddp", options, mesh), mesh, Engine(persistence_elements=0))


def test_every_kernel_has_a_name_in_scenarios() -> None:
    assert set(KERNELS) == set(get_args(Softmax))


@pytest.mark.parametrize("kernel", PASSES)
def test_traffic_by_hand(kernel: str) -> None:
    """Rows of N = 24 FP32 numbers into FP32: 2N, 3N, 4N, 5N numbers (arXiv 2001.04438). Into FP16 the passes over the
    result are half as wide: two-pass 2 · 4 + 2, recompute 3 · 4 + 2, reload 2 · 4 + 3 · 2 bytes. Another operand (of
    24 FP16 numbers) is read once."""
    rows = Tensor(name="x", shape=(3, 8), dtype="fp32", role="activation", placement=REPLICATE)
    tensors = {"x": rows, "y": replace(rows, name="y"), "z": replace(rows, name="z", dtype="fp16")}

    def moved(writes: str, *more: str) -> int:
        reads = tuple(map(Ref, ("x", *more)))
        op = Compute(kind="softmax", name="softmax", reads=reads, writes=(Ref(writes),), kernel=kernel)
        return traffic_bytes(op, tensors, MESH)

    assert moved("y") == PASSES[kernel] * 24 * 4
    narrow = {"two-pass": 10, "three-pass-recompute": 14, "three-pass-reload": 14}.get(kernel, 6)
    assert moved("z") == narrow * 24
    assert moved("y", "z") == moved("y") + 24 * 2


@pytest.mark.parametrize("softmax", get_args(Softmax))
def test_kernels_are_of_the_forward_softmax_and_of_the_loss_over_whole_rows(softmax: Softmax) -> None:
    """Recomputed too; the backward's pass is another."""
    schedule = made(softmax)
    ops = [op for _, op in schedule.roles[0].instances() if isinstance(op, Compute)]
    wanted = "" if softmax == "fused" else softmax
    assert {(op.name, op.kernel) for op in ops if op.kind in ("softmax", "loss")} == {
        ("softmax", wanted),
        ("softmax.backward", ""),
        ("loss", wanted),
    }
    assert {op.kernel for op in ops if op.kind not in ("softmax", "loss")} == {""}
    assert lines(schedule) == []
    assert from_json(to_json(schedule), "again") == schedule
    assert ("softmax by" in render(schedule)) == bool(wanted)


def test_fused_is_what_is_built_without_a_kernel() -> None:
    assert '"kernel"' not in to_json(made("fused")) and '"softmax":"' not in to_json(made("fused"))
    assert len({digest(made(softmax)) for softmax in get_args(Softmax)}) == 4


def test_a_cut_loss_has_passes_of_its_own() -> None:
    options = megatron(2)
    mesh = options.mesh(2, 1, 1)
    work = gpt(SHAPE, 1, "none", softmax="two-pass")
    schedule = build(work, make_plan("megatron", options, mesh), mesh, Engine(persistence_elements=0))
    ops = [op for _, op in schedule.roles[0].instances() if isinstance(op, Compute) and op.kind in ("softmax", "loss")]
    assert {(op.name, op.kernel) for op in ops} == {("softmax", "two-pass"), ("softmax.backward", ""), ("loss", "")}
    assert digest(schedule) != digest(schedule_of(options, 2, checkpointing="none"))


def test_an_mlp_s_loss_has_the_kernel_too() -> None:
    shape = MlpShape(name="mlp", num_layers=1, inputs=8, hidden=8, classes=16, source="for this test")
    schedule = made("three-pass-reload", shape)
    kernels = {op.kernel for _, op in schedule.roles[0].instances() if op.kind == "loss"}  # type: ignore[union-attr]
    assert kernels == {"three-pass-reload"}
    assert schedule.meta["softmax"] == "three-pass-reload"


def stored(**fields: object) -> str:
    """A schedule's text with something else in its softmax."""
    form = json.loads(to_json(made("two-pass")))
    for op in form["ops"]:
        if op.get("module") == "softmax":
            op.update(fields)
    return json.dumps(form)


def test_an_unknown_kernel_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"kernel: got \"two-passes\"; did you mean \"two-pass\"\?$"):
        from_json(stored(kernel="two-passes"), "file")


def test_kernels_are_of_softmaxes_only() -> None:
    with pytest.raises(InputError, match=r"kernel: is of loss and softmax only, with reads and writes, not of a gelu$"):
        from_json(stored(kind="gelu"), "file")


@pytest.mark.parametrize("name", ["softmax", "loss"])
def test_another_kernel_is_another_digest(name: str) -> None:
    kind = name
    other = mutated(made("two-pass"), changed(where(kind, name), kernel="three-pass-reload"))
    assert digest(other) != digest(made("two-pass"))
