"""Published volumes as exact counts: what a schedule must move across nodes, packages and to a rank.

psi parameters, M = 2 psi bytes, n nodes, N = 8n ranks, g micro-batches. The two scalars of a step are left out.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from simfrontier.answers.step import RequiredBytes, op_need, step_needs
from simfrontier.answers.step.volumes import need_per_byte
from simfrontier.core.codecs import Codec, Plain, Quantised
from simfrontier.core.collectives import message_bytes, sent_share
from simfrontier.core.collectives.algorithms.direct import direct_loads as direct
from simfrontier.core.collectives.algorithms.ring import ring_loads as ring
from simfrontier.core.collectives.algorithms.tree import tree_loads as tree
from simfrontier.core.collectives.volume import Part
from simfrontier.core.machine import load_machine
from simfrontier.core.network import Fabric, Pattern
from simfrontier.core.plan import FAMILIES, Engine, build, make_plan
from simfrontier.core.program.ir import Call, Collective, CollectiveKind, Schedule
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.workload import Checkpointing, GptShape, find_model, gpt
from tests.some import some

NAMED = ("ddp", "zero1", "zero2", "zero3", "hsdp", "zeropp", "zero-topo")
# every weight divides by 16, 24 and 64 ranks, and every matrix by twice as many
EXACT = GptShape(
    name="exact", num_layers=3, hidden=384, heads=4, vocabulary=384, sequence=16, source="made for this test"
)
PSI = EXACT.num_parameters
M = 2 * PSI
# vectors (norms and biases) take the fallback route of quantised gradients
VECTORS = EXACT.num_layers * 13 * EXACT.hidden + 2 * EXACT.hidden
MATRICES = PSI - VECTORS
NEOX = find_model("gpt-neox-20b")
# everything is sharded, and nothing that was gathered is kept for a second use
PLAIN = Engine(persistence_elements=0, reuse_elements=0)
IN_NODE, ALL = ("package", "gcd"), ("node", "package", "gcd")


def mesh_of(nodes: int) -> Mesh:
    return Mesh((("node", nodes), ("package", 4), ("gcd", 2)))


def built(
    family: str,
    nodes: int,
    grad_accum: int = 1,
    *,
    shape: GptShape = EXACT,
    engine: Engine = PLAIN,
    checkpointing: Checkpointing = "none",
    **options: object,
) -> Schedule:
    mesh = mesh_of(nodes)
    plan = make_plan(family, FAMILIES[family][0].model_validate({"family": family, **options}), mesh)
    return build(gpt(shape, mesh.num_ranks, checkpointing=checkpointing), plan, mesh, engine, grad_accum)


def needs(family: str, nodes: int, grad_accum: int = 1, **options: object) -> RequiredBytes:
    return step_needs(built(family, nodes, grad_accum, **options))  # type: ignore[arg-type]


def moved(need: RequiredBytes, boundary: str, part: Part | None = None) -> Fraction:
    """All but the scalars."""
    return need.total(boundary, part=part) - need.total(boundary, "scalar", part)


def foreign(count: int) -> Fraction:
    """1 - 1/count: what of a whole that is split evenly lies elsewhere."""
    return 1 - Fraction(1, count)


def collectives(schedule: Schedule) -> Iterator[tuple[Call, Collective]]:
    for call, op in schedule.roles[0].instances():
        if isinstance(op, Collective):
            yield call, op


# ── per micro-batch and step, into each node ──


@pytest.mark.parametrize("grad_accum", [1, 3])
@pytest.mark.parametrize("nodes", [2, 3, 8])
def test_zero3_moves_three_models_per_micro_batch(nodes: int, grad_accum: int) -> None:
    need = needs("zero3", nodes, grad_accum)
    assert moved(need, "node") == moved(need, "node", "data") == grad_accum * 3 * M * foreign(nodes)
    assert need.total("node", "weight_gather") == grad_accum * 2 * M * foreign(nodes)
    assert need.total("node", "gradient") == grad_accum * M * foreign(nodes)
    assert need.total("node", "scalar") == 2 * 4 * 2 * foreign(nodes)


@pytest.mark.parametrize("grad_accum", [1, 3])
@pytest.mark.parametrize("nodes", [2, 3, 8])
def test_ddp_moves_two_models_per_step(nodes: int, grad_accum: int) -> None:
    assert moved(needs("ddp", nodes, grad_accum), "node") == 2 * M * foreign(nodes)


@pytest.mark.parametrize(("reduction", "models"), [("all_reduce", 2), ("reduce_scatter", 1)])
@pytest.mark.parametrize("grad_accum", [1, 3])
@pytest.mark.parametrize("nodes", [2, 3, 8])
def test_zero1_reduces_and_publishes_once_per_step(nodes: int, grad_accum: int, reduction: str, models: int) -> None:
    """3 psi as DeepSpeed all-reduces (its default here), 2 psi with a reduce-scatter, as papers count."""
    need = needs("zero1", nodes, grad_accum, reduction=reduction)
    assert need.total("node", "step_reduction") == models * M * foreign(nodes)
    assert need.total("node", "publish") == M * foreign(nodes)
    assert moved(need, "node") == (models + 1) * M * foreign(nodes)
    assert (need == needs("zero1", nodes, grad_accum)) == (reduction == "all_reduce")


@pytest.mark.parametrize(("reduction", "models"), [("all_reduce", 2), ("reduce_scatter", 1)])
@pytest.mark.parametrize("grad_accum", [1, 3])
def test_zero2_reduces_every_micro_batch_and_publishes_once(grad_accum: int, reduction: str, models: int) -> None:
    need = needs("zero2", 3, grad_accum, reduction=reduction)
    assert moved(need, "node") == (models * grad_accum + 1) * M * foreign(3)
    assert (need == needs("zero2", 3, grad_accum)) == (reduction == "all_reduce")


@pytest.mark.parametrize("grad_accum", [1, 3])
def test_hsdp_crosses_nodes_with_the_gradients_of_a_step_only(grad_accum: int) -> None:
    need = needs("hsdp", 3, grad_accum)
    assert moved(need, "node") == need.total("node", "step_reduction") == 2 * M * foreign(3)


@pytest.mark.parametrize("grad_accum", [1, 2])
@pytest.mark.parametrize("nodes", [2, 3, 8])
def test_zeropp_moves_three_quarters_of_a_model_per_micro_batch(nodes: int, grad_accum: int) -> None:
    """qwZ 0.5 M, hpZ 0, qgZ 0.25 M (arXiv 2306.10209), with hpZ as it was published: a world gather in every forward.

    Vectors fall back to an FP16 reduce-scatter: 2 bytes per element instead of 0.5, counted apart.
    """
    need = needs("zeropp", nodes, grad_accum, hpz_version="0.10.0")
    assert need.total("node", "weight_gather", "data") == grad_accum * Fraction(M, 2) * foreign(nodes)
    assert need.total("node", "copy_gather") == 0
    assert need.total("node", "gradient", "data") == grad_accum * Fraction(2 * MATRICES, 4) * foreign(nodes)
    assert need.total("node", "gradient", "fallback") == grad_accum * 2 * VECTORS * foreign(nodes)
    as_if_quantised = need.total("node", "gradient", "fallback") / 4
    assert moved(need, "node", "data") + as_if_quantised == grad_accum * Fraction(3 * M, 4) * foreign(nodes)
    assert moved(need, "node", "padding") == moved(need, "node", "persisted") == 0


@pytest.mark.parametrize("grad_accum", [1, 2, 3])
def test_zeropp_gathers_over_the_world_once_per_step_by_default(grad_accum: int) -> None:
    need = needs("zeropp", 3, grad_accum)
    assert need.total("node", "weight_gather", "data") == Fraction(M, 2) * foreign(3)
    assert need.total("node", "copy_gather") == 0
    assert need.total("gcd", "copy_gather", "data") == (2 * grad_accum - 1) * PSI * foreign(8)


@pytest.mark.parametrize("grad_accum", [1, 2, 5])
@pytest.mark.parametrize("nodes", [2, 3, 8])
def test_zero_topo_crosses_nodes_once_per_step(nodes: int, grad_accum: int) -> None:
    need = needs("zero-topo", nodes, grad_accum)
    for purpose in ("weight_gather", "copy_gather", "gradient"):
        assert need.total("node", purpose) == 0
    assert need.total("node", "step_reduction", "data") == Fraction(MATRICES, 2) * foreign(nodes)
    assert need.total("node", "step_reduction", "fallback") == 2 * VECTORS * foreign(nodes)
    assert need.total("node", "publish") == 2 * PSI * foreign(nodes)
    once = needs("zero-topo", nodes, 1)
    assert need.total("node") == once.total("node")


# ── elements that a rank receives: the tables of the papers ──


@pytest.mark.parametrize("nodes", [2, 3])
def test_elements_received_per_gcd_and_step(nodes: int) -> None:
    """ddp, ZeRO-1 and ZeRO-2: 2 psi; ZeRO-3: 3 psi; each times 1 - 1/N (arXiv 1910.02054). ZeRO-1 and -2 that
    all-reduce, as DeepSpeed's do: 3 psi."""
    every = foreign(8 * nodes)
    for family, models in (("ddp", 2), ("zero1", 3), ("zero2", 3), ("zero3", 3)):
        assert moved(needs(family, nodes), "gcd") == models * 2 * PSI * every, family
    for family in ("zero1", "zero2"):
        assert moved(needs(family, nodes, reduction="reduce_scatter"), "gcd") == 2 * 2 * PSI * every, family


