"""Published volumes as exact counts: what each plan's schedule must move across nodes, packages and to a rank.

psi parameters, M = 2 psi bytes, n nodes, N = 8n ranks, g micro-batches. The two scalars of a step are left out.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from simfrontier.analysis import Needs, Parts, op_need, step_needs
from simfrontier.analysis.volumes import need_per_byte
from simfrontier.collectives import messages_of, sent_share
from simfrontier.collectives.library import Algorithm
from simfrontier.collectives.volume import Part
from simfrontier.errors import InputError
from simfrontier.machine import load_machine
from simfrontier.network import Fabric, Pattern, direct, ring, tree
from simfrontier.plan import FAMILIES, Engine, build, make_plan
from simfrontier.schedule.codec import Codec
from simfrontier.schedule.ir import Call, Collective, CollectiveKind, Schedule
from simfrontier.schedule.mesh import Mesh
from simfrontier.workload import GptShape, find_model, gpt

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
    checkpointing: bool = False,
    **options: object,
) -> Schedule:
    mesh = mesh_of(nodes)
    plan = make_plan(family, FAMILIES[family][0].model_validate({"family": family, **options}), mesh)
    return build(gpt(shape, mesh.num_ranks, checkpointing=checkpointing), plan, mesh, engine, grad_accum)


def needs(family: str, nodes: int, grad_accum: int = 1, **options: object) -> Needs:
    return step_needs(built(family, nodes, grad_accum, **options))  # type: ignore[arg-type]


def moved(need: Needs, boundary: str, part: Part | None = None) -> Fraction:
    """All but the scalars."""
    return need.total(boundary, part=part) - need.total(boundary, "scalar", part)


def foreign(count: int) -> Fraction:
    """1 - 1/count: what of a whole that is split evenly lies elsewhere."""
    return 1 - Fraction(1, count)


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
def test_ddp_and_zero1_move_two_models_per_step(nodes: int, grad_accum: int) -> None:
    assert moved(needs("ddp", nodes, grad_accum), "node") == 2 * M * foreign(nodes)
    zero1 = needs("zero1", nodes, grad_accum)
    assert zero1.total("node", "step_reduction") == zero1.total("node", "publish") == M * foreign(nodes)
    assert moved(zero1, "node") == 2 * M * foreign(nodes)


@pytest.mark.parametrize("grad_accum", [1, 3])
def test_zero2_reduces_every_micro_batch_and_publishes_once(grad_accum: int) -> None:
    assert moved(needs("zero2", 3, grad_accum), "node") == (grad_accum + 1) * M * foreign(3)


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


@pytest.mark.parametrize("grad_accum", [1, 2])
def test_zeropp_of_the_versions_between_gathers_where_gradients_are_on(grad_accum: int) -> None:
    """With checkpointing: layers read last step's node copy in the forward and the world in the recomputation.

    Embedding and head, which are not recomputed, read the world in the forward. All backwards read the node copy.
    """
    need = needs("zeropp", 3, grad_accum, hpz_version="0.10.2", checkpointing=True)
    layers = EXACT.num_layers * (12 * EXACT.hidden**2 + 13 * EXACT.hidden)
    assert need.total("node", "weight_gather", "data") == grad_accum * Fraction(M, 2) * foreign(3)
    assert need.total("gcd", "copy_gather", "data") == grad_accum * (layers + PSI) * foreign(8)


def test_each_part_of_zeropp_can_be_left_out() -> None:
    share = foreign(3)
    no_qwz = needs("zeropp", 3, qwz=False, hpz_version="0.10.0")
    assert no_qwz.total("node", "weight_gather") == M * share
    no_hpz = needs("zeropp", 3, hpz=False)
    assert no_hpz.total("node", "weight_gather", "data") == 2 * Fraction(M, 2) * share
    no_qgz = needs("zeropp", 3, qgz=False)
    assert no_qgz.total("node", "gradient") == no_qgz.total("node", "gradient", "data") == M * share


def test_one_hop_all_to_all_would_cross_nodes_eight_times_as_often() -> None:
    """Coded pieces cannot be summed on the way, so in one hop each of a node's 8 ranks sends for itself."""
    hops: dict[str, list[tuple[str, ...]]] = {"one": [ALL], "two": [IN_NODE, ("node",)]}
    need = {
        name: needs(
            "lattice",
            3,
            weight=ALL,
            accumulator=ALL,
            optimizer=ALL,
            gradient=tuple({"axes": axes, "codec": "int4:6144"} for axes in route),
        )
        for name, route in hops.items()
    }
    assert need["two"].total("node", "gradient", "data") == Fraction(PSI, 2) * foreign(3)
    assert need["one"].total("node", "gradient", "data") == 8 * need["two"].total("node", "gradient", "data")


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


