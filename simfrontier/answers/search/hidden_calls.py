"""Collectives of values that overlap with the computation of another micro-batch, in estimates of steps."""

from __future__ import annotations

from collections.abc import Sequence

from simfrontier.core.collectives import algorithm
from simfrontier.core.cost import Prices
from simfrontier.core.plan import VALUES
from simfrontier.core.program import DIRECT, LIBRARY, Collective, Compute, Op
from simfrontier.inputs.scenario import Case


def hidden_kind(case: Case) -> str:
    """Return the kind of the collectives of values that overlap with the computation of another micro-batch: "any" in
    DualPipeV, or dispatches of experts' rows; empty if none do."""
    pipeline = case.plan.pipeline
    if pipeline is None:
        return ""
    return "any" if pipeline.order == "dualpipev" else "all_to_all" if pipeline.alternates else ""


def is_hidden(op: Op, case: Case) -> bool:
    kind = hidden_kind(case)
    return bool(kind) and isinstance(op, Collective) and op.name in VALUES and kind in ("any", op.kind)


def _hidden_share(case: Case) -> float:
    """Return the share of a stage's passes that overlap with another one: all but the first forward and the last
    backward; in DualPipeV 2 M - 3 P + 1 of the 2 M of the first stage."""
    if hidden_kind(case) == "any":
        return max(0.0, 1.0 - (3 * case.stages - 1) / (2 * case.grad_accum))
    return 1.0 - 1.0 / case.grad_accum if hidden_kind(case) else 0.0


def without_hidden(ops: Sequence[Op], took: list[float], case: Case, prices: Prices) -> list[float]:
    """Return the times of ops without what computation of another micro-batch hides of collectives in the passes that
    overlap: all of them, if they are shorter than the computation, which is slower by the compute units that they
    hold."""
    calls = [op for op in ops if isinstance(op, Collective) and is_hidden(op, case)]
    sent = sum(took[op.number] for op in calls)
    if not sent:
        return took
    made = sum(took[op.number] for op in ops if op.lane == "compute" and isinstance(op, Compute))
    units = max(algorithm(DIRECT if op.via == LIBRARY else op.via).units(prices.library) for op in calls)
    slower = units / max(1.0, prices.machine.device.num_compute_units - units)
    left = 1.0 - _hidden_share(case) * min(1.0, made / sent) * max(0.0, 1.0 - slower)
    return [left * s if is_hidden(op, case) else s for op, s in zip(ops, took, strict=True)]
