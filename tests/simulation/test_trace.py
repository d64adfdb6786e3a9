"""The trace of a simulated step: whom each class stands for, and what its calls carry."""

from __future__ import annotations

from simfrontier.machine import HEALTHY, Perturbation
from simfrontier.schedule import Mesh, digest
from simfrontier.simulation import trace_of
from simfrontier.trace import Trace
from simfrontier.trace.comparison import compare
from simfrontier.workload import GptShape
from tests.simulation.steps import frontier_mesh, schedule, step

TINY = GptShape(name="tiny", num_layers=1, hidden=60, heads=5, vocabulary=60, sequence=8, source="by hand")


def traced(exact: bool = False, perturbation: Perturbation = HEALTHY) -> Trace:
    built = schedule("zero-topo", frontier_mesh(2))
    done = step(built, exact=exact, perturbation=perturbation)
    return trace_of(done, digest(built), "t", notes={"scenario": "s"})


def test_folded_and_exact_traces_are_the_same_rank_by_rank() -> None:
    """The classes expanded hold every rank's own times (to 1e-9 of the step)."""
    folded, exact = traced(), traced(exact=True)
    assert exact.members == tuple((rank,) for rank in range(16))
    joined = compare("zero-topo", folded, exact)
    assert joined.differences == () and len(joined.pairs) == 16 * len(folded.spans[0])
    near = 1e-9 * folded.step_s
    assert all(abs(pair.sim.end_s - pair.real.end_s) <= near for pair in joined.pairs)
    assert all(abs(pair.sim.ready_s - pair.real.ready_s) <= near for pair in joined.pairs)


def test_a_gather_carries_its_weight_whole_whatever_a_rank_sends() -> None:
    """One layer of width 60, fp16, no prefetch: every weight is gathered by itself. Embedding and head 60 × 60, qkv
    60 × 180, dense 60 × 60, the MLP's two 60 × 240; biases 180, 240, 60 and 60; three norms of 60 + 60."""
    options = {"prefetch_elements": 0, "persistence_elements": 0}
    built = schedule("zero3", Mesh((("node", 2), ("package", 1), ("gcd", 2))), TINY, **options)
    spans = trace_of(step(built, "toy-cluster"), digest(built), "t").spans[0]
    elements = [3600, 3600, 10800, 3600, 14400, 14400, 180, 240, 60, 60, *[60] * 6]
    forward = [each.message_bytes for each in spans if each.kind == "all_gather"]
    assert sorted(forward) == sorted(2.0 * count for count in elements)
