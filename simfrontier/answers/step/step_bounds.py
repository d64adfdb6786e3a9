"""Lower bounds on a step of fidelity `flow`: what no order of these ops on this machine can beat,
at the best that each link and device was in the step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from simfrontier.answers.step.volumes import counted_ops
from simfrontier.base.arrays import Floats
from simfrontier.core.cost import PricedOp, Pricing
from simfrontier.core.engine import SimulatedStep
from simfrontier.core.network import ResourceKind
from simfrontier.core.program import Compute, members_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Seconds: the busiest lane if every op ran alone; the busiest link at full capacity; the larger of both.

    `step_s` holds at fidelity `flow`, `lane_s` at `analytic` too; at `chunk` neither does. Where calls differ, `link_s`
    is 0: a call then shares links as it did in a step with usual calls, so that some may carry more than they can.
    """

    lane_s: float
    link_s: float

    @property
    def step_s(self) -> float:
        return max(self.lane_s, self.link_s)


def bounds(step: SimulatedStep) -> Bounds:
    """Each lane is a FIFO, so a step lasts as long as the ops of its fullest lane at the speed each has when it is the
    only activity of the machine; and each wire has to carry its bytes."""
    pricing, states = step.pricing, [state.pricing for state in step.states] or [step.pricing]
    lanes: dict[tuple[str, int], float] = {}
    known: dict[int, list[float]] = {}  # by number of the op, which several roles may have
    wire = np.zeros(pricing.folding.num_link_classes)
    best = np.max([state.folding.capacity for state in states], axis=0)
    longer = None if step.call_factors is None else _longer(step)
    for role, op, count in counted_ops(step.schedule):
        priced = pricing.of(op)
        if op.number not in known:
            each = [[state.least_s(work) for work in state.of(op).works] for state in states]
            known[op.number] = list(map(min, *each)) if len(each) > 1 else each[0]
        shortest = known[op.number]
        mine = np.flatnonzero(pricing.role_of == role)
        groups = pricing.folding.activity_of(priced.pattern)[mine]
        times = [1.0] * len(mine) if longer is None else (longer[role][op.number] / count).tolist()
        for cls, group, each in zip(mine.tolist(), groups.tolist(), times, strict=True):
            lanes[op.lane, cls] = lanes.get((op.lane, cls), 0.0) + count * each * shortest[group]
        if longer is None and not isinstance(op, Compute) and role == min(members_of(op, step.schedule), default=role):
            used = range(len(priced.works)) if pricing.role_assignment.is_shared(op) else dict.fromkeys(groups.tolist())
            asked = [_asked(state, best, state.of(op), used) for state in states]
            wire += count * (np.min(asked, axis=0) if len(asked) > 1 else asked[0])
    is_used = (pricing.fabric.kind[pricing.folding.link_representative] == ResourceKind.WIRE) & (wire > 0.0)
    link_s = float((wire[is_used] / best[is_used]).max(initial=0.0))
    return Bounds(lane_s=max(lanes.values(), default=0.0), link_s=link_s)


def _longer(step: SimulatedStep) -> list[dict[int, Floats]]:
    """Return for each role, by number of the op, the sum over its calls of how many times as long they take as is usual
    [num_classes]."""
    out = []
    for role, factors in zip(step.roles, step.call_factors or (), strict=True):
        of_op: dict[int, Floats] = {}
        for op, times in zip(role.segmented.program.ops, factors.T, strict=True):
            of_op[op.number] = of_op.get(op.number, 0.0) + times
        out.append(of_op)
    return out


def _asked(pricing: Pricing, best: Floats, priced: PricedOp, groups: Iterable[int]) -> Floats:
    """Return what an op asks of each link class, as so much of a link of the `best` capacity; endless where it stands
    still. `groups`: those that run it."""
    out = np.zeros(len(best))
    for work in (priced.works[group] for group in groups):
        if work.stands_still:
            return np.full(len(best), np.inf)
        if work.amount > 0.0:
            flow = pricing.flows[work.flow]
            own, highest = pricing.folding.capacity[flow.rows], best[flow.rows]
            out[flow.rows] += work.amount * flow.load * np.divide(highest, own, out=np.ones(len(own)), where=own > 0.0)
    return out
