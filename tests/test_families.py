"""The named plans: placements of every family on every kind of mesh, hpZ's rules, fallbacks, and what options do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from simfrontier.codecs import Plain, Quantised
from simfrontier.errors import InputError
from simfrontier.plan.families import FAMILIES, make_plan
from simfrontier.plan.moves import Hop
from simfrontier.plan.plan import CopyRule, Engine, Plan, Stage
from simfrontier.plan.to_schedule import build
from simfrontier.plan.zero import ZERO
from simfrontier.schedule.mesh import Mesh
from simfrontier.schedule.store import to_json
from simfrontier.workload import Weight, find_model, gpt

ALL = frozenset({"node", "package", "gcd"})
NODE = frozenset({"package", "gcd"})
PAIR = frozenset({"gcd"})
NONE: frozenset[str] = frozenset()
INT8, INT4 = Quantised("int8", 6144), Quantised("int4", 6144)
SIZES = ((1, 1, 2), (1, 2, 2), (1, 4, 2), (2, 4, 2))
STAGES: tuple[Stage, ...] = ("forward", "recompute", "backward")


def mesh_of(node: int, package: int, gcd: int) -> Mesh:
    return Mesh((("node", node), ("package", package), ("gcd", gcd)))


def plan_of(family: str, mesh: Mesh, **options: Any) -> Plan:
    chosen = FAMILIES[family][0].model_validate({"family": family, **options})
    return make_plan("mine", chosen, mesh)


# ── placements ──

PLACED = {  # family: axes of weight, accumulator, optimizer, if all axes are longer than 1
    "ddp": (NONE, NONE, NONE),
    "zero1": (NONE, NONE, ALL),
    "zero2": (NONE, ALL, ALL),
    "zero3": (ALL, ALL, ALL),
    "hsdp": (NODE, NODE, NODE),
    "zeropp": (ALL, ALL, ALL),
    "zero-topo": (PAIR, NODE, ALL),
}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("family", PLACED)
def test_states_are_flat_over_the_axes_that_the_mesh_has(family: str, sizes: tuple[int, int, int]) -> None:
    mesh = mesh_of(*sizes)
    live = frozenset(mesh.live(mesh.names))
    plan = plan_of(family, mesh)
    assert (plan.weight, plan.accumulator, plan.optimizer) == tuple(axes & live for axes in PLACED[family])
    assert frozenset(plan.axes) == live
    assert plan.weight | plan.accumulator | plan.optimizer <= set(plan.nesting)


@pytest.mark.parametrize("sizes", SIZES)
def test_a_second_copy_lies_over_a_node_where_there_are_several(sizes: tuple[int, int, int]) -> None:
    mesh = mesh_of(*sizes)
    assert plan_of("zeropp", mesh).copy == (NODE if mesh["node"] > 1 else None)
    assert plan_of("zeropp", mesh, hpz=False).copy is None
    assert plan_of("zero-topo", mesh).copy is None
    wanted = frozenset(mesh.live(("package", "gcd"))) if mesh["package"] > 1 else None
    assert plan_of("zero-topo", mesh, second_copy="fp16").copy == wanted  # on one package it would be the weight again
    assert [plan_of(family, mesh).copy for family in ("ddp", "zero1", "zero2", "zero3", "hsdp")] == [None] * 5


def test_zero_topo_nests_the_package_inside_the_node_inside_the_machine() -> None:
    assert plan_of("zero-topo", mesh_of(2, 4, 2)).nesting == ("gcd", "package", "node")
    assert plan_of("zero-topo", mesh_of(1, 4, 2)).nesting == ("gcd", "package")


# ── routes ──


def test_qgz_crosses_the_node_first_and_falls_back_on_one_node() -> None:
    plan = plan_of("zeropp", mesh_of(2, 4, 2))
    assert plan.hops["gradient"] == (Hop(("package", "gcd"), INT4), Hop(("node",), INT4))
    assert plan.hops["weight_gather"] == plan.hops["copy_gather"] == (Hop(("node", "package", "gcd"), INT8),)
    assert plan.hops["publish"] == plan.hops["scalar"] == (Hop(("node", "package", "gcd")),)  # as they are stored
    assert plan.quantises_gradients and plan.one_at_a_time
    for other in (plan_of("zeropp", mesh_of(1, 4, 2)), plan_of("zeropp", mesh_of(2, 4, 2), qgz=False)):
        assert other.hops["gradient"] == (Hop(other.axes),)
        assert other.fallback is None and not other.quantises_gradients and not other.one_at_a_time


def test_zero_topo_gathers_in_the_package_and_reduces_in_the_node() -> None:
    plan = plan_of("zero-topo", mesh_of(2, 4, 2))
    assert plan.hops["gradient"] == (Hop(("gcd", "package"), INT4),)
    assert plan.hops["step_reduction"] == (Hop(("node",), INT4),)
    assert plan.hops["publish"] == (Hop(("node",)), Hop(("package", "gcd")))


# ── which copy a gather reads, and which gather writes it ──

FIRST, LATER = True, False
READS: dict[CopyRule, dict[tuple[Stage, bool, bool], bool]] = {
    # (stage, first micro-batch, checkpointing)
    "first_gather_of_step": {
        ("forward", FIRST, True): False,
        ("forward", FIRST, False): False,
        ("forward", LATER, True): True,
        ("forward", LATER, False): True,
        **{(stage, first, True): True for stage in ("recompute", "backward") for first in (FIRST, LATER)},
        **{("backward", first, False): True for first in (FIRST, LATER)},
    },
    "every_forward": {
        **{("forward", first, checkpointing): False for first in (FIRST, LATER) for checkpointing in (True, False)},
        **{("recompute", first, True): False for first in (FIRST, LATER)},
        **{("backward", first, checkpointing): True for first in (FIRST, LATER) for checkpointing in (True, False)},
    },
    "stale_forward": {
        **{("forward", first, True): True for first in (FIRST, LATER)},
        **{("forward", first, False): False for first in (FIRST, LATER)},
        **{("recompute", first, True): False for first in (FIRST, LATER)},
        **{("backward", first, checkpointing): True for first in (FIRST, LATER) for checkpointing in (True, False)},
    },
}
VERSIONS: dict[str, CopyRule] = {
    "0.10.0": "every_forward",
    "0.10.2": "stale_forward",
    "0.13.2": "first_gather_of_step",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_which_gathers_read_the_copy(version: str) -> None:
    plan = plan_of("zeropp", mesh_of(2, 4, 2), hpz_version=version)
    table = READS[VERSIONS[version]]
    assert {case: plan.reads_copy(*case) for case in table} == table


@pytest.mark.parametrize("version", VERSIONS)
def test_which_gathers_write_the_copy(version: str) -> None:
    plan = plan_of("zeropp", mesh_of(2, 4, 2), hpz_version=version)
    written = {case for case in READS[VERSIONS[version]] if plan.writes_copy(*case)}
    forwards = {("forward", first, checkpointing) for first in (FIRST, LATER) for checkpointing in (True, False)}
    recomputes = {("recompute", FIRST, True), ("recompute", LATER, True)}
    expected = {
        "first_gather_of_step": {("forward", FIRST, True), ("forward", FIRST, False)},
        "every_forward": forwards | recomputes,
        "stale_forward": {("forward", FIRST, False), ("forward", LATER, False)} | recomputes,
    }
    assert written == expected[VERSIONS[version]]


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_checkpointed_forward_of_one_version_may_see_old_weights(version: str) -> None:
    plan = plan_of("zeropp", mesh_of(2, 4, 2), hpz_version=version)
    stale = {(stage, again) for stage in STAGES for again in (True, False) if plan.is_stale(stage, again)}
    assert stale == ({("forward", True)} if version == "0.10.2" else set())


def test_without_a_copy_nothing_reads_or_writes_one() -> None:
    plan = plan_of("zeropp", mesh_of(2, 4, 2), hpz=False, hpz_version="0.10.2")
    for stage in STAGES:
        for first in (FIRST, LATER):
            assert not plan.reads_copy(stage, first, True) and not plan.writes_copy(stage, first, True)
        assert not plan.is_stale(stage, True)


# ── gradients that the quantised route cannot take ──


def weight(*shape: int) -> Weight:
    return Weight(module="m", parameter="w", dims=("a", "b")[: len(shape)], shape=shape, per_layer=True)


@pytest.mark.parametrize(
    ("shape", "quantised"),
    [
        ((64, 64), True),
        ((8, 4), True),  # 32 = 2 x 16 ranks
        ((8, 6), False),  # 48 does not divide by 32
        ((3, 5), False),
        ((4096,), False),  # one dimension
    ],
)
def test_zeropp_falls_back_for_vectors_and_what_does_not_divide_by_twice_the_ranks(
    shape: tuple[int, ...], quantised: bool
) -> None:
    plan = plan_of("zeropp", mesh_of(2, 4, 2))
    plain = (Hop(("node", "package", "gcd")),)
    assert plan.gradient_hops(weight(*shape)) == (plan.hops["gradient"] if quantised else plain)


@pytest.mark.parametrize(("shape", "quantised"), [((8, 4), True), ((8, 6), True), ((8, 3), False), ((4096,), False)])
def test_zero_topo_divides_by_twice_the_ranks_of_a_node(shape: tuple[int, ...], quantised: bool) -> None:
    plan = plan_of("zero-topo", mesh_of(2, 4, 2))
    assert (plan.gradient_hops(weight(*shape)) == plan.hops["gradient"]) == quantised


@pytest.mark.parametrize("family", ["ddp", "zero1", "zero2", "zero3", "hsdp"])
def test_plain_families_have_no_fallback(family: str) -> None:
    plan = plan_of(family, mesh_of(2, 4, 2))
    assert plan.gradient_hops(weight(3)) == plan.gradient_hops(weight(64, 64)) == plan.hops["gradient"]


# ── every option does something ──

OPTIONS: list[tuple[str, str, Any, dict[str, Any]]] = [
    *((family, "gradient_codec", Plain("bf16"), {}) for family in ZERO if family != "lattice"),
    *((family, "gather_codec", Plain("bf16"), {}) for family in ("ddp", "zero1", "zero2", "zero3", "hsdp")),
    ("zeropp", "gather_codec", Plain("bf16"), {"qwz": False}),
    ("ddp", "overlap_statistics", True, {}),
    *((family, "reduction", "reduce_scatter", {}) for family in ("zero1", "zero2")),
    *((family, "gather", "next_forward", {}) for family in ("zero1", "zero2")),
    ("hsdp", "shard", ("gcd",), {}),
    ("zeropp", "qwz", False, {}),
    ("zeropp", "hpz", False, {}),
    ("zeropp", "qgz", False, {}),
    ("zeropp", "hpz_version", "0.10.0", {}),
    ("zeropp", "weight_codec", Quantised("int8", 64), {}),
    ("zeropp", "quantised_gradient_codec", Quantised("int4", 64), {}),
    ("zeropp", "secondary", ("gcd",), {}),
    ("zero-topo", "weight_codec", Quantised("int8", 64), {}),
    ("zero-topo", "node_gradient_codec", Quantised("int4", 64), {}),
    ("zero-topo", "cross_gradient_codec", Quantised("int4", 64), {}),
    ("zero-topo", "cross_gradients", "micro_batch", {}),
    ("zero-topo", "second_copy", "plain", {}),
    ("zero-topo", "second_copy", "fp16", {"second_copy": "plain"}),
    ("zero-topo", "second_copy", "int8", {"second_copy": "fp16"}),
    ("zero-topo", "publish_codec", Quantised("int8", 64), {}),
    ("zero-topo", "publish", "flat", {}),
    ("zero-topo", "pipelined", True, {}),
]
LATTICE: dict[str, Any] = {"weight": ("gcd",), "accumulator": ("package", "gcd"), "optimizer": ("node", "gcd")}
HOPS = ({"axes": ("gcd", "package", "node"), "via": "direct"},)
OPTIONS += [
    ("lattice", "weight", ("package",), LATTICE),
    ("lattice", "accumulator", ("gcd",), LATTICE),
    ("lattice", "optimizer", ("gcd",), LATTICE),
    ("lattice", "copy_axes", ("gcd",), LATTICE),
    ("lattice", "copy_codec", Quantised("int8", 64), {**LATTICE, "copy_axes": ("gcd",)}),
    ("lattice", "copy_rule", "every_forward", {**LATTICE, "copy_axes": ("gcd",)}),
    ("lattice", "nesting", ("gcd", "package", "node"), LATTICE),
    ("lattice", "one_at_a_time", True, LATTICE),
    ("lattice", "pipelined", True, LATTICE),
    ("lattice", "gradient_codec", Plain("bf16"), LATTICE),
    ("lattice", "gather_codec", Plain("bf16"), LATTICE),
    *(("lattice", move, HOPS, LATTICE) for move in ("weight_gather", "copy_gather", "gradient", "step_reduction")),
    ("lattice", "publish", HOPS, LATTICE),
]


@pytest.mark.parametrize(("family", "option", "value", "base"), OPTIONS)
def test_every_option_changes_the_plan(family: str, option: str, value: Any, base: dict[str, Any]) -> None:
    mesh = mesh_of(2, 4, 2)
    assert plan_of(family, mesh, **{**base, option: value}) != plan_of(family, mesh, **base)


def test_no_option_is_left_out_of_these_tests() -> None:
    tried = {(family, option) for family, option, _, _ in OPTIONS}
    known = {"family", "micro_batch", "grad_accum", "checkpointing", "attention", "softmax"}  # of a scenario's case
    assert tried == {
        (family, option) for family, (form, _) in ZERO.items() for option in form.model_fields if option not in known
    }


# ── a plan of one's own that is a named one ──


def stored(plan: Plan, mesh: Mesh, grad_accum: int = 2) -> dict[str, Any]:
    """The schedule of the tiny model as JSON, less the names of plan and family."""
    work = gpt(find_model("tiny"), mesh.num_ranks, checkpointing="full")
    engine = Engine(persistence_elements=128, prefetch_elements=20_000, live_elements=100_000)
    form: dict[str, Any] = json.loads(to_json(build(work, plan, mesh, engine, grad_accum)))
    del form["meta"]["plan"], form["meta"]["family"]
    return form


@pytest.mark.parametrize("sizes", SIZES)
def test_a_lattice_plan_that_says_zero3_is_zero3(sizes: tuple[int, int, int]) -> None:
    mesh, axes = mesh_of(*sizes), ("node", "package", "gcd")
    mine = plan_of("lattice", mesh, weight=axes, accumulator=axes, optimizer=axes)
    assert stored(mine, mesh) == stored(plan_of("zero3", mesh), mesh)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("family", ["ddp", "zero1", "zero2", "hsdp"])
def test_a_lattice_plan_that_says_a_plain_family_is_it(family: str, sizes: tuple[int, int, int]) -> None:
    mesh = mesh_of(*sizes)
    weight_axes, accumulator, optimizer = PLACED[family]
    options = {"weight": tuple(weight_axes), "accumulator": tuple(accumulator), "optimizer": tuple(optimizer)}
    nesting = ("package", "gcd") if family == "hsdp" else None
    named = plan_of(family, mesh, **({"reduction": "reduce_scatter"} if family in ("zero1", "zero2") else {}))
    assert stored(plan_of("lattice", mesh, **options, nesting=nesting), mesh) == stored(named, mesh)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("family", "move"), [("zero1", "step_reduction"), ("zero2", "gradient")])
def test_a_lattice_plan_may_all_reduce_like_deepspeed(family: str, move: str, sizes: tuple[int, int, int]) -> None:
    mesh = mesh_of(*sizes)
    weight_axes, accumulator, optimizer = PLACED[family]
    options: dict[str, Any] = {
        "weight": tuple(weight_axes),
        "accumulator": tuple(accumulator),
        "optimizer": tuple(optimizer),
    }
    options[move] = ({"axes": ("node", "package", "gcd"), "reduction": "all_reduce"},)
    assert stored(plan_of("lattice", mesh, **options), mesh) == stored(plan_of(family, mesh), mesh)


def test_a_lattice_plan_cannot_all_reduce_codes() -> None:
    mesh = mesh_of(1, 1, 2)
    hop = {"axes": ("gcd",), "reduction": "all_reduce", "codec": Quantised("int8", 64)}
    plan = plan_of("lattice", mesh, weight=(), accumulator=("gcd",), optimizer=("gcd",), gradient=(hop,))
    with pytest.raises(
        InputError, match=r'grad: reduction = "all_reduce" over gcd cannot carry int8:64, .*; allowed: '
    ):
        stored(plan, mesh)


@pytest.mark.parametrize("sizes", SIZES)
def test_a_lattice_plan_that_says_zero_topo_is_zero_topo_without_its_fallback(sizes: tuple[int, int, int]) -> None:
    mesh = mesh_of(*sizes)
    int8, int4 = Quantised("int8", 64), Quantised("int4", 64)
    topo = plan_of("zero-topo", mesh, weight_codec=int8, node_gradient_codec=int4, cross_gradient_codec=int4)
    mine = plan_of(
        "lattice",
        mesh,
        weight=("gcd",),
        accumulator=("package", "gcd"),
        optimizer=("node", "package", "gcd"),
        nesting=("gcd", "package", "node"),
        weight_gather=({"axes": ("node", "package", "gcd"), "codec": int8},),
        gradient=({"axes": ("gcd", "package"), "codec": int4},),
        step_reduction=({"axes": ("node",), "codec": int4},),
        publish=({"axes": ("node",)}, {"axes": ("package", "gcd")}),
        one_at_a_time=True,
    )
    assert stored(mine, mesh) == stored(replace(topo, fallback=None), mesh)
