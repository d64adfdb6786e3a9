"""The trace of a simulated step: whom each class stands for, and what its calls carry."""

from __future__ import annotations

import pytest

from simfrontier.collectives import load_library, messages_of
from simfrontier.errors import InputError
from simfrontier.machine import HEALTHY, Perturbation, load_machine
from simfrontier.schedule import Collective, Mesh, digest
from simfrontier.simulation import simulate_step, trace_of
from simfrontier.trace import Trace
from simfrontier.trace.comparison import compare
from simfrontier.workload import GptShape
from tests.perturbed import perturbed
from tests.simulation.steps import frontier_mesh, schedule, step

TINY = GptShape(name="tiny", num_layers=1, hidden=60, heads=5, vocabulary=60, sequence=8, source="by hand")


def traced(exact: bool = False, perturbation: Perturbation = HEALTHY) -> Trace:
    built = schedule("zero-topo", frontier_mesh(2))
    done = step(built, exact=exact, perturbation=perturbation)
    return trace_of(done, digest(built), "t", notes={"scenario": "s"})


def test_every_rank_stands_in_one_class() -> None:
    made = traced()
    assert 1 < len(made.members) < 16
    assert sorted(rank for several in made.members for rank in several) == list(range(16))
    for who, several in zip(made.ranks, made.members, strict=True):
        assert who == f"rank {several[0]} (stands for {len(several)} of 16)"


def test_a_slow_rank_stands_alone() -> None:
    made = traced(perturbation=perturbed(slow={3: 0.5}))
    assert (3,) in made.members


def test_folded_and_exact_traces_are_the_same_rank_by_rank() -> None:
    """The classes expanded hold every rank's own times (to 1e-9 of the step)."""
    folded, exact = traced(), traced(exact=True)
    assert exact.members == tuple((rank,) for rank in range(16))
    joined = compare("zero-topo", folded, exact)
    assert joined.differences == () and len(joined.pairs) == 16 * len(folded.spans[0])
    near = 1e-9 * folded.step_s
    assert all(abs(pair.sim.end_s - pair.real.end_s) <= near for pair in joined.pairs)
    assert all(abs(pair.sim.ready_s - pair.real.ready_s) <= near for pair in joined.pairs)


def test_messages_are_those_of_the_call_whatever_the_algorithm() -> None:
    built = schedule("zero-topo", frontier_mesh(2))
    done = step(built, fidelity="analytic")
    spans = trace_of(done, digest(built), "t").spans[0]
    scales = 0
    for op, each in zip(done.program.ops, spans, strict=True):
        assert each.op == spans.index(each) and each.kind == op.kind
        if isinstance(op, Collective):
            messages = messages_of(op, built.tensors, built.mesh)
            assert each.message_bytes == sum(message.num_bytes for message in messages) > 0
            scales += len(messages) - 1
        else:
            assert each.message_bytes == 0.0
    assert scales > 0  # quantised moves are among them


def test_a_gather_carries_its_weight_whole_whatever_a_rank_sends() -> None:
    """One layer of width 60, fp16, no prefetch: every weight is gathered by itself. Embedding and head 60 × 60, qkv
    60 × 180, dense 60 × 60, the MLP's two 60 × 240; biases 180, 240, 60 and 60; three norms of 60 + 60."""
    options = {"prefetch_elements": 0, "persistence_elements": 0}
    built = schedule("zero3", Mesh((("node", 2), ("package", 1), ("gcd", 2))), TINY, **options)
    spans = trace_of(step(built, "toy-cluster"), digest(built), "t").spans[0]
    elements = [3600, 3600, 10800, 3600, 14400, 14400, 180, 240, 60, 60, *[60] * 6]
    forward = [each.message_bytes for each in spans if each.kind == "all_gather"]
    assert sorted(forward) == sorted(2.0 * count for count in elements)


def test_a_trace_notes_how_it_came_about() -> None:
    assert traced().notes == {
        "mode": "simulated",
        "fidelity": "flow",
        "machine": "frontier",
        "library": "rccl",
        "mesh": "node 2, package 4, gcd 2",
        "scenario": "s",
    }


@pytest.mark.parametrize(("package", "gcd"), [(3, 1), (1, 3)])
def test_groups_of_which_some_lie_in_a_node_are_refused(package: int, gcd: int) -> None:
    """Nodes of four devices and two groups of three: ranks 0, 1, 2 share a node, ranks 3, 4, 5 do not."""
    built = schedule("hsdp", Mesh((("node", 2), ("package", package), ("gcd", gcd))), TINY)
    with pytest.raises(InputError, match="lie unevenly on the nodes"):
        simulate_step(built, load_machine("toy-cluster"), load_library("rccl"))
