"""Layers of several kinds: what each layer has, built from few layers or few stages as if built in full."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from simfrontier.core.plan import Engine, build, make_plan, stages, to_schedule
from simfrontier.core.plan.builder import ProgramBuilder
from simfrontier.core.plan.program import Compressor
from simfrontier.core.plan.tensor import engine_of
from simfrontier.core.program import Schedule, check, digest, saved_states
from simfrontier.core.workload import Checkpointing, Phase
from tests.core.plan.grids import SHAPE, axonn, megatron
from tests.core.plan.two_kinds import WIDE, two_kinds
from tests.core.program.builders import ENGINES, SMALL, mesh_of, options_of

H, F = SHAPE.hidden, SHAPE.feed_forward
PLAIN = 2 * H * F + F + H  # parameters of the MLP of a plain layer; those of a wide one: F is twice as much
OTHER = 4 * H * H + 3 * H + H + 4 * H  # and of the rest of a layer: attention and norms
ENDS = 2 * SHAPE.vocabulary * H + 2 * H


def zero(family: str, pattern: str, engine: Engine = SMALL, checkpointing: Checkpointing = "none") -> Schedule:
    mesh, options = mesh_of(2, 1, 2), options_of(family)
    work = two_kinds(SHAPE, pattern, mesh.num_ranks, checkpointing)
    return build(work, make_plan(family, options, mesh), mesh, engine, 2)


def grid(options: Any, pattern: str, ranks: int, checkpointing: Checkpointing = "none", micros: int = 4) -> Schedule:
    mesh = options.mesh(ranks, 4, 2)
    options.refuse_shape(replace(SHAPE, num_layers=len(pattern)))
    work = two_kinds(SHAPE, pattern, options.batch_ranks(mesh), checkpointing)
    how = engine_of(options, Engine(persistence_elements=0), options.batch_ranks(mesh))
    return build(work, make_plan(options.family, options, mesh), mesh, how, micros)


# ── what a layer has ──


@pytest.mark.parametrize("pattern", ["aab", "abab", "bbba"])
def test_parameters_and_flops_by_hand(pattern: str) -> None:
    """A wide layer has F (2H + 1) parameters and 6 · 2H · F flops a token more than a plain one."""
    work, n, wide = two_kinds(SHAPE, pattern, 1), len(pattern), pattern.count("b")
    assert work.num_parameters == ENDS + n * (OTHER + PLAIN) + wide * F * (2 * H + 1)
    plain = two_kinds(SHAPE, "a" * n, 1)
    assert work.matmul_flops - plain.matmul_flops == wide * 6 * 2 * H * F * SHAPE.sequence
    again = two_kinds(SHAPE, pattern, 1, "full").matmul_flops - two_kinds(SHAPE, "a" * n, 1, "full").matmul_flops
    assert again == wide * 8 * 2 * H * F * SHAPE.sequence


def test_a_step_holds_the_weights_of_the_layers_that_have_them() -> None:
    schedule = zero("ddp", "abba")
    layers: dict[str, set[int]] = {}
    for state in saved_states(schedule):
        if state.tensor.role == "weight" and state.tensor.per_layer:
            layers.setdefault(state.tensor.name, set()).add(state.layer)
    assert layers["h_to_4h.weight"] == {0, 3} and layers[f"{WIDE}h_to_4h.weight"] == {1, 2}
    assert layers["qkv.weight"] == {0, 1, 2, 3}
    held = sum(math.prod(each.tensor.shape) for each in saved_states(schedule) if each.tensor.role == "weight")
    assert held == two_kinds(SHAPE, "abba", 1).num_parameters


# ── sound under every plan ──


@pytest.mark.parametrize("checkpointing", ["full", "selective", "none"])
@pytest.mark.parametrize("family", ["ddp", "zero2", "zero3", "zeropp", "zero-topo"])
def test_plans_on_the_data_axes(family: str, checkpointing: Checkpointing) -> None:
    assert str(check(zero(family, "abba", ENGINES["tight"], checkpointing))) == "no findings"


@pytest.mark.parametrize("checkpointing", ["full", "selective", "none"])
@pytest.mark.parametrize(
    "options",
    [
        axonn(2, 2, 2, data="zero1"),
        megatron(2, sequence_parallel=True, data="zero3"),
        megatron(2, 2, data="zero1"),
        megatron(1, 2, order="interleaved", chunks=2, data="zero2"),
        megatron(1, 2, order="zb-v", chunks=2, data="zero1"),
        megatron(2, 3, layers=(3, 2, 1)),
        megatron(2, 3, layers="even", order="zb-h1"),
    ],
    ids=lambda each: f"{each.family} {each.pipeline} {each.order} {each.layers}",
)
def test_grids(options: Any, checkpointing: Checkpointing) -> None:
    uneven = options.layers != "equal"
    schedule = grid(options, "aabbab" if uneven else "aaabbaba", 24 if uneven else 16, checkpointing)
    assert str(check(schedule)) == "no findings"


# ── built from few ──


def built_whole(make: Any) -> Schedule:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(to_schedule, "repeated_layers", lambda build, layers, *_: build(layers, Compressor()))
        schedule: Schedule = make()
        return schedule


@pytest.mark.parametrize(
    ("family", "engine", "checkpointing"),
    [("ddp", "tight", "none"), ("zero2", "by layer", "full"), ("zero3", "by layer", "full")],
)
@pytest.mark.parametrize("pattern", ["aaa" + 58 * "b", 35 * "ab", "b" + 44 * "a" + "ba", 28 * "aab"])
def test_few_layers_make_the_schedule_of_many(
    family: str, engine: str, checkpointing: Checkpointing, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prefix, a suffix, and periods of two and three layers; fewer layers are built than the step has."""
    whole = built_whole(lambda: zero(family, pattern, ENGINES[engine], checkpointing))
    counts = []
    made = to_schedule.tensors_of

    def counted(work: Any, *rest: Any) -> Any:
        counts.append(work.num_layers)
        return made(work, *rest)

    monkeypatch.setattr(to_schedule, "tensors_of", counted)
    schedule = zero(family, pattern, ENGINES[engine], checkpointing)
    assert digest(schedule) == digest(whole)
    assert max(counts) <= 0.4 * len(pattern)