@pytest.mark.parametrize("nodes", [2, 3])
def test_elements_received_per_gcd_by_zero_topo(nodes: int) -> None:
    need = needs("zero-topo", nodes)
    assert need.total("gcd", "weight_gather", "data") == 2 * Fraction(PSI, 2)  # forward and backward, one byte each
    gradient = need.total("gcd", "gradient", "data") / Fraction(1, 2) + need.total("gcd", "gradient", "fallback") / 2
    assert gradient == PSI * foreign(8)
    assert need.total("gcd", "step_reduction", "data") / Fraction(1, 2) == Fraction(MATRICES, 8) * foreign(nodes)
    assert need.total("gcd", "step_reduction", "fallback") / 2 == Fraction(VECTORS, 8) * foreign(nodes)
    assert need.total("gcd", "publish") / 2 == Fraction(PSI, 2) - Fraction(PSI, 8 * nodes)


# ── the 20B model on 48 nodes, as it is run ──


def test_volumes_of_the_20b_model_with_persisted_weights_and_fallbacks_apart() -> None:
    nodes = 48
    psi, vectors = NEOX.num_parameters, NEOX.num_layers * 13 * NEOX.hidden + 2 * NEOX.hidden
    matrices, share = psi - vectors, foreign(nodes)
    engine = Engine(reuse_elements=0)  # vectors are below 1e5 elements and stay whole

    zero3 = needs("zero3", nodes, shape=NEOX, engine=engine)
    assert zero3.total("node", "weight_gather") == 2 * 2 * matrices * share
    assert zero3.total("node", "gradient") == 2 * psi * share
    assert zero3.total("node", "publish") == zero3.total("node", "publish", "persisted") == 2 * vectors * share

    zeropp = needs("zeropp", nodes, shape=NEOX, engine=engine)
    assert zeropp.total("node", "weight_gather", "data") == matrices * share
    assert zeropp.total("node", "gradient", "data") == Fraction(matrices, 2) * share
    assert zeropp.total("node", "gradient", "fallback") == 2 * vectors * share
    assert zeropp.total("node", "publish", "persisted") == 2 * vectors * share

    topo = needs("zero-topo", nodes, shape=NEOX, engine=engine)
    assert topo.total("node", "step_reduction", "data") == Fraction(matrices, 2) * share
    assert topo.total("node", "step_reduction", "fallback") == 2 * vectors * share
    assert topo.total("node", "publish", "data") == 2 * matrices * share
    assert topo.total("node", "publish", "persisted") == 2 * vectors * share
    for need in (zero3, zeropp, topo):
        assert need.total("node", part="padding") == 0


