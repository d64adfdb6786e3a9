"""What a step, each call and the chosen algorithms must bring in across a boundary."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from simfrontier.answers.step import op_need, step_needs
from simfrontier.answers.step.volumes import need_per_byte
from simfrontier.core.codecs import Codec, Plain, Quantised
from simfrontier.core.collectives import message_bytes, sent_share
from simfrontier.core.collectives.algorithms.direct import direct_loads as direct
from simfrontier.core.collectives.algorithms.ring import ring_loads as ring
from simfrontier.core.collectives.algorithms.tree import tree_loads as tree
from simfrontier.core.machine import load_machine
from simfrontier.core.network import Fabric, Pattern
from simfrontier.core.plan import Engine
from simfrontier.core.program.ir import Collective, CollectiveKind, Schedule
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.workload import GptShape, gpt
from tests.answers.step.volumes import ALL, NAMED, M, built, collectives, foreign, mesh_of, moved, needs
from tests.some import some


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


def test_one_node_needs_nothing_from_others() -> None:
    for family in NAMED:
        assert needs(family, 1).total("node") == 0


FRONTIER = load_machine("frontier")


def entering(pattern: Pattern, op: Collective, algorithm: str, schedule: Schedule, nodes: int) -> Fraction:
    """Bytes that come into a node, on average, when an algorithm carries out an op."""
    size = message_bytes(op, schedule.tensors, schedule.mesh)
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
