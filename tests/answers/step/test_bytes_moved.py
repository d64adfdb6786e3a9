"""Link bytes of the chosen algorithms equal their closed forms, exactly, and every byte is counted once."""

from fractions import Fraction

import pytest

from simfrontier.answers.step.bytes_moved import BOUNDARIES, PARTS, Traffic, traffic
from simfrontier.core.collectives import message_bytes, sent_share
from simfrontier.core.engine import SimulatedStep
from simfrontier.core.program.ir import Collective
from tests.core.engine.steps import FOUR_LAYERS, NAMED, frontier_mesh, schedule, step

PSI = FOUR_LAYERS.num_parameters
M = 2 * PSI  # bytes of the FP16 model
VECTORS = (13 * FOUR_LAYERS.num_layers + 2) * FOUR_LAYERS.hidden  # elements of biases and norms


def measured(family: str, nodes: int, grad_accum: int = 1, **more: object) -> tuple[SimulatedStep, Traffic]:
    """A step in which everything is sharded, nothing is kept for reuse, and layers are not recomputed."""
    settings: dict[str, object] = {"persistence_elements": 0, "reuse_elements": 0, "checkpointing": "none", **more}
    built = schedule(family, frontier_mesh(nodes), grad_accum=grad_accum, **settings)  # type: ignore[arg-type]
    done = step(built, fidelity="analytic")
    return done, traffic(done)


def bytes_of(moved: Traffic, boundary: str) -> Fraction:
    return sum((moved.num_bytes[boundary][part] for part in PARTS), Fraction(0))


@pytest.mark.parametrize("grad_accum", [1, 3])
@pytest.mark.parametrize("nodes", [2, 3, 8])
def test_zero3_ring_brings_three_models_into_each_node(nodes: int, grad_accum: int) -> None:
    """Per micro-batch two all-gathers and a reduce-scatter by ring: 3M(1 - 1/N) enter each node; the two scalars of the
    step (overflow, norm), 4 bytes each, go by tree or ring and are left out here."""
    done, moved = measured("zero3", nodes, grad_accum)
    scalars = scalar_bytes(done)
    ranks = 8 * nodes
    assert moved.num_bytes["inter_node"]["padding"] == 0
    assert bytes_of(moved, "inter_node") - scalars == nodes * grad_accum * 3 * M * Fraction(ranks - 1, ranks)


def scalar_bytes(done: SimulatedStep, boundaries: slice = slice(2, 3)) -> Fraction:
    """Payload of the step's scalars over some boundaries, by default between nodes."""
    total = Fraction(0)
    for op in done.program.ops:
        if isinstance(op, Collective) and op.name == "scalar":
            pattern = done.pricing.pattern_of(op)
            share = sent_share(op, done.pricing.algorithms[op.number], done.schedule.mesh)
            total += share * 4 * Fraction(int(pattern.edges.sum(axis=0)[boundaries].sum()), pattern.divisor)
    return total


@pytest.mark.parametrize("nodes", [2, 8])
@pytest.mark.parametrize("grad_accum", [1, 4])
def test_topo_crosses_nodes_once_per_step(nodes: int, grad_accum: int) -> None:
    """INT4 gradients: 8 direct exchanges of psi/8 elements at half a byte; FP16 weights: 8 rings of psi/8 elements.

    Into each node: (1 - 1/n)(psi/2 + 2 psi), whatever the number of micro-batches; biases and norms (13h per layer and
    2h) keep FP16 throughout, 2 bytes instead of a half.
    """
    done, moved = measured("zero-topo", nodes, grad_accum)
    share = Fraction(nodes - 1, nodes)
    inter_node = moved.num_bytes["inter_node"]
    assert inter_node["fallback"] == nodes * share * 2 * VECTORS
    data = sum(inter_node[part] for part in ("data", "persisted", "fallback"))
    assert data - scalar_bytes(done) == nodes * share * (Fraction(PSI - VECTORS, 2) + 2 * VECTORS + M)
    assert moved.num_bytes["inter_node"]["scales"] > 0


@pytest.mark.parametrize("family", NAMED)
def test_every_byte_is_counted_at_one_boundary(family: str) -> None:
    """Messages sent by all ranks = payload over the three boundaries."""
    done, moved = measured(family, 2)
    sent = Fraction(0)
    for op in done.program.ops:
        if isinstance(op, Collective):
            algorithm = done.pricing.algorithms[op.number]
            size = message_bytes(op, done.schedule.tensors, done.schedule.mesh)
            if algorithm == "tree":  # counted by its edges: every rank but one sends up, and gets down, S each
                group = done.schedule.mesh.size(op.axes)
                sent += Fraction(size * 2 * (group - 1), group) * done.schedule.mesh.num_ranks
            else:
                sent += size * sent_share(op, algorithm, done.schedule.mesh) * done.schedule.mesh.num_ranks
    assert sum((bytes_of(moved, boundary) for boundary in BOUNDARIES), Fraction(0)) == sent


@pytest.mark.parametrize("family", NAMED)
def test_nics_carry_what_crosses_nodes(family: str) -> None:
    """Sum over all NIC transmit links = endpoint payload between nodes (direct paths: nothing passes through a
    node)."""
    done, moved = measured(family, 3)
    fabric = done.pricing.fabric
    per_node = [i for i, wire in enumerate(fabric.machine.node.links) if wire.dst == "net"]
    wires = moved.on_link[: fabric.hbm_base].reshape(fabric.num_nodes, -1)
    assert float(wires[:, per_node].sum()) == pytest.approx(float(bytes_of(moved, "inter_node")), rel=1e-9)