@pytest.mark.parametrize("family", NAMED)
def test_a_step_is_the_sum_of_its_calls(family: str) -> None:
    schedule = built(family, 3, 2, engine=Engine(), checkpointing="full")
    need = step_needs(schedule)
    for boundary in schedule.mesh.names:
        total = sum((op_need(op, schedule, boundary) for _, op in collectives(schedule)), Fraction(0))
        assert need.total(boundary) == total


def test_padding_is_apart_and_the_rest_is_the_closed_form() -> None:
    odd = GptShape(name="odd", num_layers=2, hidden=97, heads=1, vocabulary=89, sequence=4, source="made for this test")
    need = needs("zero3", 3, shape=odd)
    assert moved(need, "node", "data") == 3 * 2 * odd.num_parameters * foreign(3)
    weights = gpt(odd, 24, checkpointing="none").weights.values()
    padding = sum(-w.num_elements % 24 * (odd.num_layers if w.per_layer else 1) for w in weights)
    assert padding > 0
    assert moved(need, "node", "padding") == 3 * 2 * padding * foreign(3)


def pieces_missing(mesh: Mesh, axes: tuple[str, ...], boundary: str) -> Fraction:
    """All-gathers, counted piece by piece: what of the groups' pieces a unit has none of, of S = group size."""
    outer = mesh.names[: mesh.names.index(boundary) + 1]
    unit = np.arange(mesh.num_ranks) // (mesh.num_ranks // mesh.size(outer))
    missing = 0
    for group in mesh.groups(axes):
        if (unit[group] == 0).any():
            missing += int((unit[group] != 0).sum())
    return Fraction(missing, mesh.size(axes))


