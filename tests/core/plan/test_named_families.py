"""The named plans: placements of every family on every kind of mesh, hpZ's rules, fallbacks, and what options do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simfrontier.core.codecs import Quantised
from simfrontier.core.plan.families import FAMILIES, make_plan
from simfrontier.core.plan.moves import Hop
from simfrontier.core.plan.plan import CopyRule, Engine, Plan, Stage
from simfrontier.core.plan.to_schedule import build
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.store import to_json
from simfrontier.core.workload import Weight, find_model, gpt

ALL = frozenset({"node", "package", "gcd"})
NODE = frozenset({"package", "gcd"})
PAIR = frozenset({"gcd"})
NONE: frozenset[str] = frozenset()
INT8, INT4 = Quantised("int8", 6144), Quantised("int4", 6144)
SIZES = ((1, 1, 2), (1, 2, 2), (1, 4, 2), (2, 4, 2))


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


# ── a plan of one's own that is a named one ──


def stored(plan: Plan, mesh: Mesh, grad_accum: int = 2) -> dict[str, Any]:
    """The schedule of the tiny model as JSON, less the names of plan and family."""
    work = gpt(find_model("tiny"), mesh.num_ranks, checkpointing="full")
    engine = Engine(persistence_elements=128, prefetch_elements=20_000, live_elements=100_000)
    form: dict[str, Any] = json.loads(to_json(build(work, plan, mesh, engine, grad_accum)))
    del form["meta"]["plan"], form["meta"]["family"]
    return form


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("family", ["ddp", "zero1", "zero2", "hsdp"])
def test_a_lattice_plan_that_says_a_plain_family_is_it(family: str, sizes: tuple[int, int, int]) -> None:
    mesh = mesh_of(*sizes)
    weight_axes, accumulator, optimizer = PLACED[family]
    options = {"weight": tuple(weight_axes), "accumulator": tuple(accumulator), "optimizer": tuple(optimizer)}
    nesting = ("package", "gcd") if family == "hsdp" else None
    named = plan_of(family, mesh, **({"reduction": "reduce_scatter"} if family in ("zero1", "zero2") else {}))
    assert stored(plan_of("lattice", mesh, **options, nesting=nesting), mesh) == stored(named, mesh)