def test_zero_topo_with_fp16_gradients_across_nodes() -> None:
    need = needs("zero-topo", 3, cross_gradient_codec="fp16")
    assert need.total("node", "step_reduction") == 2 * PSI * foreign(3)


@pytest.mark.parametrize("grad_accum", [1, 3])
def test_zero_topo_with_cross_gradients_per_micro_batch_pays_for_each(grad_accum: int) -> None:
    need = needs("zero-topo", 3, grad_accum, cross_gradients="micro_batch")
    assert need.total("node", "gradient", "data") == grad_accum * Fraction(MATRICES, 2) * foreign(3)
    assert need.total("node", "gradient", "fallback") == grad_accum * 2 * VECTORS * foreign(3)


def test_a_flat_publish_needs_no_more_than_node_then_package() -> None:
    """What the node lacks is the same; how often it comes in is the algorithm's doing, see below."""
    flat, nested = needs("zero-topo", 3, publish="flat"), needs("zero-topo", 3)
    assert flat.total("node", "publish") == nested.total("node", "publish") == 2 * PSI * foreign(3)
    # a rank ends with psi/2 elements either way; node by node, it receives them once
    received = 2 * (Fraction(PSI, 2) - Fraction(PSI, 24))
    assert flat.total("gcd", "publish") == nested.total("gcd", "publish") == received


# ── elements that a rank receives: the tables of the papers ──


@pytest.mark.parametrize("nodes", [2, 3])
def test_elements_received_per_gcd_and_step(nodes: int) -> None:
    """ddp, ZeRO-1 and ZeRO-2: 2 psi; ZeRO-3: 3 psi; each times 1 - 1/N (arXiv 1910.02054)."""
    every = foreign(8 * nodes)
    for family, models in (("ddp", 2), ("zero1", 2), ("zero2", 2), ("zero3", 3)):
        assert moved(needs(family, nodes), "gcd") == models * 2 * PSI * every, family


def test_elements_received_per_gcd_by_hsdp() -> None:
    need = needs("hsdp", 3)
    assert need.total("gcd", "weight_gather") == 2 * 2 * PSI * foreign(8)
    assert need.total("gcd", "gradient") == 2 * PSI * foreign(8)
    assert need.total("gcd", "step_reduction") == 2 * 2 * Fraction(PSI, 8) * foreign(3)


def test_elements_received_per_gcd_by_zeropp() -> None:
    need = needs("zeropp", 3)
    assert need.total("gcd", "weight_gather", "data") == PSI * foreign(24)  # one byte each
    assert need.total("gcd", "copy_gather", "data") == PSI * foreign(8)
    hops = Fraction(MATRICES, 1) * foreign(8) + Fraction(MATRICES, 8) * foreign(3)
    assert need.total("gcd", "gradient", "data") == hops / 2  # half a byte each