def messages_from_outside(mesh: Mesh, axes: tuple[str, ...], boundary: str) -> Fraction:
    """All-to-alls, counted message by message: those to a member of a unit from outside it, of S = group size."""
    outer = mesh.names[: mesh.names.index(boundary) + 1]
    unit = np.arange(mesh.num_ranks) // (mesh.num_ranks // mesh.size(outer))
    count = sum(int((unit[group] == 0).sum() * (unit[group] != 0).sum()) for group in mesh.groups(axes))
    return Fraction(count, mesh.size(axes))


def op_over(axes: tuple[str, ...], kind: CollectiveKind, codec: Codec) -> Collective:
    return Collective(kind=kind, name="gradient", axes=axes, src=(), dst=(), codec=codec)


@pytest.mark.parametrize("mesh", [mesh_of(3), Mesh((("a", 2), ("b", 3), ("c", 2), ("d", 2)))], ids=["3x4x2", "2x3x2x2"])
def test_needs_are_those_of_counting_pieces(mesh: Mesh) -> None:
    fp16, int4 = Plain("fp16"), Quantised("int4", 64)
    for length in range(1, len(mesh.names) + 1):
        for axes in combinations(mesh.names, length):
            for boundary in mesh.names:
                gathered = pieces_missing(mesh, axes, boundary)
                exchanged = messages_from_outside(mesh, axes, boundary)
                assert need_per_byte(op_over(axes, "all_gather", fp16), mesh, boundary) == gathered
                assert need_per_byte(op_over(axes, "all_gather", int4), mesh, boundary) == gathered
                assert need_per_byte(op_over(axes, "reduce_scatter", fp16), mesh, boundary) == gathered
                assert need_per_byte(op_over(axes, "all_reduce", fp16), mesh, boundary) == 2 * gathered
                assert need_per_byte(op_over(axes, "all_to_all", fp16), mesh, boundary) == exchanged
                assert need_per_byte(op_over(axes, "reduce_scatter", int4), mesh, boundary) == exchanged


FRONTIER = load_machine("frontier")


def entering(pattern: Pattern, op: Collective, algorithm: str, schedule: Schedule, nodes: int) -> Fraction:
    """Bytes that come into a node, on average, when an algorithm carries out an op."""
    size = message_bytes(op, schedule.tensors, schedule.mesh)
    volume = size * sent_share(op, algorithm, schedule.mesh)
    return volume * Fraction(int(pattern.edges[:, 2].sum()), pattern.divisor) / nodes


@pytest.mark.parametrize("family", NAMED)
def test_no_algorithm_brings_in_less_than_the_need(family: str) -> None:
    nodes = 3
    schedule = built(family, nodes, engine=Engine(), checkpointing="full")
    fabric = Fabric.build(FRONTIER, nodes)
    made = {"ring": ring, "direct": direct, "tree": tree}
    for op in some({op.number: op for _, op in collectives(schedule)}.values()):
        need = op_need(op, schedule, "node")
        groups = schedule.mesh.groups(op.axes)
        coded = op.kind == "reduce_scatter" and op.codec.is_opaque
        algorithms: list[str] = ["direct"] if coded else ["ring", "tree"] if op.kind == "all_reduce" else ["ring"]
        for algorithm in algorithms:
            assert entering(made[algorithm](fabric, groups, {}), op, algorithm, schedule, nodes) >= need
