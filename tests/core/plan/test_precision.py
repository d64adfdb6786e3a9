"""Schedules in every precision: valid, with exact bytes of states and messages."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from simfrontier.answers.step.volumes import RequiredBytes, step_needs
from simfrontier.core.codecs import Plain
from simfrontier.core.plan import FAMILIES, Engine, build, make_plan
from simfrontier.core.program import Collective, Mesh, Schedule, check
from simfrontier.core.program.store import from_json, to_json
from simfrontier.core.workload import (
    PRECISIONS,
    Checkpointing,
    GptShape,
    Optimizer,
    find_model,
    find_precision,
    workload_of,
)

FAMILY_NAMES = ("ddp", "zero1", "zero2", "zero3", "hsdp", "zeropp", "zero-topo")
MODEL_BYTES = {"fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8}
UNQUANTISED: dict[str, dict[str, Any]] = {
    "zeropp": {"weight_codec": "plain", "quantised_gradient_codec": "plain"},
    "zero-topo": {"weight_codec": "plain", "node_gradient_codec": "plain", "cross_gradient_codec": "plain"},
}
QUANTISED: dict[str, dict[str, Any]] = {
    "zeropp": {"weight_codec": "int8:64", "quantised_gradient_codec": "int4:64"},
    "zero-topo": {"weight_codec": "int8:64", "node_gradient_codec": "int4:64", "cross_gradient_codec": "int4:64"},
}
CODING = {"encode", "decode", "decode_sum"}
STATES = ("weight", "copy", "accumulator", "optimizer", "master")
NOTHING_WHOLE = Engine(persistence_elements=0, reuse_elements=0)  # and every gather is made
# every weight divides by 16 ranks, so that no padding disturbs the closed forms
EXACT = GptShape(
    name="exact", num_layers=2, hidden=64, heads=4, vocabulary=128, sequence=8, source="made for this test"
)
PSI = EXACT.num_parameters


def mesh_of(node: int, package: int, gcd: int) -> Mesh:
    return Mesh((("node", node), ("package", package), ("gcd", gcd)))


TWO_NODES = mesh_of(2, 4, 2)


def built(
    family: str,
    precision: str,
    mesh: Mesh = TWO_NODES,
    model: str = "exact",
    grad_accum: int = 1,
    checkpointing: Checkpointing = "full",
    engine: Engine = NOTHING_WHOLE,
    gradients: str | None = None,
    master: str | None = None,
    moments: str | None = None,
    optimizer: Optimizer = "adam",
    **options: Any,
) -> Schedule:
    chosen = FAMILIES[family][0].model_validate({"family": family, **options})
    shape = EXACT if model == "exact" else find_model(model)
    types = find_precision(precision).keeping(gradients, master, moments)
    work = workload_of(shape, mesh.num_ranks, checkpointing, types, optimizer=optimizer)
    return build(work, make_plan(family, chosen, mesh), mesh, engine, grad_accum)


def kinds(schedule: Schedule) -> set[str]:
    return {op.kind for role in schedule.roles for _, op in role.instances()}


def codecs(schedule: Schedule, move: str) -> set[str]:
    """The codecs of a move's collectives."""
    ops = {op for role in schedule.roles for _, op in role.instances() if isinstance(op, Collective)}
    return {str(op.codec) for op in ops if op.name == move}


# ── every family in every precision ──


WAYS = tuple(product(((1, 1, 2), (2, 2, 2), (3, 4, 2)), (1, 2), ("full", "none")))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_every_family_is_sound_and_unquantised_moves_are_sent_as_they_are(family: str, precision: str) -> None:
    """In a sixth of all ways each, and of two models, so that any two of family, precision, mesh and checkpointing
    meet."""
    some_whole = Engine(persistence_elements=300, prefetch_elements=20_000, live_elements=100_000)
    turn = FAMILY_NAMES.index(family) + [*PRECISIONS].index(precision)
    for number, (mesh, grad_accum, checkpointing) in enumerate(WAYS[turn % 6 :: 6]):
        case = (mesh, grad_accum, checkpointing)
        schedule = built(
            family,
            precision,
            mesh_of(*mesh),
            ("tiny", "tiny-mlp")[number],
            grad_accum,
            checkpointing,
            some_whole,
            **UNQUANTISED.get(family, {}),
        )
        assert str(check(schedule)) == "no findings", case
        assert not kinds(schedule) & CODING, case
        sent = {codec for move in ("weight_gather", "gradient", "publish") for codec in codecs(schedule, move)}
        assert sent <= {precision}, case
        assert from_json(to_json(schedule), "stored") == schedule, case