@pytest.mark.parametrize("nodes", [2, 3])
def test_elements_received_per_gcd_by_zero_topo(nodes: int) -> None:
    need = needs("zero-topo", nodes)
    assert need.total("gcd", "weight_gather", "data") == 2 * Fraction(PSI, 2)  # forward and backward, one byte each
    gradient = need.total("gcd", "gradient", "data") / Fraction(1, 2) + need.total("gcd", "gradient", "fallback") / 2
    assert gradient == PSI * foreign(8)
    assert need.total("gcd", "step_reduction", "data") / Fraction(1, 2) == Fraction(MATRICES, 8) * foreign(nodes)
    assert need.total("gcd", "step_reduction", "fallback") / 2 == Fraction(VECTORS, 8) * foreign(nodes)
    assert need.total("gcd", "publish") / 2 == Fraction(PSI, 2) - Fraction(PSI, 8 * nodes)


def test_a_second_copy_moves_the_backward_gather_of_zero_topo_to_the_node() -> None:
    need = needs("zero-topo", 3, second_copy="fp16")
    assert need.total("gcd", "weight_gather", "data") == Fraction(PSI, 2)
    assert need.total("gcd", "copy_gather", "data") == PSI * foreign(8)


def test_pair_gathers_stay_in_the_package() -> None:
    need = needs("zero-topo", 2)
    assert need.total("package", "weight_gather") == 0
    # the node's reduction: each rank sends 3/4 of psi/2 bytes to other packages; a package has two
    assert need.total("package", "gradient", "data") == 2 * Fraction(MATRICES, 2) * foreign(4)


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


def test_what_deepspeed_keeps_of_the_20b_model_instead_of_gathering_it_again() -> None:
    """Defaults with checkpointing: two world gathers per matrix, but one where it is needed again within 1e9 elements.

    The head is (at once), and of the last layer all but dense: between the two uses of dense lie the two matrices of
    the MLP, the head twice and the recomputed qkv, 1.03e9 elements; between those of the others at most 0.96e9.
    """
    h, head = NEOX.hidden, NEOX.vocabulary * NEOX.hidden
    assert (4 + 4 + 3) * h * h + 2 * head > 1_000_000_000 > (1 + 4 + 4) * h * h + 2 * head
    need = needs("zero3", 48, shape=NEOX, engine=Engine(), checkpointing=True)
    matrices = NEOX.num_parameters - NEOX.num_layers * 13 * h - 2 * h
    kept = head + 11 * h * h
    assert need.total("node", "weight_gather") == 2 * (2 * matrices - kept) * foreign(48)


def test_quantised_scales_are_a_thousandth() -> None:
    """One FP32 scale for 6144 elements of one byte, or of half a byte."""
    need = needs("zeropp", 48, shape=NEOX, engine=Engine())
    data, scales = need.total("node", "weight_gather", "data"), need.total("node", "weight_gather", "scales")
    assert scales / data == pytest.approx(4 / 6144, rel=0.02)


# ── needs themselves ──


def collectives(schedule: Schedule) -> Iterator[tuple[Call, Collective]]:
    for call, op in schedule.roles[0].instances():
        if isinstance(op, Collective):
            yield call, op


@pytest.mark.parametrize("family", NAMED)
def test_a_step_is_the_sum_of_its_calls(family: str) -> None:
    schedule = built(family, 3, 2, engine=Engine(), checkpointing=True)
    need = step_needs(schedule)
    for boundary in schedule.mesh.names:
        total = sum((op_need(op, schedule, boundary) for _, op in collectives(schedule)), Fraction(0))
        assert need.total(boundary) == total


def test_padding_is_apart_and_the_rest_is_the_closed_form() -> None:
    odd = GptShape(name="odd", num_layers=2, hidden=97, heads=1, vocabulary=89, sequence=4, source="made for this test")
    need = needs("zero3", 3, shape=odd)
    assert moved(need, "node", "data") == 3 * 2 * odd.num_parameters * foreign(3)
    weights = gpt(odd, 24, checkpointing=False).weights.values()
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
    fp16, int4 = Codec("fp16"), Codec("int4", 64)
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


def test_an_unknown_boundary_names_the_nearest() -> None:
    schedule = built("zero3", 2)
    _, op = next(collectives(schedule))
    with pytest.raises(InputError, match=r"^mesh: no axis 'nodes'; did you mean \"node\"\?$"):
        op_need(op, schedule, "nodes")


