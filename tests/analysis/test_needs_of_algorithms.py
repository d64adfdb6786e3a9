"""What algorithms bring into a node, held against what it needs."""

from fractions import Fraction

import pytest

from simfrontier.analysis import op_need, step_needs
from simfrontier.collectives import message_bytes, sent_share
from simfrontier.collectives.algorithms.direct import direct_loads as direct
from simfrontier.collectives.algorithms.ring import ring_loads as ring
from simfrontier.collectives.algorithms.tree import tree_loads as tree
from simfrontier.machine import load_machine
from simfrontier.network import Fabric, Pattern
from simfrontier.plan import Engine
from simfrontier.schedule.ir import Collective, Schedule
from tests.analysis.volumes import ALL, NAMED, PSI, M, built, collectives, foreign
from tests.some import some

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


@pytest.mark.parametrize("nodes", [2, 3])
def test_a_flat_publish_by_ring_and_by_direct_messages(nodes: int) -> None:
    """Two groups of 4n ranks gather psi/2 elements each. Their rings bring each element in once, (1 - 1/4n); direct
    messages bring it to each of the node's 4 pairs, (1 - 1/n): four times the need."""
    schedule = built("zero-topo", nodes, publish="flat")
    fabric, groups = Fabric.build(FRONTIER, nodes), schedule.mesh.groups(("node", "package"))
    publish = [op for _, op in collectives(schedule) if op.name == "publish"]
    assert {frozenset(op.axes) for op in publish} == {frozenset(("node", "package"))}
    need = step_needs(schedule).total("node", "publish")

    def brought(pattern: Pattern, algorithm: str) -> Fraction:
        return sum((entering(pattern, op, algorithm, schedule, nodes) for op in publish), Fraction(0))

    assert brought(ring(fabric, groups, {}), "ring") == 2 * PSI * foreign(4 * nodes)
    assert brought(direct(fabric, groups, {}), "direct") == 4 * need == 8 * PSI * foreign(nodes)


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