@pytest.mark.parametrize("precision", ["bf16", "fp64"])
@pytest.mark.parametrize("family", ["zeropp", "zero-topo"])
def test_quantised_plans_are_sound_and_send_what_they_send_in_fp16(family: str, precision: str) -> None:
    def schedule(of: str) -> Schedule:
        return built(family, of, model="tiny", grad_accum=2, **QUANTISED[family])

    mine, usual = schedule(precision), schedule("fp16")
    assert str(check(mine)) == "no findings"
    assert codecs(mine, "weight_gather") == codecs(usual, "weight_gather") == {"int8:64"}
    assert "int4:64" in codecs(mine, "gradient") & codecs(usual, "gradient")
    coded = {name: t.local_bytes(mine.mesh) for name, t in mine.tensors.items() if t.codec and t.codec.is_quantised}
    assert coded and coded == {name: usual.tensors[name].local_bytes(usual.mesh) for name in coded}


# ── exact bytes ──


def per_parameter(schedule: Schedule) -> Fraction:
    """Bytes of one rank's states per parameter of the model."""
    total = 0
    for tensor in schedule.tensors.values():
        if tensor.role in STATES:
            total += (EXACT.num_layers if tensor.per_layer else 1) * tensor.local_bytes(schedule.mesh)
    return Fraction(total, PSI)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_states_with_gradients_added_up_in_fp32(precision: str) -> None:
    """Weight 2, accumulator 4, master 4, two moments 8 bytes: 18."""

    def bytes_of(family: str, **options: Any) -> Fraction:
        return per_parameter(built(family, precision, gradients="fp32", **options))

    assert bytes_of("ddp") == 18
    assert bytes_of("zero1") == 6 + Fraction(12, 16)
    assert bytes_of("zero2") == 2 + Fraction(16, 16)
    assert bytes_of("zero3") == Fraction(18, 16)
    assert bytes_of("hsdp") == Fraction(18, 8)
    topo = bytes_of("zero-topo", **UNQUANTISED["zero-topo"])
    assert topo == Fraction(2, 2) + Fraction(4, 8) + Fraction(12, 16)


@pytest.mark.parametrize("optimizer", ["adam", "lamb"])
def test_states_in_bf16(optimizer: Optimizer) -> None:
    """Weight 2, accumulator 2, master 4 or 2, two moments of 2 bytes: 12 or 10, whatever reads them."""
    assert per_parameter(built("zero3", "bf16", moments="bf16", optimizer=optimizer)) == Fraction(12, 16)
    both = built("zero1", "bf16", moments="bf16", master="bf16", optimizer=optimizer)
    assert per_parameter(both) == 4 + Fraction(6, 16)
    assert str(check(both)) == "no findings"


def test_gradients_added_up_in_fp32_are_reduced_in_it() -> None:
    """What is reduced once a step travels as it was added up, what is before that as it was made or as a codec says."""
    for family, size in (("ddp", 2 * 4), ("zero1", 2 * 4)):  # an all-reduce is a scatter and a gather
        schedule = built(family, "bf16", gradients="fp32", grad_accum=2)
        assert str(check(schedule)) == "no findings"
        assert step_needs(schedule).total("gcd", "step_reduction") == size * PSI * Fraction(15, 16)
    made = built("zero3", "bf16", gradients="fp32", grad_accum=2)
    assert step_needs(made).total("gcd", "gradient") == 2 * 2 * PSI * Fraction(15, 16)
    coded = built("zero3", "bf16", gradients="fp32", grad_accum=2, gradient_codec=Plain("fp32"))
    assert step_needs(coded).total("gcd", "gradient") == 2 * 4 * PSI * Fraction(15, 16)


def needs(family: str, precision: str, **options: Any) -> RequiredBytes:
    return step_needs(built(family, precision, **options))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_a_rank_receives_scales_with_the_models_type(precision: str) -> None:
    own = MODEL_BYTES[precision]
    # ZeRO-3 over 16 ranks: every gradient is scattered once; each rank takes 15/16 of psi elements for its own 1/16
    zero3, usual = needs("zero3", precision), needs("zero3", "fp16")
    assert zero3.total("gcd", "gradient") == own * PSI * Fraction(15, 16)
    # ddp: an all-reduce is a scatter and a gather
    assert needs("ddp", precision).total("gcd", "step_reduction") == 2 * own * PSI * Fraction(15, 16)
    # ZeRO-1: new weights are published once
    assert needs("zero1", precision).total("gcd", "publish") == own * PSI * Fraction(15, 16)
    for boundary in TWO_NODES.names:
        assert zero3.total(boundary, "weight_gather") * 2 == usual.total(boundary, "weight_gather") * own > 0
