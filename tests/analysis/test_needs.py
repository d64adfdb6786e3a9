"""Needs themselves: what a step and each call must bring in, against counting piece by piece."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from simfrontier.analysis import MessageParts, op_need, step_needs
from simfrontier.analysis.volumes import need_per_byte
from simfrontier.codecs import Codec, Plain, Quantised
from simfrontier.errors import InputError
from simfrontier.plan import Engine
from simfrontier.schedule.ir import Collective, CollectiveKind
from simfrontier.schedule.mesh import Mesh
from simfrontier.workload import GptShape, gpt
from tests.analysis.volumes import NAMED, built, collectives, foreign, mesh_of, moved, needs


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
    parts = MessageParts(schedule)
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