def test_stages_with_the_same_kinds_of_layers_are_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more kind of stage is built once forward, and backward for the last and for another micro-batch."""
    counts = Counter[str]()

    class Counted(ProgramBuilder):
        def __post_init__(self) -> None:
            counts[pattern] += 1
            super().__post_init__()

    monkeypatch.setattr(stages, "ProgramBuilder", Counted)
    alike, turned = 8 * "ab", 4 * "ab" + 3 * "ba" + "ab"
    for pattern in (alike, turned):
        grid(megatron(1, 8), pattern, 8, micros=8)
    assert counts[turned] - counts[alike] == 3


@pytest.mark.parametrize(
    "options",
    [
        megatron(2, 2, data="zeropp"),
        megatron(1, 2, data="zero-topo"),
        megatron(1, 2, order="interleaved", chunks=2, data="zero1"),
        megatron(1, 2, order="zb-v", chunks=2, data="zero1"),
        megatron(1, 2, data="ddp"),
    ],
    ids=lambda each: f"{each.data.family} {each.order}",
)
@pytest.mark.parametrize("micros", [2, 6])
def test_passes_of_few_micro_batches_make_those_of_all(options: Any, micros: int) -> None:
    few = grid(options, "abab", 16, "full", micros)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stages._Stages, "_micro_like", lambda self, work: work.micro)
        assert digest(grid(options, "abab", 16, "full", micros)) == digest(few)


def test_equal_phases_count_as_one_kind() -> None:
    work = two_kinds(SHAPE, "ab", 1)
    first, second = work.layers
    again = Phase(forward=first.forward, backward=first.backward)
    assert replace(work, layers=(first, second, again)).kinds == (first, second)