def test_one_node_needs_nothing_from_others() -> None:
    for family in NAMED:
        assert needs(family, 1).total("node") == 0


def test_parts_of_single_tensors() -> None:
    schedule = built("zero-topo", 2, engine=Engine(persistence_elements=384))
    parts = Parts(schedule)
    kinds = {
        (op.name, ref.name.split(".mixed")[0]): parts.of(op, ref.name)
        for _, op in collectives(schedule)
        for ref in op.dst
        if op.name in ("gradient", "publish")
    }
    assert kinds["gradient", "qkv.weight.grad.got0"] == "data"
    assert kinds["gradient", "qkv.bias.grad.hop0"] == "fallback"
    assert kinds["publish", "qkv.bias"] == "data"  # 1152 elements
    assert kinds["publish", "dense.bias"] == "persisted"  # 384 elements


# ── what algorithms bring in, held against the needs ──

FRONTIER = load_machine("frontier")


def entering(pattern: Pattern, op: Collective, algorithm: Algorithm, schedule: Schedule, nodes: int) -> Fraction:
    """Bytes that come into a node, on average, when an algorithm carries out an op."""
    size = sum(message.num_bytes for message in messages_of(op, schedule.tensors, schedule.mesh))
    volume = size * sent_share(op, algorithm, schedule.mesh)
    return volume * Fraction(int(pattern.edges[:, 2].sum()), pattern.divisor) / nodes


@pytest.mark.parametrize("nodes", [2, 3])
def test_a_ring_brings_three_models_less_a_rank_into_each_node(nodes: int) -> None:
    schedule = built("zero3", nodes, 2)
    world = ring(Fabric.build(FRONTIER, nodes), schedule.mesh.groups(ALL), {})
    total = sum(
        (entering(world, op, "ring", schedule, nodes) for _, op in collectives(schedule) if op.name != "scalar"),
        Fraction(0),
    )
    assert total == 2 * 3 * M * foreign(8 * nodes)


@pytest.mark.parametrize("nodes", [2, 3])
def test_a_flat_publish_by_ring_and_by_direct_messages(nodes: int) -> None:
    """Two groups of 4n ranks gather psi/2 elements each. Their rings bring each element in once, (1 - 1/4n); direct
    messages bring it to each of the node's 4 pairs, (1 - 1/n): four times the need."""
    schedule = built("zero-topo", nodes, publish="flat")
    fabric, groups = Fabric.build(FRONTIER, nodes), schedule.mesh.groups(("node", "package"))
    publish = [op for _, op in collectives(schedule) if op.name == "publish"]
    assert {frozenset(op.axes) for op in publish} == {frozenset(("node", "package"))}
    need = step_needs(schedule).total("node", "publish")

    def brought(pattern: Pattern, algorithm: Algorithm) -> Fraction:
        return sum((entering(pattern, op, algorithm, schedule, nodes) for op in publish), Fraction(0))

    assert brought(ring(fabric, groups, {}), "ring") == 2 * PSI * foreign(4 * nodes)
    assert brought(direct(fabric, groups, {}), "direct") == 4 * need == 8 * PSI * foreign(nodes)


@pytest.mark.parametrize("family", NAMED)
def test_no_algorithm_brings_in_less_than_the_need(family: str) -> None:
    nodes = 3
    schedule = built(family, nodes, engine=Engine(), checkpointing=True)
    fabric = Fabric.build(FRONTIER, nodes)
    made = {"ring": ring, "direct": direct, "tree": tree}
    for op in {id(op): op for _, op in collectives(schedule)}.values():
        need = op_need(op, schedule, "node")
        groups = schedule.mesh.groups(op.axes)
        coded = op.kind == "reduce_scatter" and op.codec.is_quantised
        algorithms: list[Algorithm] = ["direct"] if coded else ["ring", "tree"] if op.kind == "all_reduce" else ["ring"]
        for algorithm in algorithms:
            assert entering(made[algorithm](fabric, groups, {}), op, algorithm, schedule, nodes) >= need
